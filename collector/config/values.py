"""How one setting's text, number or list becomes its value; a wrong one is named."""

import re
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

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
