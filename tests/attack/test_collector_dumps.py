"""What a local user does with names of runs and with dumps, to a collector that may be root."""

import json
import os
import threading
import time
import urllib.error
import urllib.request
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract import ring
from lockstep.collector.contract.flight_recorder import dump_name, request_name
from lockstep.collector.contract.ring import RingName
from lockstep.collector.contract.stacks import stacks_name
from lockstep.collector.exporter.dumps import DumpsQuery, NodeDumps
from lockstep.collector.on_demand.rank_facts import Heard
from lockstep.collector.readings.source import RankProcess
from lockstep.collector.sources.nccl.flight_recorder.source import FlightRecorder
from lockstep.collector.sources.ranks.rings import Rings
from lockstep.collector.sources.ranks.source import RankRings
from lockstep.workloads.ring import Identity, RingWriter
from lockstep.workloads.sdk.start import run_name
from tests.attack.collector_program import Collector, running
from tests.collector.conftest import FakeClock, Machine, RingImage

RUN = "gpt-1"
DUMP = json.dumps({"version": "2.10", "entries": [], "pg_status": {}}).encode()
ACCUSING = json.dumps({
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "pg_status": {"0": {"last_enqueued_collective": 7, "last_started_collective": 7,
                        "last_completed_collective": 6}},
    "entries": [{"collective_seq_id": 7, "process_group": ["0", "default_pg"], "pg_id": 0,
                 "profiling_name": "nccl:all_reduce", "state": "started",
                 "time_created_ns": time.time_ns() - 9_000_000_000}],
}).encode()  # fmt: skip
"""Rank 0 waits in a collective that rank 1 did not enter."""
STRANGER = 2002
HOSTILE = (
    "/etc/passwd", "../x", "..", ".", ".hidden", "a/b", "a\\b", "x/../../precious", "a b", "a\tb",
    "é", "a\u202eb", "-" * 64, "a" * 64, "%2e%2e", "a:b", "*", "~", "$HOME", "a;b", "\x7f",
)  # fmt: skip
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users: takes root")


@pytest.fixture
def node(tmp_path) -> Machine:
    return Machine(tmp_path, FakeClock())


def with_name(offset: int, size: int, name: bytes, **image: Any) -> bytes:
    """A ring that has this name at that place."""
    data = bytearray(RingImage(**image).bytes())
    data[offset : offset + size] = name.ljust(size, b"\0")[:size]
    return bytes(data)


def rejected(node: Machine) -> tuple[list[str], list[str]]:
    """Runs that are read, and reasons of what is not."""
    reading = RankRings(node.rings, node.proc, node.clock).read()
    return [rank.key[0] for rank in reading.ranks], [one.reason for one in reading.rejected]


@pytest.mark.parametrize(
    ("what", "offset", "size"),
    [("run", 16, 64), ("node", 80, 64), ("group", ring.GROUP_NAMES_OFFSET, 16)],
)
def test_of_all_bytes_only_those_of_a_name_come_through(node, what, offset, size):
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
    node.process(100)
    path = node.rings / "rank-0.ring"
    for byte in range(1, 256):
        path.write_bytes(with_name(offset, size, b"a" + bytes([byte]) + b"z"))
        runs, reasons = rejected(node)
        if byte in plain:
            assert (1, []) == (len(runs), reasons), (what, byte)
        else:
            assert ([], 1) == (runs, len(reasons)), (what, byte)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_run_whose_name_is_no_name_is_refused_and_counted(node, name):
    node.process(100)
    (node.rings / "rank-0.ring").write_bytes(with_name(16, 64, name.encode()))
    node.ring(RingImage(rank=1))

    runs, reasons = rejected(node)
    assert [RUN] == runs
    assert 1 == len(reasons)


@pytest.mark.parametrize("name", [*HOSTILE, "", "\0", "a\0b"])
def test_no_path_is_made_of_what_is_no_name(name):
    for make in (request_name, lambda run: dump_name(run, 0), lambda run: stacks_name(run, 0)):
        with pytest.raises(ValueError, match="is no name"):
            make(name)


