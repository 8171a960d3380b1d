"""The webhook configuration's entries for the custom resources that a setting names.

They are made from the entries for built-in workloads: what a request must bring is the same. But
custom objects may have any shape, and a condition that fails would refuse them: so types are asked.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from milligpu.manifests import ManifestError, read
from vgpu import names, settings
from webhook.config import Config
from webhook.pod import Json
from webhook.templates import EVERY_ITEM, EVERY_VALUE, MOST_TEMPLATES, Pattern, TemplatePath

BRINGS, HOLDS = names.ENTRY_CUSTOM_TEMPLATES, names.ENTRY_STORED_CUSTOM_TEMPLATES
"""Their names: for what a request brings (failurePolicy Fail), and for what is stored (Ignore)."""
_KEPT = ("not-being-deleted", "not-by-kubernetes-controllers", "not-owned")
_OWNED = "object.metadata.?ownerReferences.orValue([]).exists(r, r.?controller.orValue(false))"
_NVIDIA = f"r['{names.NVIDIA_GPU}']"
# Not `quantity()`: nobody has checked the value yet, and there are some that it takes minutes for.
_WHOLE = f"(type({_NVIDIA}) == int || type({_NVIDIA}) == string && {_NVIDIA}.matches('^[0-9]+$'))"
_ASK = " || ".join(f"'{key}' in r" for key in names.ASK_KEYS)
_ASK += f" ||\n          '{names.NVIDIA_GPU}' in r && !{_WHOLE}"
_GRANT = " || ".join(f"'{key}' in r" for key in names.GRANT_KEYS)
_TEMPLATE = """type(t) == map && 'spec' in t && type(t.spec) == map &&
    ['containers', 'initContainers'].exists(s, s in t.spec && type(t.spec[s]) == list &&
      t.spec[s].exists(c, type(c) == map && 'resources' in c && type(c.resources) == map &&
        ['limits', 'requests'].exists(x, x in c.resources && [c.resources[x]].exists(r,
          type(r) == map && (%s)))))"""
_NOTES = ".map(v, type(v) == map && 'metadata' in v, v.metadata)\n"
_NOTES += (
    "    .map(v, type(v) == map && 'annotations' in v, v.annotations).filter(v, type(v) == map)"
)
_OURS = f"k.startsWith('{names.PREFIX}')"
# More is not translated; and a condition that costs too much is an error.
_FEW = f"size(v) <= {MOST_TEMPLATES}"
_WILD = {
    EVERY_ITEM: f".filter(v, type(v) == list && {_FEW})[?0].orValue([])",
    EVERY_VALUE: f".map(v, type(v) == map && {_FEW}, v.map(k, v[k]))[?0].orValue([])",
}
# `new` and `old` are lists of lists of templates.
_BRINGS = f"""new.exists(l, l.exists(t, {_TEMPLATE % _ASK} &&
    !old.exists(m, t in m))) ||
  ([[object]] + new).exists(l, l{_NOTES}
    .exists(a, a.exists(k, {_OURS} && !([[oldObject]] + old).exists(m, m{_NOTES}
    .exists(b, k in b && b[k] == a[k])))))"""
_HOLDS = f"""old.exists(l, l.exists(t, {_TEMPLATE % _GRANT})) ||
  ([[object]] + new).exists(l, l{_NOTES}
    .exists(a, a.exists(k, {_OURS})))"""


def rendered(configuration: Json, paths: Sequence[TemplatePath]) -> Json:
    """Return a webhook configuration with the entries that these paths need, and no other such.

    Raises KeyError, which names the entry or condition to start from that is not there.
    """
    entries = {each["name"]: each for each in configuration["webhooks"]}
    made = [each for name, each in entries.items() if name not in (BRINGS, HOLDS)]
    if paths:
        base, stored = entries[names.ENTRY_TEMPLATES], entries[names.ENTRY_STORED_TEMPLATES]
        known = {each["name"]: each["expression"] for each in stored["matchConditions"]}
        kept = {name: known[name] for name in _KEPT}
        alive, person, unowned = (f"({text})" for text in kept.values())
        mine = f"(request.operation == 'CREATE' ? !{_OWNED} : {unowned} && {person})"
        brings = {"not-being-deleted": f"oldObject == null || {alive}"}
        brings["brings-a-share"] = _of(paths, f"{_BRINGS} &&\n  {mine}")
        holds = {"holds-a-share": _of(paths, _HOLDS), "brings-no-share": "!" + _of(paths, _BRINGS)}
        made += [_entry(base, BRINGS, paths, brings), _entry(stored, HOLDS, paths, kept | holds)]
    return {**configuration, "webhooks": made}


def _entry(base: Json, name: str, paths: Sequence[TemplatePath], holds: dict[str, str]) -> Json:
    rule = {"operations": base["rules"][0]["operations"], "scope": "*"}
    resources = dict.fromkeys((each.group, each.version, each.resource) for each in paths)
    keys = ("apiGroups", "apiVersions", "resources")
    rules = [rule | {k: [v] for k, v in zip(keys, each, strict=True)} for each in resources]
    conditions = [{"name": each, "expression": text} for each, text in holds.items()]
    return {**base, "name": name, "rules": rules, "matchConditions": conditions}


def _of(paths: Iterable[TemplatePath], holds: str) -> str:
    """Say that something holds, in which `new` and `old` are the templates of both objects."""
    patterns = list(dict.fromkeys(each.pattern for each in paths))
    new, old = (" +\n  ".join(_lists(r, p) for p in patterns) for r in ("object", "oldObject"))
    return f"[{new}].exists(new,\n[{old}].exists(old,\n  {holds}))"


def _lists(root: str, pattern: Pattern) -> str:
    """Return what a pattern leads to: one list, or one for all that is at its second wildcard."""
    wild = [number for number, step in enumerate(pattern) if step in _WILD]
    if len(wild) < 2:
        return f"[{_list(root, pattern)}]"
    return f"{_list(root, pattern[: wild[1]])}.map(w, {_list('w', pattern[wild[1] :])})"


def _list(root: str, pattern: Pattern) -> str:
    steps = (_WILD.get(s) or f".map(v, type(v) == map && '{s}' in v, v['{s}'])" for s in pattern)
    return f"[{root}]{''.join(steps)}"


def main(path: Path) -> int:
    """Print our manifest with the entries that its own setting needs. Raises ManifestError."""
    file = read(path)
    found = {each.title: each for each in file.manifests}
    try:
        data = found[f"ConfigMap/{names.SERVICE}"].document.get("data") or {}
        bare = [key for key in data if not isinstance(data[key], str)]
        if bare:
            raise ManifestError(f"{path}: quote the value of {', '.join(bare)}: it must be a text")
        configuration = found[f"MutatingWebhookConfiguration/{names.WEBHOOK_CONFIGURATION}"]
        made = rendered(configuration.document, settings.read(Config, data).template_paths)
    except KeyError as fault:
        raise ManifestError(f"{path}: is no manifest of milligpu: it has no {fault}") from fault
    sys.stdout.buffer.write(file.rewritten({configuration: made}).encode())
    return 0
