"""The plugin on a driver: the real nvidia-ml-py, a fake `libnvidia-ml.so.1` (tests/fake_nvml)."""

import json
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from milligpu.kubelet import AdmissionError
from milligpu.processes import Program, free_port, running
from tests.fake_nvml import LIBRARY, Driver, build, statement
from tests.fake_nvml.client import Client, Raised
from tests.integration.plugin_rig import LOOPBACK, Kubelet, in_loop, pod
from vgpu import names

pytest_plugins = ["tests.fake_nvml.fixtures"]

MIB = 2**20
PATIENCE = 30
"""Seconds; a change is seen within a tenth, but machines may be busy."""
UUIDS = [f"GPU-{n}0000000-0000-4000-8000-00000000000{n}" for n in range(8)]
A, B, C, *_ = UUIDS


def card(uuid: str, **fields: object) -> str:
    return statement("card", uuid=uuid, **fields)


def t4(uuid: str, **fields: object) -> str:
    """A card with 15360 MiB usable."""
    return card(uuid, name="Tesla T4", total=15810 * MIB, reserved=450 * MIB, **fields)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


# The inventory.


class Looks:
    """An inventory in a process of its own."""

    def __init__(self, client: Client) -> None:
        self._client = client
        client.do("from plugin.nvml import NvmlInventory; inventory = NvmlInventory()")

    def __call__(self, *fields: str) -> list[Any]:
        """Look at the cards and return some of each one's fields."""
        self._client.do("probe = inventory.probe()")
        wanted = ", ".join(f"g.{field}" for field in fields or ("uuid",))
        cards = self._client.do(f"[[{wanted}] for g in probe.gpus]")
        return cards if len(fields) > 1 else [value for [value] in cards]

    def notes(self) -> str:
        """What the last look said besides."""
        return "; ".join(self._client.do("probe.notes"))

    def faults(self) -> dict[str, str]:
        """Ask the cards of the last look how they are."""
        return dict(self._client.do("inventory.faults()"))

    def events(self, seconds: float) -> list[tuple[str, int]]:
        """Wait for events, at most so long."""
        waited = self._client.do(f"[(e.uuid, e.xid) for e in inventory.wait({seconds})]")
        return [(uuid, xid) for uuid, xid in waited]

    def close(self) -> None:
        self._client.do("inventory.close()")


@pytest.fixture
def look(client: Client) -> Looks:
    return Looks(client)


def test_cards_are_what_the_driver_says(look: Looks, driver: Driver) -> None:
    driver.says(
        t4(A, minor=1),
        card(B, name="NVIDIA A100-SXM4-40GB", total=40960 * MIB, reserved=513 * MIB, minor=0),
    )
    assert look("index", "uuid", "minor", "model", "usable_mib", "mig") == [
        [0, A, 1, "Tesla T4", 15360, False],
        [1, B, 0, "NVIDIA A100-SXM4-40GB", 40447, False],
    ]
    assert look.notes() == ""


def test_usable_memory_does_not_depend_on_what_runs(look: Looks, driver: Driver) -> None:
    driver.says(t4(A, used=9000 * MIB))
    assert look("usable_mib") == [15360]


def test_an_older_driver_does_not_say_what_is_reserved(old_driver: Driver) -> None:
    old_driver.says(t4(A))
    with Client(old_driver) as client:
        assert Looks(client)("usable_mib", "memory_reserved") == [[15810, 0]]


def test_a_memory_call_that_fails_for_another_reason_is_no_old_driver(
    look: Looks, driver: Driver
) -> None:
    driver.says(t4(A), t4(B), f"fail nvmlDeviceGetMemoryInfo_v2 UNKNOWN {A}")
    assert look() == [B]
    assert look.notes() == "card 0 does not answer: Unknown Error"


def test_mig_mode_is_seen_where_cards_have_it(look: Looks, driver: Driver) -> None:
    driver.says(
        card(A, capability="7.5"),
        card(B, capability="8.0", mig="disabled", mig_pending="enabled"),
        card(C, capability="8.0", mig="enabled"),
    )
    assert look("mig") == [False, False, True]


def test_a_card_whose_device_file_is_unknown_is_still_a_card(look: Looks, driver: Driver) -> None:
    driver.says(t4(A), "fail nvmlDeviceGetMinorNumber NOT_SUPPORTED")  # as under WSL
    assert look() == [A]