@pytest.mark.parametrize("name", [*HOSTILE, "llama-7b_0412.a", "ns.name.0a1b2c3d", "x" * 200])
def test_every_run_that_somebody_names_is_recorded_under_a_name(name):
    """What a rank of ours calls its run is never refused by a collector of ours."""
    told = run_name({"LOCKSTEP_RUN": name}, "train")

    assert told == RingName(told)
    assert told == name or not name.isascii() or name in HOSTILE or len(name) > 63


class Rank:
    """A living rank of this process, and the files beside its ring."""

    def __init__(self, folder: Path, rank: int = 0, run: str = RUN) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.rank, self.run = folder, rank, run
        who = Identity(
            run, "node-0", "", rank, 8, 0, 0, 0, 0, 0, -1,
            start_wall_ns=time.time_ns(),
            wall_minus_monotonic_ns=time.time_ns() - time.monotonic_ns(),
        )  # fmt: skip
        self.writer = RingWriter(folder / ring.file_name(rank), who)

    @property
    def dump(self) -> Path:
        return self.folder / dump_name(self.run, self.rank)


@pytest.fixture
def ranks(tmp_path) -> Iterator[Callable[..., Rank]]:
    made: list[Rank] = []
    over = threading.Event()

    def rank(folder: str = ".", number: int = 0, run: str = RUN) -> Rank:
        made.append(Rank(tmp_path / "rings" / folder, number, run))
        return made[-1]

    def beat() -> None:
        while not over.wait(0.3):
            for one in tuple(made):
                one.writer.heartbeat()

    thread = threading.Thread(target=beat)
    thread.start()
    yield rank
    over.set()
    thread.join()
    for one in made:
        one.writer.close()


@pytest.fixture
def collector(tmp_path) -> Iterator[Collector]:
    (tmp_path / "rings").mkdir(exist_ok=True)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    surroundings = {"TMPDIR": str(tmp_path / "tmp")}
    sources = "rank_ring,flight_recorder"
    with running(tmp_path / "rings", sources=sources, environment=surroundings) as one:
        yield one


def dumps(collector: Collector, run: str = RUN) -> dict[str, Any] | int:
    url = "http://{}:{}".format(*collector.address) + f"/dumps?run={quote(run, safe='')}"
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            tree: dict[str, Any] = json.load(answer)
            return tree
    except urllib.error.HTTPError as error:
        return error.code


def counted(page: dict[Any, float], source: str, reason: str) -> float:
    return page.get((m.SOURCE_ERRORS.name, (source, reason)), 0.0)


@pytest.mark.distributed
def test_a_run_that_is_a_path_removes_and_makes_nothing(tmp_path, ranks, collector):
    precious = tmp_path / "precious"
    precious.write_text("root's")
    before = precious.stat()
    evil = tmp_path / "rings" / "evil"
    name = "x/../../../precious"
    ranks("good")
    ranks("evil", 1, "evil")
    (evil / "dump-x").mkdir()
    with (evil / ring.file_name(1)).open("r+b") as file:
        os.pwrite(file.fileno(), name.encode().ljust(64, b"\0"), 16)

    collector.until(lambda page: counted(page, "rank_ring", "content") > 0)
    assert 404 == dumps(collector, name)
    assert isinstance(dumps(collector), dict)
    assert "root's" == precious.read_text()
    assert before.st_mtime_ns == precious.stat().st_mtime_ns


@pytest.mark.distributed
@pytest.mark.parametrize("kind", ["link", "hard link", "fifo", "folder"])
def test_what_stands_in_the_place_of_a_request_stays_as_it_is(tmp_path, ranks, collector, kind):
    precious = tmp_path / "precious"
    precious.write_text("root's")
    os.utime(precious, (1, 1))
    one = ranks()
    place = one.folder / request_name(RUN)
    match kind:
        case "link":
            place.symlink_to(precious)
        case "hard link":
            place.hardlink_to(precious)
        case "fifo":
            os.mkfifo(place)
        case "folder":
            place.mkdir()
    inode = place.lstat().st_ino
    collector.until(lambda page: page.get((m.RANK_UP.name, (RUN, "0"))) == 1)
    tree = dumps(collector)

    assert isinstance(tree, dict)
    assert None is tree["ranks"][0]["dump"]
    assert inode == place.lstat().st_ino
    assert ("root's", 1.0) == (precious.read_text(), precious.stat().st_mtime)


