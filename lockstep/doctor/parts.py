"""What is gathered of a machine, a row a part: pieces of text, or why there are none."""

import os
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lockstep.collector.clock import Clock
from lockstep.collector.config import Config
from lockstep.collector.contract import bounded_http, threads
from lockstep.collector.readings.source import SourceError

MOST_PIECE = 1 << 20
"""Bytes of one piece; of a log, its end."""
MOST_PART = 4 << 20
MOST_PIECES = 4096
MOST_DUMP = 64 << 20
"""Bytes of a flight recorder's pickle; nine tenths are stack traces, which are dropped."""
PART_SECONDS = 20.0
"""A driver that hangs costs its part, and nothing else."""
PROGRAM_SECONDS = 10.0
KERNEL = 0
"""Facility of the kernel's own lines in its log (syslog(2)); others are those of programs."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where to look, and what somebody asked for beside that.

    Attributes:
        logs: Of training programs.
        ras: Whether NCCL's RAS is asked.
    """

    config: Config
    clock: Clock
    logs: tuple[Path, ...] = ()
    ras: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """One output, as it was; `path` is its place in the bundle."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Part:
    """All outputs of one kind.

    Attributes:
        absent: Why there are none; empty where there are some.
        left_out: What of it was not taken, in sentences.
    """

    name: str
    pieces: tuple[Piece, ...] = ()
    absent: str = ""
    left_out: tuple[str, ...] = ()


@dataclass(slots=True)
class Gathering:
    """What a part has so far; keeps to its bounds."""

    pieces: list[Piece] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, path: str, text: str) -> None:
        """Take a piece, or say that there is no room for it."""
        if self.size + len(text) > MOST_PART or len(self.pieces) >= MOST_PIECES:
            self.left_out.append(f"{path}: no room for it")
            return
        self.pieces.append(Piece(path, text))
        self.size += len(text)


Gather = Callable[[Machine, Gathering], None]
"""Adds to a part; a SourceError or OSError says why there is none of it."""


def gathered(machine: Machine, specs: "Sequence[tuple[str, Gather]]") -> Iterator[Part]:
    """Every part in turn, each within its time."""
    for name, gather in specs:
        yield _within(PART_SECONDS, machine, name, gather)


def _within(seconds: float, machine: Machine, name: str, gather: Gather) -> Part:
    found, why = Gathering(), ["it did not answer in time"]

    def work() -> None:
        try:
            gather(machine, found)
            why[0] = "there is none here"
        except SourceError as error:
            why[0] = str(error)
        except OSError as error:
            why[0] = f"{error.filename or name}: {error.strerror or error}"
        except Exception as error:
            why[0] = f"a bug: {error!r}"
            raise

    # A thread, as a driver that hangs cannot be interrupted; it dies with this process.
    thread = threads.task("part", work)
    thread.start()
    thread.join(seconds)
    if thread.is_alive() or not found.pieces:
        return Part(name, absent=why[0] if not found.left_out else "; ".join(found.left_out))
    return Part(name, tuple(found.pieces), "", tuple(found.left_out))


def text_of(path: Path, most: int = MOST_PIECE, *, end: bool = False) -> str:
    """A regular file, at most so much of it: its beginning or, by whole lines, its end.

    Raises:
        OSError: It cannot be read.
        SourceError: It is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise SourceError("not_regular", f"{path} is no regular file")
        start = max(0, about.st_size - most) if end else 0
        parts, left = [], most
        while left > 0 and (part := os.pread(descriptor, min(left, 1 << 16), start)):
            parts.append(part)
            start, left = start + len(part), left - len(part)
    finally:
        os.close(descriptor)
    text = b"".join(parts).decode("utf-8", "replace")
    return text.partition("\n")[2] if end and about.st_size > most else text


