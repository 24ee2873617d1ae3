"""What a link fault does to packets: the settings of a SPEC with their units, as numbers."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lockstep.collector.contract.words import FaultKind

LINK_KINDS = (FaultKind.LINK_BANDWIDTH, FaultKind.LINK_DELAY)
LINK_SETTINGS = ("rate", "delay", "jitter", "loss")
LEAST_RATE = 1e6
"""Bits a second: below, a run would stand still for its hang timeout instead of being slow."""
MOST_RATE = 1e11
MOST_DELAY = 1.0
MOST_LOSS = 0.2
"""TCP hardly moves beyond (RFC 9438, section 5.2: its rate falls with the root of the loss)."""

# Units of tc(8), which counts bits a second in thousands.
_RATES = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_NUMBER = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([a-z%]*)")
_ALLOWED = {
    FaultKind.LINK_BANDWIDTH: ("rate",),
    FaultKind.LINK_DELAY: ("delay", "jitter", "loss"),
}


class LinkError(ValueError):
    """A setting of a link fault is wrong; the message names it and what would be right."""


@dataclass(frozen=True, slots=True)
class LinkSetting:
    """What happens to every packet, in each direction; nothing by default.

    Attributes:
        rate: Bits a second at most; None = as fast as it goes.
        delay: Seconds that a packet takes longer.
        jitter: Seconds by which that delay differs at most, evenly spread.
        loss: Share of packets that never arrive.
    """

    rate: float | None = None
    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0

    def scaled(self, strength: float) -> "LinkSetting":
        """The same at a share of its strength, as shapes need: 0 is nothing, 1 is all of it."""
        if strength <= 0.0:
            return LinkSetting()
        rate = None if self.rate is None else self.rate / strength
        return LinkSetting(
            rate, self.delay * strength, self.jitter * strength, self.loss * strength
        )


def parse_link(kind: FaultKind, words: Mapping[str, str]) -> LinkSetting | None:
    """The link's settings of a SPEC; None where it has none, and a factor sizes the fault.

    Args:
        kind: One of LINK_KINDS.
        words: The settings of LINK_SETTINGS that were given, as text; others are not looked at.

    Raises:
        LinkError: A setting that the kind does not take, or a value without meaning.
    """
    given = {name: words[name] for name in LINK_SETTINGS if name in words}
    for name in given:
        if name not in _ALLOWED[kind]:
            allowed = ", ".join(_ALLOWED[kind])
            raise LinkError(f"{kind} takes no {name}; it takes factor, or {allowed}")
    if not given:
        return None
    delay = _number("delay", given, _TIMES, 0.0, MOST_DELAY, "5ms")
    jitter = _number("jitter", given, _TIMES, 0.0, MOST_DELAY, "1ms")
    if (jitter or 0.0) > (delay or 0.0):
        raise LinkError(
            f"jitter={given['jitter']} is more than the delay; a packet cannot arrive before it"
            " was sent: give delay=TIME of at least as much"
        )
    loss = _number("loss", given, {"%": 0.01}, 0.0, MOST_LOSS, "0.5%")
    rate = _number("rate", given, _RATES, LEAST_RATE, MOST_RATE, "200mbit")
    return LinkSetting(rate, delay or 0.0, jitter or 0.0, loss or 0.0)


def _number(
    name: str, given: Mapping[str, str], units: Mapping[str, float], least: float, most: float,
    example: str,
) -> float | None:  # fmt: skip
    if name not in given:
        return None
    text = given[name]
    match = _NUMBER.fullmatch(text)
    if match is None or match[2] not in units:
        raise LinkError(
            f"{name}={text} is not a number with a unit of {', '.join(units)}, as in"
            f" {name}={example}"
        )
    value = round(float(match[1]) * units[match[2]], 12)
    if not (math.isfinite(value) and value > 0.0 and least <= value <= most):
        low, high = (_format_bound(bound, units) for bound in (least, most))
        raise LinkError(f"{name}={text} must be above 0, and from {low} to {high}")
    return value


def _format_bound(value: float, units: Mapping[str, float]) -> str:
    """A bound in the largest unit that leaves a number from 1."""
    fitting = [unit for unit, size in units.items() if value >= size] or [next(iter(units))]
    unit = max(fitting, key=lambda one: units[one])
    return f"{value / units[unit]:g}{unit}"
