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
from lockstep.doctor.bundle import Bundle, unpack

# Lines of kernel logs and labels of nodes that are known and not used.

_SWITCH = r"nvidia-nvswitch\d*: "
LINES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (what, re.compile(form, re.ASCII))
    for what, form in (
        (
            "a module is loaded or unloaded",
            (
                r"NVRM: (?:un)?loading NVIDIA UNIX"
                r"|nvidia[\w-]*: (?:[Ll]oad(?:ing|ed)|[Uu]nload(?:ing|ed)) "
                r"|nvidia-nvlink: (?:Nvlink Core is being initialized|Unregistered Nvlink Core)"
            ),
        ),
        (
            "a module taints the kernel",
            r"nvidia[\w-]*: module (?:license|verification|uses symbols)\b.*taint",
        ),
        (
            "a device is enabled",
            (
                r"nvidia [0-9a-f:.]{7,16}: (?:enabling device|vgaarb: )"
                rf"|{_SWITCH}(?:Probing device|using MSI)"
            ),
        ),
        (
            "an interrupt that the driver clears at its start",
            r"NVRM: gpuClearFbhubPoisonIntrForBug\d{1,10}_\w{1,10}: ",
        ),
        ("a setting that drivers will not have", r"NVRM: Persistence mode is deprecated\b"),
        (
            "more of an SXid",  # its first line is the event: collector/sources/kmsg/lines.py
            _SWITCH + r"SXid \([^()]{5,32}\): \d{1,6}, (?:Severity \d|Data \{)",
        ),
        (
            # Bits of the status and the header: its line with the severity is the event, once,
            # however many bits are set (Linux drivers/pci/pcie/aer.c, aer_print_error).
            "more of a PCIe error",
            (
                r"[\w.-]{1,32} [0-9a-fA-F:.]{7,16}: (?:AER: )? *(?:"
                r"device \[[0-9a-f]{4}:[0-9a-f]{4}\] error status/mask=|\[ ?\d{1,2}\] +\w"
                r"|TLP Header: |aer_(?:status|layer|agent|uncor_severity)[:=]"
                r"|Error of this Agent is reported first"
                r"|(?:Multiple )?(?:Uncorrect|Correct)(?:ed|able)\b"
                r"|[Dd]evice recovery successful|broadcast \w{1,32} message)"
            ),
        ),
        (
            # drivers/firmware/efi/cper.c: the one with its severity is the event.
            "more of a hardware error",
            (
                r"(?:\{\d{1,10}\})?\[Hardware Error\]: +(?:Error \d|section_type: |port_type: "
                r"|aer_(?:un)?cor_|TLP Header: |It has been corrected by h/w"
                r"|Hardware error from APEI Generic Hardware Error Source)"
            ),
        ),
        (
            "which GPU an Xid is about",
            r"NVRM: GPU (?:at PCI:[0-9A-Fa-f:.]{5,20}: GPU-|Board Serial Number: )",
        ),
        (
            "the last messages before an Xid of the GSP",
            (
                r"NVRM: GPU\d+ (?:GSP RPC buffer contains|RPC (?:event )?history)"
                r"|NVRM: +(?:entry +function +data0|-?\d+ +\d+ +[A-Z]\w+ +0x)"
            ),
        ),
    )
)
"""What it is, and how it begins; of NVIDIA's open kernel modules 570 to 595 and of Linux 5 and 6
(kernel/module). Their level tells nothing: drivers print them as warnings and errors, too."""

LABELS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(form, re.ASCII)
    for form in (
        r"(?:topology|failure-domain\.beta)\.kubernetes\.io/(?:region|zone)",
        r"topology\.k8s\.aws/(?:network-node-layer-\d|zone-id|capacity-block-id)",
        r"topology\.[\w.-]+/(?:zone|region)",  # of storage: topology.ebs.csi.aws.com/zone
        r"feature\.node\.kubernetes\.io/.+",
        r"nvidia\.com/(?:gpu-driver-upgrade|mig|gpu\.deploy|rdma)[\w.-]*",
        r"cloud\.google\.com/gce-topology-host",
        r"oci\.oraclecloud\.com/(?:host\.id|rdma\.(?:hpc_island|network_block)_id)",
        r"(?:backend|ib)\.coreweave\.cloud/(?:fabric|superpod)",
        r"network\.topology\.nvidia\.com/(?:spine|core|datacenter|block)",
        r"fabric\.topograph\.run/tier-[1-9]",
        r"network\.topology\.kubernetes\.io/(?:zone|datacenter)",
    )
)
"""Labels that say of more than a leaf or a rack where a node stands, or that it has a device."""


