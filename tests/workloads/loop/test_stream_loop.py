"""The whole loop on a stream's time line, with events that pass at once: the same record."""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest
import torch

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import OPS
from lockstep.workloads.data.prepare import prepared
from lockstep.workloads.loop import train
from lockstep.workloads.loop.rank import Accelerator
from lockstep.workloads.measure.cuda import Anchor, Timeline
from lockstep.workloads.spec import Layout, RunSpec, Training

pytestmark = pytest.mark.distributed

Forked = Callable[[int, Callable[[int], Any]], list[Any]]
STEPS = 12


class HostEvent:
    def record(self) -> None:
        self.at_ns = monotonic_ns()

    def query(self) -> bool:
        return True

    def elapsed_time(self, end_event: "HostEvent") -> float:
        return (end_event.at_ns - self.at_ns) / 1e6


def host_timeline(_device: torch.device) -> Timeline:
    def anchor() -> Anchor:
        event = HostEvent()
        event.record()
        return Anchor(event, event.at_ns)

    timeline = Timeline(HostEvent, anchor)

    def poll() -> None:
        pause = threading.Event()
        while not pause.wait(0.001):
            timeline.poll()

    threading.Thread(target=poll, daemon=True).start()
    return timeline


class Pretended(Accelerator):
    """The cores, taken for a GPU by the loop."""

    is_cuda = True
    backend = "gloo"
    process_device = None
    name = uuid = "GPU-pretended"

    def use(self) -> None:
        return

    def precision(self) -> Any:
        return torch.autocast("cpu", torch.bfloat16)

    def batch(self, ids: Any) -> torch.Tensor:
        return torch.from_numpy(ids)

    def fetched(self, value: torch.Tensor) -> torch.Tensor:
        return value.detach().clone()


def recorded(
    forked: Forked, folder: Path, layout: Layout, before: Callable[[], None] = lambda: None
) -> list[dict[str, Any]]:
    """What each rank left, in whose process `before` was called first."""
    spec = RunSpec(
        "run", "gpt", layout, STEPS, 1, pace=False,
        training=Training(vocabulary=32, sequence=16, micro_batches=layout.pp),
    )  # fmt: skip
    folder.mkdir()
    dataset = prepared(spec, folder)

    def work(rank: int) -> Any:
        before()
        job = train.RankJob(
            spec=spec, rank=rank, node_dir=folder, rendezvous=f"file://{folder}/rendezvous",
            dataset=dataset, checkpoints=folder / "checkpoints", cores=2, start_wall_ns=0,
        )  # fmt: skip
        train.train(job)
        page = (folder / ring.file_name(rank)).read_bytes()
        ops, steps = ring.LIVE.unpack_from(page, ring.LIVE_OFFSET)[:2]
        raw = page[ring.OPS_OFFSET :][: ops * ring.OP_RECORD.size]
        kinds = Counter(
            f"{one[3]} {OPS[one[0]]} {one[1]} {one[4]}"
            for one in ring.OP_RECORD.iter_unpack(raw)
            if OPS[one[0]] != "gc"  # Python collects when it will
        )
        raw = page[ring.STEPS_OFFSET :][: steps * ring.STEP_RECORD.size]
        losses = [ring.step_record(slot).loss for slot in ring.STEP_RECORD.iter_unpack(raw)]
        late = [
            one[8] > one[9] for one in ring.OP_RECORD.iter_unpack(page[ring.OPS_OFFSET :][:480])
        ]
        return {"ops": kinds, "losses": losses, "late": any(late)}

    return forked(layout.world, work)


@pytest.mark.parametrize("layout", [Layout(2, 1, 2), Layout(1, 2, 1, 1, 2)])
def test_the_loop_leaves_the_same_record_on_a_stream(
    forked: Forked, tmp_path: Path, layout: Layout
) -> None:
    plain = recorded(forked, tmp_path / "plain", layout)

    def pretended() -> None:
        here = Pretended(torch.device("cpu"))
        train.accelerator = lambda _spec, _rank: here  # type: ignore[assignment]
        train.cuda_timeline = host_timeline  # type: ignore[assignment]

    streamed = recorded(forked, tmp_path / "streamed", layout, pretended)

    for one, other in zip(plain, streamed, strict=True):
        assert one["ops"] == other["ops"]
        assert not other["late"]
        assert one["losses"] == pytest.approx(other["losses"], rel=0.02, nan_ok=True)