@pytest.mark.parametrize("init", ["init SUCCESS", "init GPU_NOT_FOUND", "init DRIVER_NOT_LOADED"])
def test_a_node_without_cards_is_no_fault(look: Looks, driver: Driver, init: str) -> None:
    driver.says(init)
    assert look() == []
    assert look.notes()


def test_a_node_without_driver_is_no_fault(no_driver: Driver) -> None:
    no_driver.says()
    with Client(no_driver) as client:
        look = Looks(client)
        assert look() == []
        assert "libnvidia-ml.so.1" in look.notes()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("LIB_RM_VERSION_MISMATCH", "version mismatch"),
        ("NO_PERMISSION", "Insufficient Permissions"),
        ("UNKNOWN", "Unknown Error"),
    ],
)
def test_a_broken_driver_is_a_fault_with_its_reason(
    look: Looks, driver: Driver, code: str, reason: str
) -> None:
    driver.says(t4(A), f"init {code}")
    with pytest.raises(Raised, match=f"^InventoryError: .*{reason}"):
        look()
    driver.says(t4(A))
    assert look() == [A]


def test_the_driver_may_come_later(no_driver: Driver, nvml_library: Path) -> None:
    no_driver.says(t4(A))
    with Client(no_driver) as client:
        look = Looks(client)
        assert look() == []
        arrive(no_driver, nvml_library)
        no_driver.says(t4(A), "init DRIVER_NOT_LOADED")
        assert look() == []
        no_driver.says(t4(A))
        assert look() == [A]


def arrive(no_driver: Driver, library: Path) -> None:
    """Install a driver where there was none."""
    fresh = no_driver.folder / "fresh"
    shutil.copy(library, fresh)
    fresh.replace(no_driver.library)


@pytest.mark.parametrize("state", ["GPU_IS_LOST", "RESET_REQUIRED", "UNKNOWN", "NO_PERMISSION"])
def test_one_bad_card_among_eight(look: Looks, driver: Driver, state: str) -> None:
    eight = [t4(uuid) for uuid in UUIDS]
    driver.says(*eight)
    assert look() == UUIDS
    driver.says(*eight[:3], t4(UUIDS[3], state=state), *eight[4:])
    assert look() == UUIDS[:3] + UUIDS[4:]
    assert look.notes().startswith("card 3 does not answer: ")
    driver.says(*eight)
    assert look() == UUIDS
    assert look.notes() == ""


def test_a_lost_card_comes_back_with_a_new_session(look: Looks, driver: Driver) -> None:
    """To the session that lost it it stays lost; so a look that misses a card must end its own."""
    driver.says(t4(A), t4(B))
    look()
    driver.says(t4(A))
    assert look() == [A]
    driver.says(t4(A), t4(B))
    assert look() == [A, B]


def test_all_cards_bad_is_a_fault(look: Looks, driver: Driver) -> None:
    driver.says(t4(A, state="GPU_IS_LOST"))
    with pytest.raises(Raised, match=r"^InventoryError: .*GPU is lost"):
        look()


def test_a_name_that_is_no_text_costs_one_card(look: Looks, driver: Driver) -> None:
    driver.says(t4(A), t4(B))
    scenario = driver.folder / "scenario"
    scenario.write_bytes(scenario.read_bytes().replace(b"Tesla T4", b"\xff", 1))
    assert look() == [B]


def test_a_session_is_kept_and_each_is_ended(look: Looks, driver: Driver) -> None:
    driver.says(t4(A))
    look()
    look()
    assert driver.calls().count("nvmlInitWithFlags") == 1
    driver.says(t4(A, state="GPU_IS_LOST"))
    with pytest.raises(Raised):
        look()
    driver.says(t4(A))
    look()
    look.close()
    look.close()
    calls = driver.calls()
    assert calls.count("nvmlInitWithFlags") == calls.count("nvmlShutdown") == 2
    assert calls[-1] == "nvmlShutdown"


# What is wrong with a card.


def a100(uuid: str, **fields: object) -> str:
    return card(uuid, capability="8.0", **fields)


