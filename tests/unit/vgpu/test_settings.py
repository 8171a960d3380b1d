from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path

import pytest

from vgpu.names import ENV_OF_SHARES
from vgpu.settings import SettingsError, boolean, choice, integer, read, seconds, setting


@dataclass(frozen=True)
class Program:
    port: int = setting(80, integer(1, 65535))
    patience: float = setting(1.5, seconds(0, 60))
    verbose: bool = setting(False, boolean)
    colour: str = setting("red", choice("red", "green"))
    folder: Path = setting(Path("/tmp"), Path)  # noqa: S108 (only a value)
    free_text: str = setting("")


def test_defaults_hold_where_nothing_is_set() -> None:
    assert read(Program, {"PATH": "/bin", "milligpu_port": "1"}) == Program()


def test_every_field_has_its_variable() -> None:
    environ = {
        "MILLIGPU_PORT": "8080",
        "MILLIGPU_PATIENCE": "0.25",
        "MILLIGPU_VERBOSE": "true",
        "MILLIGPU_COLOUR": "green",
        "MILLIGPU_FOLDER": "/srv",
        "MILLIGPU_FREE_TEXT": "any text",
    }
    assert read(Program, environ) == Program(8080, 0.25, True, "green", Path("/srv"), "any text")


@pytest.mark.parametrize(("port", "patience"), [(1, 0.0), (65535, 60.0)])
def test_bounds_are_within(port: int, patience: float) -> None:
    environ = {"MILLIGPU_PORT": str(port), "MILLIGPU_PATIENCE": str(patience)}
    assert read(Program, environ) == Program(port, patience)


def test_what_a_share_brings_along_is_no_setting() -> None:
    """The command line runs in notebooks, too, which have shares themselves."""
    assert read(Program, dict.fromkeys(ENV_OF_SHARES, "1")) == Program()


def test_settings_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        read(Program, {}).port = 1  # type: ignore[misc]


def test_all_faults_are_in_one_message() -> None:
    environ = {
        "MILLIGPU_PORT": "0",
        "MILLIGPU_PATIENCE": "long",
        "MILLIGPU_VERBOSE": "yes",
        "MILLIGPU_COLOUR": "blue",
        "MILLIGPU_COLOR": "red",
        "MILLIGPU_FREE_TEXT": "fine",
    }
    with pytest.raises(SettingsError) as fault:
        read(Program, environ)
    head, *lines = str(fault.value).splitlines()
    assert head == "bad settings:"
    known = "COLOUR, MILLIGPU_FOLDER, MILLIGPU_FREE_TEXT, MILLIGPU_PATIENCE"
    assert lines == [
        f"  MILLIGPU_COLOR: no such setting; there are MILLIGPU_{known}, "
        "MILLIGPU_PORT, MILLIGPU_VERBOSE",
        "  MILLIGPU_COLOUR='blue': must be one of red, green",
        "  MILLIGPU_PATIENCE='long': must be a number of seconds from 0 to 60",
        "  MILLIGPU_PORT='0': must be a whole number from 1 to 65535",
        "  MILLIGPU_VERBOSE='yes': must be true or false",
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("PORT", text) for text in ("", "-1", "65536", "1.0", "1e3", "1_000", " 1", "٣", "x")),
        ("PORT", "1" * 5000),
        *(("PATIENCE", text) for text in ("", "-1", "60.1", "nan", "inf", "1s")),
        *(("VERBOSE", text) for text in ("", "True", "1", "on")),
        *(("COLOUR", text) for text in ("", "Red", "red ")),
    ],
)
def test_what_a_setting_does_not_take_names_it_and_the_value(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"MILLIGPU_{name}='") as fault:
        read(Program, {f"MILLIGPU_{name}": text})
    assert repr(text)[:40] in str(fault.value)
    assert "must be" in str(fault.value)
