"""What two runs were told differently: the leaves of run.json, by their path."""

from collections.abc import Iterator, Mapping
from typing import Any

NOT_COMPARED = ("schema_version", "run", "id", "started", "ended", "command", "clock", "recording",
                "spec.run", "outcome", "measured_peak_flops")  # fmt: skip
"""Of run.json: what differs between any two runs."""


def differing(
    there: Mapping[str, Any], here: Mapping[str, Any]
) -> list[tuple[str, str | None, str | None]]:
    """Path as `spec.layout.dp`, value there, value here; None = it is not said there."""
    old, new = dict(_flat(there)), dict(_flat(here))
    keys = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    return [(key, old.get(key), new.get(key)) for key in keys]


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        name = f"{above}{key}"
        if name in NOT_COMPARED:
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            yield name, str(value)
