"""Rings that someone spoils while they are read: one counted error, and never a wrong number."""

import json
import os
import random
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import ring
from lockstep.collector.contract.metrics import MAX_SERIES_PER_RANK
from lockstep.collector.contract.words import GROUPS, OPS
from lockstep.collector.exporter.ops import OpsQuery, answer
from lockstep.collector.samples import ranks
from lockstep.collector.sources.ranks.records import read_records
from lockstep.collector.sources.ranks.source import RankRings, RingReading

NOISE_BYTES = 64
"""Shorter noise may hit one counter alone, and no reader can tell that from a step."""


def values(reading: RingReading) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (one.metric.name, one.labels): one.value
        for one in ranks.collect_ranks(reading)
        if "rank" in one.metric.labels
    }


def of_rank(shown: dict[tuple[str, tuple[str, ...]], float], rank: str):
    return {key: value for key, value in shown.items() if key[1][1] == rank}


def _noise(path: Path, good: bytes, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(len(good)))


def _noise_within(path: Path, good: bytes, rng: random.Random) -> None:
    start = rng.randrange(ring.HEADER_BYTES - NOISE_BYTES)
    size = rng.randrange(NOISE_BYTES, ring.HEADER_BYTES - start + 1)
    path.write_bytes(good[:start] + rng.randbytes(size) + good[start + size :])


def _truncated(path: Path, good: bytes, rng: random.Random) -> None:
    path.write_bytes(good[: rng.randrange(len(good))])


def _longer(path: Path, good: bytes, rng: random.Random) -> None:
    path.write_bytes(good + b"\0" * rng.randrange(1, 9))


def _link(path: Path, good: bytes, rng: random.Random) -> None:
    path.symlink_to(rng.choice(["/etc/hostname", "/dev/zero", "rank-0.ring", "/nowhere"]))


def _folder(path: Path, good: bytes, rng: random.Random) -> None:
    path.mkdir()


SPOIL = (_noise, _noise_within, _noise_within, _noise_within, _truncated, _longer, _link, _folder)


def spoil(path: Path, good: bytes, rng: random.Random) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    path.unlink(missing_ok=True)
    rng.choice(SPOIL)(path, good, rng)


@pytest.fixture
def two(machine, image, monkeypatch):
    """A machine with rank 0, which stays well, and rank 1, which is spoiled; and their source."""
    monkeypatch.setattr(machine.clock, "sleep", lambda _: None)  # ages are compared as well
    machine.process(100)
    machine.process(101)
    machine.ring(image(rank=0, used=len(GROUPS)).training(20))
    machine.ring(image(rank=1, pid=101, used=len(GROUPS)).training(20))
    return machine, machine.rings / "rank-1.ring"


def test_two_hundred_ways_to_spoil_a_ring_cost_one_error_each_and_no_number(two):
    machine, path = two
    good = path.read_bytes()
    whole = values(RankRings(machine.rings, machine.proc, machine.clock).read())
    rng = random.Random(20)
    for turn in range(200):
        spoil(path, good, rng)
        reading = RankRings(machine.rings, machine.proc, machine.clock).read()
        shown = values(reading)

        assert of_rank(whole, "0") == of_rank(shown, "0"), turn
        spoiled = of_rank(shown, "1").items()
        # Noise may also hit what the page does not show, or a guard or time: then less is shown.
        assert spoiled <= of_rank(whole, "1").items(), turn
        assert len(reading.rejected) <= 1, turn
        assert reading.rejected or of_rank(whole, "1") == of_rank(shown, "1"), turn


def test_a_ring_that_is_spoiled_while_it_is_read_is_whole_or_absent(two):
    machine, path = two
    good = path.read_bytes()
    source = RankRings(machine.rings, machine.proc, machine.clock)
    whole = values(source.read())
    stop = threading.Event()

    def vandal() -> None:
        rng = random.Random(4)
        while not stop.is_set():
            kind = rng.randrange(3)
            with path.open("r+b") as file:
                if kind == 0:  # in place, so that a reader has the file open meanwhile
                    os.ftruncate(file.fileno(), rng.randrange(len(good)))
                elif kind == 1:
                    os.pwrite(file.fileno(), rng.randbytes(len(good)), 0)
            if kind == 2:
                link = path.with_name(".link")
                link.symlink_to("/dev/zero")
                link.replace(path)
            whole_again = path.with_name(".whole")
            whole_again.write_bytes(good)
            whole_again.replace(path)

    thread = threading.Thread(target=vandal, daemon=True)
    thread.start()
    try:
        for _ in range(200):
            reading = source.read()
            shown = values(reading)
            assert of_rank(whole, "0") == of_rank(shown, "0")
            assert of_rank(shown, "1") in ({}, of_rank(whole, "1"))
            assert len(reading.rejected) <= 1
            body = answer(OpsQuery("gpt-1"), source.rings, machine.clock, lambda _: None)
            assert body is not None
            assert 0 == json.loads(body)["ranks"][0]["rank"]
    finally:
        stop.set()
        thread.join(10)


def test_noise_among_the_records_loses_records_and_invents_none(machine, image, clock):
    path = machine.ring(image().training(20))
    good, clean = path.read_bytes(), read_records(path, 3, 17, clock)
    used = ring.OP_RECORD.size * 60

    @given(
        record=st.integers(0, 59),
        noise=st.binary(min_size=ring.OP_RECORD.size, max_size=4 * ring.OP_RECORD.size),
    )
    @settings(max_examples=100, deadline=None)
    def holds(record, noise):
        start = ring.OPS_OFFSET + record * ring.OP_RECORD.size
        # Whole records: of one that kept its guard and lost its middle no reader can tell.
        noise = noise[: min(len(noise), used) // ring.OP_RECORD.size * ring.OP_RECORD.size]
        path.write_bytes(good[:start] + noise + good[start + len(noise) :])

        found = read_records(path, 3, 17, clock)

        assert set(found.ops) <= set(clean.ops)
        assert found.steps == clean.steps[-len(found.steps) :]

    holds()


def test_a_rank_with_everything_on_has_at_most_45_series(machine, image):
    machine.process(100)

    @given(
        used=st.integers(0, len(GROUPS)),
        inside=st.booleans(),
        loss=st.sampled_from([2.5, float("nan")]),
        gpu=st.sampled_from([-1, 0]),
        order=st.permutations(GROUPS),
        guard=st.sampled_from([2, 3]),
        values=st.integers(0, 8),
        trip=st.sampled_from([0, 250_000]),
    )
    @settings(max_examples=100, deadline=None)
    def holds(used, inside, loss, gpu, order, guard, values, trip):
        open_operation = (OPS.index("dp-all-reduce"), 0, round(999e9)) if inside else None
        machine.ring(
            image(
                used=used,
                loss=loss,
                gpu=gpu,
                groups=tuple(order),
                open=open_operation,
                guard=guard,
                round_trip_ns=trip,
                values=tuple((b"own_%d" % place, 1.5) for place in range(values)),
            )
        )
        reading = RankRings(machine.rings, machine.proc, machine.clock).read()
        series = [one for one in ranks.collect_ranks(reading) if "rank" in one.metric.labels]

        # Run queue, throttling and the GPU's allocation come from other collectors.
        assert len(series) + 3 <= MAX_SERIES_PER_RANK
        assert len({(one.metric.name, one.labels) for one in series}) == len(series)

    holds()
