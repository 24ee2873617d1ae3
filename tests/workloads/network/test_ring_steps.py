"""Where a rank is, read from a real ring."""

from pathlib import Path

from lockstep.collector.contract.ring import file_name
from lockstep.collector.contract.words import GROUPS, OPS, PHASES
from lockstep.workloads.network.controller import Place, RingSteps
from lockstep.workloads.ring import RingWriter
from lockstep.workloads.ring_file import Identity

WHO = Identity("run", "node-0", "", 0, 2, 0, 0, 0, 0, 0, -1, 0, 0)


def end_step(writer: RingWriter, wall_ns: int) -> None:
    writer.end_step(
        start_ns=0, wall_ns=wall_ns, cpu_ns=0, own_ns=0, wait_ns=wall_ns,
        phase_ns=[0] * len(PHASES), tags=0,
        samples=1, tokens=1, flops=0.0, loss=0.0,
    )  # fmt: skip


def test_a_rank_without_a_ring_is_nowhere(tmp_path: Path) -> None:
    assert RingSteps(tmp_path / file_name(0)).read() is None


def test_steps_their_wall_time_and_collectives_add_up(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / file_name(0), WHO)
    steps = RingSteps(tmp_path / file_name(0))
    assert Place(0, 0.0, 0) == steps.read()

    op, group = OPS.index("dp-all-reduce"), GROUPS.index("dp")
    for _ in range(3):
        arrival = writer.begin(op, group)
        writer.end(op, group, arrival, 8, 0)
    end_step(writer, 40_000_000)
    end_step(writer, 60_000_000)

    assert Place(2, 0.1, 3) == steps.read()
    writer.close()


def test_a_file_that_is_no_ring_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / file_name(0)).write_bytes(b"\0" * 100_000)

    assert RingSteps(tmp_path / file_name(0)).read() is None
