"""Rings of the last release, and what its collector makes of ours: both stand on one node."""

import struct
import zlib
from base64 import b85decode
from pathlib import Path

from lockstep.collector.contract import ring
from lockstep.collector.contract.ring import MAX_CHARACTERS, RingName
from lockstep.collector.contract.words import RankState
from lockstep.collector.sources.ranks.records import read_records
from lockstep.collector.sources.ranks.source import RankRings
from lockstep.workloads.ring import RingWriter
from lockstep.workloads.ring_file import Identity

RUN = "ns.Llama_7b-" + "x" * 51
NODE, UUID = "gpu-node_07.example", "MIG-GPU-0a/1/0"
TAGS = ("by the program", "grads.0", "c0.m1", "bucket.1")
PID_OFFSET = 208
OLD_PAGE = zlib.decompress(b85decode(
    "c-r&v4h{+O^mAuq00IF9hP+}upPa<p#CY>0-3rnHLwZ4}ZeD&$YP^BDUTQ^RZb42e11Z4Q(_Pm+AXL{NQQuJCfUtUI"
    "Am)J5j7VbW;6D&RSSialZ+pPYV0JPaOrrw@AZB4;09ieO2=_9g@h4nhCdt1XXy(9ZHUjoIh(5PwpaOu|<KXQBVQ|_)_"
    ")h#_ngz|BAdq_YtRsZQ;;^6%;xck+Mh4mfm_HbCg!4!T<@rT9DM<X30#x||G=2#hKNXFiTtJ%rNtFsE8L0{dMfvGPiM"
    "g2aK+%+9J=_IBvVmT%AwKg<le1Gx^bAL1dK8R;Q7{Td!6+C!ASX4kC@(WFJ-#Th1b0v2f&FMmje=1?eE<NU7GCB"
))  # fmt: skip
"""The header that `written` made with the release of 29 November 2026; no pid, no heartbeat."""


def written(path: Path) -> bytearray:
    """A rank that took one step, with names of every form that is in use."""
    times = iter(range(10**9, 10**12, 10**6))
    who = Identity(
        RUN, NODE, UUID, 3, 8, 3, 1, 3, 0, 0, -1,
        start_wall_ns=10**18, wall_minus_monotonic_ns=10**18 - 10**9,
    )  # fmt: skip
    writer = RingWriter(path, who, 5, now=lambda: next(times))
    for tag in TAGS:
        writer.tag(tag)
    writer.state(RankState.RUNNING)
    since = writer.begin(15, 1)
    writer.end(15, 1, since, 4096, 1)
    writer.end_step(
        start_ns=10**9, wall_ns=5 * 10**6, cpu_ns=10**6, own_ns=4 * 10**6, wait_ns=10**6,
        phase_ns=[10**5] * 8, tags=0, samples=4, tokens=8, flops=1e9, loss=2.5,
    )  # fmt: skip
    writer.value("learning_rate", 0.5)
    writer.round_trip(250_000)
    writer.close()
    return bytearray(path.read_bytes())


def test_a_header_of_ours_is_that_of_the_last_release_but_for_its_version(tmp_path):
    page = written(tmp_path / "rank-3.ring")[: ring.HEADER_BYTES]
    struct.pack_into("<i", page, PID_OFFSET, 0)
    ring.HEARTBEAT.pack_into(page, ring.HEARTBEAT_OFFSET, 0)
    # The namespace of the pid, and that the file is locked, stand where it wrote nothing.
    struct.pack_into("<QQ", page, ring.PID_NAMESPACE_OFFSET, 0, 0)
    struct.pack_into("<I", page, len(ring.MAGIC), 1)

    assert bytes(page) == OLD_PAGE


def test_a_ring_of_the_last_release_is_read_with_all_its_names(machine):
    data = written(machine.rings / "rank-3.ring")
    data[: ring.HEADER_BYTES] = OLD_PAGE
    (machine.rings / "rank-3.ring").write_bytes(data)
    machine.process(1)
    reading = RankRings(machine.rings, machine.proc, machine.clock).read()

    assert () == reading.rejected
    (rank,) = reading.ranks
    who, live = rank.header.identity, rank.header.live
    assert (RUN, NODE, UUID, 3) == (who.run, who.node, who.uuid, who.rank)
    assert TAGS == tuple(filter(None, rank.header.tags))
    assert live is not None
    assert (("learning_rate", 0.5),) == live.values
    assert 6 == live.steps


def test_waiting_in_a_ring_of_the_last_release_is_what_the_own_time_leaves(machine, image):
    told = image(version=1).training(3)
    told.step(3, 10**12, 50_000_000, known=False)
    path = machine.ring(told)
    records = read_records(path, 0, None, machine.clock).steps

    assert [0, 1, 2, 3] == [step.step for step in records]
    assert [12_500_000] * 3 + [None] == [step.own_ns for step in records]
    assert [37_500_000] * 3 + [None] == [step.wait_ns for step in records]
    assert {(50_000_000, 4, 256, 1e9, 2.5)} == {
        (step.wall_ns, step.samples, step.tokens, step.flops, step.loss) for step in records
    }


def test_both_versions_of_a_step_record_are_read_alike(machine, image):
    first, second = (
        read_records(machine.ring(image(version=version).training(5)), 0, None, machine.clock).steps
        for version in ring.STEP_RECORDS
    )

    assert first == second


def old_collector_reads(data: bytes) -> str:
    """What the last release's collector makes of a ring: its checks of size, magic and version."""
    if len(data) != 544_768:
        return f"ring of {len(data)} bytes; it must be 544768"
    magic, version = struct.unpack_from("<8sI", data)
    if magic != b"LKSTRING":
        return f"ring begins with {magic!r}"
    return "" if version == 1 else f"ring version {version}; this collector reads 1"


def test_the_last_release_s_collector_says_that_it_is_too_old_for_a_ring_of_ours(tmp_path, image):
    ours, theirs = bytes(written(tmp_path / "rank-3.ring")), image(version=1).training(1).bytes()

    assert "" == old_collector_reads(theirs)
    assert "ring version 2; this collector reads 1" == old_collector_reads(ours)


def test_a_ring_of_a_later_release_names_the_collector_as_what_to_update(machine, image):
    machine.ring(image(version=ring.VERSION + 1))
    (rejected,) = RankRings(machine.rings, machine.proc, machine.clock).read().rejected

    assert "ring version 3; this collector reads 1 and 2: update the collector" in str(rejected)


def test_a_name_of_ours_is_one_to_every_collector():
    """The last release's asks for no more than text that can be printed, and cuts at 63 bytes."""
    name = RingName.mapped("é" * 100, "run")

    assert name.isprintable()
    assert MAX_CHARACTERS == len(name.encode())
