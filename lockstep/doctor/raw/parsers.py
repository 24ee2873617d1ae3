"""What our parsers make of a bundle, a row a parser: lines, values, and what was not understood."""

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from lockstep.collector.clock import SystemClock
from lockstep.collector.config import Config
from lockstep.collector.contract import bounded_json
from lockstep.collector.readings.source import SourceError
from lockstep.doctor.raw import known
from lockstep.doctor.raw.bundle import Bundle, unpack

MOST_EXAMPLES = 5
MOST_CHARACTERS = 160


@dataclass(slots=True)
class Understood:
    """What a parser made of its part.

    Attributes:
        lines: That it was given.
        values: That it told.
        not_understood: Sentences or lines, with how often each came.
        not_used: What is known and of no use, with how often it came.
        told: Sentences of what a text for people says; the collector reads the same elsewhere.
    """

    name: str
    lines: int = 0
    values: int = 0
    not_understood: Counter[str] = field(default_factory=Counter)
    not_used: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)

    def missed(self, what: object, count: int = 1) -> None:
        """Note something that was not understood."""
        words = " ".join(str(what).split())
        self.not_understood[words[:MOST_CHARACTERS]] += count


Parse = Callable[[str, str, Understood], None]
"""Path and text of a piece; adds to what was understood."""


def understood(bundle: Bundle) -> list[Understood]:
    """What every parser made of the bundle; those whose part is absent are left out.

    A parser that fails is itself what was not understood.
    """
    found: list[Understood] = []
    for name, part, parse in PARSERS:
        pieces = bundle.of(part)
        if not pieces:
            continue
        one = Understood(name)
        for path, text in sorted(pieces.items()):
            one.lines += len(text.splitlines())
            try:
                parse(path, text, one)
            except Exception as error:  # noqa: BLE001 - a parser's defect is what we look for
                one.missed(f"{path}: {type(error).__name__}: {error}")
        found.append(one)
    return [*found, *_of_trees(bundle)]


def unread(bundle: Bundle) -> list[str]:
    """Parts that are there for people alone: no parser of ours reads them."""
    read = {part for _, part, _ in PARSERS}
    read |= {place.split("/")[0] for _, places in SOURCES for place in places}
    return sorted({path.split("/")[0] for path in bundle.texts} - read)


_OF_HARDWARE = re.compile(
    r"NVRM: |nvidia[\w-]*(?: [0-9a-f:.]{7,16})?: "
    r"|[\w.-]{1,32} [0-9a-f:.]{7,16}: (?:AER|PCIe Bus Error)"
    r"|AER: |(?:mce: )?(?:\{\d{1,10}\})?\[Hardware Error\]|mce: |Machine check|Memory failure: "
    r"|EDAC |(?:INFO: )?task .{1,80} blocked |(?:Memory cgroup o|O)ut of memory",
)
"""How lines begin that may be about what we look for; others name a driver in passing."""


_ERROR = re.compile(r"NVRM: Xid \(|SXid \(")
"""What is never to be passed over, wherever it stands in a line."""


def _kernel_log(path: str, text: str, found: Understood) -> None:
    from lockstep.collector.formats.kernel_log import WARNING_LEVEL, parse, records, unread

    for told, level in records(f"{text}\n"):  # a file may have been pasted, its last line whole
        try:
            event = parse(told, 0.0)
        except ValueError as error:
            found.missed(error)
            continue
        if event is not None:
            found.values += 1
            continue
        if level is not None and level > WARNING_LEVEL:
            continue  # what a driver says above it is no trouble
        if what := known.line(told):
            found.not_used[what] += 1
        elif unread(told, level) or _OF_HARDWARE.match(told) or _ERROR.search(told):
            found.missed(told)


def _nvml(path: str, text: str, found: Understood) -> None:
    from lockstep.collector.sources.gpu.replay import FILE, load

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, FILE).write_text(text)
        for _, reading in load(Path(folder)).readings:
            found.values += sum(len(each) for gpu in reading.gpus for each in gpu.values.values())


def _ethtool(path: str, text: str, found: Understood) -> None:
    from lockstep.collector.sources.network.ethtool.names import TROUBLE, meaning

    for line in text.splitlines():
        name, colon, value = line.strip().rpartition(":")
        if not colon or not value.strip().isdecimal():
            continue
        if meaning(name.strip()) is not None:
            found.values += 1
        elif TROUBLE.search(name) and int(value):
            found.missed(name.strip())


def _ras(path: str, text: str, found: Understood) -> None:
    from lockstep.collector.sources.nccl.ras import document
    from lockstep.collector.sources.nccl.ras import text as words

    try:
        status = (document if text.lstrip().startswith("{") else words).parse(text)
    except SourceError as error:
        found.missed(error)
        return
    found.values += sum(1 + len(one.ranks) for one in status.communicators)
    _rejected(status, found)


def _inspector(path: str, text: str, found: Understood) -> None:
    from lockstep.collector.formats.nccl_inspector import batches

    told, bad = batches(text.encode().split(b"\n")[:-1])
    found.values += sum(len(one.seconds) for one in told)
    for (_, words), count in bad.items():
        found.missed(words, count)


def _flight_recorder(path: str, text: str, found: Understood) -> None:
    from lockstep.collector.formats.flight_recorder.dump import parse

    try:
        dump = parse(text.encode(), "bundle", 0, 0.0)
    except SourceError as error:
        found.missed(error)
        return
    found.values += len(dump.groups)
    _rejected(dump, found)


