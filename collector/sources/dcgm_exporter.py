"""GPUs as an existing dcgm-exporter tells them: its page, fetched and turned into base units."""

import re
from collections import Counter
from dataclasses import dataclass, field, replace

from collector.clock import Clock
from collector.contract import bounded_http
from collector.contract import metrics as m
from collector.contract.dcgm import FIELD_IDS, NOT_USED, PREFIX
from collector.dcgm_values import ImplausibleError, checked, values
from collector.gpu_reading import Gpu, GpuReading
from collector.reading import IMPLAUSIBLE, Rejected, SourceError

LIMIT = 8 << 20
TIMEOUT_SECONDS = 1.5
"""For the whole page: one that drips must not outlast the deadline of a reading."""
MAX_GPUS = 64
"""GPUs and MIG devices of one page; and as many that are gone are remembered."""
LOST_SECONDS = 600.0
"""How long a GPU that left the page is told as not up: as long as a rank that is gone."""

_NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|[iI]nf|[nN]a[nN])"
_SAMPLE = re.compile(
    rf"[ \t]*({PREFIX}[A-Z0-9_]{{1,80}})[ \t]*\{{(.*)\}}[ \t]*({_NUMBER})(?:[ \t]+-?[0-9]+)?[ \t]*",
    re.ASCII,
)
"""Blanks may stand between any two tokens of Prometheus' text format; exporters up to 2.0 write one
after the comma between labels."""
_OTHERS = frozenset(("nvswitch", "nvlink", "cpu", "cpucore"))
"""Labels of lines about what is no GPU, in dcgm-exporter's templates; none has `gpu`."""
_INDEX = re.compile(r"[0-9]{1,4}", re.ASCII)
_LABEL = re.compile(
    r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\\n]|\\.)*)"[ \t]*(?:,[ \t]*|$)'
)


@dataclass(slots=True)
class _Told:
    info: dict[str, str] = field(default_factory=dict)
    fields: dict[int, float] = field(default_factory=dict)


class DcgmExporter:
    """Source of GpuReading.

    A GPU that was told values of and is told none of any more is not up; after LOST_SECONDS
    nothing is said of it. One of which only MIG devices are told is not missed.

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
        for gpu in page.gpus:
            # dcgm-exporter goes on telling the last XID of a GPU that is gone.
            lives = gpu.values.keys() - {m.GPU_LAST_XID.name}
            if (lives or gpu.uuid in parents) and not gpu.is_mig:
                self._seen.pop(gpu.uuid, None)
                self._seen[gpu.uuid] = (gpu, now)
        self._seen = {
            uuid: (gpu, at if uuid not in parents else now)
            for uuid, (gpu, at) in list(self._seen.items())[-MAX_GPUS:]
            if now - at <= LOST_SECONDS
        }
        lost = {
            uuid: Gpu(gpu.index, uuid, up=False)
            for uuid, (gpu, at) in self._seen.items()
            if at != now
        }
        there = [gpu for gpu in page.gpus if gpu.uuid not in lost]
        present = {gpu.info["parent"] if gpu.is_mig else gpu.uuid for gpu in there}
        return replace(page, gpus=(*there, *lost.values()), present=len(present))


def parse(text: str) -> GpuReading:
    """Every GPU on a page. A line that is not understood is counted and left out alone.

    Of two lines of the same series the first stands, as on our page.

    Raises:
        SourceError: No line is a field of DCGM.
    """
    gpus: dict[tuple[int, str], _Told] = {}
    bad: Counter[tuple[str, str]] = Counter()
    unknown: set[str] = set()
    *lines, rest = text.split("\n")
    if rest.strip():
        bad["content", "without its end, as of a page that was cut"] += 1
    for line in lines:
        if not line.lstrip(" \t").startswith(PREFIX):
            continue
        try:
            name = _take(line, gpus)
            if name and name not in FIELD_IDS and name not in NOT_USED:
                unknown.add(name)
        except ImplausibleError as error:
            bad[IMPLAUSIBLE, str(error)] += 1
        except ValueError as error:
            bad["content", str(error)] += 1
    if not gpus:
        raise SourceError("content", f"no line of the page is a {PREFIX} sample of a GPU")
    rejected = [
        Rejected(reason, f"{count} {'line' if count == 1 else 'lines'}: {why}")
        for (reason, why), count in bad.items()
    ]
    return GpuReading(
        tuple(
            Gpu(index, uuid, info=told.info, values=values(told.fields))
            for (index, uuid), told in sorted(gpus.items(), key=lambda item: item[0])
        ),
        tuple(rejected),
        unknown_names=frozenset(unknown),
    )


def _take(line: str, gpus: dict[tuple[int, str], _Told]) -> str:
    """Keep what a line tells of a GPU; returns its field, empty where it is about another part."""
    match = _SAMPLE.fullmatch(line.rstrip("\r"))
    if match is None:
        raise ValueError("not a sample")
    name, rest, number = match.groups()
    labels = _labels(rest)
    if "gpu" not in labels and not _OTHERS.isdisjoint(labels):
        return ""
    index, uuid = labels.get("gpu", ""), labels.get("UUID", labels.get("uuid", ""))
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
    told = gpus.setdefault(key, _Told())
    if mig:
        told.info = {"parent": uuid, "profile": profile, "gpu_instance": part}
    else:
        words = {
            "model": labels.get("modelName", labels.get("model_name", "")),
            "pci_bus_id": labels.get("pci_bus_id", ""),
            "driver": labels.get("DCGM_FI_DRIVER_VERSION", labels.get("driver_version", "")),
        }
        told.info |= {word: text for word, text in words.items() if text and _printable(text)}
    field = FIELD_IDS.get(name, 0)
    value = checked(field, float(number))
    if field and value is not None:
        told.fields.setdefault(field, value)
    return name


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
