import pytest

from vgpu import names


@pytest.mark.parametrize(
    "name",
    [
        *("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "amd.com/gpu"),
        *("nvidia.com/mig-7g.80gb", "gpu.intel.com/i915", "gpu.intel.com/xe"),
        *("milligpu.io/vgpu", "milligpu.io/pgpu"),
    ],
)
def test_gpu_resources(name: str) -> None:
    assert names.is_gpu_resource(name)


@pytest.mark.parametrize(
    "name",
    [
        *("nvidia.com/hostdev", "nvidia.com/sriov_rdma_vf", "nvidia.com/gpumem", "cpu", "memory"),
        *("example.com/gpu", "vpc.amazonaws.com/efa", "hugepages-2Mi", "gpu.intel.com/millicores"),
        *("mig-1g.5gb", "x.nvidia.com/gpu", "nvidia.com/gpu2"),
    ],
)
def test_other_resources(name: str) -> None:
    assert not names.is_gpu_resource(name)


@pytest.mark.parametrize(
    "name",
    [
        *("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY"),
        *("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "NVIDIA_GPU_MEMORY_LIMIT", "MILLIGPU_SHARE"),
        *("NVIDIA_GPU_MEMORY_REQUEST", "MILLIGPU_MEMORY_FRACTION", "MILLIGPU_ANYTHING_LATER"),
    ],
)
def test_reserved_variables(name: str) -> None:
    assert names.is_reserved(name)


@pytest.mark.parametrize(
    "name",
    [
        *("PER_PROCESS_GPU_MEMORY_FRACTION", "NVIDIA_DRIVER_CAPABILITIES", "CUDA_HOME", "PATH"),
        *("CUDA_VISIBLE_DEVICES_OLD", "MY_MILLIGPU_SHARE", "nvidia_visible_devices", ""),
    ],
)
def test_variables_that_are_the_users_own(name: str) -> None:
    assert not names.is_reserved(name)


def test_the_variables_of_the_plugin_are_reserved() -> None:
    for name in ("GPU_UUID", "SLOTS", "SHARE", "MEMORY_MIB", "MEMORY_FRACTION"):
        assert getattr(names, f"ENV_{name}") == f"MILLIGPU_{name}"
        assert names.is_reserved(f"MILLIGPU_{name}")


def test_names_as_the_design_spells_them() -> None:
    assert (names.ASK, names.ASK_QUALIFIED, names.COUNT, names.WHOLE) == (
        "gpu",
        "milligpu.io/gpu",
        "milligpu.io/vgpu",
        "milligpu.io/pgpu",
    )
    assert {
        "milligpu.io/gpu",
        "milligpu.io/framework",
        "milligpu.io/cpu-throttle",
        "milligpu.io/share",
    } == names.ANNOTATIONS_KNOWN
    assert (names.LABEL_ADMISSION, names.ADMISSION_DISABLED) == (
        "milligpu.io/admission",
        "disabled",
    )