FAULTS = [
    ({"recovery": 1}, "it needs a reset"),
    ({"recovery": 2}, "its node must be rebooted"),
    ({"recovery": 3}, "traffic between it and other cards must end"),
    ({"recovery": 4}, "it must be drained and reset"),
    ({"recovery": 6}, "its driver wants it recovered (action 6)"),
    ({"retired_pending": 1}, "a bad memory page is in use until the driver is loaded again"),
    ({"remap_failed": 1}, "a bad memory row cannot be replaced"),
    ({"state": "GPU_IS_LOST"}, "it does not answer: GPU is lost"),
    ({"state": "RESET_REQUIRED"}, "it does not answer: GPU requires restart"),
    ({"state": "UNKNOWN"}, "it does not answer: Unknown Error"),
    (
        {"recovery": 1, "remap_failed": 1},
        "it needs a reset; a bad memory row cannot be replaced",
    ),
]


@pytest.mark.parametrize(("fields", "reason"), FAULTS)
def test_a_fault_is_of_one_card_and_passes_without_a_restart(
    look: Looks, driver: Driver, fields: dict[str, Any], reason: str
) -> None:
    well = [a100(uuid) for uuid in UUIDS]
    driver.says(*well)
    assert look() == UUIDS
    assert look.faults() == {}
    driver.says(*well[:3], a100(UUIDS[3], **fields), *well[4:])
    assert look.faults() == {UUIDS[3]: reason}
    driver.says(*well)
    look()  # ends the session to which a lost card stays lost
    look()
    assert look.faults() == {}


@pytest.mark.parametrize("gone", ["GPU_IS_LOST", ""])
def test_a_card_that_a_look_missed_has_a_fault_until_one_finds_it(
    look: Looks, driver: Driver, gone: str
) -> None:
    driver.says(t4(A), t4(B))
    look()
    driver.says(t4(A), *([t4(B, state=gone)] if gone else []))
    for _ in range(3):
        assert look() == [A]
        assert look.faults() == {B: "it does not answer"}
        assert look.events(0) == []
    driver.says(t4(A), t4(B))
    assert look() == [A, B]
    assert look.faults() == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"remap_pending": 1, "remapped_correctable": 4, "remapped_uncorrectable": 2},
        {"recovery": "na"},
        {"capability": "7.5"},  # has no rows to remap
        {"mig": "enabled"},
        {"retired_dbe": 3, "corrected": 10**6},
    ],
)
def test_what_is_no_fault(look: Looks, driver: Driver, fields: dict[str, Any]) -> None:
    driver.says(card(A, **{"capability": "8.0", **fields}))
    look()
    assert look.faults() == {}


@pytest.mark.parametrize("code", ["NOT_SUPPORTED", "FUNCTION_NOT_FOUND", "NO_PERMISSION"])
@pytest.mark.parametrize(
    "call", ["FieldValues", "RetiredPagesPendingStatus", "RemappedRows", "[FR][ie]*s"]
)
def test_a_question_that_cannot_be_asked_is_no_fault(
    look: Looks, driver: Driver, call: str, code: str
) -> None:
    driver.says(a100(A), f"fail nvmlDeviceGet{call} {code}")
    look()
    assert look.faults() == {}


def test_a_driver_of_2016_is_asked_what_it_knows(tmp_path: Path) -> None:
    without = ["nvmlDeviceGetFieldValues", "nvmlDeviceGetRemappedRows"]
    driver = Driver(build(tmp_path, without=without), tmp_path)
    driver.says(t4(A, retired_pending=1), t4(B))
    with Client(driver) as client:
        look = Looks(client)
        look()
        assert list(look.faults()) == [A]


def test_a_look_asks_no_more_than_is_needed_to_offer_a_card(look: Looks, driver: Driver) -> None:
    """The first look comes before the registration, which no slow question shall hold up."""
    driver.says(*(a100(uuid) for uuid in UUIDS))
    look()
    asked = driver.calls()
    assert len(asked) == 2 + 6 * len(UUIDS)
    assert set(asked) <= {
        "nvmlInitWithFlags",
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetMinorNumber",
        "nvmlDeviceGetName",
    }
    look.faults()
    assert len(driver.calls()) - len(asked) == 3 * len(UUIDS)


