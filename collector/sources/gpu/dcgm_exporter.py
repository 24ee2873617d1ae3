"""GPUs as an existing dcgm-exporter tells them: its page, fetched and turned into base units."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lockstep.collector.clock import Clock
from lockstep.collector.contract import bounded_http
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metric_rows import ranges
from lockstep.collector.readings.gpu import XID_TOTAL as TOTAL
from lockstep.collector.readings.gpu import XID_VALUES, Gpu, GpuReading, Values
from lockstep.collector.readings.gpu import XID_WINDOW as WINDOW
from lockstep.collector.readings.source import IMPLAUSIBLE, Rejected, SourceError
from lockstep.collector.sources.dcgm_fields import (
    ALL_LINKS,
    AMBIGUOUS,
    ENGINE_FIELD,
    FIELD_IDS,
    LINK_FIELDS,
    OF_4_7,
    PERCENT_FIELD,
    PREFIX,
    SHARE_FIELD,
    XID_TOTAL,
    XID_WINDOW,
    known,
)
from lockstep.collector.sources.dcgm_values import ImplausibleError, blank, checked, values

LIMIT = 8 << 20
TIMEOUT_SECONDS = 1.5
"""For the whole page: one that drips must not outlast the deadline of a reading."""
MAX_GPUS = 64
"""GPUs and MIG devices of one page; and as many that are gone are remembered."""
LOST_SECONDS = 600.0
"""How long a GPU that left the page is reported as not up: as long as a rank that is gone."""

_NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|[iI]nf|[nN]a[nN])"
_SAMPLE = re.compile(
    rf"[ \t]*({PREFIX}[A-Z0-9_]{{1,80}}|{XID_TOTAL}|{XID_WINDOW})"
    rf"[ \t]*\{{(.*)\}}[ \t]*({_NUMBER})(?:[ \t]+-?[0-9]+)?[ \t]*",
    re.ASCII,
)
"""Blanks may stand between any two tokens of Prometheus' text format; exporters up to 2.0 write one
after the comma between labels."""
_OTHERS = frozenset(("nvswitch", "nvlink", "cpu", "cpucore"))
"""Labels of lines about what is no GPU, in dcgm-exporter's templates; none has `gpu`."""
_BEGINS = (PREFIX, XID_TOTAL, XID_WINDOW)
_OF_XIDS = {XID_TOTAL: TOTAL, XID_WINDOW: WINDOW}
_MAX_XIDS = 256
"""Of one GPU; NVIDIA's catalogue ends below 200."""
_DRIVER = ("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION", "driver_version")
_MOST_LINKS = 72
_INDEX = re.compile(r"[0-9]{1,4}", re.ASCII)
_LABEL = re.compile(
    r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\\n]|\\.)*)"[ \t]*(?:,[ \t]*|$)'
)


@dataclass(slots=True)
class _Device:
    """What the lines of a page tell of one GPU or MIG device.

    Attributes:
        utilization: Of AMBIGUOUS, as it stands on the page.
        more: By word of a reading or name of a metric, what is no field of the whole GPU.
    """

    info: dict[str, str] = field(default_factory=dict)
    fields: dict[int, float] = field(default_factory=dict)
    utilization: str = ""
    more: dict[str, dict[str, float]] = field(default_factory=dict)

    def values(self) -> Values:
        """All of it; errors that have a sum are left out link by link."""
        said = {name: dict(labelled) for name, labelled in values(self.fields).items()}
        for name, labelled in self.more.items():
            sums = {label.removeprefix(f"{ALL_LINKS}/") for label in said.get(name, ())}
            said.setdefault(name, {}).update(
                {
                    label: value
                    for label, value in labelled.items()
                    if label.partition("/")[2] not in sums
                }
            )
        return said


