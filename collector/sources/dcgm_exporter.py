"""GPUs as an existing dcgm-exporter tells them: its page, fetched and turned into base units."""

import math
import re
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass, field

from collector.contract import metrics as m
from collector.contract.dcgm import CLOCK_EVENTS_FIELD, DCGM_FIELDS, PREFIX
from collector.gpu_reading import CLOCK_EVENTS, Gpu, GpuReading, Telling
from collector.reading import Rejected, SourceError

LIMIT = 8 << 20
TIMEOUT_SECONDS = 1.5
MAX_GPUS = 64
BLANK = 0x7FFFFFF0
"""DCGM's smallest 32-bit blank value; larger ones, of 64 bits and as doubles, mean blank too."""
BLANK_64 = 0x7FFFFFFFFFFFFFF0
BLANK_DOUBLE = 140737488355328.0

_SAMPLE = re.compile(rf"({PREFIX}[A-Z0-9_]{{1,80}})\{{(.*)\}} (\S+)(?: -?[0-9]+)?", re.ASCII)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\.)*)"(?:,|$)')
_FIELDS = {PREFIX + name: one for one in DCGM_FIELDS for name in one.names}
_EVENTS = {PREFIX + name for name in CLOCK_EVENTS_FIELD[1]}
_SMALL = {m.GPU_TEMPERATURE, m.GPU_POWER, m.GPU_POWER_AVERAGE}


@dataclass(slots=True)
class _Told:
    info: dict[str, str] = field(default_factory=dict)
    said: Telling = field(default_factory=Telling)


class DcgmExporter:
    """Source of GpuReading.

    Args:
        url: The exporter's page, or None: off.
    """

    name = "dcgm_exporter"

    def __init__(self, url: str | None) -> None:
        self._url = url

    def available(self) -> bool:
        """Whether a page was configured."""
        return self._url is not None

    def why_not(self) -> str:
        """What is missing."""
        return "collector.dcgm_exporter, the URL of its page, is not set"

    def read(self) -> GpuReading:
        """Fetch and read the page.

        Raises:
            SourceError: It cannot be fetched, or is no page of a dcgm-exporter.
        """
        if self._url is None:
            raise SourceError("missing", "no dcgm-exporter is configured")
        return parse(_fetch(self._url))


def parse(text: str) -> GpuReading:
    """Every GPU on a page. A line that is not understood is counted and left out alone.

    Raises:
        SourceError: No line is a field of DCGM.
    """
    gpus: dict[tuple[int, str], _Told] = {}
    bad: Counter[str] = Counter()
    for line in text.split("\n"):
        if not line.startswith(PREFIX):
            continue
        try:
            _take(line, gpus)
        except ValueError as error:
            bad[str(error)] += 1
    if not gpus:
        raise SourceError("content", f"no line of the page is a {PREFIX} sample of a GPU")
    rejected = [Rejected("content", f"{count} lines: {why}") for why, count in bad.items()]
    if len(gpus) > MAX_GPUS:
        rejected.append(Rejected("too_many", f"{len(gpus)} GPUs on the page; {MAX_GPUS} are read"))
    keys = sorted(gpus)[:MAX_GPUS]
    return GpuReading(
        tuple(_gpu(index, uuid, gpus[index, uuid]) for index, uuid in keys), tuple(rejected)
    )


def with_power(said: Telling) -> Telling:
    """The instant power, or else the average: what this metric is where that is all there is."""
    if m.GPU_POWER.name not in said.values and m.GPU_POWER_AVERAGE.name in said.values:
        said.tell(m.GPU_POWER, said.values[m.GPU_POWER_AVERAGE.name][""])
    return said


def _take(line: str, gpus: dict[tuple[int, str], _Told]) -> None:
    match = _SAMPLE.fullmatch(line.rstrip("\r"))
    if match is None:
        raise ValueError("not a sample")
    name, rest, number = match.groups()
    labels = _labels(rest)
    index, uuid = labels.get("gpu", ""), labels.get("UUID", labels.get("uuid", ""))
    if not re.fullmatch(r"[0-9]{1,4}", index, re.ASCII) or not _printable(uuid):
        raise ValueError("no gpu or no UUID")
    value = float(number)
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    part = labels.get("GPU_I_ID", "")
    profile = labels.get("GPU_I_PROFILE", "")
    if part and _printable(part) and _printable(profile):
        told = gpus.setdefault((int(index), f"{uuid}/gi{part}"), _Told())
        told.info = {"parent": uuid, "profile": profile, "gpu_instance": part}
    else:
        told = gpus.setdefault((int(index), uuid), _Told())
        words = {
            "model": labels.get("modelName", labels.get("model_name", "")),
            "pci_bus_id": labels.get("pci_bus_id", ""),
            "driver": labels.get("DCGM_FI_DRIVER_VERSION", labels.get("driver_version", "")),
        }
        told.info |= {word: text for word, text in words.items() if text and _printable(text)}
    if name in _EVENTS:
        told.said.tell(CLOCK_EVENTS, int(value) if 0 <= value < BLANK else None)
    elif name in _FIELDS and not blank(value):
        one = _FIELDS[name]
        if value < 0 and one.counter:
            raise ValueError("a counter below zero")
        told.said.tell(one.metric, value / one.per, "/".join(one.labels))


def blank(value: float) -> bool:
    """Whether DCGM means: not there, not supported, no permission (dcgm_structs.h)."""
    return (
        BLANK <= value <= BLANK + 15
        or value >= BLANK_64
        or (BLANK_DOUBLE <= value <= BLANK_DOUBLE + 15)
    )


def _labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            raise ValueError("labels are malformed")
        labels[match[1]] = re.sub(r"\\(.)", _unescaped, match[2])
        at = match.end()
    return labels


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def _printable(text: str) -> bool:
    return 0 < len(text) <= 128 and text.isprintable() and "/" not in text


def _gpu(index: int, uuid: str, told: _Told) -> Gpu:
    return Gpu(index, uuid, info=told.info, values=with_power(told.said).values)


def _fetch(url: str) -> str:
    from http.client import HTTPException

    request = urllib.request.Request(url, headers={"Accept": "text/plain"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310
            raw: bytes = response.read(LIMIT + 1)
    except (OSError, ValueError, HTTPException) as error:
        raise SourceError("unreachable", f"{url}: {error}") from error
    if len(raw) > LIMIT:
        raise SourceError("too_large", f"{url} is larger than {LIMIT} bytes")
    return raw.decode("utf-8", "replace")