def test_a_call_that_hangs_hangs_alone(look: Looks, client: Client, driver: Driver) -> None:
    driver.says(a100(A), a100(B, remap_failed=1), "delay nvmlDeviceGetRemappedRows 600000")
    assert look() == [A, B]
    client.do("import concurrent.futures; pool = concurrent.futures.ThreadPoolExecutor()")
    client.do("asked = pool.submit(inventory.faults)")
    wait_for(lambda: "nvmlDeviceGetRemappedRows" in driver.calls())
    assert not client.do("asked.done()")
    driver.says(a100(A), a100(B, remap_failed=1))
    assert list(client.do("asked.result(10)")) == [B]


# The driver as a whole.


def test_a_driver_that_goes_away_and_comes_back(look: Looks, driver: Driver) -> None:
    driver.says(t4(A), t4(B))
    assert look() == [A, B]
    gone = [t4(A), t4(B), "init DRIVER_NOT_LOADED", "fail nvmlDevice* DRIVER_NOT_LOADED"]
    driver.says(*gone)
    assert look.faults() == dict.fromkeys([A, B], "it does not answer: Driver Not Loaded")
    for _ in range(3):
        assert look() == []
        assert look.notes() == "the NVIDIA driver is not loaded"
        assert look.faults() == dict.fromkeys([A, B], "it does not answer")
    driver.says(t4(A), t4(B))
    assert look() == [A, B]
    assert look.faults() == {}


def test_a_driver_that_is_replaced_is_used_by_its_own_library(tmp_path: Path) -> None:
    """A library stays loaded in a process although its file is another; ours lets go of it."""
    libraries = {}
    for version in ("570.1", "580.2"):
        (folder := tmp_path / version).mkdir()
        libraries[version] = build(folder, version=version)
    (place := tmp_path / "lib").mkdir()
    driver = Driver(place / LIBRARY, tmp_path)
    arrive(driver, libraries["570.1"])
    driver.says(t4(A), statement("driver", version="570.1"))
    with Client(driver) as client:
        look = Looks(client)
        assert look() == [A]
        assert client.do("nvmlSystemGetDriverVersion()") == "570.1"
        driver.says(t4(A), "init DRIVER_NOT_LOADED", "fail nvmlDevice* DRIVER_NOT_LOADED")
        assert look() == []
        driver.says(t4(A), statement("driver", version="580.2"))  # before its library is there
        for _ in range(2):
            with pytest.raises(Raised, match="version mismatch"):
                look()
        # Where the old one was something else comes: nothing may point there any more.
        client.do("import mmap; taken = [mmap.mmap(-1, 16384) for _ in range(400)]")
        arrive(driver, libraries["580.2"])
        assert look() == [A]
        assert look.faults() == {}
        assert client.do("nvmlSystemGetDriverVersion()") == "580.2"
        xid = statement("event", card=A, xid=79)
        assert look.events(0) == []
        driver.says(t4(A), statement("driver", version="580.2"), xid)
        assert look.events(PATIENCE) == [(A, 79)]


# Events.


def xids(*events: tuple[str, int]) -> list[str]:
    return [statement("event", card=uuid, xid=xid) for uuid, xid in events]


def test_events_come_with_their_card_at_once_and_once(look: Looks, driver: Driver) -> None:
    cards = [t4(A), t4(B)]
    driver.says(*cards)
    look()
    assert look.events(0) == []
    driver.says(*cards, *xids((A, 31), (B, 79), (A, 48)))
    start = time.monotonic()
    assert look.events(600) == [(A, 31), (B, 79), (A, 48)]
    assert time.monotonic() - start < PATIENCE
    assert look.events(0) == []
    look()
    assert look.events(0) == []


class Waiting:
    """An inventory that waits for events in a thread."""

    def __init__(self, client: Client, driver: Driver, seconds: float) -> None:
        before = driver.calls().count("nvmlEventSetWait_v2")
        self._client = client
        client.do("import concurrent.futures; pool = concurrent.futures.ThreadPoolExecutor()")
        client.do(f"waiting = pool.submit(inventory.wait, {seconds})")
        wait_for(lambda: driver.calls().count("nvmlEventSetWait_v2") > before)
        assert not client.do("waiting.done()")

    def events(self) -> list[tuple[str, int]]:
        came = self._client.do(f"[(e.uuid, e.xid) for e in waiting.result({PATIENCE})]")
        return [(uuid, xid) for uuid, xid in came]