def known_line(text: str) -> str:
    """What a line of the kernel log is, without its priority and time; empty: none of LINES."""
    return next((what for what, form in LINES if form.match(text)), "")


def known_label(name: str) -> bool:
    """Whether a node's label is one of LABELS."""
    return any(form.fullmatch(name) for form in LABELS)


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
    """

    name: str
    lines: int = 0
    values: int = 0
    not_understood: Counter[str] = field(default_factory=Counter)
    not_used: Counter[str] = field(default_factory=Counter)

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


def _kernel_log(path: str, text: str, result: Understood) -> None:
    from lockstep.collector.formats.kernel_log import WARNING_LEVEL, parse, records, unread

    for told, level in records(f"{text}\n"):  # a file may have been pasted, its last line whole
        try:
            event = parse(told, 0.0)
        except ValueError as error:
            result.missed(error)
            continue
        if event is not None:
            result.values += 1
            continue
        if level is not None and level > WARNING_LEVEL:
            continue  # what a driver says above it is no trouble
        if what := known_line(told):
            result.not_used[what] += 1
        elif unread(told, level) or _OF_HARDWARE.match(told) or _ERROR.search(told):
            result.missed(told)


def _nvml(path: str, text: str, result: Understood) -> None:
    from lockstep.collector.sources.gpu.replay import FILE, load

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, FILE).write_text(text)
        for _, reading in load(Path(folder)).readings:
            result.values += sum(len(each) for gpu in reading.gpus for each in gpu.values.values())


def _ethtool(path: str, text: str, result: Understood) -> None:
    from lockstep.collector.sources.network.ethtool.names import TROUBLE, meaning

    for line in text.splitlines():
        name, colon, value = line.strip().rpartition(":")
        if not colon or not value.strip().isdecimal():
            continue
        if meaning(name.strip()) is not None:
            result.values += 1
        elif TROUBLE.search(name) and int(value):
            result.missed(name.strip())


def _ras(path: str, text: str, result: Understood) -> None:
    from lockstep.collector.sources.nccl.ras import document
    from lockstep.collector.sources.nccl.ras import text as words

    try:
        status = (document if text.lstrip().startswith("{") else words).parse(text)
    except SourceError as error:
        result.missed(error)
        return
    result.values += sum(1 + len(one.ranks) for one in status.communicators)
    _rejected(status, result)


def _inspector(path: str, text: str, result: Understood) -> None:
    from lockstep.collector.formats.nccl_inspector import batches

    told, bad = batches(text.encode().split(b"\n")[:-1])
    result.values += sum(len(one.seconds) for one in told)
    for (_, words), count in bad.items():
        result.missed(words, count)


def _flight_recorder(path: str, text: str, result: Understood) -> None:
    from lockstep.collector.formats.flight_recorder.dump import parse

    try:
        dump = parse(text.encode(), "bundle", 0, 0.0)
    except SourceError as error:
        result.missed(error)
        return
    result.values += len(dump.groups)
    _rejected(dump, result)


def _dcgm_exporter(path: str, text: str, result: Understood) -> None:
    from lockstep.collector.sources.gpu.dcgm_exporter import parse

    try:
        reading = parse(text)
    except SourceError as error:
        result.missed(error)
        return
    result.values += sum(len(each) for gpu in reading.gpus for each in gpu.values.values())
    for name in sorted(reading.unknown_names or ()):
        result.missed(name)
    _rejected(reading, result)


def _training_log(path: str, text: str, result: Understood) -> None:
    from lockstep.workloads.launch.external_program.choice import Choice

    choice = Choice()
    lines = text.replace("\r", "\n").splitlines()
    steps = [each for when, line in enumerate(lines) for each in choice.find(line, when)]
    result.values += len(steps)
    if not steps:
        result.missed(f"{path}: no number moves as steps do; it ends: {' / '.join(lines[-2:])}")


def _node_labels(path: str, text: str, result: Understood) -> None:
    from lockstep.analyzer.read.prometheus.kubernetes import LABELS

    told = bounded_json.loads(text)
    used = {label for labels in LABELS.values() for label in labels}
    result.values += len(used & set(told))
    for label in sorted(set(told) - used):
        if known_label(label):
            result.not_used[label] += 1
        elif _PLACE.search(label):
            result.missed(f"{label}={told[label]}")


_PLACE = re.compile(r"topolog|rack|leaf|spine|block|nvlink|clique|fabric|rdma", re.IGNORECASE)
"""Of a node's labels: names that say where it stands."""


def _rejected(reading: object, result: Understood) -> None:
    for one in getattr(reading, "rejected", ()):
        result.missed(one.message)


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
