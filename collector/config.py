"""The collector's settings: defaults < TOML file < environment < flags."""

import difflib
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from lockstep.collector.contract.stacks import Depth

# How one setting's text, number or list becomes its value; a wrong one is named.

_UNITS = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
MOST_SECONDS = 1e9
"""A larger number is a slip, and may not even fit a float."""
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", re.ASCII)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")


class ConfigError(ValueError):
    """A setting is wrong; the message names it and what would be right."""


class ConfigFileError(ConfigError):
    """A configuration file cannot be read at all."""


class Address(NamedTuple):
    """A host and a port; to listen on port 0 takes any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def address(name: str, value: Any) -> Address:
    """HOST:PORT, an IPv6 host in brackets."""
    host, colon, port = str(value).rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    bare_ipv6 = ":" in host and not str(value).startswith("[")
    if not colon or not host or bare_ipv6 or not re.fullmatch(r"[0-9]{1,5}", port):
        raise ConfigError(f"{name} is {value!r}; it must be HOST:PORT, as 127.0.0.1:9410")
    if int(port) > 65535:
        raise ConfigError(f"{name} is {value!r}; the port must be 0 to 65535")
    return Address(host, int(port))


def addresses(name: str, value: Any) -> tuple[Address, ...]:
    """A list of HOST:PORT, or their text with commas between."""
    return tuple(address(name, part) for part in names(name, value))


def seconds(name: str, value: Any) -> float:
    """A number of seconds, or a duration with its unit."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and abs(value) <= MOST_SECONDS:
        return float(value)
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ConfigError(f"{name} is {value!r}; it must be seconds, as 0.5, 500ms, 10s or 1m")
    return float(match[1]) * _UNITS[match[2]]


def count(name: str, value: Any) -> int:
    """A whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        return int(value)
    raise ConfigError(f"{name} is {value!r}; it must be a whole number")


def names(name: str, value: Any) -> tuple[str, ...]:
    """A list of words, or their text with commas between."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ConfigError(f"{name} is {value!r}; it must be a list, as ['one', 'two'] or one,two")
    return tuple(part.strip() for part in parts if part.strip())


def path(name: str, value: Any) -> Path:
    """A path."""
    if not isinstance(value, (str, Path)) or not str(value) or "\0" in str(value):
        raise ConfigError(f"{name} is {value!r}; it must be a path")
    return Path(value)


def prefix(name: str, value: Any) -> str:
    """A path to which a number will be put."""
    return str(path(name, value))


def name(setting: str, value: Any) -> str:
    """The name of a node: printable, without spaces."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise ConfigError(
        f"{setting} is {str(value)[:80]!r}; it must be a node's name: up to 253 letters, digits,"
        " dots, hyphens and underscores"
    )


def url(name: str, value: Any) -> str:
    """An http or https URL."""
    if isinstance(value, str) and re.fullmatch(r"https?://[^\s/]+(/\S*)?", value):
        return value
    raise ConfigError(f"{name} is {value!r}; it must be a URL, as http://127.0.0.1:9400/metrics")


def switch(name: str, value: Any) -> bool:
    """A truth value."""
    text = str(value).lower() if isinstance(value, (bool, str)) else ""
    if text in ("true", "false"):
        return text == "true"
    raise ConfigError(f"{name} is {value!r}; it must be true or false")


def one_of(words: Sequence[str]) -> Callable[[str, Any], str]:
    """One of these words."""

    def word(name: str, value: Any) -> str:
        if value in words:
            return str(value)
        raise ConfigError(f"{name} is {value!r}; it must be one of {', '.join(words)}")

    return word


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


DEFAULT_LISTEN = Address("127.0.0.1", 9410)
DEFAULT_RAS = Address("localhost", 28028)
"""Where NCCL's RAS answers unless NCCL_RAS_ADDR says otherwise (NCCL documentation)."""

RAS_POLLING = ("guarded", "always", "never")
"""When RAS is asked; the first is the default."""

