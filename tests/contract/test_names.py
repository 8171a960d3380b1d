"""Names are spelled in one module (design section 2)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from vgpu import names

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for package in ("vgpu", "webhook", "plugin", "certs", "milligpu")
    for path in sorted((ROOT / package).rglob("*.py"))
    if path != Path(names.__file__) and "v1beta1" not in path.parts
]
SPELLED = {
    value
    for name, value in vars(names).items()
    if isinstance(value, str) and name.startswith(("ENV_", "TLS_", "SECRET_", "NVIDIA_", "PREFIX"))
}


def texts(path: Path) -> Iterator[str]:
    """The string constants of a module, without those that stand alone: docstrings."""
    tree = ast.parse(path.read_text())
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def test_names_are_looked_for() -> None:
    assert {"milligpu.io/", "MILLIGPU_", "nvidia.com/gpu", "CUDA_VISIBLE_DEVICES"} < SPELLED
    assert len(SOURCES) > 40


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_other_module_spells_a_name(path: Path) -> None:
    assert [text for text in texts(path) if any(name in text for name in SPELLED)] == []
