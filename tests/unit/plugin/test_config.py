from pathlib import Path

import pytest

from plugin.config import Config
from vgpu.settings import SettingsError, read


def test_every_setting() -> None:
    environ = {
        "MILLIGPU_INVENTORY": "simulated",
        "MILLIGPU_INVENTORY_FILE": "/inventory.json",
        "MILLIGPU_SIMULATE_BESIDE_GPUS": "true",
        "MILLIGPU_CARDS": " GPU-a, 1 ,Tesla T4,",
        "MILLIGPU_CARDS_EXCEPT": "0",
        "MILLIGPU_BESIDE_OTHERS": "true",
        "MILLIGPU_SETTLE_SECONDS": "0",
        "MILLIGPU_PLACEMENT": "spread",
        "MILLIGPU_ADVERTISE": "largest-hole",
        "MILLIGPU_DEVICE_PLUGIN_DIR": "/plugins",
        "MILLIGPU_POD_RESOURCES": "/pods.sock",
        "MILLIGPU_POLL_SECONDS": "1",
        "MILLIGPU_NODE_NAME": "n1",
        "MILLIGPU_DEVICE_LIST_STRATEGY": "cdi",
        "MILLIGPU_CDI_DIR": "/cdi",
        "MILLIGPU_CDI_KIND": "nvidia.com/gpu",
        "MILLIGPU_DEV_DIR": "/host/dev",
        "MILLIGPU_DRIVER_ROOT": "/opt/driver",
        "MILLIGPU_MEMORY_MARGIN_MIB": "0",
        "MILLIGPU_PROBE_SECONDS": "0.5",
        "MILLIGPU_IGNORED_XIDS": "79, 48",
        "MILLIGPU_HOST": "::1",
        "MILLIGPU_PORT": "1",
        "MILLIGPU_LOG_LEVEL": "debug",
    }
    assert read(Config, environ) == Config(
        inventory="simulated",
        inventory_file="/inventory.json",
        simulate_beside_gpus=True,
        cards=("GPU-a", "1", "Tesla T4"),
        cards_except=("0",),
        beside_others=True,
        settle_seconds=0,
        placement="spread",
        advertise="largest-hole",
        device_plugin_dir=Path("/plugins"),
        pod_resources=Path("/pods.sock"),
        poll_seconds=1,
        node_name="n1",
        device_list_strategy="cdi",
        cdi_dir=Path("/cdi"),
        cdi_kind="nvidia.com/gpu",
        dev_dir=Path("/host/dev"),
        driver_root="/opt/driver",
        memory_margin_mib=0,
        probe_seconds=0.5,
        ignored_xids=frozenset({48, 79}),
        host="::1",
        port=1,
        log_level="debug",
    )
    assert len(environ) == len(Config.__dataclass_fields__), "every one of them"


def test_all_bad_settings_in_one_message() -> None:
    environ = {
        "MILLIGPU_INVENTORY": "amd",
        "MILLIGPU_BESIDE_OTHERS": "perhaps",
        "MILLIGPU_SETTLE_SECONDS": "-1",
        "MILLIGPU_PLACEMENT": "random",
        "MILLIGPU_ADVERTISE": "never",
        "MILLIGPU_DEVICE_PLUGIN_DIR": "plugins",
        "MILLIGPU_POD_RESOURCES": "pods.sock",
        "MILLIGPU_POLL_SECONDS": "0",
        "MILLIGPU_DEVICE_LIST_STRATEGY": "mounts",
        "MILLIGPU_CDI_KIND": "gpu",
        "MILLIGPU_MEMORY_MARGIN_MIB": "-1",
        "MILLIGPU_PROBE_SECONDS": "0",
        "MILLIGPU_IGNORED_XIDS": "79,all",
        "MILLIGPU_PORT": "65536",
        "MILLIGPU_COLOUR": "red",
    }
    with pytest.raises(SettingsError) as refusal:
        read(Config, environ)
    for name in environ:
        assert name in str(refusal.value)
    assert "must be an absolute path" in str(refusal.value)
    assert "must be vendor/class" in str(refusal.value)