def test_an_event_ends_the_waiting(look: Looks, client: Client, driver: Driver) -> None:
    driver.says(t4(A))
    look()
    waiting = Waiting(client, driver, 600)
    driver.says(t4(A), *xids((A, 79)))
    assert waiting.events() == [(A, 79)]


def test_waiting_again_is_one_call(look: Looks, driver: Driver) -> None:
    driver.says(t4(A), t4(B, events=0))
    look()
    look.events(0)
    before = len(driver.calls())
    look.events(0)
    assert len(driver.calls()) == before + 1


def test_events_come_again_after_a_long_trouble(look: Looks, driver: Driver) -> None:
    """Sets of events are few in the driver: those that fail must be given back."""
    driver.says(t4(A), "fail nvmlEventSetWait* UNKNOWN")
    for _ in range(40):
        look()
        assert look.events(0) == []
    driver.says(t4(A))
    look()
    look.events(0)
    driver.says(t4(A), *xids((A, 79)))
    assert look.events(PATIENCE) == [(A, 79)]


def test_a_storm_of_events_comes_in_parts(look: Looks, driver: Driver) -> None:
    driver.says(t4(A))
    look()
    look.events(0)
    for burst in range(1, 4):  # the driver keeps 64
        driver.says(t4(A), *xids(*[(A, 31)] * 60 * burst))
        assert len(look.events(PATIENCE)) == 60
    assert look.events(0) == []


def test_an_event_of_no_known_card_is_of_none(look: Looks, client: Client, driver: Driver) -> None:
    driver.says(t4(A))
    look()
    look.events(0)
    client.do("inventory._watched.clear(); inventory._watched[0] = 'GPU-another'")
    client.do("inventory._handles.clear()")
    driver.says(t4(A), *xids((A, 79)))
    assert look.events(PATIENCE) == [("", 79)]


@pytest.mark.parametrize(
    "scenario",
    [
        ["init DRIVER_NOT_LOADED"],
        ["init SUCCESS"],
        [t4(A)],
        [t4(A, events=0)],
        [t4(A), "fail nvmlEventSetCreate INSUFFICIENT_RESOURCES"],
        [t4(A), "fail nvmlEventSetWait* UNKNOWN"],
    ],
)
def test_waiting_takes_its_time_whatever_the_driver_says(
    look: Looks, driver: Driver, scenario: list[str]
) -> None:
    driver.says(*scenario)
    look()
    before, start = len(driver.calls()), time.monotonic()
    assert look.events(0.3) == []
    assert time.monotonic() - start >= 0.3
    assert len(driver.calls()) - before <= 3


def test_a_card_without_events_is_well_and_those_of_others_come(
    look: Looks, driver: Driver
) -> None:
    cards = [t4(A, events=0), t4(B)]
    driver.says(*cards)
    assert look() == [A, B]
    assert look.events(0) == []
    assert look.faults() == {}
    driver.says(*cards, *xids((B, 79)))
    assert look.events(PATIENCE) == [(B, 79)]


def test_a_driver_that_goes_away_while_we_wait(look: Looks, client: Client, driver: Driver) -> None:
    driver.says(t4(A))
    look()
    waiting = Waiting(client, driver, 1)
    driver.says(t4(A, state="GPU_IS_LOST"))
    assert waiting.events() == []
    with pytest.raises(Raised):
        look()
    driver.says(t4(A))
    assert look() == [A]
    assert look.events(0) == []
    driver.says(t4(A), *xids((A, 48)))
    assert look.events(PATIENCE) == [(A, 48)]


def test_a_lost_card_does_not_keep_the_events_of_others(
    look: Looks, client: Client, driver: Driver
) -> None:
    driver.says(t4(A), t4(B))
    look()
    look.events(0)
    lost = [t4(A, state="GPU_IS_LOST"), t4(B)]
    driver.says(*lost, *xids((A, 79)))
    assert look.events(PATIENCE) == [(A, 79)]  # the last that is heard of it
    for round_ in range(1, 3):
        assert look() == [B]
        waiting = Waiting(client, driver, PATIENCE / 2)
        driver.says(*lost, *xids((A, 79), *[(B, 31)] * round_))
        assert waiting.events() == [(B, 31)]


