"""`lockstep capture --share` and `lockstep doctor --raw`: what one writes, the other reads."""

import io
import json
import pickle
import re
import subprocess
import sys
import tarfile
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.clock import SystemClock
from lockstep.collector.config import Config
from lockstep.collector.contract.flight_recorder import dump_name
from lockstep.collector.readings.source import SourceError
from lockstep.doctor import bundle, parts
from lockstep.doctor.parsers import PARSERS, SOURCES, understood
from lockstep.doctor.parts import PARTS, PROC, SYS, Machine, Part, Piece, gathered
from lockstep.doctor.pseudonyms import Pseudonyms
from tests.unpacking import unpacked
from tests.wild import wild

XID = "4,7,1000,-;NVRM: Xid (PCI:0000:9b:00): 79, pid=1234, name=python, GPU has fallen off\n"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A node with an InfiniBand port, a kernel log and nothing else; for `lockstep`, too."""
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    (port / "counters").mkdir(parents=True)
    for name, text in (
        ("state", "4: ACTIVE"), ("phys_state", "5: LinkUp"), ("rate", "400 Gb/sec (4X NDR)"),
        ("link_layer", "InfiniBand"), ("counters/symbol_error", "3"),
        ("counters/port_xmit_data", "12"), ("counters/port_rcv_data", "13"),
    ):  # fmt: skip
        (port / name).write_text(f"{text}\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/loadavg").write_text("0.5 0.4 0.3 1/100 12\n")
    (tmp_path / "proc/stat").write_text("cpu  1 2 3 4 5 6 7 8 0 0\nprocs_running 1\n")
    kmsg = tmp_path / "kmsg"
    kmsg.write_text(
        f"{XID}4,8,1001,-;Command line: secret=hunter2\n30,9,1002,-;a program of alice's\n"
        "4,10,1003,-;NVRM: something that nobody has seen yet\n"
    )
    for name in ("proc", "sys"):
        monkeypatch.setenv(f"LOCKSTEP_PATHS_{name.upper()}", str(tmp_path / name))
    monkeypatch.setenv("LOCKSTEP_PATHS_KMSG", str(kmsg))
    monkeypatch.setenv("LOCKSTEP_PATHS_LOCKSTEP_DIR", str(tmp_path / "rings"))
    monkeypatch.setenv("MY_PASSWORD", "correct-horse-battery")
    monkeypatch.setattr(parts, "PROGRAM_SECONDS", 2.0)
    return tmp_path


def test_what_is_shared_is_read_again(lockstep, machine, tmp_path):
    log = tmp_path / "train.log"
    log.write_text("".join(f"iteration {n}/ 9 | lm loss: 2.5E+00 |\n" for n in range(5)))
    told = lockstep("capture", "--share", "--out", tmp_path / "a.tar.gz", "--log", log)

    assert 0 == told.code
    assert "nvidia_smi" in told.out
    assert re.search(r"nccl_ras +absent +not asked", told.out)
    read = lockstep("doctor", "--raw", tmp_path / "a.tar.gz", "-o", "json")
    found = {one["name"]: one for one in json.loads(read.out)["parsers"]}
    assert 1 == read.code
    assert (2, 1, 1) == tuple(
        found["kernel_log"][key] for key in ("lines", "values", "not_understood")
    )
    assert "nobody has seen" in found["kernel_log"]["examples"][0]
    assert 5 == found["training_logs"]["values"]
    assert 0 < found["infiniband"]["values"]
    assert 0 < found["procfs"]["values"]


def test_nothing_of_the_environment_or_of_programs_is_in_it(lockstep, machine, tmp_path):
    lockstep("capture", "--share", "--out", tmp_path / "a.tar.gz")
    told = "".join(bundle.read(tmp_path / "a.tar.gz").texts.values())

    assert "Xid" in told
    assert not [word for word in ("correct-horse", "hunter2", "alice", "secret") if word in told]


def test_without_share_nothing_is_written(lockstep, machine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = lockstep("capture")

    assert 0 == told.code
    assert "--share writes it" in told.out
    assert [] == list(tmp_path.glob("*.tar.gz"))


def test_a_folder_that_was_unpacked_reads_alike(lockstep, machine, tmp_path):
    lockstep("capture", "--share", "--out", tmp_path / "a.tar.gz")
    unpacked(tmp_path / "a.tar.gz", tmp_path / "unpacked")
    one, other = (
        lockstep("doctor", "--raw", tmp_path / name, "-o", "json").out
        for name in ("a.tar.gz", "unpacked")
    )

    assert one == other


def test_a_part_that_hangs_is_absent_alone(monkeypatch):
    monkeypatch.setattr(parts, "PART_SECONDS", 0.1)
    machine = Machine(Config(), SystemClock())
    specs = (
        ("slow", lambda machine, found: time.sleep(1.0)),
        ("broken", lambda machine, found: (_ for _ in ()).throw(SourceError("io", "no such bus"))),
        ("fine", lambda machine, found: found.add("fine/x", "1\n")),
    )
    told = {part.name: part.absent for part in gathered(machine, specs)}

    assert {"slow": "it did not answer in time", "broken": "no such bus", "fine": ""} == told


def test_a_part_keeps_to_its_room(monkeypatch):
    monkeypatch.setattr(parts, "MOST_PART", 10)
    found = parts.Gathering()
    for index in range(3):
        found.add(f"x/{index}", "12345")

    assert (2, ["x/2: no room for it"]) == (len(found.pieces), found.left_out)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is no bundle"),
        (b"not a bundle at all", "is no bundle"),
        (None, "MANIFEST.json"),
    ],
)
def test_what_is_no_bundle_is_one_sentence(lockstep, tmp_path, data, sentence):
    path = tmp_path / "b.tar.gz"
    if data is None:
        with tarfile.open(path, "w:gz") as archive:
            archive.addfile(tarfile.TarInfo("x"), io.BytesIO())
    else:
        path.write_bytes(data)
    told = lockstep("doctor", "--raw", path)

    assert 65 == told.code
    assert sentence in told.err


def test_a_bundle_that_was_cut_is_one_sentence(lockstep, machine, tmp_path):
    lockstep("capture", "--share", "--out", tmp_path / "a.tar.gz")
    whole = (tmp_path / "a.tar.gz").read_bytes()
    for share in (0.1, 0.5, 0.7):
        (tmp_path / "b.tar.gz").write_bytes(whole[: int(share * len(whole))])
        assert 65 == lockstep("doctor", "--raw", tmp_path / "b.tar.gz").code


@given(st.binary(max_size=200), st.integers(0, 10_000), st.integers(0, 255))
@settings(deadline=None)
def test_a_damaged_bundle_is_refused_or_read(tmp_path_factory, junk, place, byte):
    path = tmp_path_factory.mktemp("damaged") / "b.tar.gz"
    part = Part("kernel_log", (Piece("kernel_log/kmsg", XID * 20),))
    bundle.write(path, [part], bundle.manifest([part], {}, "1"))
    data = bytearray(path.read_bytes())
    data[place % len(data)] = byte
    for damaged in (bytes(data), junk, bytes(data[:10]) + junk):
        path.write_bytes(damaged)
        with suppress(bundle.BundleError):
            understood(bundle.read(path))


def test_a_bundle_can_put_nothing_outside_of_its_folder(tmp_path):
    path = tmp_path / "b.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("../evil", "/etc/evil", "sys/../../evil", "ok/fine", bundle.MANIFEST):
            text = b'{"schema_version": 1}' if name == bundle.MANIFEST else b"x"
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
        link = tarfile.TarInfo("sys/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)

    assert {"ok/fine"} == bundle.read(path).texts.keys()


def test_every_parser_reads_a_part_that_is_gathered():
    gathered_parts = {name for name, _ in PARTS}

    assert {part for _, part, _ in PARSERS} <= gathered_parts
    assert {place.split("/")[0] for _, places in SOURCES for place in places} <= gathered_parts


OPENED = """
import sys
seen = set()
sys.addaudithook(lambda event, args: seen.add(args[0]) if event == "open" else None)
from lockstep.collector.clock import SystemClock
from lockstep.collector.config import Config
from lockstep.collector.readings.source import SourceError
from lockstep.collector.registry import feeds
from lockstep.doctor.parsers import SOURCES
for feed in feeds(Config(sources=tuple(name for name, _ in SOURCES)), SystemClock()):
    try:
        feed.source.read()
    except SourceError:
        pass
