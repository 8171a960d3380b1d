"""The webhook configuration's entries for the custom resources that a setting names.

They are made from the entries for built-in workloads: what a request must bring is the same. But
custom objects may have any shape, and a condition that fails would refuse them: so types are asked.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from milligpu import manifests
from vgpu import names, settings
from webhook.config import Config
from webhook.pod import Json
from webhook.templates import EVERY_ITEM, EVERY_VALUE, Pattern, TemplatePath

BRINGS, HOLDS = "custom-templates.milligpu.io", "stored-custom-templates.milligpu.io"
"""Their names: for what a request brings (failurePolicy Fail), and for what is stored (Ignore)."""
_BASES = "templates.milligpu.io", "stored-templates.milligpu.io"
_KEPT = ["not-being-deleted", "not-by-kubernetes-controllers", "not-owned"]
_OWNED = "object.metadata.?ownerReferences.orValue([]).exists(r, r.?controller.orValue(false))"

# In CEL, @ stands for the value that is spoken of.
_NVIDIA = f"r['{names.NVIDIA_GPU}']"
# Not `quantity()`: nobody has checked the value yet, and there are some that it takes minutes for.
_WHOLE = f"(type({_NVIDIA}) == int || type({_NVIDIA}) == string && {_NVIDIA}.matches('^[0-9]+$'))"
_ASK = " || ".join(f"'{key}' in r" for key in names.ASK_KEYS)
_ASK += f" ||\n        '{names.NVIDIA_GPU}' in r && !{_WHOLE}"
_GRANT = " || ".join(f"'{key}' in r" for key in names.GRANT_KEYS)
_OURS = f"k.startsWith('{names.PREFIX}')"
_TEMPLATE = """[@].exists(t, type(t) == map && 'spec' in t && type(t.spec) == map &&
  ['containers', 'initContainers'].exists(s, s in t.spec && type(t.spec[s]) == list &&
    t.spec[s].exists(c, type(c) == map && 'resources' in c && type(c.resources) == map &&
      ['limits', 'requests'].exists(x, x in c.resources && [c.resources[x]].exists(r,
        type(r) == map && (%s)))))%s)"""


def rendered(configuration: Json, paths: Sequence[TemplatePath]) -> Json:
    """Return a webhook configuration with the entries that these paths need, and no other such.

    Raises KeyError, which names the entry or condition to start from that is not there.
    """
    entries = {each["name"]: each for each in configuration["webhooks"]}
    kept = [each for name, each in entries.items() if name not in (BRINGS, HOLDS)]
    return {**configuration, "webhooks": [*kept, *(_made(entries, paths) if paths else [])]}


def _made(entries: dict[str, Json], paths: Sequence[TemplatePath]) -> list[Json]:
    brings, holds = (entries[name] for name in _BASES)
    known = {each["name"]: each["expression"] for each in holds["matchConditions"]}
    stored = {name: known[name] for name in _KEPT}
    patterns = list(dict.fromkeys(each.pattern for each in paths))
    asks, notes = _asks(patterns), _notes(patterns)
    alive, person, unowned = (f"({text})" for text in stored.values())
    brought = {
        "not-being-deleted": f"oldObject == null || {alive}",
        "brings-a-share": f"{asks} ||\n{notes} &&\n"
        f"(request.operation == 'CREATE' ? !{_OWNED} : {unowned} && {person})",
    }
    stored |= {"holds-a-share": _held(patterns), "brings-no-share": f"!{asks} &&\n!{notes}"}
    return [_entry(brings, BRINGS, paths, brought), _entry(holds, HOLDS, paths, stored)]


def _entry(base: Json, name: str, paths: Sequence[TemplatePath], holds: dict[str, str]) -> Json:
    rule = {"operations": base["rules"][0]["operations"], "scope": "*"}
    rules = [
        {**rule, "apiGroups": [group], "apiVersions": [version], "resources": [resource]}
        for group, version, resource in dict.fromkeys(
            (each.group, each.version, each.resource) for each in paths
        )
    ]
    conditions = [{"name": each, "expression": text} for each, text in holds.items()]
    return {**base, "name": name, "rules": rules, "matchConditions": conditions}


def _asks(patterns: Iterable[Pattern]) -> str:
    """Say that a template has an ask, and is none of those that were there before."""
    asking = ((each, f" &&\n  !({_at('oldObject', each, '@ == t')})") for each in patterns)
    return _any(_at("object", each, _TEMPLATE % (_ASK, is_new)) for each, is_new in asking)


def _notes(patterns: Iterable[Pattern]) -> str:
    """Say that the object or a template has an annotation of ours that it had not before."""
    had = "type(@) == map && k in @ && @[k] == a[k]"
    new = ((each, _at("oldObject", each, had)) for each in _annotations(patterns))
    is_new = "[@].exists(a, type(a) == map && a.exists(k, %s &&\n  !(%s)))"
    return _any(_at("object", each, is_new % (_OURS, old)) for each, old in new)


def _held(patterns: Sequence[Pattern]) -> str:
    """Say that a stored template has a grant, or the object or a template annotations of ours."""
    granted = [_at("oldObject", each, _TEMPLATE % (_GRANT, "")) for each in patterns]
    noted = f"type(@) == map && @.exists(k, {_OURS})"
    return _any([*granted, *(_at("object", each, noted) for each in _annotations(patterns))])


def _annotations(patterns: Iterable[Pattern]) -> list[Pattern]:
    return [(*each, "metadata", "annotations") for each in ((), *patterns)]


def _any(parts: Iterable[str]) -> str:
    return "(" + " ||\n".join(parts) + ")"


def _at(value: str, pattern: Pattern, holds: str) -> str:
    """Say that something holds somewhere where a pattern leads to."""
    if not pattern:
        return holds.replace("@", value)
    step, rest = pattern[0], pattern[1:]
    name = f"{'old' if value.startswith('old') else 'new'}{len(rest)}"
    if step == EVERY_ITEM:
        return f"type({value}) == list && {value}.exists({name}, {_at(name, rest, holds)})"
    if step == EVERY_VALUE:
        inner = _at(f"{value}[{name}]", rest, holds)
        return f"type({value}) == map && {value}.exists({name}, {inner})"
    return f"type({value}) == map && '{step}' in {value} && " + _at(
        f"{value}['{step}']", rest, holds
    )


def main(path: Path) -> int:
    """Write our manifest with the entries that its own setting needs; return 2 if it is none."""
    try:
        file = manifests.read(path)
        found = {each.title: each for each in file.manifests}
        data = found[f"ConfigMap/{names.SERVICE}"].document.get("data") or {}
        configuration = found[f"MutatingWebhookConfiguration/{names.WEBHOOK_CONFIGURATION}"]
        made = rendered(configuration.document, settings.read(Config, data).template_paths)
    except (manifests.ManifestError, settings.SettingsError) as fault:
        print(f"milligpu: {fault}", file=sys.stderr)
    except KeyError as fault:
        print(f"milligpu: {path}: is not milligpu's manifest: there is no {fault}", file=sys.stderr)
    else:
        sys.stdout.write(file.rewritten({configuration: made}))
        return 0
    return 2
