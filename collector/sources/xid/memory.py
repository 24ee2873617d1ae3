"""What the counts of XIDs look like in the state folder."""

import math
from collections.abc import Mapping
from typing import Any

from collector.sources.xid.ledger import Falls, Ledger, SwitchKey, XidKey
from collector.sources.xid.twins import Untwinned

Names = Mapping[str, tuple[str, str]]


def written(ledger: Ledger, names: Names, sequence: int | None) -> dict[str, Any]:
    """The counts as JSON values, and the record of the kernel log up to which they go."""
    return {
        "sequence": sequence,
        "names": [[place, *name] for place, name in names.items()],
        "xids": [[*key, count] for key, count in ledger.xids.items()],
        "last": [[*key, unix] for key, unix in ledger.last.items()],
        "falls": [[place, *falls] for place, falls in ledger.falls.items()],
        "switches": [[*key, count] for key, count in ledger.switches.items()],
        "untwinned": [list(one) for one in ledger.twins.alone()],
    }


def read(tree: Any) -> tuple[Ledger, dict[str, tuple[str, str]], int | None]:
    """What `written` was given.

    Raises:
        ValueError: It is not of this form.
    """
    ledger = Ledger()
    try:
        sequence = None if tree["sequence"] is None else _count(tree["sequence"])
        names = {_word(place): (_word(gpu), _word(uuid)) for place, gpu, uuid in tree["names"]}
        for place, xid, source, count in tree["xids"]:
            ledger.xids[XidKey(_word(place), _word(xid), _word(source))] = _count(count)
        for place, xid, unix in tree["last"]:
            ledger.last[_word(place), _word(xid)] = _seconds(unix)
        for place, count, monotonic in tree["falls"]:
            ledger.falls[_word(place)] = Falls(_count(count), _seconds(monotonic))
        for place, sxid, severity, count in tree["switches"]:
            ledger.switches[SwitchKey(_word(place), _word(sxid), _word(severity))] = _count(count)
        ledger.twins.resume(
            Untwinned(_origin(origin), _word(place), _count(xid), _seconds(monotonic))
            for origin, place, xid, monotonic in tree["untwinned"]
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"it is not what was written: {error!r}") from error
    return ledger, names, sequence


def _word(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 128:
        raise ValueError(f"{value!r} is not a word")
    return value


def _origin(value: Any) -> str:
    if value not in ("nvml", "kmsg"):
        raise ValueError(f"{value!r} is neither nvml nor kmsg")
    return str(value)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a time")
    return float(value)