# Kubernetes puts these into every pod for a Service named lockstep-collector.
_SERVICE_LINK = re.compile(r"SERVICE_(HOST|PORT)(_.*)?|PORT(_.*)?")


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that decides what the collector does.

    Attributes:
        listen: Address of the page.
        sources: Names of the sources to read; None reads all.
        state_dir: Folder in which counters outlive a restart; None keeps nothing.
        fast_period: Seconds between readings of what changes every step.
        slow_period: Seconds between readings of what hardly changes.
        ttl: Seconds after which a value that was not renewed leaves the page.
        series_cap: Series on the page at most.
        proc: Where procfs is mounted.
        sys: Where sysfs is mounted.
        lockstep_dir: Folder of the rank rings.
        kmsg: The kernel's log, read for the driver's XIDs.
        pod_resources: The kubelet's socket that tells which pod has which GPU.
        ras: Where NCCL's RAS is asked.
        ras_polling: guarded: once a run has made a step, where asking is not known to crash NCCL;
            always; never.
        inspector_dir: Folder of NCCL Inspector's files, besides those that the ranks name.
        flight_recorder: What stands before the rank in the names of the flight recorder's dumps,
            besides those that the ranks name.
        virtual_devices: Whether network devices without hardware are shown.
        web_config_file: TLS and users, in the format of Prometheus' exporter toolkit.
        legacy_dcgm: Whether `/metrics/dcgm` serves GPUs under the names of dcgm-exporter.
        dcgm_exporter: URL of a dcgm-exporter's page, read where NVML and DCGM are not there.
        replay: Folder of a capture that is played in place of this machine's GPUs.
        dumps: Whether flight-recorder dumps of ranks are served.
        stacks: Whether stacks of ranks are served: off, python, or native as well.
        node_name: Name of the node, where the host name is another's, as in a pod.
        node: Name of the emulated node, or None on a real one.
    """

    listen: Address = DEFAULT_LISTEN
    sources: tuple[str, ...] | None = None
    state_dir: Path | None = None
    fast_period: float = 1.0
    slow_period: float = 30.0
    ttl: float = 5.0
    series_cap: int = 2500
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    lockstep_dir: Path = Path("/dev/shm/lockstep")  # noqa: S108 - the folder both sides agree on
    kmsg: Path = Path("/dev/kmsg")
    pod_resources: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    ras: tuple[Address, ...] = (DEFAULT_RAS,)
    ras_polling: str = RAS_POLLING[0]
    inspector_dir: Path | None = None
    flight_recorder: str | None = None
    virtual_devices: bool = False
    web_config_file: Path | None = None
    legacy_dcgm: bool = False
    dcgm_exporter: str | None = None
    replay: Path | None = None
    dumps: bool = True
    stacks: Depth = Depth.OFF
    node_name: str | None = None
    node: str | None = None

    def __post_init__(self) -> None:
        for name in ("fast_period", "slow_period", "ttl"):
            if not 0.01 <= getattr(self, name) <= 3600:
                raise ConfigError(
                    f"{name} is {getattr(self, name):g} s; it must be between 0.01 s and 3600 s"
                )
        if self.ttl < 2 * self.fast_period:
            raise ConfigError(
                f"ttl is {self.ttl:g} s; it must be at least twice fast_period"
                f" ({2 * self.fast_period:g} s), or values vanish between two readings"
            )
        if self.sources == ():
            raise ConfigError("sources is empty; name at least one, or leave it out to read all")
        if self.series_cap < 1:
            raise ConfigError(f"series_cap is {self.series_cap}; it must be at least 1")


def load(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Config:
    """The settings from all three places, the stronger one winning key by key.

    Args:
        file: A TOML file with the tables of SETTINGS, or None.
        environment: `LOCKSTEP_<SECTION>_<KEY>` and what the libraries read themselves count.
        flags: Values by field name of Config; None = not given.

    Raises:
        ConfigError: The file cannot be read, a key is unknown, or a value is wrong.
    """
    values: dict[str, Any] = {}
    if file is not None:
        values |= _from_file(file)
    values |= _from_environment(environment)
    for name, value in flags.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            values[name] = SETTINGS[name].parse(option, value) if name in SETTINGS else value
    return Config(**values)


def nearest(name: str, known: Collection[str]) -> str:
    """A sentence part that names the right spelling, or all of them."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"