def test_a_card_that_is_lost_in_silence_does_not_either(
    look: Looks, client: Client, driver: Driver
) -> None:
    driver.says(t4(A), t4(B))
    look()
    look.events(0)
    lost = [t4(A, state="GPU_IS_LOST"), t4(B)]
    driver.says(*lost)
    assert look() == [B]
    waiting = Waiting(client, driver, PATIENCE / 2)
    driver.says(*lost, *xids((B, 79)))
    assert waiting.events() == [(B, 79)]


def test_a_set_that_the_driver_no_longer_knows_is_made_anew(
    look: Looks, client: Client, driver: Driver
) -> None:
    driver.says(t4(A))
    look()
    look.events(0)
    client.do("nvmlEventSetFree(inventory._events)")
    assert look.events(0) == []
    look()
    waiting = Waiting(client, driver, PATIENCE / 2)
    driver.says(t4(A), *xids((A, 79)))
    assert waiting.events() == [(A, 79)]


def test_every_session_is_ended_and_its_events_with_it(look: Looks, driver: Driver) -> None:
    for _ in range(5):
        driver.says(t4(A), t4(B, state="GPU_IS_LOST"))
        look()
        look.events(0)
        driver.says(t4(A), t4(B))
        look()
        look.events(0)
    look.close()
    calls = driver.calls()
    assert calls.count("nvmlInitWithFlags") == calls.count("nvmlShutdown")
    assert calls.count("nvmlEventSetCreate") <= 10  # of the 16 that there are at a time


# The whole process.


@dataclass(frozen=True)
class Plugin:
    program: Program
    port: int
    folder: Path

    def page(self, path: str) -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}{path}", timeout=5) as page:
                return page.status, json.load(page)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def becomes(self, state: str) -> dict[str, Any]:
        """Wait until the plugin is in a state; return what it says of itself."""

        def reached() -> bool:
            try:
                return bool(self.page("/healthz")[1]["state"] == state)
            except OSError:
                return False  # not listening yet

        self.program.wait_until(reached)
        return self.page("/healthz")[1]


@contextmanager
def plugin_on(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugin]:
    for name, text in driver.variables().items():
        monkeypatch.setenv(name, text)
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="dp-") as folder:  # short: paths of sockets are
        settings = {
            "inventory": "nvml",
            "device_plugin_dir": folder,
            "probe_seconds": 0.1,
            "settle_seconds": 0,
            "host": LOOPBACK,
            "port": port,
        }
        output = driver.folder / "plugin.log"
        with running("-m", "plugin", output=output, settings=settings) as program:
            yield Plugin(program, port, Path(folder))
            assert program.stop() == 0


@pytest.fixture
def plugin(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugin]:
    driver.says("init DRIVER_NOT_LOADED")
    with plugin_on(driver, monkeypatch) as plugin:
        yield plugin


@in_loop
async def test_a_share_of_a_t4_is_4608_mib(plugin: Plugin, driver: Driver) -> None:
    driver.says(t4(A))
    async with Kubelet(plugin.folder) as kubelet:
        ids = await kubelet.listed(names.COUNT, 100, PATIENCE)
        assert ids == {f"{A}::{number}" for number in range(100)}
        [grant] = await kubelet.admit(pod("p", 30))
        assert len(grant.ids) == 30
        assert grant.env == {
            names.ENV_GPU_UUID: A,
            names.ENV_SLOTS: "30",
            names.ENV_SHARE: "0.3",
            names.ENV_MEMORY_MIB: "4608",
            names.ENV_MEMORY_FRACTION: "0.2666",
            names.ENV_VISIBLE_DEVICES: A,
        }


@in_loop
async def test_a_card_in_mig_mode_is_left_out_with_a_sentence(
    plugin: Plugin, driver: Driver
) -> None:
    driver.says(t4(A), card(B, capability="8.0", mig="enabled"))
    async with Kubelet(plugin.folder) as kubelet:
        ids = await kubelet.listed(names.COUNT, 100, PATIENCE)
        assert {device.split("::")[0] for device in ids} == {A}
    [note] = plugin.page("/healthz")[1]["notes"]
    assert note.startswith(f"{B} is left out")
    assert "MIG" in note