@pytest.mark.distributed
def test_a_request_that_was_replaced_is_not_removed(ranks, collector):
    one = ranks()
    place = one.folder / request_name(RUN)
    other = one.folder / "other"
    other.write_text("somebody's")

    def replace() -> None:
        while not place.exists():
            time.sleep(0.01)
        other.replace(place)

    thread = threading.Thread(target=replace)
    thread.start()
    collector.until(lambda page: page.get((m.RANK_UP.name, (RUN, "0"))) == 1)
    dumps(collector)
    thread.join()

    assert "somebody's" == place.read_text()


@pytest.mark.distributed
def test_a_request_of_another_one_is_renewed_and_left_to_them(ranks, collector):
    one = ranks()
    place = one.folder / request_name(RUN)
    place.touch()
    os.utime(place, (1, 1))
    over = threading.Event()

    def answer() -> None:
        while not over.wait(0.02):
            if place.stat().st_mtime > 1:
                one.dump.write_bytes(DUMP)

    thread = threading.Thread(target=answer)
    thread.start()
    collector.until(lambda page: page.get((m.RANK_UP.name, (RUN, "0"))) == 1)
    tree = dumps(collector)
    over.set()
    thread.join()

    assert isinstance(tree, dict)
    assert DUMP == zlib.decompress(b64decode(tree["ranks"][0]["dump"]))
    assert place.exists()


@pytest.fixture
def asked(node) -> Callable[[Callable[[int], None]], list[dict[str, Any]]]:
    """The ranks in the answer of a node, to whom something happens at each wait."""

    def ask(happens: Callable[[int], None]) -> list[dict[str, Any]]:
        waits = iter(range(1000))

        class Clock(FakeClock):
            def sleep(self, seconds: float) -> None:
                super().sleep(seconds)
                happens(next(waits))

        clock = Clock()
        rings = Rings(node.rings, node.proc, clock)
        body = NodeDumps(rings, Heard, node.proc, clock).answer(DumpsQuery(RUN))
        assert body is not None
        found: list[dict[str, Any]] = json.loads(body)["ranks"]
        return found

    node.process(100)
    return ask


def served(rank: dict[str, Any]) -> bytes | None:
    return rank["dump"] and zlib.decompress(b64decode(rank["dump"]))