def _from_file(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            tables = tomllib.load(stream)
    except OSError as error:
        raise ConfigFileError(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigFileError(f"{file} is not TOML: {error}") from error
    sections: dict[str, dict[str, str]] = {}
    for field, setting in SETTINGS.items():
        sections.setdefault(setting.section, {})[setting.key] = field
    values: dict[str, Any] = {}
    for section, table in tables.items():
        if section not in sections or not isinstance(table, dict):
            raise ConfigError(f"{file}: unknown section {section}; {nearest(section, [*sections])}")
        for key, value in table.items():
            if key not in sections[section]:
                raise ConfigError(
                    f"{file}: unknown key {key} in [{section}];"
                    f" {nearest(key, [*sections[section]])}"
                )
            field = sections[section][key]
            values[field] = SETTINGS[field].parse(f"{section}.{key}", value)
    return values


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field, setting in SETTINGS.items():
        for name in (*setting.also, setting.variable):
            # An empty variable of a library is one that is not set.
            if name in environment and (environment[name] or name == setting.variable):
                values[field] = setting.parse(name, environment[name])
    ours = [setting.variable for setting in SETTINGS.values()]
    sections = {setting.section for setting in SETTINGS.values()}
    for name in sorted(environment.keys() - ours):
        for section in sections:
            start = f"{PREFIX}{section.upper()}_"
            if name.startswith(start) and not _SERVICE_LINK.fullmatch(name.removeprefix(start)):
                raise ConfigError(f"unknown environment variable {name}; {nearest(name, ours)}")
    return values


def _depth(name: str, value: Any) -> Depth:
    return Depth(one_of([depth.value for depth in Depth])(name, value))


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
    "listen": Setting("collector", "listen", address),
    "state_dir": Setting("collector", "state_dir", path),
    "sources": Setting("collector", "sources", names),
    "fast_period": Setting("collector", "fast_period", seconds),
    "slow_period": Setting("collector", "slow_period", seconds),
    "ttl": Setting("collector", "ttl", seconds),
    "series_cap": Setting("collector", "series_cap", count),
    "dcgm_exporter": Setting("collector", "dcgm_exporter", url),
    "replay": Setting("collector", "replay", path),
    "dumps": Setting("collector", "dumps", switch),
    "stacks": Setting("collector", "stacks", _depth),
    "node_name": Setting("collector", "node_name", name),
    "proc": Setting("paths", "proc", path),
    "sys": Setting("paths", "sys", path),
    "lockstep_dir": Setting("paths", "lockstep_dir", path, ("LOCKSTEP_DIR",)),
    "kmsg": Setting("paths", "kmsg", path),
    "pod_resources": Setting("paths", "pod_resources", path),
    "ras": Setting("nccl", "ras", addresses, ("NCCL_RAS_ADDR",)),
    "ras_polling": Setting("nccl", "ras_polling", one_of(RAS_POLLING)),
    "inspector_dir": Setting("nccl", "inspector_dir", path, ("NCCL_INSPECTOR_DUMP_DIR",)),
    "flight_recorder": Setting(
        "nccl",
        "flight_recorder",
        prefix,
        ("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE"),
    ),
    "virtual_devices": Setting("network", "virtual_devices", switch),
    "web_config_file": Setting("web", "config_file", path),
    "legacy_dcgm": Setting("web", "legacy_dcgm", switch),
}
"""By field of Config. What is not here (the name of an emulated node) is a flag only."""
