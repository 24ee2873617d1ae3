"""docs/ml/timed-waits.md: of each kind of program, what is timed and whether the late rank shows.

Every row is run: unchanged, on real ranks over gloo, with rank 1 late by 40 ms in each step, or
by more where this machine is busy with something else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import sleep

import pytest

from lockstep.workloads.launch.joining.reachable import free_port
from tests.workloads.sdk.waits import frameworks, programs
from tests.workloads.sdk.waits.ranks import Told, grouped, told, unchanged

PAGE = Path(__file__).parents[4] / "docs" / "ml" / "timed-waits.md"
LATE_RANK, LATE = 1, 0.040
MOST_LATE = 0.5
LOOKS = 4
"""Where a look cannot tell the late rank from this machine's noise, it is later in the next."""
RANKS = {programs.pipeline: 3, programs.ddp_join_divided: 3}
ALL, NONE = "100 %", "0 %"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the page."""

    program: str
    call: Callable[[programs.Late], object] | None
    timed: str
    note: str = ""
    needs: str = "torch"

    @property
    def known(self) -> bool:
        return self.timed != ""


BUCKETS = "gradient buckets"
ROWS = (
    Row("DDP", programs.ddp, BUCKETS),
    Row("DDP with BatchNorm", programs.ddp_buffers, f"{BUCKETS}, broadcast of buffers"),
    Row("DDP with masks as buffers (minGPT)", programs.ddp_mask,
        f"{BUCKETS}, broadcast of buffers"),
    Row("DDP, gradient accumulation (`no_sync`)", programs.ddp_accumulating, BUCKETS),
    Row("DDP, `static_graph`", programs.ddp_static, BUCKETS),
    Row("DDP, `find_unused_parameters`", programs.ddp_unused, f"{BUCKETS}, map of what is used"),
    Row("DDP, `gradient_as_bucket_view`", programs.ddp_views, BUCKETS,
        "a number of ranks that is no power of two: unknown"),
    Row("DDP with sparse gradients", programs.ddp_sparse, "", "no hook can carry them"),
    Row("DDP, uneven inputs (`join`)", programs.ddp_join, f"{BUCKETS}, who still trains"),
    Row("DDP, `join` dividing by who trains", programs.ddp_join_divided,
        f"{BUCKETS}, who still trains"),
    Row("DDP with a communication hook", programs.ddp_own_hook, "the hook's futures",
        "a hook registered before the recorder was made: unknown"),
    Row("DDP with a hook built in C++", programs.ddp_builtin_hook, "the same hook in Python"),
    Row("ZeroRedundancyOptimizer", programs.zero, f"{BUCKETS}, broadcast of parameters"),
    Row("FSDP1", programs.fsdp1, "gathers and scatters"),
    Row("FSDP2 (`fully_shard`)", programs.fsdp2, "gathers and scatters"),
    Row("DTensor", programs.dtensor, "functional collectives"),
    Row("tensor parallel", programs.tensor_parallel, "functional collectives"),
    Row("pipeline (`torch.distributed.pipelining`)", programs.pipeline, "sends and receives"),
    Row("all-reduce by hand", programs.by_hand, "all-reduces"),
    Row("all-reduce by hand, asynchronous", programs.by_hand_async, "waits for them"),
    Row("send and receive by hand", programs.send_and_receive, "sends and receives"),
    Row("gathers of objects", programs.objects, "gathers"),
    Row("polling `Work.is_completed`", programs.polling, "", "looks like work from outside"),
    Row("Accelerate", frameworks.accelerate_, f"{BUCKETS}, broadcast of buffers",
        needs="accelerate"),
    Row("Lightning, `strategy=\"ddp\"`", frameworks.lightning_,
        f"{BUCKETS}, broadcast of buffers", needs="lightning"),
    Row("HF Trainer", frameworks.trainer_, f"{BUCKETS}, broadcast of buffers",
        needs="transformers"),
    Row("torchtitan 0.3", None, "",
        "not run: cannot start on CPU, its trainer calls `torch.cuda.set_device`"),
)  # fmt: skip
RUN = [row for row in ROWS if row.call is not None]


def page() -> str:
    """The page's table."""
    lines = [
        "| program | what is timed | steps known | late rank is latest | note |",
        "|---|---|---|---|---|",
    ]
    for row in ROWS:
        known = "–" if row.call is None else ALL if row.known else NONE
        right = "–" if row.call is None else "yes" if row.known else "unknown, nobody is named"
        cells = (row.program, row.timed or "nothing", known, right, row.note)
        lines.append("| " + " | ".join(cells).rstrip() + " |")
    return "\n".join(lines)


def late(seconds: float) -> None:
    import torch.distributed as dist

    if dist.get_rank() == LATE_RANK:
        sleep(seconds)


def looked_at(row: Row, seconds: float, folder: Path, forked: Callable[..., object]) -> list[Told]:
    """The row's program once on real ranks, one of them so many seconds late."""
    port = free_port()
    world = RANKS.get(row.call, 2)
    call = partial(row.call, partial(late, seconds))
    program = call if row.call.__module__ == frameworks.__name__ else partial(grouped, call)
    forked(world, lambda rank: unchanged(folder, rank, world, port, program))
    return told(folder)


def latest(ranks: list[Told], seconds: float) -> int | None:
    """Who holds the others back, by medians of own times; None if noise could have done that.

    What noise does is what it does to the own times of ranks that are not late, in these seconds.
    """
    by_own = sorted(range(len(ranks)), key=lambda rank: ranks[rank].own)
    margin = ranks[by_own[-1]].own - ranks[by_own[-2]].own
    quiet = [told for rank, told in enumerate(ranks) if rank != LATE_RANK]
    noise = max(told.spread for told in quiet)
    return by_own[-1] if margin > max(seconds / 2, noise) else None


@pytest.mark.parametrize(
    ("own", "spread", "expected"),
    [
        ((0.010, 0.050), 0.005, 1),
        ((0.050, 0.010), 0.005, 0),
        ((0.050, 0.050), 0.005, None),  # untimed waits make own times alike
        ((0.010, 0.050), 0.060, None),
        ((0.050, 0.010), 0.060, None),
    ],
)
def test_who_is_latest_is_told_only_beyond_the_noise(own, spread, expected):
    ranks = [Told(10, 1.0, each, spread) for each in own]
    assert expected == latest(ranks, LATE)


def test_the_page_has_the_table():
    assert page() in PAGE.read_text()


@pytest.mark.sweep(sample=4)
@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.parametrize("row", RUN, ids=lambda row: row.program)
def test_what_is_timed_shows_the_late_rank_and_what_is_not_is_unknown(row, forked, tmp_path):
    if find_spec(row.needs) is None:
        pytest.skip(f"{row.needs} is not installed")
    seconds, seen = LATE, []
    for look in range(LOOKS):
        (tmp_path / str(look)).mkdir()
        ranks = looked_at(row, seconds, tmp_path / str(look), forked)

        assert all(rank.steps > 0 for rank in ranks)
        assert {1.0 if row.known else 0.0} == {rank.known for rank in ranks}
        if not row.known:
            return
        seen.append((seconds, ranks))
        name = latest(ranks, seconds)
        assert name in {None, LATE_RANK}, f"rank {name} was blamed: {seen}"
        if name == LATE_RANK:
            return
        # A loaded machine: later than it makes the quiet ranks by itself.
        noise = max(told.spread for rank, told in enumerate(ranks) if rank != LATE_RANK)
        seconds = min(MOST_LATE, max(2 * seconds, 3 * noise))
    pytest.fail(f"rank {LATE_RANK} was late and did not show: {seen}")
