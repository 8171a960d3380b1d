"""What nobody sends in good faith: reviews that are spoilt, grown, or nested without end."""

import json
from random import Random
from typing import Any

from tests.unit.webhook.objects import containers, copied, held
from webhook.pod import Json

_KEYS = ["gpu", "gpu ", "limits", "Limits", "resources", "env", "name", "metadata", "spec"]
_LOOKALIKES = ["\u0261pu", "resource\u0455", "\uff47pu", "limits\u200b", "m\u0456lligpu.io/vgpu"]
_JUNK: list[Any] = [
    *(None, True, False, 0, -1, 2**63, 10**40, 1e308, 0.1, "", "0", "\x00", "\ud800"),
    *("300m", "-300m", "1e400", "x" * 10_000, "9" * 5000, *_LOOKALIKES),
    *({}, [], [None], [[]], {"": ""}, {"gpu": "300m"}, {"limits": {"gpu": "300m"}}),
    *([{"name": "c0"}], {"limits": None, "requests": []}, [{"name": "c0", "resources": None}]),
]
_TWICE = ['"gpu": "300m", "gpu": "2", ', '"env": 1, ', '"annotations": null, ', '"a": {"a": {}}, ']


def spoilt(rng: Random, text: str) -> str:
    """Return the text of a review with something that no API server sends."""
    document = json.loads(text)
    if rng.random() < 0.03:
        _grow(rng, document)
    else:
        for _ in range(rng.randint(1, 3)):
            _spoil(rng, document)
    if rng.random() < 0.03:
        parent, key = _place(rng, document)
        parent[key] = _deep(rng)
    text = json.dumps(document)
    return _with_keys_twice(rng, text) if rng.random() < 0.15 else text


def _grow(rng: Random, document: Json) -> None:
    """Make an object large: by 3 MiB of text, or by very many containers, variables, notes."""
    pod = held(document["request"]["object"])
    metadata, spec = pod.setdefault("metadata", {}), pod["spec"]
    many = rng.choice([41, 400, 2000])
    what = rng.choice(["text", "containers", "variables", "notes", "names"])
    if what == "containers":
        spec["containers"] = [{**spec["containers"][0], "name": f"c{n}"} for n in range(many)]
    elif what == "variables":
        names = (rng.choice(["MILLIGPU_", "V"]) + str(n) for n in range(many))
        spec["containers"][0]["env"] = [{"name": name, "value": ""} for name in names]
    else:
        metadata["annotations"] = {
            "text": {"big": "x" * 3 * 2**20},
            "notes": {f"milligpu.io/{n}": "x" for n in range(many)},
            "names": {"milligpu.io/gpu": "c0=1m," * many * 100},
        }[what]


def _spoil(rng: Random, document: Json) -> None:
    """Spoil one random place."""
    parent, key = _place(rng, document)
    match rng.choice(["junk", "null", "gone", "renamed", "twice", "same names", "list"]):
        case "gone" if isinstance(parent, dict):
            del parent[key]
        case "renamed" if isinstance(parent, dict):
            parent[rng.choice(_KEYS + _LOOKALIKES)] = parent.pop(key)
        case "twice" if isinstance(parent, list):
            parent.append(copied(parent[int(key)]))
        case "same names":
            _give_one_name(document)
        case "list":
            parent[key] = [parent[key]]
        case "null":
            parent[key] = None
        case _:
            parent[key] = copied(rng.choice(_JUNK))


def _place(rng: Random, document: Json) -> tuple[Any, Any]:
    """Return a random place, as a parent and a key."""
    places: list[tuple[Any, Any]] = []
    waiting: list[Any] = [document]
    while waiting:
        parent = waiting.pop()
        for key, value in parent.items() if isinstance(parent, dict) else enumerate(parent):
            places.append((parent, key))
            if isinstance(value, dict | list):
                waiting.append(value)
    return rng.choice(places)


def _give_one_name(document: Json) -> None:
    try:
        for body in containers(document["request"]["object"]):
            body["name"] = "c0"
    except (KeyError, TypeError, AttributeError):
        pass  # it is spoilt already


def _deep(rng: Random) -> Any:
    value: Any = rng.choice([{}, [], "300m"])
    for _ in range(rng.choice([3, 100, 400])):
        value = [value] if rng.random() < 0.5 else {"gpu": value}
    return value


def _with_keys_twice(rng: Random, text: str) -> str:
    """Write keys once more, with other values: the last one counts."""
    at = text.find(rng.choice(['"limits": {', '"resources": {', '"metadata": {', '"request": {']))
    start = text.find("{", at) + 1
    if at < 0 or text[start] == "}":
        return text
    return text[:start] + rng.choice(_TWICE) + text[start:]
