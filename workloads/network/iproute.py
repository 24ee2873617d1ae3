"""Calls of iproute2's `ip` and `tc`."""

import shutil
import subprocess
from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Any

from collector.contract import bounded_json

TIMEOUT_SECONDS = 20.0


class NetworkError(OSError):
    """The emulated network cannot be made or changed; the message says why."""


def ip(*lines: str, namespace: str | None = None) -> None:
    """Lines of `ip -batch`, in one process.

    Raises:
        NetworkError: A line was refused.
    """
    place = [] if namespace is None else ["-netns", namespace]
    _run(["ip", *place, "-batch", "-"], "\n".join(lines))


def tc(lines: Sequence[str], namespace: str | None = None) -> None:
    """Lines of `tc -batch` in a namespace, or in the present one, in one process.

    Raises:
        NetworkError: A line was refused.
    """
    place = [] if namespace is None else ["-netns", namespace]
    _run(["tc", *place, "-batch", "-"], "\n".join(lines))


def own_networks() -> list[IPv4Network]:
    """Every IPv4 network that this machine routes or has an address in."""
    found = []
    for words in (["route", "show", "table", "all"], ["address", "show"]):
        for entry in bounded_json.loads(_run(["ip", "-4", "-j", *words], "") or "[]"):
            found += _networks(entry)
    return found


def why_not() -> str:
    """Empty if both programs are there, else what to install."""
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            return f"needs {program} of iproute2: apt-get install iproute2"
    return ""


def _networks(entry: dict[str, Any]) -> list[IPv4Network]:
    told = entry.get("dst", "default")
    if told != "default":
        return [IPv4Network(told, strict=False)]
    return [
        IPv4Network((each["local"], each["prefixlen"]), strict=False)
        for each in entry.get("addr_info", [])
        if "local" in each
    ]


def _run(words: list[str], lines: str) -> str:
    try:
        done = subprocess.run(
            words, input=lines, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise NetworkError(f"{words[0]} is missing: apt-get install iproute2") from error
    except subprocess.TimeoutExpired as error:
        raise NetworkError(f"{' '.join(words)} did not end in {TIMEOUT_SECONDS:g} s") from error
    if done.returncode != 0:
        said = " ".join(done.stderr.split())[:300]
        raise NetworkError(f"{' '.join(words)} was refused: {said}")
    return done.stdout