@in_loop
async def test_a_lost_card_takes_its_slots_along_and_brings_them_back(
    plugin: Plugin, driver: Driver
) -> None:
    driver.says(t4(A), t4(B))
    async with Kubelet(plugin.folder) as kubelet:
        every = await kubelet.listed(names.COUNT, 200, PATIENCE)
        driver.says(t4(A), t4(B, state="GPU_IS_LOST"))
        well = await kubelet.listed(names.COUNT, 100, PATIENCE)
        assert well == {f"{A}::{number}" for number in range(100)}
        assert set(kubelet.devices[names.COUNT]) == every  # unhealthy, but not forgotten
        [grant] = await kubelet.admit(pod("p", 100))
        assert grant.env[names.ENV_GPU_UUID] == A
        with pytest.raises(AdmissionError):
            await kubelet.admit(pod("another", 1))
        driver.says(t4(A), t4(B))
        assert await kubelet.listed(names.COUNT, 200, PATIENCE) == every


@in_loop
async def test_an_xid_takes_its_cards_slots_along_and_no_other(
    plugin: Plugin, driver: Driver
) -> None:
    cards = [t4(A), t4(B), t4(C)]
    driver.says(*cards)
    async with Kubelet(plugin.folder) as kubelet:
        every = await kubelet.listed(names.COUNT, 300, PATIENCE)
        driver.says(*cards, *xids((B, 31)))  # a program's error: it is heard, and that is all
        plugin.program.wait_until(
            lambda: any(line.get("xid") == 31 for line in plugin.program.lines())
        )
        driver.says(*cards, *xids((B, 31), (A, 79)))
        well = await kubelet.listed(names.COUNT, 200, PATIENCE)
        assert {device.split("::")[0] for device in well} == {B, C}
        assert set(kubelet.devices[names.COUNT]) == every
    [fault] = [each["fault"] for each in plugin.page("/healthz")[1]["gpus"] if each["fault"]]
    assert fault.startswith("XID 79, the GPU has fallen off the bus")


@in_loop
async def test_a_card_that_needs_a_reset_is_back_after_it(plugin: Plugin, driver: Driver) -> None:
    driver.says(t4(A), t4(B))
    async with Kubelet(plugin.folder) as kubelet:
        every = await kubelet.listed(names.COUNT, 200, PATIENCE)
        for _ in range(3):
            driver.says(t4(A), t4(B, recovery=1))
            well = await kubelet.listed(names.COUNT, 100, PATIENCE)
            assert {device.split("::")[0] for device in well} == {A}
            driver.says(t4(A), t4(B))
            assert await kubelet.listed(names.COUNT, 200, PATIENCE) == every


@in_loop
async def test_registration_waits_for_no_slow_question(plugin: Plugin, driver: Driver) -> None:
    driver.says(t4(A), t4(B), "delay nvmlDeviceGetRe* 600000", "delay nvmlDeviceGetF* 600000")
    async with Kubelet(plugin.folder) as kubelet:
        await kubelet.listed(names.COUNT, 200, PATIENCE)
        assert len((await kubelet.admit(pod("p", 30)))[0].ids) == 30
        wait_for(lambda: "nvmlDeviceGetFieldValues" in driver.calls())
        assert plugin.page("/readyz")[0] == 200


@in_loop
async def test_a_node_without_driver_idles_until_one_is_installed(
    no_driver: Driver, nvml_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_driver.says(t4(A))
    with plugin_on(no_driver, monkeypatch) as plugin:
        assert "libnvidia-ml.so.1" in " ".join(plugin.becomes("idle")["notes"])
        assert plugin.page("/readyz")[0] == 200
        async with Kubelet(plugin.folder) as kubelet:
            with pytest.raises(TimeoutError):
                await kubelet.listed(names.COUNT, 100, 1)
            assert kubelet.registrations == 0
            arrive(no_driver, nvml_library)
            await kubelet.listed(names.COUNT, 100, PATIENCE)


def test_a_broken_driver_shows_and_its_repair_too(plugin: Plugin, driver: Driver) -> None:
    driver.says(t4(A), "init LIB_RM_VERSION_MISMATCH")
    assert "version mismatch" in " ".join(plugin.becomes("broken")["notes"])
    assert plugin.page("/readyz")[0] == 503
    driver.says()
    plugin.becomes("idle")
    driver.says(t4(A))
    [note] = plugin.becomes("serving")["notes"]
    assert note.startswith("waiting for the kubelet"), "nothing else is wrong"