def test_what_is_served_is_what_was_parsed_whatever_stands_there_since(node, asked, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("root's")
    node.ring(RingImage(rank=0))
    node.ring(RingImage(rank=1))
    dump = node.rings / dump_name(RUN, 0)

    def happens(wait: int) -> None:
        match wait:
            case 0:
                dump.write_bytes(DUMP)
            case 3:  # it has been read; rank 1 is waited for
                dump.unlink()
                dump.symlink_to(secret)

    first, second = asked(happens)
    assert DUMP == served(first)
    assert None is served(second)


@pytest.mark.parametrize("where", ["beside", "prefix"])
@pytest.mark.parametrize("kind", ["link", "parent", "fifo", "folder"])
def test_a_dump_behind_a_link_or_that_is_no_file_is_not_read(node, asked, tmp_path, where, kind):
    real = tmp_path / "real"
    real.mkdir()
    folder = node.rings if where == "beside" else tmp_path / "dumps"
    folder.mkdir(exist_ok=True)
    name = dump_name(RUN, 0) if where == "beside" else "trace_0"
    (real / name).write_bytes(DUMP)
    place = folder / name
    if kind == "parent":
        folder = folder / "linked"
        folder.symlink_to(real)
        place = folder / name
    prefix = f"{folder}/trace_" if where == "prefix" else "/nowhere/trace_"
    node.file(node.proc / "100/environ", f"TORCH_FR_DUMP_TEMP_FILE={prefix}\0")
    node.ring(RingImage(rank=0))
    if kind == "parent" and where == "beside":
        (real / ring.file_name(0)).write_bytes(RingImage(rank=0).bytes())

    def happens(wait: int) -> None:
        if wait == 0 and kind == "link":
            place.symlink_to(real / name)
        elif wait == 0 and kind == "fifo":
            os.mkfifo(place)
        elif wait == 0 and kind == "folder":
            place.mkdir()

    (rank,) = asked(happens)
    assert None is served(rank)
    assert rank["why"]


@as_root
def test_a_dump_of_another_user_is_not_the_ranks(node, asked, monkeypatch):
    monkeypatch.setattr("lockstep.collector.on_demand.dumps.FROZEN_SECONDS", 100.0)
    node.ring(RingImage(rank=0))
    dump = node.rings / dump_name(RUN, 0)

    def happens(wait: int) -> None:
        if wait == 0:
            dump.write_bytes(DUMP)
            os.chown(dump, STRANGER, STRANGER)

    (rank,) = asked(happens)
    assert None is served(rank)
    assert f"is of user {STRANGER}, not of user 0" in rank["why"]


@as_root
@pytest.mark.distributed
@pytest.mark.parametrize("own", [True, False])
def test_a_forged_dump_in_the_temporary_folder_names_nobody_and_is_counted(
    tmp_path, ranks, collector, own
):
    ranks("a", 0)
    ranks("b", 1)
    collector.until(lambda page: page.get((m.RANK_UP.name, (RUN, "1"))) == 1)
    forged = tmp_path / "tmp" / "nccl_trace_rank_0"
    forged.write_bytes(ACCUSING)
    if not own:
        os.chown(forged, STRANGER, STRANGER)

    if own:  # the same file of the rank's own user does name somebody
        collector.until(lambda page: any(name.startswith("lockstep_nccl_fr") for name, _ in page))
        return
    collector.until(lambda page: counted(page, "flight_recorder", "foreign") > 0)
    assert not any(name.startswith("lockstep_nccl_fr") for name, _ in collector.page())
    tree = dumps(collector)
    assert isinstance(tree, dict)
    assert [None, None] == [rank["dump"] for rank in tree["ranks"]]


@as_root
@pytest.mark.distributed
def test_a_dump_beside_the_rings_is_of_the_rank_that_lies_there(tmp_path, ranks, collector):
    """Pods write as root, each in its own folder: there the folder tells whose a dump is."""
    ranks("victim", 0)
    ranks("evil", 5, "evil")
    collector.until(lambda page: page.get((m.RANK_UP.name, ("evil", "5"))) == 1)
    (tmp_path / "rings/evil" / dump_name(RUN, 0)).write_bytes(ACCUSING)
    (tmp_path / "rings/evil" / dump_name("unheard-of", 0)).write_bytes(ACCUSING)

    collector.until(lambda page: counted(page, "flight_recorder", "foreign") >= 2)
    assert not any(name.startswith("lockstep_nccl_fr") for name, _ in collector.page())


@as_root
@pytest.mark.parametrize("kind", ["folder", "link", "dangling", "names", "fifo", "file", "none"])
def test_what_denies_requests_for_dumps_is_counted_once_and_said(node, tmp_path, monkeypatch, kind):
    node.clock.unix = time.time()
    folder = node.rings
    way = folder / request_name(RUN)
    user = os.geteuid()
    ranks = [RankProcess(RUN, rank, 1, STRANGER + 1, folder) for rank in (0, 1)]
    source = FlightRecorder(str(tmp_path / "none"), folder, node.proc, node.clock, lambda: ranks)
    match kind:
        case "folder":
            way.mkdir()
        case "link":
            way.symlink_to(tmp_path)
        case "dangling":
            way.symlink_to(tmp_path / "nowhere")
        case "names":
            (folder / "other").touch()
            way.hardlink_to(folder / "other")
        case "fifo":
            os.mkfifo(way)
        case "file":
            way.touch()
            monkeypatch.setattr(os, "geteuid", lambda: user + 7)
    if kind != "none":
        os.chown(way, STRANGER, STRANGER, follow_symlinks=False)
    told = []
    for _ in range(3):
        source.available()
        told += source.read().rejected
        node.clock.now += 10.0

    assert ["request_denied"] * (kind != "none") == [one.reason for one in told]
    assert all(str(way) in one.message for one in told)


@as_root
@pytest.mark.parametrize("whose", [0, STRANGER + 1])
def test_a_request_of_root_or_of_the_rank_s_user_denies_nothing(node, tmp_path, monkeypatch, whose):
    node.clock.unix = time.time()
    way = node.rings / request_name(RUN)
    way.touch()
    os.chown(way, whose, whose)
    monkeypatch.setattr(os, "geteuid", lambda: 7)
    ranks = [RankProcess(RUN, 0, 1, STRANGER + 1, node.rings)]
    source = FlightRecorder(str(tmp_path / "no"), node.rings, node.proc, node.clock, lambda: ranks)

    assert not source.available()
    assert () == source.read().rejected


@as_root
def test_where_no_rank_has_a_ring_dumps_of_several_users_name_nobody(node, tmp_path):
    node.clock.unix = time.time()
    prefix = str(tmp_path / "nccl_trace_rank_")
    source = FlightRecorder(prefix, node.rings, node.proc, node.clock, list)
    for rank in (0, 1):
        Path(f"{prefix}{rank}").write_bytes(ACCUSING)
    assert source.available()
    assert 2 == len(source.read().dumps)
    os.chown(f"{prefix}1", STRANGER, STRANGER)
    node.clock.now += 10.0
    source.available()
    reading = source.read()

    assert () == reading.dumps
    assert ["foreign"] * 2 == [one.reason for one in reading.rejected]


@as_root
@pytest.mark.parametrize("last", [0, 1])
def test_who_names_the_prefix_of_anothers_rank_neither_gets_nor_hides_its_dump(
    node, tmp_path, last
):
    node.clock.unix = time.time()
    prefix = str(tmp_path / "trace_")
    ranks = [RankProcess("evil", 0, 8, STRANGER), RankProcess(RUN, 0, 7, 0)]
    for one in ranks:
        node.file(node.proc / f"{one.pid}/environ", f"TORCH_FR_DUMP_TEMP_FILE={prefix}\0")
    source = FlightRecorder(
        None, node.rings, node.proc, node.clock, lambda: ranks[last:] + ranks[:last]
    )
    Path(f"{prefix}0").write_bytes(DUMP)
    assert source.available()

    assert [(RUN, 0)] == [(dump.run, dump.rank) for dump in source.read().dumps]


class Tenants:
    """A node on which users have ranks; what its collector makes of their dumps, look by look."""

    def __init__(self, node: Machine, prefix: str) -> None:
        node.clock.unix = time.time()
        self.node = node
        self.rings: list[RankProcess] = []
        self.gone: set[RankProcess] = set()
        self._source = FlightRecorder(
            prefix, node.rings, node.proc, node.clock,
            lambda: [one for one in self.rings if one not in self.gone], list, lambda: self.rings,
        )  # fmt: skip

    def look(self, seconds: float = 10.0) -> tuple[list[tuple[str, int, int]], list[str]]:
        """Run, rank and time of each dump, and reasons of what was refused, so much later."""
        self.node.clock.sleep(seconds)
        self._source.available()
        reading = self._source.read()
        dumps = [(dump.run, dump.rank, round(dump.written_at)) for dump in reading.dumps]
        return dumps, [one.reason for one in reading.rejected]

    def write(self, path: Path, user: int, data: bytes = DUMP) -> int:
        """A dump of this user, now; returns its Unix time."""
        now = round(self.node.clock.unix)
        path.write_bytes(data)
        os.utime(path, (now, now))
        os.chown(path, user, user)
        return now


@pytest.fixture
def tenants(node, tmp_path) -> Tenants:
    return Tenants(node, str(tmp_path / "nccl_trace_rank_"))


@as_root
def test_a_stranger_who_comes_after_the_last_rank_died_gets_no_dump_and_hides_none(node, tenants):
    victim = RankProcess(RUN, 0, 7, 0, node.rings)
    tenants.rings = [victim]
    tenants.look()
    own = tenants.write(node.rings / dump_name(RUN, 0), 0)
    forged = node.rings / "evil" / dump_name(RUN, 0)
    forged.parent.mkdir()
    tenants.rings = [RankProcess(RUN, 0, 8, STRANGER, forged.parent)]

    for _ in range(5):
        tenants.write(forged, STRANGER, ACCUSING)
        assert ([(RUN, 0, own)], ["foreign"]) == tenants.look(100.0)
    tenants.look(100.0)
    later = tenants.write(forged, STRANGER)  # nobody remembers the victim: the name is free

    assert ([(RUN, 0, later)], []) == tenants.look()


@as_root
def test_a_ring_that_its_dead_rank_left_holds_the_name_no_longer_than_its_dumps(node, tenants):
    victim = RankProcess(RUN, 0, 7, 0, node.rings)
    tenants.rings = [victim]
    tenants.look()
    tenants.gone = {victim}
    for _ in range(7):
        tenants.look(100.0)
    evil = node.rings / "evil"
    evil.mkdir()
    tenants.rings = [RankProcess(RUN, 0, 8, STRANGER, evil)]
    at = tenants.write(evil / dump_name(RUN, 0), STRANGER)

    assert ([(RUN, 0, at)], []) == tenants.look()


@as_root
def test_a_restart_of_the_same_user_in_another_folder_has_its_dumps_and_those_before(node, tenants):
    tenants.rings = [RankProcess(RUN, rank, 7 + rank, 0, node.rings / "a") for rank in (0, 1)]
    tenants.look()
    for name in "ab":
        (node.rings / name).mkdir()
    before = tenants.write(node.rings / "a" / dump_name(RUN, 1), 0)
    tenants.rings = [RankProcess(RUN, rank, 9 + rank, 0, node.rings / "b") for rank in (0, 1)]
    assert ([(RUN, 1, before)], []) == tenants.look()
    after = tenants.write(node.rings / "b" / dump_name(RUN, 0), 0)

    assert ([(RUN, 0, after), (RUN, 1, before)], []) == tenants.look()


@as_root
def test_who_has_rings_of_the_same_ranks_does_not_pass_where_no_run_is_known(
    node, tenants, tmp_path
):
    victims = [RankProcess(RUN, rank, 10 + rank, 0, node.rings) for rank in range(4)]
    evil = [RankProcess("evil", rank, 20 + rank, STRANGER, node.rings / "e") for rank in range(3)]
    tenants.rings = victims + evil
    for rank in range(3):
        tenants.write(tmp_path / f"nccl_trace_rank_{rank}", STRANGER, ACCUSING)
    third = tenants.write(tmp_path / "nccl_trace_rank_3", 0)  # of which only the victim has a ring
    assert ([("", 3, third)], ["foreign"] * 3) == tenants.look()

    # No ring has this number, and those that there are are not all of its user.
    tenants.write(tmp_path / "nccl_trace_rank_9", STRANGER, ACCUSING)
    assert ([("", 3, third)], ["foreign"]) == tenants.look()


@as_root
def test_a_ring_that_a_stranger_left_long_ago_refuses_no_dump(node, tenants, tmp_path):
    left = RankProcess("evil", 0, 8, STRANGER, node.rings / "e")
    tenants.rings, tenants.gone = [left], {left}
    tenants.look()
    tenants.look(700.0)
    tenants.rings.append(RankProcess(RUN, 0, 7, 0, node.rings))
    at = tenants.write(tmp_path / "nccl_trace_rank_0", 0)

    assert ([("", 0, at)], []) == tenants.look()


@as_root
def test_a_crowd_of_forged_dumps_hides_none(node, tmp_path):
    """More than are read, all newer than the rank's own."""
    node.clock.unix = time.time()
    prefix = str(tmp_path / "nccl_trace_rank_")
    source = FlightRecorder(
        prefix, node.rings, node.proc, node.clock, lambda: [RankProcess(RUN, 0, 7, 0)]
    )
    Path(f"{prefix}0").write_bytes(DUMP)
    os.utime(f"{prefix}0", (node.clock.unix - 60, node.clock.unix - 60))
    for rank in range(1, 200):
        Path(f"{prefix}{rank}").write_bytes(ACCUSING)
        os.chown(f"{prefix}{rank}", STRANGER, STRANGER)
    assert source.available()

    assert [0] == [dump.rank for dump in source.read().dumps]


@pytest.mark.parametrize(
    ("mode", "owner", "said"),
    [(0o755, 0, ""), (0o1777, 0, ""), (0o777, 0, "no sticky bit"), (0o1777, STRANGER, "is of user"),
     (0o755, STRANGER, "")],
)  # fmt: skip
def test_a_folder_in_which_one_user_can_replace_anothers_ring_is_told(node, mode, owner, said):
    if owner and os.geteuid() != 0:
        pytest.skip("gives a folder to another user: takes root")
    node.process(100)
    node.ring(RingImage(rank=0))
    node.rings.chmod(mode)
    if owner:
        os.chown(node.rings, owner, owner)
    reading = RankRings(node.rings, node.proc, node.clock).read()

    assert [bool(said)] == [bool(reading.rejected)]
    assert 1 == len(reading.ranks)
    assert all("unsafe_folder" == one.reason and said in one.message for one in reading.rejected)
