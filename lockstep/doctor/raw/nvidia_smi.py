"""What `nvidia-smi -q` tells of each GPU: which it is, its memory's errors, why clocks are low."""

import re
from collections.abc import Iterator

_GPU = re.compile(r"GPU (?P<place>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
_ROW = re.compile(r"(?P<indent> {4,40})(?P<name>\S(?:[^:\n]{0,60}[^:\s])?)(?: *: (?P<value>.*))?$")
_INDENT = 4
_REASONS = ("Clocks Event Reasons", "Clocks Throttle Reasons")
"""The section's name since driver 535, and before."""
_NOTHING = frozenset(("N/A", "0", "No", "[N/A]", "Not Active", ""))

Fields = dict[tuple[str, ...], str]
"""Names from the outermost section on -> value, as written."""


def gpus(text: str) -> dict[str, Fields]:
    """Fields by the GPU's place on the PCI bus; of one that is told twice, as it was told last."""
    found: dict[str, Fields] = {}
    driver, here = "", None
    sections: list[str] = []
    for line in text.splitlines():
        if line.startswith("Driver Version"):
            driver = line.partition(":")[2].strip()
        if match := _GPU.match(line):
            here = found[match["place"]] = {("Driver Version",): driver} if driver else {}
        elif line and not line.startswith(" "):
            here = None
        elif here is not None and (row := _ROW.match(line)):
            depth = len(row["indent"]) // _INDENT - 1
            sections = [*sections[:depth], row["name"]]
            if row["value"] is not None:
                here[tuple(sections)] = row["value"].strip()
    return found


def sentence(place: str, fields: Fields) -> str:
    """One GPU in words; what it does not tell is not said."""
    return f"GPU {place}: " + "; ".join(_parts(fields))


def _parts(fields: Fields) -> Iterator[str]:
    yield fields.get(("Product Name",), "name not told")
    yield f"driver {fields.get(('Driver Version',)) or 'not told'}"
    yield f"ECC {fields.get(('ECC Mode', 'Current'), 'not told').lower()}"
    for section in ("ECC Errors", "Retired Pages", "Remapped Rows"):
        told = {name: value for name, value in fields.items() if name[0] == section}
        bad = [
            f"{' '.join(name[1:])} {value}"
            for name, value in told.items()
            if value not in _NOTHING and "Histogram" not in " ".join(name)
        ]
        if all(value.strip("[]") == "N/A" for value in told.values()):
            yield f"{section.lower()} not told"
        else:
            yield f"{section.lower()}: {', '.join(bad) or 'none'}"
    reasons = {name: value for name, value in fields.items() if name[0] in _REASONS}
    active = [name[-1] for name, value in reasons.items() if value == "Active"]
    is_told = any(value in {"Active", "Not Active"} for value in reasons.values())
    words = ", ".join(active) or "none"
    yield f"clock event reasons: {words}" if is_told else "clock event reasons not told"
