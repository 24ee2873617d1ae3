"""Where each setting stands: its table and key in the file, and what the environment calls it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from collector.config import values

PREFIX = "LOCKSTEP_"


class Setting(NamedTuple):
    """One field of Config.

    Attributes:
        section: Table of the file; with the key it makes the name LOCKSTEP_<SECTION>_<KEY>.
        also: Environment variables that a library reads for the same thing, the strongest last;
            LOCKSTEP_<SECTION>_<KEY> is stronger than they.
    """

    section: str
    key: str
    parse: Callable[[str, Any], Any]
    also: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """Our own name of it in the environment."""
        return f"{PREFIX}{self.section}_{self.key}".upper()


SETTINGS: dict[str, Setting] = {
    "listen": Setting("collector", "listen", values.address),
    "state_dir": Setting("collector", "state_dir", values.path),
    "sources": Setting("collector", "sources", values.names),
    "fast_period": Setting("collector", "fast_period", values.seconds),
    "slow_period": Setting("collector", "slow_period", values.seconds),
    "ttl": Setting("collector", "ttl", values.seconds),
    "series_cap": Setting("collector", "series_cap", values.count),
    "dcgm_exporter": Setting("collector", "dcgm_exporter", values.url),
    "replay": Setting("collector", "replay", values.path),
    "proc": Setting("paths", "proc", values.path),
    "sys": Setting("paths", "sys", values.path),
    "lockstep_dir": Setting("paths", "lockstep_dir", values.path, ("LOCKSTEP_DIR",)),
    "kmsg": Setting("paths", "kmsg", values.path),
    "pod_resources": Setting("paths", "pod_resources", values.path),
    "ras": Setting("nccl", "ras", values.addresses, ("NCCL_RAS_ADDR",)),
    "inspector_dir": Setting("nccl", "inspector_dir", values.path, ("NCCL_INSPECTOR_DUMP_DIR",)),
    "flight_recorder": Setting(
        "nccl",
        "flight_recorder",
        values.prefix,
        ("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE"),
    ),
    "virtual_devices": Setting("network", "virtual_devices", values.switch),
    "web_config_file": Setting("web", "config_file", values.path),
    "legacy_dcgm": Setting("web", "legacy_dcgm", values.switch),
}
"""By field of Config. What is not here (the name of an emulated node) is a flag only."""
