"""The collector's settings: defaults < TOML file < environment < flags."""

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

LOCKSTEP_DIR = "LOCKSTEP_DIR"
"""Environment variable that the ranks read too; LOCKSTEP_PATHS_LOCKSTEP_DIR is stronger."""
PREFIX = "LOCKSTEP_"

_UNITS = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")
# Kubernetes puts these into every pod for a Service named lockstep-collector.
_SERVICE_LINK = re.compile(r"SERVICE_(HOST|PORT)(_.*)?|PORT(_.*)?")


class ConfigError(ValueError):
    """A setting is wrong; the message names it and what would be right."""


class ConfigFileError(ConfigError):
    """A configuration file cannot be read at all."""


class Address(NamedTuple):
    """Where the page is served; port 0 takes any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


DEFAULT_LISTEN = Address("127.0.0.1", 9410)


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
        web_config_file: TLS and users, in the format of Prometheus' exporter toolkit.
        legacy_dcgm: Whether `/metrics/dcgm` serves GPUs under the names of dcgm-exporter.
        dcgm_exporter: URL of a dcgm-exporter's page, read where NVML and DCGM are not there.
        replay: Folder of a capture that is played in place of this machine's GPUs.
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
    web_config_file: Path | None = None
    legacy_dcgm: bool = False
    dcgm_exporter: str | None = None
    replay: Path | None = None
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
        if self.series_cap < 1:
            raise ConfigError(f"series_cap is {self.series_cap}; it must be at least 1")


def load(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Config:
    """The settings from all three places, the stronger one winning key by key.

    Args:
        file: A TOML file with the tables [collector], [paths] and [web], or None.
        environment: `LOCKSTEP_<SECTION>_<KEY>` and LOCKSTEP_DIR count; others are ignored.
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
            parse = _PARSERS.get(name, _same)
            values[name] = parse(f"--{name.replace('_', '-')}", value)
    return Config(**values)


def nearest(name: str, known: list[str]) -> str:
    """A sentence part that names the right spelling, or all of them."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"


def _from_file(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            tables = tomllib.load(stream)
    except OSError as error:
        raise ConfigFileError(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigFileError(f"{file} is not TOML: {error}") from error
    values: dict[str, Any] = {}
    for section, table in tables.items():
        if section not in _SECTIONS or not isinstance(table, dict):
            raise ConfigError(
                f"{file}: unknown section {section}; {nearest(section, [*_SECTIONS])}"
            )
        for key, value in table.items():
            if key not in _SECTIONS[section]:
                raise ConfigError(
                    f"{file}: unknown key {key} in [{section}];"
                    f" {nearest(key, list(_SECTIONS[section]))}"
                )
            field = _SECTIONS[section][key]
            values[field] = _PARSERS[field](f"{section}.{key}", value)
    return values


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if LOCKSTEP_DIR in environment:
        values["lockstep_dir"] = _path(LOCKSTEP_DIR, environment[LOCKSTEP_DIR])
    names = {
        f"{PREFIX}{section}_{key}".upper(): field
        for section, keys in _SECTIONS.items()
        for key, field in keys.items()
    }
    for name, value in sorted(environment.items()):
        if name in names:
            values[names[name]] = _PARSERS[names[name]](name, value)
            continue
        for section in _SECTIONS:
            start = f"{PREFIX}{section.upper()}_"
            if name.startswith(start) and not _SERVICE_LINK.fullmatch(name.removeprefix(start)):
                raise ConfigError(
                    f"unknown environment variable {name}; {nearest(name, list(names))}"
                )
    return values


def _address(name: str, value: Any) -> Address:
    host, colon, port = str(value).rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    bare_ipv6 = ":" in host and not str(value).startswith("[")
    if not colon or not host or bare_ipv6 or not re.fullmatch(r"[0-9]{1,5}", port):
        raise ConfigError(f"{name} is {value!r}; it must be HOST:PORT, as 127.0.0.1:9410")
    if int(port) > 65535:
        raise ConfigError(f"{name} is {value!r}; the port must be 0 to 65535")
    return Address(host, int(port))


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ConfigError(f"{name} is {value!r}; it must be seconds, as 0.5, 500ms, 10s or 1m")
    return float(match[1]) * _UNITS[match[2]]


def _count(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        return int(value)
    raise ConfigError(f"{name} is {value!r}; it must be a whole number")


def _names(name: str, value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ConfigError(f"{name} is {value!r}; it must be a list of source names")
    return tuple(part.strip() for part in parts if part.strip())


def _path(name: str, value: Any) -> Path:
    if not isinstance(value, (str, Path)) or not str(value):
        raise ConfigError(f"{name} is {value!r}; it must be a path")
    return Path(value)


def _url(name: str, value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"https?://[^\s/]+(/\S*)?", value):
        return value
    raise ConfigError(f"{name} is {value!r}; it must be a URL, as http://127.0.0.1:9400/metrics")


def _switch(name: str, value: Any) -> bool:
    text = str(value).lower() if isinstance(value, (bool, str)) else ""
    if text in ("true", "false"):
        return text == "true"
    raise ConfigError(f"{name} is {value!r}; it must be true or false")


def _same(_name: str, value: Any) -> Any:
    return value


_PARSERS: dict[str, Callable[[str, Any], Any]] = {
    "listen": _address,
    "state_dir": _path,
    "sources": _names,
    "fast_period": _seconds,
    "slow_period": _seconds,
    "ttl": _seconds,
    "series_cap": _count,
    "proc": _path,
    "sys": _path,
    "lockstep_dir": _path,
    "web_config_file": _path,
    "legacy_dcgm": _switch,
    "dcgm_exporter": _url,
    "replay": _path,
}
_SECTIONS: dict[str, dict[str, str]] = {
    "collector": {
        name: name
        for name in (
            "listen",
            "state_dir",
            "sources",
            "fast_period",
            "slow_period",
            "ttl",
            "series_cap",
            "dcgm_exporter",
            "replay",
        )
    },
    "paths": {name: name for name in ("proc", "sys", "lockstep_dir")},
    "web": {"config_file": "web_config_file", "legacy_dcgm": "legacy_dcgm"},
}
"""Fields of Config by section and key."""