def _kernel_log(machine: Machine, gathering: Gathering) -> None:
    """Records of the kernel itself as /dev/kmsg has them; its command line and audit left out."""
    path = machine.config.kmsg
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    records: list[bytes] = []
    size, until = 0, machine.clock.monotonic() + PROGRAM_SECONDS
    try:
        while machine.clock.monotonic() < until:
            try:
                chunk = os.read(descriptor, 1 << 16)
            except BlockingIOError:
                break
            except BrokenPipeError:  # overwritten meanwhile; the next read goes on
                continue
            if not chunk:
                break
            records.append(chunk)
            size += len(chunk)
            while size > 2 * MOST_PIECE:
                size -= len(records.pop(0))
    finally:
        os.close(descriptor)
    lines = b"".join(records).decode("utf-8", "replace").splitlines(keepends=True)
    kept = [line for line in lines if _of_kernel(line)]
    while sum(map(len, kept)) > MOST_PIECE:
        del kept[: max(1, len(kept) // 10)]
    if kept:
        gathering.add("kernel_log/kmsg", "".join(kept))


def _of_kernel(line: str) -> bool:
    priority, comma, rest = line.partition(",")
    told = rest.partition(";")[2]
    return (
        bool(comma) and priority.isdecimal() and int(priority) >> 3 == KERNEL
        and not told.startswith(("Command line:", "Kernel command line:", "audit:"))
    )  # fmt: skip


def _nvidia_smi(machine: Machine, gathering: Gathering) -> None:
    gathering.add("nvidia_smi/q.txt", program("nvidia-smi", "-q"))


def _nvml(machine: Machine, gathering: Gathering) -> None:
    from lockstep.collector.recorder.capture import capture

    with tempfile.TemporaryDirectory() as folder:
        target = capture(Path(folder), machine.config, machine.clock)
        for path in sorted(target.iterdir()):
            gathering.add(f"nvml/{path.name}", text_of(path))


PROC = (
    "stat", "loadavg", "meminfo", "vmstat", "diskstats", "pressure/*", "net/dev", "net/snmp",
    "net/netstat", "net/softnet_stat", "driver/nvidia/version",
)  # fmt: skip
SYS = (
    "class/infiniband/*/board_id", "class/infiniband/*/fw_ver", "class/infiniband/*/hca_type",
    "class/infiniband/*/device/numa_node", "class/infiniband/*/device/net/*/dev_port",
    "class/infiniband/*/ports/*/state", "class/infiniband/*/ports/*/phys_state",
    "class/infiniband/*/ports/*/rate", "class/infiniband/*/ports/*/link_layer",
    "class/infiniband/*/ports/*/counters/*", "class/infiniband/*/ports/*/counters_ext/*",
    "class/infiniband/*/ports/*/hw_counters/*",
    "class/net/*/operstate", "class/net/*/carrier_changes", "class/net/*/speed",
    "class/net/*/mtu", "class/net/*/device/modalias", "class/net/*/device/numa_node",
    "class/thermal/thermal_zone*/type", "class/thermal/thermal_zone*/temp",
    "class/hwmon/hwmon*/name", "class/hwmon/hwmon*/temp*_input", "class/hwmon/hwmon*/temp*_label",
    "devices/system/cpu/cpu*/thermal_throttle/*",
    "devices/system/cpu/cpu*/topology/physical_package_id",
    "devices/system/cpu/cpu*/topology/core_id",
    "fs/cgroup/cgroup.controllers", "fs/cgroup/cpu.stat", "fs/cgroup/*/cpu.stat",
    "fs/cgroup/cpu/cpu.stat", "fs/cgroup/cpu,cpuacct/cpu.stat",
)  # fmt: skip
"""Files that our sources read, below the folders where proc and sys are mounted; of processes none:
their environment and command lines are nobody else's business."""


def _tree(root: Path, name: str, patterns: Sequence[str], gathering: Gathering) -> None:
    for path in sorted({path for pattern in patterns for path in root.glob(pattern)}):
        place = f"{name}/{path.relative_to(root)}"
        if path.is_dir():
            continue
        try:
            gathering.add(place, text_of(path, 1 << 18))
        except (OSError, SourceError) as error:  # a port that is down has no counters
            gathering.left_out.append(f"{place}: {getattr(error, 'strerror', None) or error}")


def _proc(machine: Machine, gathering: Gathering) -> None:
    _tree(machine.config.proc, "proc", PROC, gathering)


def _sys(machine: Machine, gathering: Gathering) -> None:
    _tree(machine.config.sys, "sys", SYS, gathering)


def _ethtool(machine: Machine, gathering: Gathering) -> None:
    from lockstep.collector.sources.network.ethtool.source import Kernel, statistics
    from lockstep.collector.sources.network.netdev.devices import Devices

    channel = Kernel()
    try:
        for device in Devices(machine.config.proc, machine.config.sys).names():
            try:
                told = statistics(channel, device)
            except SourceError as error:
                gathering.left_out.append(str(error))
                continue
            lines = "".join(f"     {name}: {value}\n" for name, value in told)
            gathering.add(f"ethtool/{device}.txt", f"NIC statistics:\n{lines}")
    finally:
        channel.close()


def _ras(machine: Machine, gathering: Gathering) -> None:
    from lockstep.collector.sources.nccl.ras.client import Connection, speaks_json

    if not machine.ras:
        raise SourceError("off", "not asked: asking has ended jobs of some NCCLs; --ras asks")
    for index, address in enumerate(machine.config.ras):
        now = machine.clock.monotonic
        try:
            connection = Connection(address, now, now() + PROGRAM_SECONDS)
            try:
                kind = "json" if speaks_json(connection) else "txt"
                gathering.add(f"nccl_ras/{index}.{kind}", connection.document("VERBOSE STATUS"))
            finally:
                connection.close()
        except SourceError as error:
            gathering.left_out.append(str(error))


def _inspector(machine: Machine, gathering: Gathering) -> None:
    from lockstep.collector.sources.nccl.inspector.files import logs

    folders = [machine.config.inspector_dir, machine.config.lockstep_dir]
    for folder in filter(None, folders):
        for index, log in enumerate(logs(folder, frozenset(), 16)[0]):
            gathering.add(f"nccl_inspector/{index}.jsonl", text_of(log.path, 1 << 18, end=True))


def _flight_recorder(machine: Machine, gathering: Gathering) -> None:
    from lockstep.collector.files.opening import read_bytes
    from lockstep.collector.formats.flight_recorder.pickled import as_json
    from lockstep.collector.sources.nccl.flight_recorder.dump_files import (
        beside_rings,
        old_prefix,
        with_prefix,
    )

    prefixes = filter(None, (machine.config.flight_recorder, old_prefix()))
    places = [*beside_rings(machine.config.lockstep_dir)[0]]
    places += [place for prefix in prefixes for place in with_prefix(prefix)[0]]
    for place in places[:64]:
        try:
            data = read_bytes(place.path, MOST_DUMP)
            text = (as_json(data) if data[:1] == b"\x80" else data).decode("utf-8", "replace")
        except SourceError as error:
            gathering.left_out.append(f"{place.path}: {error}")
            continue
        gathering.add(f"flight_recorder/{place.rank}.json", text)


def _dcgm_exporter(machine: Machine, gathering: Gathering) -> None:
    url = machine.config.dcgm_exporter
    if url is None:
        raise SourceError("off", "no page is named: LOCKSTEP_COLLECTOR_DCGM_EXPORTER")
    try:
        page = bounded_http.get(url, PROGRAM_SECONDS, MOST_PIECE, proxies=False)
    except (ValueError, bounded_http.ExceededError) as error:
        raise SourceError("unreachable", f"{url}: {error}") from error
    gathering.add("dcgm_exporter/page.prom", page.decode("utf-8", "replace"))


def _training_logs(machine: Machine, gathering: Gathering) -> None:
    if not machine.logs:
        raise SourceError("off", "no log is named: --log FILE")
    for index, path in enumerate(machine.logs):
        gathering.add(f"training_logs/{index}.log", text_of(path, 1 << 18, end=True))


def _node_labels(machine: Machine, gathering: Gathering) -> None:
    node = os.environ.get("NODE_NAME") or socket.gethostname()
    answer = program(
        "kubectl", "get", "node", node, "--request-timeout=5s", "-o", "jsonpath={.metadata.labels}"
    )
    gathering.add("node_labels/labels.json", answer)


def program(*words: str) -> str:
    """What a program prints, within its time.

    Raises:
        SourceError: It is not installed, fails or takes too long.
    """
    path = shutil.which(words[0])
    if path is None:
        raise SourceError("missing", f"{words[0]} is not installed")
    try:
        done = subprocess.run(
            [path, *words[1:]], capture_output=True, timeout=PROGRAM_SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SourceError("timeout", f"{words[0]} took over {PROGRAM_SECONDS:g} s") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise SourceError("failed", f"{words[0]} ended with {done.returncode}: {said[:200]}")
    return done.stdout[:MOST_PIECE].decode("utf-8", "replace")


PARTS: tuple[tuple[str, Gather], ...] = (
    ("kernel_log", _kernel_log),
    ("nvidia_smi", _nvidia_smi),
    ("nvml", _nvml),
    ("proc", _proc),
    ("sys", _sys),
    ("ethtool", _ethtool),
    ("nccl_ras", _ras),
    ("nccl_inspector", _inspector),
    ("flight_recorder", _flight_recorder),
    ("dcgm_exporter", _dcgm_exporter),
    ("training_logs", _training_logs),
    ("node_labels", _node_labels),
)
"""Name of a part, which begins the paths of its pieces, and who gathers it."""
