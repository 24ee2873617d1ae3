"""What DCGM's values mean, whichever way they came: by field id into the values of a reading."""

import math
from collections.abc import Mapping

from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.gpu import (
    CLOCK_EVENTS,
    FABRIC_HEALTH,
    FABRIC_STATE,
    FABRIC_STATUS,
    FABRIC_SUMMARY,
    Telling,
    Values,
)
from lockstep.collector.sources.dcgm_fields import (
    CLOCK_EVENTS_FIELD,
    DCGM_FIELDS,
    FABRIC_HEALTH_FIELD,
    FABRIC_MANAGER_FIELD,
    FABRIC_SUMMARY_FIELD,
)

BLANK = 0x7FFFFFF0
"""DCGM's smallest 32-bit blank value; larger ones, of 64 bits and as doubles, mean blank too."""
BLANK_64 = 0x7FFFFFFFFFFFFFF0
BLANK_DOUBLE = 140737488355328.0

_OF_FIELD = {
    number: (one, per)
    for one in DCGM_FIELDS
    for number, per in ((one.id, one.per), *((also.id, also.per) for also in one.also))
}
_RAW = {
    CLOCK_EVENTS_FIELD[0]: CLOCK_EVENTS,
    FABRIC_HEALTH_FIELD[0]: FABRIC_HEALTH,
    FABRIC_SUMMARY_FIELD[0]: FABRIC_SUMMARY,
}
REQUESTED, ENFORCED = "requested", "enforced"
"""Kinds of power limit: what was asked for, and the least of it and of what the board allows."""
_NVML_UNKNOWN = 999
_FABRIC: dict[float, tuple[int, int]] = {
    0: (0, 0),
    1: (1, 0),
    2: (2, 0),
    3: (3, 0),
    4: (3, _NVML_UNKNOWN),
}
"""(FABRIC_STATE, FABRIC_STATUS) by dcgmFabricManagerStatus_t; DCGM keeps NVML's code of a failed
registration in a field of its own, which is no metric of ours. Other values tell nothing."""


def blank(value: float) -> bool:
    """Whether DCGM means: not there, not supported, no permission (dcgm_structs.h)."""
    return (
        BLANK <= value <= BLANK + 15
        or value >= BLANK_64
        or (BLANK_DOUBLE <= value <= BLANK_DOUBLE + 15)
    )


class ImplausibleError(ValueError):
    """A value outside the range of its metric."""


def checked(field: int, value: float) -> float | None:
    """The value, or None if it is blank.

    Raises:
        ImplausibleError: It is outside the range of the field's metric.
        ValueError: It is no value.
    """
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    if blank(value):
        return None
    if field in _RAW and not 0 <= value < 1 << 64:
        raise ImplausibleError("no bits of a register")
    one, per = _OF_FIELD.get(field, (None, 1))
    if one is not None and not one.metric.within.holds(value / per):
        low, high, reason = one.metric.within
        raise ImplausibleError(f"{one.legacy} is beyond {low * per:g} to {high * per:g} ({reason})")
    return value


def values(numbers: Mapping[int, float]) -> Values:
    """Values in base units, from DCGM's by field id.

    Where only the average of the power is read, it stands for the present one too; where only the
    requested limit is (dcgm-exporter's own list up to 3.3), for the enforced one.
    """
    said = Telling()
    for one in DCGM_FIELDS:
        for number, per in ((one.id, one.per), *((also.id, also.per) for also in one.also)):
            if number in numbers:
                said.tell(one.metric, numbers[number] / per, "/".join(one.labels))
                break
    for field, word in _RAW.items():
        bits = numbers.get(field)
        said.tell(word, None if bits is None else int(bits))
    for word, code in zip(
        (FABRIC_STATE, FABRIC_STATUS),
        _FABRIC.get(numbers.get(FABRIC_MANAGER_FIELD[0], -1.0), ()),
        strict=False,
    ):
        said.tell(word, code)
    if m.GPU_POWER.name not in said.values and m.GPU_POWER_AVERAGE.name in said.values:
        said.tell(m.GPU_POWER, said.values[m.GPU_POWER_AVERAGE.name][""])
    limits = said.values.get(m.GPU_POWER_LIMIT.name, {})
    if REQUESTED in limits:
        said.tell(m.GPU_POWER_LIMIT, limits.get(ENFORCED, limits[REQUESTED]), ENFORCED)
    return said.values
