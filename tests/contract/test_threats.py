"""The page on threats names tests that there are, and the bounds that the programs have."""

import re
import subprocess
import sys

import pytest

from tests.documents import ROOT
from vgpu import quantity
from webhook import app
from webhook.review import MAX_BODY

PAGES = ("threat-model.md", "share.md")
TEXT = (ROOT / "docs/explanation/threat-model.md").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_what_is_named_as_a_test_is_there(page: str) -> None:
    text = (ROOT / "docs/explanation" / page).read_text()
    named = re.findall(
        r"`((?:tests/)?(?:unit|integration|cluster|contract|fuzz)/[\w/]*(?:\.py)?)`", text
    )
    assert named
    for each in named:
        assert (ROOT / "tests" / each.removeprefix("tests/")).exists(), each


def test_the_bounds_are_those_of_the_webhook() -> None:
    assert f"{MAX_BODY >> 20} MiB at most; those above {app._BIG >> 10} kB one at a time" in TEXT
    # In a process of its own: gunicorn's settings set up the log of whoever reads them.
    told = "from webhook import gunicorn_conf as it; print(it.worker_connections)"
    connections = subprocess.check_output([sys.executable, "-c", told], text=True).strip()
    assert f"{connections} connections, one large body at a time" in TEXT
    manifest = (ROOT / "deploy/webhook.yaml").read_text()
    assert set(re.findall(r"timeoutSeconds: (\d+)\n  clientConfig", manifest)) == {"5"}
    assert "the API server gives up after 5 s" in TEXT


def test_texts_of_numbers_are_short() -> None:
    assert "texts of 32 characters" in TEXT
    assert quantity.parse("0" * 32) == 0
    with pytest.raises(ValueError, match="32"):
        quantity.parse("0" * 33)