print("\\n".join(str(path) for path in seen if str(path).startswith(("/proc/", "/sys/"))))
"""


def test_what_sources_read_of_this_machine_is_gathered():
    done = subprocess.run(
        [sys.executable, "-c", OPENED], capture_output=True, text=True, check=True
    )
    patterns = [*(f"/proc/{one}" for one in PROC), *(f"/sys/{one}" for one in SYS)]
    known = [re.compile(re.escape(one).replace(r"\*", "[^/]+")) for one in patterns]
    deep = re.compile(r"/sys/fs/cgroup/.*/cpu\.stat|/proc/self/.*|/proc/\d+/.*")
    missed = [
        path for path in done.stdout.split()
        if not deep.fullmatch(path) and not any(one.fullmatch(path) for one in known)
    ]  # fmt: skip

    assert [] == missed


@pytest.mark.parametrize(
    "part",
    ["kernel_log", "nccl_ras", "nccl_inspector", "ethtool", "dcgm_exporter", "training_logs"],
)
def test_parsers_read_the_same_of_real_captures_once_names_are_replaced(part):
    files = [path for path in sorted(wild(part).iterdir()) if path.suffix != ".source"]
    pieces = tuple(Piece(f"{part}/{path.name}", path.read_text()) for path in files)

    def read(found):
        texts = {piece.path: piece.text for each in found for piece in each.pieces}
        return [(one.name, one.lines, one.values, one.not_understood.total())
                for one in understood(bundle.Bundle({}, texts))]  # fmt: skip

    before = [Part(part, pieces)]
    assert read(before) == read(bundle.anonymous(before, Pseudonyms()))


def test_what_nccl_and_torch_leave_beside_the_rings_is_taken(lockstep, machine, tmp_path):
    rings = tmp_path / "rings"
    rings.mkdir()
    line = {
        "header": {"id": "0x7f", "rank": 2, "n_ranks": 8, "nnodes": 1},
        "metadata": {"inspector_output_format_version": "v4.0", "hostname": "gnomon-17"},
    }
    (rings / "gnomon-17-pid12.log").write_text(f"{json.dumps(line)}\n")
    dump = {"version": "2.10", "entries": [{"frames": [{"filename": "/home/zoe/train.py"}]}]}
    (rings / dump_name("gnomon-17", 3)).write_bytes(pickle.dumps(dump, protocol=2))
    lockstep("capture", "--share", "--out", tmp_path / "a.tar.gz")
    found = bundle.read(tmp_path / "a.tar.gz")

    assert ["nccl_inspector/0.jsonl"] == list(found.of("nccl_inspector"))
    assert ["flight_recorder/3.json"] == list(found.of("flight_recorder"))
    told = "".join(found.texts.values())
    assert not [word for word in ("gnomon", "zoe", "train.py") if word in told]


def parsed(part, text):
    (found,) = understood(bundle.Bundle({}, {f"{part}/x": text}))
    return found


@pytest.mark.parametrize(
    "line",
    [
        "4,1,1,-;NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.1  Release Build",
        "4,1,1,-;nvidia: loading out-of-tree module taints kernel.",
        "4,1,1,-;nvidia: module license 'NVIDIA' taints kernel.",
        "3,1,1,-;nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Data {0x0000002b, 0x0000002b}",
        "3,1,1,-;nvidia-nvswitch0: SXid (PCI:0000:04:00.0): 22013, Severity 0 Engine instance 44",
        "3,1,1,-;NVRM: GPU4 RPC history (CPU -> GSP):",
        "[Sun Feb 23 16:24:18 2025] NVRM:     0    103 GSP_RM_ALLOC 0x0000000000002081 0x00",
        "3,1,1,-;mlx5_core 0000:3b:00.0: assert_var[0] 0x00000000",
        "<4>[  201.673948] Modules linked in: edac_core kvm irqbypass nvidia(OE) mlx5_core",
        "<4>[  201.673948] CPU: 17 PID: 1 Comm: nvidia-smi Tainted: P",
        "4,1,1,c;NVRM: gpuClearFbhubPoisonIntrForBug2924523_GA100: FBHUB Interrupt detected. Clear",
        "4,1,1,-;NVRM: Persistence mode is deprecated and will be removed in a future release.",
    ],
    ids=range(12),
)
def test_a_line_that_is_known_to_be_harmless_is_no_trouble(line):
    assert not parsed("kernel_log", f"{line}\n").not_understood


@pytest.mark.parametrize(
    "line",
    [
        "4,1,1,-;NVRM: a new thing",
        "<4>[  201.673948] NVRM: a new thing",
        "Nov 03 10:00:00 a kernel: NVRM: a new thing",
        "4,1,1,-;mlx5_core 0000:3b:00.0: a new thing",
        "3,1,1,-;nvidia-nvswitch3: a new thing",
    ],
)
def test_what_a_driver_says_anew_is_shown(line):
    (told,) = parsed("kernel_log", f"{line}\n").not_understood
    assert told.endswith(": a new thing")


FALLEN = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off."


@pytest.mark.parametrize("front", [
    "", "[ 4801.221034] ", "[Sun Feb 23 16:24:18 2025] ", "kern  :err   : [ 4801.221034] ",
    "2025-02-23T16:24:18,221034+00:00 ", "kern  :err   : 2025-02-23T16:24:18,221034+00:00 ",
    "Feb 23 16:24:18 node-1 kernel: ", "2025-02-23T16:24:18+0000 node-1 kernel: ",
    "Feb 23 16:24:18 node-1 kernel: [ 4801.221034] ", "3,1,1,-;",
])  # fmt: skip
@pytest.mark.parametrize("end", ["\n", ""])
def test_an_xid_is_read_behind_whatever_dmesg_and_journalctl_write(front, end):
    found = parsed("kernel_log", f"{front}{FALLEN}{end}")

    assert (1, {}) == (found.values, found.not_understood)


@pytest.mark.parametrize("front", ["a front of tomorrow | ", "{16:24:18} "])
def test_an_xid_behind_a_front_that_nobody_knows_is_shown_and_never_passed_over(front):
    found = parsed("kernel_log", f"{front}{FALLEN}\n")

    assert (0, 1) == (found.values, len(found.not_understood))


def test_labels_that_are_known_and_not_used_are_named_and_not_counted():
    labels = {
        "topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z",
        "topology.k8s.aws/network-node-layer-1": "nn-1",
        "topology.k8s.aws/network-node-layer-3": "n",
        "feature.node.kubernetes.io/rdma.available": "true", "example.org/new-rack": "r7",
    }  # fmt: skip
    found = parsed("node_labels", json.dumps(labels))

    assert 1 == found.values
    assert {"example.org/new-rack=r7": 1} == found.not_understood
    assert 4 == len(found.not_used)


def test_a_healthy_bundle_ends_with_0(lockstep, machine, tmp_path):
    (tmp_path / "kmsg").write_text(
        f"{XID}4,9,9,-;nvidia: loading out-of-tree module taints kernel.\n"
    )
    lockstep("capture", "--share", "--out", tmp_path / "a.tar.gz")
    told = lockstep("doctor", "--raw", tmp_path / "a.tar.gz")

    assert "known, and not used: a module is loaded" in told.out
    assert "kernel_log: 1 x" not in told.out
