"""The fake driver behaves as the NVML API Reference says, seen through the real nvidia-ml-py."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.fake_nvml import LIBRARY, Driver, build, statement
from tests.fake_nvml.client import Client, Raised

pytest_plugins = ["tests.fake_nvml.fixtures"]

MIB = 2**20
A = "GPU-aaaaaaaa-0000-4000-8000-000000000001"
B = "GPU-bbbbbbbb-0000-4000-8000-000000000002"
C = "GPU-cccccccc-0000-4000-8000-000000000003"
MIG = "MIG-dddddddd-0000-4000-8000-000000000004"


def card(uuid: str, **fields: object) -> str:
    return statement("card", uuid=uuid, **fields)


def first_card(client: Client, driver: Driver, **fields: object) -> None:
    """Start with one card, whose handle is `h`."""
    driver.says(card(A, **fields))
    client.do("nvmlInit(); h = nvmlDeviceGetHandleByIndex(0)")


def raises(error: str) -> Any:
    return pytest.raises(Raised, match=f"^NVMLError_{error}: ")


# Initialization and cleanup.


def test_nothing_but_the_library_version_is_answered_before_init(
    client: Client, driver: Driver
) -> None:
    driver.says(card(A), statement("driver", nvml="12.570.1"))
    client.do("pynvml._LoadNvmlLibrary()")
    assert client.do("nvmlSystemGetNVMLVersion()") == "12.570.1"
    for call in ("nvmlDeviceGetCount()", "nvmlSystemGetDriverVersion()", "nvmlEventSetCreate()"):
        with raises("Uninitialized"):
            client.do(call)


def test_init_counts_and_the_last_shutdown_ends_the_session(client: Client, driver: Driver) -> None:
    driver.says(card(A))
    client.do("nvmlInit(); nvmlInit(); nvmlShutdown()")
    assert client.do("nvmlDeviceGetCount()") == 1
    client.do("h = nvmlDeviceGetHandleByIndex(0); nvmlShutdown()")
    with raises("Uninitialized"):
        client.do("nvmlDeviceGetName(h)")
    client.do("nvmlShutdown()")  # one too many is no error
    client.do("nvmlInit(); fresh = nvmlDeviceGetHandleByIndex(0)")
    assert client.do("nvmlDeviceGetUUID(fresh)") == A
    with raises("InvalidArgument"):
        client.do("nvmlDeviceGetUUID(h)")  # a handle of the session before


def test_shutdown_without_any_init(client: Client, driver: Driver) -> None:
    driver.says(card(A))
    client.do("pynvml._LoadNvmlLibrary()")
    with raises("Uninitialized"):
        client.do("nvmlShutdown()")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("DRIVER_NOT_LOADED", "DriverNotLoaded"),
        ("LIB_RM_VERSION_MISMATCH", "LibRmVersionMismatch"),
        ("NO_PERMISSION", "NoPermission"),
        ("999", "Unknown"),
    ],
)
def test_init_fails_as_told_until_told_otherwise(
    client: Client, driver: Driver, code: str, error: str
) -> None:
    driver.says(card(A), f"init {code}")
    with raises(error):
        client.do("nvmlInit()")
    with raises("Uninitialized"):
        client.do("nvmlDeviceGetCount()")
    driver.says(card(A))
    client.do("nvmlInit()")
    assert client.do("nvmlDeviceGetCount()") == 1


def test_a_machine_without_cards(client: Client, driver: Driver) -> None:
    driver.says()
    with raises("GpuNotFound"):
        client.do("nvmlInit()")
    client.do("nvmlInitWithFlags(1)")
    assert client.do("nvmlDeviceGetCount()") == 0
    client.do("nvmlShutdown()")
    driver.says("init SUCCESS")
    client.do("nvmlInit()")
    assert client.do("nvmlDeviceGetCount()") == 0


def test_the_first_init_wanted_every_card_in_good_state(client: Client, driver: Driver) -> None:
    driver.says(card(A), card(B, state="RESET_REQUIRED"))
    client.do("pynvml._LoadNvmlLibrary()")
    assert client.do("pynvml.nvmlLib.nvmlInit()") == 16
    assert client.do("pynvml.nvmlLib.nvmlInit_v2()") == 0


def test_the_library_does_not_load(no_driver: Driver) -> None:
    no_driver.says(card(A))
    with Client(no_driver) as client, raises("LibraryNotFound"):
        client.do("nvmlInit()")


# Versions, error strings.


def test_versions(client: Client, driver: Driver) -> None:
    driver.says(card(A), statement("driver", version="535.183.01", nvml="12.535.183", cuda=12020))
    client.do("nvmlInit()")
    assert client.do("nvmlSystemGetDriverVersion()") == "535.183.01"
    assert client.do("nvmlSystemGetNVMLVersion()") == "12.535.183"
    assert client.do("nvmlSystemGetCudaDriverVersion()") == 12020
    assert client.do("nvmlSystemGetCudaDriverVersion_v2()") == 12020


def test_every_code_has_its_own_text(client: Client, driver: Driver) -> None:
    driver.says(card(A))
    client.do("nvmlInit()")
    texts = client.do("[nvmlErrorString(code) for code in [*range(30), 999]]")
    assert len(set(texts)) == 31
    assert client.do("nvmlErrorString(12345)") == client.do("nvmlErrorString(999)")


def test_a_buffer_that_is_too_small_and_none_at_all(client: Client, driver: Driver) -> None:
    first_card(client, driver, name="Tesla T4")
    client.do("b = ctypes.create_string_buffer(96)")
    for size, code in ((8, 7), (9, 0)):
        assert client.do(f"pynvml.nvmlLib.nvmlDeviceGetName(h, b, {size})") == code
        assert client.do(f"pynvml.nvmlLib.nvmlDeviceGetName(h, None, {size})") == 2
    assert client.do("pynvml.nvmlLib.nvmlDeviceGetUUID(h, b, 40)") == 7
    assert client.do("pynvml.nvmlLib.nvmlDeviceGetUUID(h, b, 41)") == 0
    assert client.do("pynvml.nvmlLib.nvmlSystemGetDriverVersion(b, 3)") == 7
    assert client.do("pynvml.nvmlLib.nvmlDeviceGetCount_v2(None)") == 2
    assert client.do("pynvml.nvmlLib.nvmlDeviceGetMemoryInfo(h, None)") == 2


def test_process_names(client: Client, driver: Driver) -> None:
    driver.says(card(A))
    client.do("import os; nvmlInit()")
    assert "python" in client.do("nvmlSystemGetProcessName(os.getpid())")
    with raises("NotFound"):
        client.do("nvmlSystemGetProcessName(2**31)")
    client.do("b = ctypes.create_string_buffer(b'xxxxx')")
    call = "pynvml.nvmlLib.nvmlSystemGetProcessName(os.getpid(), b, {})"
    assert client.do(call.format(0)) == 2
    assert client.do(call.format(3)) == 0
    assert client.do("len(b.value)") == 2  # cropped


# Handles.


def test_a_card_is_found_by_index_uuid_bus_id_and_serial(client: Client, driver: Driver) -> None:
    driver.says(
        card(A, serial="1"),
        card(B, serial="2", pci="00000001:3B:00.0", minor=7, name="NVIDIA A100-SXM4-40GB"),
    )
    client.do("nvmlInit()")
    for by in (
        "Index(1)",
        f"UUID('{B}')",
        "PciBusId('00000001:3B:00.0')",
        "PciBusId('1:3b:0')",
        "Serial('2')",
    ):
        client.do(f"h = nvmlDeviceGetHandleBy{by}")
        assert client.do("nvmlDeviceGetUUID(h)") == B
        assert client.do("nvmlDeviceGetIndex(h)") == 1
        assert client.do("nvmlDeviceGetMinorNumber(h)") == 7
        assert client.do("nvmlDeviceGetName(h)") == "NVIDIA A100-SXM4-40GB"
    assert client.do("nvmlDeviceGetUUID(nvmlDeviceGetHandleByPciBusId('01:00.0'))") == A


def test_a_binary_uuid(client: Client, driver: Driver) -> None:
    driver.says(card(A), card(B))
    client.do("nvmlInit(); u = pynvml.c_nvmlUUID_t(); u.type = 2; d = pynvml.c_nvmlDevice_t()")
    client.do(f"u.value.bytes[:] = bytes.fromhex('{B[4:].replace('-', '')}')")
    call = "pynvml.nvmlLib.nvmlDeviceGetHandleByUUIDV(ctypes.byref(u), ctypes.byref(d))"
    assert client.do(call) == 0
    assert client.do("nvmlDeviceGetUUID(d)") == B
    client.do("u.type = 0")
    assert client.do(call) == 2
    client.do("u.type, u.version = 2, 1")
    assert client.do(call) == 25


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("nvmlDeviceGetHandleByIndex(1)", "InvalidArgument"),
        (f"nvmlDeviceGetHandleByUUID('{C}')", "NotFound"),
        ("nvmlDeviceGetHandleByUUID('nonsense')", "InvalidArgument"),
        ("nvmlDeviceGetHandleByPciBusId('0:77:0.0')", "NotFound"),
        ("nvmlDeviceGetHandleByPciBusId('0:1:0.1')", "NotFound"),
        ("nvmlDeviceGetHandleByPciBusId('nonsense')", "InvalidArgument"),
        ("nvmlDeviceGetHandleBySerial('9')", "NotFound"),
        ("nvmlDeviceGetName(ctypes.cast(12345, pynvml.c_nvmlDevice_t))", "InvalidArgument"),
        ("nvmlDeviceGetName(None)", "InvalidArgument"),
        ("nvmlDeviceGetMemoryInfo(nvmlEventSetCreate())", "InvalidArgument"),
        ("nvmlEventSetFree(h)", "InvalidArgument"),
    ],
)
def test_what_is_not_there_is_refused(
    client: Client, driver: Driver, call: str, error: str
) -> None:
    first_card(client, driver)
    with raises(error):
        client.do(call)


def test_two_cards_of_one_board_share_a_serial_number(client: Client, driver: Driver) -> None:
    driver.says(card(A, serial="1"), card(B, serial="1"))
    client.do("nvmlInit()")
    with raises("InvalidArgument"):
        client.do("nvmlDeviceGetHandleBySerial('1')")


def test_a_card_without_permission_is_counted_from_version_2_on(
    client: Client, driver: Driver
) -> None:
    driver.says(card(A, state="NO_PERMISSION"), card(B))
    client.do("nvmlInit(); n = ctypes.c_uint(); d = pynvml.c_nvmlDevice_t()")
    assert client.do("nvmlDeviceGetCount()") == 2
    assert client.do("pynvml.nvmlLib.nvmlDeviceGetCount(ctypes.byref(n)); n.value") == 1
    with raises("NoPermission"):
        client.do("nvmlDeviceGetHandleByIndex(0)")
    assert client.do("pynvml.nvmlLib.nvmlDeviceGetHandleByIndex(0, ctypes.byref(d))") == 0
    assert client.do("nvmlDeviceGetUUID(d)") == B
    with raises("NoPermission"):
        client.do("nvmlDeviceGetHandleByPciBusId('0:1:0.0')")
    call = "pynvml.nvmlLib.nvmlDeviceGetHandleByPciBusId(b'0:1:0.0', ctypes.byref(d))"
    assert client.do(call) == 6


# What a card says of itself.


def test_memory_in_both_versions(client: Client, driver: Driver) -> None:
    first_card(client, driver, total=16000 * MIB, reserved=640 * MIB, used=1000 * MIB)
    assert client.do("m = nvmlDeviceGetMemoryInfo(h); [m.total, m.free, m.used]") == [
        16000 * MIB,
        14360 * MIB,
        1640 * MIB,
    ]
    assert client.do(
        "m = nvmlDeviceGetMemoryInfo(h, nvmlMemory_v2); [m.total, m.reserved, m.free, m.used]"
    ) == [16000 * MIB, 640 * MIB, 14360 * MIB, 1000 * MIB]
    with raises("ArgumentVersionMismatch"):
        client.do("nvmlDeviceGetMemoryInfo(h, 2)")


def test_pci(client: Client, driver: Driver) -> None:
    first_card(client, driver, pci="00000002:AF:00.0", pci_device=0x20B010DE)
    client.do("p = nvmlDeviceGetPciInfo(h)")
    assert client.do("[p.domain, p.bus, p.device, p.pciDeviceId]") == [2, 0xAF, 0, 0x20B010DE]
    assert client.do("[p.busId, p.busIdLegacy]") == [
        "00000002:AF:00.0",
        "0002:AF:00.0",
    ]
    client.do("e = pynvml.nvmlPciInfoExt_v1_t(); e.version = pynvml.nvmlPciInfoExt_v1")
    client.do("nvmlDeviceGetPciInfoExt(h, ctypes.byref(e))")
    assert client.do("[e.busId, e.baseClass]") == ["00000002:AF:00.0", 3]


def test_the_older_pci_structure_is_not_written_past_what_it_shares(
    client: Client, driver: Driver
) -> None:
    first_card(client, driver)
    client.do("p = pynvml.nvmlPciInfo_t(); p.busId = b'untouched'")
    for version in ("", "_v2"):
        assert client.do(f"pynvml.nvmlLib.nvmlDeviceGetPciInfo{version}(h, ctypes.byref(p))") == 0
        assert client.do("[p.busIdLegacy, p.busId]") == [
            "0000:01:00.0",
            "untouched",
        ]


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [("3.7", 2), ("6.1", 4), ("7.0", 5), ("7.5", 6), ("8.6", 7), ("8.9", 8), ("9.0", 9)],
)
def test_compute_capability_and_architecture(
    client: Client, driver: Driver, capability: str, architecture: int
) -> None:
    first_card(client, driver, capability=capability)
    major, minor = client.do("nvmlDeviceGetCudaComputeCapability(h)")
    assert f"{major}.{minor}" == capability
    assert client.do("nvmlDeviceGetArchitecture(h)") == architecture


def test_readings(client: Client, driver: Driver) -> None:
    first_card(
        client,
        driver,
        power=65432,
        power_limit=70000,
        energy=10**12,
        temperature=61,
        utilization=97,
        memory_utilization=42,
        persistence=0,
        compute_mode=3,
        brand=2,
    )
    assert client.do("nvmlDeviceGetPowerUsage(h)") == 65432
    assert client.do("nvmlDeviceGetPowerManagementLimit(h)") == 70000
    assert client.do("nvmlDeviceGetEnforcedPowerLimit(h)") == 70000
    assert client.do("nvmlDeviceGetTotalEnergyConsumption(h)") == 10**12
    assert client.do("nvmlDeviceGetTemperature(h, 0)") == 61
    assert client.do("nvmlDeviceGetTemperatureV(h, 0)") == 61
    assert client.do("u = nvmlDeviceGetUtilizationRates(h); [u.gpu, u.memory]") == [97, 42]
    assert client.do("nvmlDeviceGetPersistenceMode(h)") == 0
    assert client.do("nvmlDeviceGetComputeMode(h)") == 3
    assert client.do("nvmlDeviceGetBrand(h)") == 2
    with raises("InvalidArgument"):
        client.do("nvmlDeviceGetTemperature(h, 1)")


def test_readings_follow_the_scenario_at_once(client: Client, driver: Driver) -> None:
    first_card(client, driver, power=1000)
    for power in (2000, 3000):
        driver.says(card(A, power=power))
        assert client.do("nvmlDeviceGetPowerUsage(h)") == power


def test_memory_that_fails(client: Client, driver: Driver) -> None:
    first_card(
        client,
        driver,
        capability="8.0",
        corrected=5,
        uncorrected=2,
        retired_sbe=3,
        retired_dbe=1,
        retired_pending=1,
        remapped_correctable=4,
        remapped_uncorrectable=1,
        remap_pending=1,
        remap_failed=0,
    )
    assert client.do("nvmlDeviceGetEccMode(h)") == [1, 1]
    assert client.do("[nvmlDeviceGetTotalEccErrors(h, type, 0) for type in (0, 1)]") == [5, 2]
    assert client.do("[len(nvmlDeviceGetRetiredPages(h, cause)) for cause in (0, 1)]") == [3, 1]
    assert client.do("len({p['address'] for p in nvmlDeviceGetRetiredPages_v2(h, 0)})") == 3
    assert client.do("nvmlDeviceGetRetiredPagesPendingStatus(h)") == 1
    assert client.do("nvmlDeviceGetRemappedRows(h)") == [4, 1, 1, 0]
    with raises("InvalidArgument"):
        client.do("nvmlDeviceGetRetiredPages(h, 2)")


def test_what_a_card_cannot_do_is_not_supported(client: Client, driver: Driver) -> None:
    first_card(client, driver, ecc="unsupported", capability="7.5")
    for call in ("EccMode(h)", "TotalEccErrors(h, 0, 0)", "RemappedRows(h)", "MigMode(h)"):
        with raises("NotSupported"):
            client.do(f"nvmlDeviceGet{call}")
    assert client.do("nvmlDeviceGetMaxMigDeviceCount(h)") == 0


FIELDS = """
def fields(*ids):
    values = nvmlDeviceGetFieldValues(h, ids)
    return [v.value.uiVal if v.nvmlReturn == 0 else -v.nvmlReturn for v in values]
