from pathlib import Path

import pytest

from plugin.config import Config
from vgpu.settings import SettingsError, read


def test_every_setting() -> None:
    environ = {
        "MILLIGPU_INVENTORY": "simulated",
        "MILLIGPU_INVENTORY_FILE": "/inventory.json",
        "MILLIGPU_SIMULATE_BESIDE_GPUS": "true",
        "MILLIGPU_DEVICE_PLUGIN_DIR": "/plugins",
        "MILLIGPU_DEVICE_LIST_STRATEGY": "envvar",
        "MILLIGPU_MEMORY_MARGIN_MIB": "0",
        "MILLIGPU_PROBE_SECONDS": "0.5",
        "MILLIGPU_HOST": "::1",
        "MILLIGPU_PORT": "1",
        "MILLIGPU_LOG_LEVEL": "debug",
    }
    assert read(Config, environ) == Config(
        inventory="simulated",
        inventory_file="/inventory.json",
        simulate_beside_gpus=True,
        device_plugin_dir=Path("/plugins"),
        device_list_strategy="envvar",
        memory_margin_mib=0,
        probe_seconds=0.5,
        host="::1",
        port=1,
        log_level="debug",
    )


def test_all_bad_settings_in_one_message() -> None:
    environ = {
        "MILLIGPU_INVENTORY": "amd",
        "MILLIGPU_DEVICE_PLUGIN_DIR": "plugins",
        "MILLIGPU_DEVICE_LIST_STRATEGY": "cdi",
        "MILLIGPU_MEMORY_MARGIN_MIB": "-1",
        "MILLIGPU_PROBE_SECONDS": "0",
        "MILLIGPU_PORT": "65536",
        "MILLIGPU_COLOUR": "red",
    }
    with pytest.raises(SettingsError) as refusal:
        read(Config, environ)
    for name in environ:
        assert name in str(refusal.value)
    assert "must be an absolute path" in str(refusal.value)
