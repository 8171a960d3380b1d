"""No key is shipped: examples and tests make their own."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\\?\s")
"""The begin of a key; what only speaks of keys has no line after it."""


def test_no_private_key_is_in_the_repository() -> None:
    files = [
        path
        for top in ROOT.iterdir()
        if not top.name.startswith(".") or top.name == ".ci"
        for path in (top.rglob("*") if top.is_dir() else [top])
        if path.is_file() and "__pycache__" not in path.parts
    ]
    assert len(files) > 100
    assert [path for path in files if KEY.search(path.read_bytes())] == []
    assert not [path for path in files if path.suffix in {".key", ".pem", ".p12", ".pfx"}]