"""


def test_values_by_number(client: Client, driver: Driver) -> None:
    first_card(
        client,
        driver,
        capability="8.0",
        retired_pending=1,
        remapped_correctable=4,
        remapped_uncorrectable=2,
        remap_failed=1,
        recovery=2,
    )
    client.do(FIELDS)
    assert client.do("fields(31, 142, 143, 144, 145, 230)") == [1, 4, 2, 0, 1, 2]
    assert client.do("fields(230, 9999, 31)") == [2, -3, 1]  # what is unknown fails alone
    assert client.do("[v.valueType for v in nvmlDeviceGetFieldValues(h, [31])]") == [1]
    assert client.do("pynvml.nvmlLib.nvmlDeviceGetFieldValues(h, 1, None)") == 2


def test_values_that_a_card_or_its_driver_does_not_know(client: Client, driver: Driver) -> None:
    first_card(client, driver, capability="7.5", recovery="na")
    client.do(FIELDS)
    assert client.do("fields(144, 145, 230, 31)") == [-3, -3, -3, 0]
    driver.says(card(A, state="RESET_REQUIRED"))
    with raises("ResetRequired"):
        client.do("fields(31)")


# Processes.


def test_processes_by_kind_in_every_version(client: Client, driver: Driver) -> None:
    first_card(client, driver, capability="9.0")
    driver.says(
        card(A, capability="9.0"),
        card(B),
        statement("process", card=A, pid=11, used=100 * MIB, kind="compute"),
        statement("process", card=A, pid=12, used="na", kind="compute"),
        statement("process", card=A, pid=21, used=MIB, kind="mps"),
        statement("process", card=A, pid=31, used=MIB, kind="graphics"),
        statement("process", card=B, pid=41, used=MIB, kind="compute"),
    )
    for kind, expected in (
        ("Compute", [[11, 100 * MIB], [12, None]]),
        ("MPSCompute", [[21, MIB]]),
        ("Graphics", [[31, MIB]]),
    ):
        for version in ("_v2", "_v3"):
            client.do(f"ps = nvmlDeviceGet{kind}RunningProcesses{version}(h)")
            assert client.do("[[p.pid, p.usedGpuMemory] for p in ps]") == expected
            assert client.do("{p.gpuInstanceId for p in ps} == {0xFFFFFFFF}")


def test_the_first_version_of_a_process_is_sixteen_bytes(client: Client, driver: Driver) -> None:
    first_card(client, driver)
    driver.says(
        card(A), *(statement("process", card=A, pid=pid, used=pid * MIB) for pid in (1, 2, 3))
    )
    client.do("n = ctypes.c_uint(2); b = (ctypes.c_ulonglong * 7)(*[99] * 7)")
    call = "pynvml.nvmlLib.nvmlDeviceGetComputeRunningProcesses(h, ctypes.byref(n), b)"
    assert client.do(call) == 7
    assert client.do("n.value") == 3  # what it takes
    assert client.do(call) == 0
    assert client.do("[b[i] for i in (1, 3, 5, 6)]") == [MIB, 2 * MIB, 3 * MIB, 99]
    assert client.do("[b[i] & 0xFFFFFFFF for i in (0, 2, 4)]") == [1, 2, 3]


def test_process_details(client: Client, driver: Driver) -> None:
    hopper = card(A, capability="9.0")
    kinds = ("compute", "graphics", "mps", "compute")
    driver.says(
        hopper,
        *(
            statement("process", card=A, pid=pid, used=pid, kind=kind)
            for pid, kind in enumerate(kinds)
        ),
    )
    client.do("nvmlInit(); h = nvmlDeviceGetHandleByIndex(0); v = nvmlProcessDetailList_v1")
    for mode, pids in ((0, [0, 3]), (1, [1]), (2, [2])):
        client.do(f"ps = nvmlDeviceGetRunningProcessDetailList(h, v, {mode})")
        assert client.do("[p.pid for p in ps]") == pids
        assert client.do("[p.usedGpuMemory for p in ps]") == pids


def test_process_details_came_with_hopper(client: Client, driver: Driver) -> None:
    first_card(client, driver, capability="8.0")
    with raises("NotSupported"):
        client.do("nvmlDeviceGetRunningProcessDetailList(h, pynvml.nvmlProcessDetailList_v1, 0)")
    with raises("InvalidArgument"):
        client.do("nvmlDeviceGetRunningProcessDetailList(h, 1, 0)")


# MIG.


def test_mig_mode(client: Client, driver: Driver) -> None:
    first_card(client, driver, capability="8.0", mig="disabled")
    assert client.do("nvmlDeviceGetMigMode(h)") == [0, 0]
    assert client.do("nvmlDeviceGetMaxMigDeviceCount(h)") == 0
    driver.says(card(A, capability="8.0", mig="disabled", mig_pending="enabled"))
    assert client.do("nvmlDeviceGetMigMode(h)") == [0, 1]
    driver.says(card(A, capability="8.0", mig="enabled"))
    assert client.do("nvmlDeviceGetMigMode(h)") == [1, 1]
    assert client.do("nvmlDeviceGetMaxMigDeviceCount(h)") == 7
    for call in ("UtilizationRates(h)", "RemappedRows(h)"):
        with raises("NotSupported"):
            client.do(f"nvmlDeviceGet{call}")


def test_mig_devices(client: Client, driver: Driver) -> None:
    mig = statement("mig", card=A, uuid=MIG, name="A100 MIG 1g.5gb", total=4864 * MIB)
    process = statement("process", card=MIG, pid=5, used=MIB)
    a100 = card(A, capability="8.0", mig="enabled")
    driver.says(a100, mig, process)
    client.do("nvmlInit(); h = nvmlDeviceGetHandleByIndex(0)")
    assert client.do("nvmlDeviceGetCount()") == 1  # a MIG device is no card
    client.do("m = nvmlDeviceGetMigDeviceHandleByIndex(h, 0)")
    assert client.do("nvmlDeviceGetUUID(m)") == MIG
    assert client.do("nvmlDeviceGetMemoryInfo(m).total") == 4864 * MIB
    assert client.do("[nvmlDeviceIsMigDeviceHandle(x).value for x in (h, m)]") == [0, 1]
    assert client.do("nvmlDeviceGetUUID(nvmlDeviceGetHandleByUUID(nvmlDeviceGetUUID(m)))") == MIG
    assert client.do("nvmlDeviceGetUUID(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(m))") == A
    assert client.do("[nvmlDeviceGetGpuInstanceId(m), nvmlDeviceGetComputeInstanceId(m)]") == [1, 0]
    for handle in ("h", "m"):  # the card sums up its MIG devices
        client.do(f"[p] = nvmlDeviceGetComputeRunningProcesses_v3({handle})")
        assert client.do("[p.pid, p.gpuInstanceId, p.computeInstanceId]") == [5, 1, 0]
    with raises("NotFound"):
        client.do("nvmlDeviceGetMigDeviceHandleByIndex(h, 1)")
    with raises("InvalidArgument"):
        client.do("nvmlDeviceGetMigDeviceHandleByIndex(h, 7)")
    with raises("InvalidArgument"):
        client.do("nvmlDeviceGetPowerUsage(m)")
    driver.says(a100)
    with raises("InvalidArgument"):
        client.do("nvmlDeviceGetUUID(m)")


# Cards that are not well.


def test_a_lost_card_answers_nothing_until_the_next_init(client: Client, driver: Driver) -> None:
    driver.says(card(A), card(B), card(C))
    client.do("nvmlInit(); hs = [nvmlDeviceGetHandleByIndex(i) for i in range(3)]")
    driver.says(card(A), card(B, state="GPU_IS_LOST"), card(C))
    assert client.do("nvmlDeviceGetCount()") == 3
    for call in (
        "nvmlDeviceGetHandleByIndex(1)",
        f"nvmlDeviceGetHandleByUUID('{B}')",
        "nvmlDeviceGetUUID(hs[1])",
        "nvmlDeviceGetMemoryInfo(hs[1])",
    ):
        with raises("GpuIsLost"):
            client.do(call)
    assert client.do("[nvmlDeviceGetUUID(hs[i]) for i in (0, 2)]") == [A, C]
    assert client.do(f"nvmlDeviceGetUUID(nvmlDeviceGetHandleByUUID('{C}'))") == C
    driver.says(card(A), card(B), card(C))
    with raises("GpuIsLost"):
        client.do("nvmlDeviceGetHandleByIndex(1)")
    client.do("nvmlShutdown(); nvmlInit()")
    assert client.do("nvmlDeviceGetUUID(nvmlDeviceGetHandleByIndex(1))") == B


def test_a_card_that_needs_a_reset_still_says_who_it_is(client: Client, driver: Driver) -> None:
    first_card(client, driver, state="RESET_REQUIRED")
    assert client.do("nvmlDeviceGetUUID(h)") == A
    for call in ("MemoryInfo(h)", "UtilizationRates(h)", "ComputeRunningProcesses(h)"):
        with raises("ResetRequired"):
            client.do(f"nvmlDeviceGet{call}")


def test_a_card_that_vanishes_is_lost_until_the_next_init(client: Client, driver: Driver) -> None:
    driver.says(card(A), card(B))
    client.do("nvmlInit(); h = nvmlDeviceGetHandleByIndex(0)")
    driver.says(card(B), card(C))
    assert client.do("nvmlDeviceGetCount()") == 2
    for call in ("nvmlDeviceGetHandleByIndex(0)", "nvmlDeviceGetName(h)"):
        with raises("GpuIsLost"):
            client.do(call)
    client.do("nvmlShutdown(); nvmlInit()")
    uuids = "[nvmlDeviceGetUUID(nvmlDeviceGetHandleByIndex(i)) for i in (0, 1)]"
    assert client.do(uuids) == [B, C]


def test_cards_may_be_told_to_come_and_go_at_once(client: Client, driver: Driver) -> None:
    driver.says("enumerate live", card(A), card(B))
    client.do("nvmlInit(); h = nvmlDeviceGetHandleByIndex(1)")
    driver.says("enumerate live", card(B), card(C), card(A))
    assert client.do("nvmlDeviceGetCount()") == 3
    assert client.do("[nvmlDeviceGetUUID(h), nvmlDeviceGetIndex(h)]") == [B, 0]
    driver.says("enumerate live", card(A))
    assert client.do("nvmlDeviceGetCount()") == 1
    with raises("GpuIsLost"):
        client.do("nvmlDeviceGetUUID(h)")


def test_single_functions_fail_for_all_cards_or_one(client: Client, driver: Driver) -> None:
    cards = [card(A), card(B)]
    driver.says(*cards)
    client.do("nvmlInit(); a, b = (nvmlDeviceGetHandleByIndex(i) for i in (0, 1))")
    driver.says(*cards, f"fail nvmlDeviceGetMemoryInfo* UNKNOWN {B}", "fail nvmlDeviceGetName 14")
    assert client.do("nvmlDeviceGetMemoryInfo(a).free") > 0
    with raises("Unknown"):
        client.do("nvmlDeviceGetMemoryInfo(b)")
    for handle in ("a", "b"):
        with raises("CorruptedInforom"):
            client.do(f"nvmlDeviceGetName({handle})")


def test_a_call_may_take_its_time_while_others_do_not(client: Client, driver: Driver) -> None:
    first_card(client, driver)
    driver.says(card(A), "delay nvmlDeviceGetName 150")
    start = time.monotonic()
    client.do("nvmlDeviceGetName(h)")
    assert time.monotonic() - start >= 0.15
    driver.says(card(A), "delay nvmlDeviceGetN* 600000")
    client.do("import concurrent.futures; pool = concurrent.futures.ThreadPoolExecutor()")
    client.do("hanging = pool.submit(nvmlDeviceGetName, h)")
    while driver.calls().count("nvmlDeviceGetName") < 2:
        time.sleep(0.01)
    assert client.do("nvmlDeviceGetUUID(h)") == A
    assert not client.do("hanging.done()")
    driver.says(card(A))
    assert client.do("hanging.result(10)") == "Tesla T4"


def test_a_library_works_with_the_driver_it_came_with(tmp_path: Path) -> None:
    driver = Driver(build(tmp_path, version="570.1"), tmp_path)
    driver.says(card(A), statement("driver", version="580.2"))
    with Client(driver) as client:
        with raises("LibRmVersionMismatch"):
            client.do("nvmlInit()")
        driver.says(card(A), statement("driver", version="570.1"))
        client.do("nvmlInit()")
        assert client.do("nvmlSystemGetDriverVersion()") == "570.1"


# Events.


def test_an_xid_reaches_who_registered_for_it_once(client: Client, driver: Driver) -> None:
    cards = [card(A), card(B)]
    xids = [statement("event", card=A, xid=xid) for xid in (31, 79, 94)]
    driver.says(*cards, xids[0])  # before anybody registered: not recorded
    client.do("nvmlInit(); a, b = (nvmlDeviceGetHandleByIndex(i) for i in (0, 1))")
    client.do("s, t = nvmlEventSetCreate(), nvmlEventSetCreate()")
    client.do("nvmlDeviceRegisterEvents(a, nvmlEventTypeXidCriticalError, s)")
    client.do("nvmlDeviceRegisterEvents(b, nvmlEventTypeXidCriticalError, t)")
    with raises("Timeout"):
        client.do("nvmlEventSetWait(s, 0)")
    driver.says(*cards, *xids)
    for xid in (79, 94):
        client.do("e = nvmlEventSetWait(s, 1000)")
        assert client.do("[e.eventType, e.eventData, nvmlDeviceGetUUID(e.device)]") == [8, xid, A]
        assert client.do("[e.gpuInstanceId, e.computeInstanceId]") == [0xFFFFFFFF] * 2
    for events in ("s", "t"):
        with raises("Timeout"):
            client.do(f"nvmlEventSetWait({events}, 0)")


def test_waiting_takes_the_time_given_and_lets_other_threads_call(
    client: Client, driver: Driver
) -> None:
    first_card(client, driver)
    client.do("import concurrent.futures, time; s = nvmlEventSetCreate()")
    client.do("nvmlDeviceRegisterEvents(h, nvmlEventTypeXidCriticalError, s)")
    client.do("pool = concurrent.futures.ThreadPoolExecutor()")
    client.do("waiting = pool.submit(nvmlEventSetWait, s, 20000)")
    assert client.do("nvmlDeviceGetUUID(h)") == A
    assert not client.do("waiting.done()")
    driver.says(card(A), statement("event", card=A, xid=48))
    assert client.do("waiting.result(10).eventData") == 48
    start = time.monotonic()
    with raises("Timeout"):
        client.do("nvmlEventSetWait(s, 150)")
    assert time.monotonic() - start >= 0.15


def test_event_types(client: Client, driver: Driver) -> None:
    first_card(client, driver, events=0xB)
    client.do("s = nvmlEventSetCreate()")
    assert client.do("nvmlDeviceGetSupportedEventTypes(h)") == 0xB
    with raises("NotSupported"):
        client.do("nvmlDeviceRegisterEvents(h, 0x4 | 0x8, s)")
    with raises("InvalidArgument"):
        client.do("nvmlDeviceRegisterEvents(h, 1 << 60, s)")
    client.do("nvmlDeviceRegisterEvents(h, 0x2, s)")
    driver.says(
        card(A, events=0xB),
        statement("event", card=A, xid=79),
        statement("event", card=A, type=2),
    )
    assert client.do("e = nvmlEventSetWait(s, 0); [e.eventType, e.eventData]") == [2, 0]


def test_the_first_version_of_an_event_ends_before_the_instances(
    client: Client, driver: Driver
) -> None:
    first_card(client, driver)
    client.do("s = nvmlEventSetCreate(); nvmlDeviceRegisterEvents(h, 8, s)")
    driver.says(card(A), statement("event", card=A, xid=79))
    client.do("e = pynvml.c_nvmlEventData_t(gpuInstanceId=1, computeInstanceId=2)")
    assert client.do("pynvml.nvmlLib.nvmlEventSetWait(s, ctypes.byref(e), 0)") == 0
    assert client.do("[e.eventData, e.gpuInstanceId, e.computeInstanceId]") == [79, 1, 2]


def test_a_lost_card_ends_the_wait_after_its_last_event(client: Client, driver: Driver) -> None:
    first_card(client, driver)
    client.do("s = nvmlEventSetCreate(); nvmlDeviceRegisterEvents(h, 8, s)")
    driver.says(card(A, state="GPU_IS_LOST"), statement("event", card=A, xid=79))
    assert client.do("nvmlEventSetWait(s, 0).eventData") == 79
    with raises("GpuIsLost"):
        client.do("nvmlEventSetWait(s, 20000)")


def test_a_freed_set_is_gone(client: Client, driver: Driver) -> None:
    first_card(client, driver)
    client.do("s = nvmlEventSetCreate(); nvmlEventSetFree(s)")
    for call in ("nvmlEventSetWait(s, 0)", "nvmlDeviceRegisterEvents(h, 8, s)"):
        with raises("InvalidArgument"):
            client.do(call)


# The fake itself.


def test_an_older_driver_lacks_the_newer_symbols(old_driver: Driver) -> None:
    old_driver.says(card(A))
    with Client(old_driver) as client:
        client.do("nvmlInit(); h = nvmlDeviceGetHandleByIndex(0)")
        assert client.do("nvmlDeviceGetMemoryInfo(h).free") > 0
        for call in (
            "MemoryInfo(h, nvmlMemory_v2)",
            "ComputeRunningProcesses_v2(h)",
            "MPSComputeRunningProcesses_v3(h)",
        ):
            with raises("FunctionNotFound"):
                client.do(f"nvmlDeviceGet{call}")
        with pytest.raises(Raised, match=r"^NVMLLibraryMismatchError: "):
            client.do("nvmlDeviceGetComputeRunningProcesses(h)")


def test_calls_are_logged(client: Client, driver: Driver) -> None:
    first_card(client, driver)
    assert driver.calls() == ["nvmlInitWithFlags", "nvmlDeviceGetHandleByIndex_v2"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("crad uuid=GPU-1", "not understood: crad"),
        ("card uuid=GPU-1 colour=red", "no such key: colour=red"),
        ("card uuid=T4", "a card needs uuid=GPU-...: T4"),
        ("card uuid=GPU-1 total=16GB", "not a number: 16GB"),
        ("card uuid=GPU-1 mig=on", "not one of the words for this key: on"),
        ("card uuid=GPU-1 total=1 used=2", "more memory in use than there is: GPU-1"),
        ('card uuid="GPU-1', "a quote is not closed"),
        ("fail nvmlInit", "wants: fail FUNCTION CODE"),
        ("delay nvmlInit", "wants: delay FUNCTION MILLISECONDS"),
        ("init NO_SUCH_CODE", "not a number: NO_SUCH_CODE"),
        ("mig card=GPU-1 uuid=MIG-1", "needs uuid=MIG-... and card= of a card"),
    ],
)
def test_a_scenario_that_is_not_understood_ends_the_process(
    client: Client, driver: Driver, line: str, complaint: str
) -> None:
    driver.says("# a comment", line)
    with pytest.raises(RuntimeError) as failure:
        client.do("nvmlInit()")
    assert f":2: {complaint}" in str(failure.value)


def test_a_build_without_compiler_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="apt-get install gcc"):
        build(tmp_path)


def test_a_build_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / LIBRARY).mkdir()  # where the library should go
    with pytest.raises(RuntimeError, match=r"gcc cannot build the fake driver:\n.*Is a directory"):
        build(tmp_path)