def _dcgm_exporter(path: str, text: str, found: Understood) -> None:
    from lockstep.collector.sources.gpu.dcgm_exporter import parse

    try:
        reading = parse(text)
    except SourceError as error:
        found.missed(error)
        return
    found.values += sum(len(each) for gpu in reading.gpus for each in gpu.values.values())
    for name in sorted(reading.unknown_names or ()):
        found.missed(name)
    _rejected(reading, found)


def _training_log(path: str, text: str, found: Understood) -> None:
    from lockstep.workloads.launch.external_program.choice import Choice

    choice = Choice()
    lines = text.replace("\r", "\n").splitlines()
    steps = [each for when, line in enumerate(lines) for each in choice.find(line, when)]
    found.values += len(steps)
    if not steps:
        found.missed(f"{path}: no number moves as steps do; it ends: {' / '.join(lines[-2:])}")


def _node_labels(path: str, text: str, found: Understood) -> None:
    from lockstep.analyzer.read.prometheus.kubernetes import LABELS

    told = bounded_json.loads(text)
    used = {label for labels in LABELS.values() for label in labels}
    found.values += len(used & set(told))
    for label in sorted(set(told) - used):
        if known.label(label):
            found.not_used[label] += 1
        elif _PLACE.search(label):
            found.missed(f"{label}={told[label]}")


_PLACE = re.compile(r"topolog|rack|leaf|spine|block|nvlink|clique|fabric|rdma", re.IGNORECASE)
"""Of a node's labels: names that say where it stands."""


def _nvidia_smi(path: str, text: str, found: Understood) -> None:
    from lockstep.doctor.raw.nvidia_smi import gpus, sentence

    told = gpus(text)
    found.values += sum(len(fields) for fields in told.values())
    found.told += [sentence(place, fields) for place, fields in told.items()]
    if not told:
        found.missed(f"{path}: it tells of no GPU, as nvidia-smi -q does")


def _rejected(reading: object, found: Understood) -> None:
    for one in getattr(reading, "rejected", ()):
        found.missed(one.message)


PARSERS: tuple[tuple[str, str, Parse], ...] = (
    ("kernel_log", "kernel_log", _kernel_log),
    ("nvml", "nvml", _nvml),
    ("ethtool", "ethtool", _ethtool),
    ("nccl_ras", "nccl_ras", _ras),
    ("nccl_inspector", "nccl_inspector", _inspector),
    ("flight_recorder", "flight_recorder", _flight_recorder),
    ("dcgm_exporter", "dcgm_exporter", _dcgm_exporter),
    ("training_logs", "training_logs", _training_log),
    ("node_labels", "node_labels", _node_labels),
    ("nvidia_smi", "nvidia_smi", _nvidia_smi),
)
"""Name, the part that it reads (`parts.PARTS`), and how."""
SOURCES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("procfs", ("proc/stat", "proc/loadavg", "proc/meminfo", "proc/pressure")),
    ("diskstats", ("proc/diskstats",)),
    ("infiniband", ("sys/class/infiniband",)),
    ("infiniband_errors", ("sys/class/infiniband",)),
    ("netdev", ("proc/net/dev", "sys/class/net")),
    ("softnet", ("proc/net/softnet_stat",)),
    ("tcp", ("proc/net/snmp", "proc/net/netstat")),
    ("vmstat", ("proc/vmstat",)),
    ("cgroup_tree", ("sys/fs/cgroup",)),
    ("thermal", ("sys/class/thermal", "sys/class/hwmon")),
    ("thermal_throttle", ("sys/devices/system/cpu/cpu0/thermal_throttle",)),
)
"""The collector's sources of files, and which files: they read them where the bundle lies."""


def _of_trees(bundle: Bundle) -> list[Understood]:
    """What the collector's own sources tell of the files below proc and sys."""
    texts = bundle.of("proc") | bundle.of("sys")
    if not texts:
        return []
    with tempfile.TemporaryDirectory() as folder:
        unpack(texts, Path(folder))
        found = [_of_source(name, places, Path(folder), texts) for name, places in SOURCES]
    return [one for one in found if one is not None]


def _of_source(
    name: str, places: Iterable[str], folder: Path, texts: Iterable[str]
) -> Understood | None:
    from lockstep.collector.registry import feeds

    mine = [path for path in texts if any(f"{path}/".startswith(f"{one}/") for one in places)]
    if not mine:
        return None
    found = Understood(name, lines=len(mine))
    config = Config(proc=folder / "proc", sys=folder / "sys", sources=(name,))
    (feed,) = feeds(config, SystemClock())
    try:
        if not feed.source.available():
            found.missed(getattr(feed.source, "why_not", lambda: "nothing that it reads")())
            return found
        reading = feed.source.read()
        found.values = len(list(feed.collect(reading)))
        for one in getattr(reading, "rejected", ()):
            found.missed(one.message.replace(str(folder), ""))
    except SourceError as error:
        found.missed(str(error).replace(str(folder), ""))
    except Exception as error:  # noqa: BLE001 - a parser's defect is what we look for
        found.missed(f"{type(error).__name__}: {error}".replace(str(folder), ""))
    finally:
        getattr(feed.source, "close", lambda: None)()
    return found