class DcgmExporter:
    """Source of GpuReading.

    A GPU that was told values of and is told none of any more is not up; LOST_SECONDS after it left
    the page nothing is said of it. Its XIDs are told as long as they are on the page. One of which
    only MIG devices are told is not missed.

    Args:
        url: The exporter's page, or None: off.
    """

    name = "dcgm_exporter"

    def __init__(self, url: str | None, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._seen: dict[str, tuple[Gpu, float]] = {}

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
        return self.with_lost(parse(_fetch(self._url)))

    def with_lost(self, page: GpuReading) -> GpuReading:
        """The page's GPUs, and those that were there before."""
        now = self._clock.monotonic()
        parents = {gpu.info["parent"] for gpu in page.gpus if gpu.is_mig}
        on_page = {gpu.uuid: gpu for gpu in page.gpus}
        for gpu in page.gpus:
            # dcgm-exporter goes on telling the last XID of a GPU that is gone.
            lives = gpu.values.keys() - XID_VALUES
            if (lives or gpu.uuid in parents) and not gpu.is_mig:
                self._seen.pop(gpu.uuid, None)
                self._seen[gpu.uuid] = (gpu, now)
        self._seen = {
            uuid: (gpu, at if uuid not in parents else now)
            for uuid, (gpu, at) in list(self._seen.items())[-MAX_GPUS:]
            if now - at <= LOST_SECONDS or uuid in on_page
        }
        lost = {
            uuid: _lost(gpu, on_page.get(uuid))
            for uuid, (gpu, at) in self._seen.items()
            if at != now
        }
        there = [gpu for gpu in page.gpus if gpu.uuid not in lost]
        present = {gpu.info["parent"] if gpu.is_mig else gpu.uuid for gpu in there}
        return replace(page, gpus=(*there, *lost.values()), present=len(present))


def _lost(gpu: Gpu, rest: Gpu | None) -> Gpu:
    """A GPU that is not up: its words, and the XIDs that the page still has of it."""
    if rest is None:
        return replace(gpu, up=False, values={})
    return replace(gpu, up=False, info={**gpu.info, **rest.info}, values=rest.values)


def parse(text: str) -> GpuReading:
    """Every GPU on a page. A line that is not understood is counted and left out alone.

    Of two lines of the same series the first stands, as on our page.

    Raises:
        SourceError: No line is a field of DCGM.
    """
    gpus: dict[tuple[int, str], _Device] = {}
    bad: Counter[tuple[str, str]] = Counter()
    names: set[str] = set()
    *lines, rest = text.split("\n")
    if rest.strip():
        bad["content", "without its end, as of a page that was cut"] += 1
    for line in lines:
        if not line.lstrip(" \t").startswith(_BEGINS):
            continue
        try:
            names.add(_take(line, gpus))
        except ImplausibleError as error:
            bad[IMPLAUSIBLE, str(error)] += 1
        except ValueError as error:
            bad["content", str(error)] += 1
    if not gpus:
        raise SourceError("content", f"no line of the page is a {PREFIX} sample of a GPU")
    for message in _utilization(gpus.values(), names):
        bad[IMPLAUSIBLE, message] += 1
    rejected = [
        Rejected(reason, f"{count} {'line' if count == 1 else 'lines'}: {why}")
        for (reason, why), count in bad.items()
    ]
    return GpuReading(
        tuple(
            Gpu(index, uuid, info=device.info, values=device.values())
            for (index, uuid), device in sorted(gpus.items(), key=lambda item: item[0])
        ),
        tuple(rejected),
        unknown_names=frozenset(
            name for name in names if name.startswith(PREFIX) and not known(name)
        ),
    )


def _utilization(gpus: Iterable[_Device], names: Collection[str]) -> Iterator[str]:
    """Give each GPU its value of AMBIGUOUS; yields what cannot be."""
    devices = [device for device in gpus if device.utilization]
    field = PERCENT_FIELD if devices and _in_percent(devices, names) else SHARE_FIELD
    for device in devices:
        try:
            value = checked(field, float(device.utilization))
        except ImplausibleError as error:
            yield str(error)
        else:
            if value is not None:
                device.fields.setdefault(field, value)


def _in_percent(devices: Sequence[_Device], names: Collection[str]) -> bool:
    """Whether AMBIGUOUS is field 203 on this page, in percent, or 1613, a share: of all GPUs alike.

    A page is of one exporter, so what one GPU's value shows holds for all. 0 and 1 are both: a
    percent, or all of the time. Names that DCGM 4.6 did not have say that it is a share. So does
    an engine that is busy most of the time beside a 1, and the form: dcgm-exporter writes field
    203, an integer, without a point, and 1613 with one.
    """
    share = m.GPU_UTILIZATION.within
    numbers = [float(device.utilization) for device in devices]
    large = any(share.high < number <= 100 * share.high for number in numbers)
    parts = any(0 < number <= share.high and number != int(number) for number in numbers)
    if large != parts:
        return large
    if not OF_4_7.isdisjoint(names):
        return False
    busy = {
        device.fields[ENGINE_FIELD] > 0.5
        for device, number in zip(devices, numbers, strict=True)
        if ENGINE_FIELD in device.fields and number == 1
    }
    if len(busy) == 1:
        return not busy.pop()
    return not any("." in device.utilization for device in devices)


def _take(line: str, gpus: dict[tuple[int, str], _Device]) -> str:
    """Keep the value of a line; returns its field, empty where it is about another part."""
    match = _SAMPLE.fullmatch(line.rstrip("\r"))
    if match is None:
        raise ValueError("not a sample")
    name, rest, number = match.groups()
    labels = _labels(rest)
    if "gpu" not in labels and not _OTHERS.isdisjoint(labels):
        return ""
    index = labels.get("gpu", "")
    uuid = next((labels[label] for label in ("UUID", "uuid", "gpu_uuid") if label in labels), "")
    if not _INDEX.fullmatch(index) or not _identity(uuid):
        raise ValueError("no gpu or no UUID")
    part = labels.get("GPU_I_ID", "")
    profile = labels.get("GPU_I_PROFILE", "")
    mig = _identity(part) and _printable(profile)
    if part and not mig:  # whose it is, nobody knows; it is not the whole GPU's
        raise ValueError("a MIG device without a number or a profile")
    key = (int(index), f"{uuid}/gi{part}" if mig else uuid)
    if key not in gpus and len(gpus) >= MAX_GPUS:
        raise ValueError(f"more than {MAX_GPUS} GPUs")
    device = gpus.setdefault(key, _Device())
    words = {"pci_bus_id": labels.get("pci_bus_id", "")}
    if mig:
        device.info |= {"parent": uuid, "profile": profile, "gpu_instance": part}
    else:
        words["model"] = labels.get("modelName", labels.get("model_name", ""))
        words["driver"] = next((labels[label] for label in _DRIVER if label in labels), "")
    device.info |= {word: text for word, text in words.items() if text and _printable(text)}
    if name in _OF_XIDS:
        _keep_xids(device, _OF_XIDS[name], labels.get("xid", ""), float(number))
    elif "nvlink" in labels:
        _keep_link(device, name, labels["nvlink"], float(number))
    elif name == AMBIGUOUS:
        if not math.isfinite(float(number)):
            raise ValueError("not a finite number")
        device.utilization = device.utilization or number
    else:
        field = FIELD_IDS.get(name, 0)
        value = checked(field, float(number))
        if field and value is not None:
            device.fields.setdefault(field, value)
    return name


def _keep_xids(device: _Device, word: str, xid: str, count: float) -> None:
    """A count of one XID; a GPU that has none yet has a line without the label `xid`."""
    if not xid:
        device.more.setdefault(word, {})  # XIDs would be reported
        return
    if not _INDEX.fullmatch(xid) or not ranges.THINGS.holds(count) or count != count:
        raise ImplausibleError(f"XID {xid[:8]!r} cannot have been counted {count:g} times")
    counts = device.more.setdefault(word, {})
    if int(xid) and (xid in counts or len(counts) < _MAX_XIDS):
        counts.setdefault(str(int(xid)), count)


def _keep_link(device: _Device, name: str, link: str, value: float) -> None:
    """Keep the value of one NVLink."""
    metric, kind = LINK_FIELDS.get(name, (None, ""))
    if metric is None or blank(value):
        return
    if not _INDEX.fullmatch(link) or int(link) >= _MOST_LINKS:
        raise ValueError(f"a GPU has {_MOST_LINKS} NVLinks at most")
    if metric is m.GPU_NVLINK_UP:
        value = float(value in (1, 2))
    if value != value or not metric.within.holds(value):
        raise ImplausibleError(f"{name} of a link is {value:g} ({metric.within.reason})")
    label = f"{int(link)}/{kind}" if kind else str(int(link))
    device.more.setdefault(metric.name, {}).setdefault(label, value)


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


def _identity(text: str) -> bool:
    """Whether it may tell a device from others: DCGM's uuids and numbers are ASCII."""
    return _printable(text) and text.isascii()


def _printable(text: str) -> bool:
    return 0 < len(text) <= 128 and text.isprintable() and "/" not in text


def _fetch(url: str) -> str:
    from http.client import HTTPException

    try:
        # An exporter of this node is never behind the proxy that the environment may name.
        raw = bounded_http.get(
            url, TIMEOUT_SECONDS, LIMIT, {"Accept": "text/plain"}, proxies=False
        )  # fmt: skip
    except bounded_http.TooLargeError as error:
        raise SourceError("too_large", f"{url} is larger than {LIMIT} bytes") from error
    except bounded_http.TooLateError as error:
        raise SourceError("unreachable", f"{url}: not whole within {TIMEOUT_SECONDS} s") from error
    except (OSError, ValueError, HTTPException) as error:
        raise SourceError("unreachable", f"{url}: {error}") from error
    return raw.decode("utf-8", "replace")
