"""The recording rules, by Prometheus' own tool: what they say of peers, and of broken telemetry."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lockstep.analyzer.rules.recording_rules.rules import recorded_series, rules
from lockstep.analyzer.rules.recording_rules.signals import PLACE
from tests.analyzer.rules.recording_rules.pages import RANKS

FILE = Path(__file__).parents[4] / "deploy" / "rules" / "lockstep-peers.rules.yml"
SUSPECTS = "sort(count by (rank) (lockstep:train_own_seconds:z > 3))"


def test_the_committed_file_is_what_the_rules_generate():
    assert FILE.read_text() == rules()


def test_every_recorded_name_has_the_level_metric_operation_form():
    assert all(name.count(":") == 2 and name.startswith("lockstep:") for name in recorded_series())
    assert len(recorded_series()) == len(set(recorded_series()))


class TestPromtool:
    pytestmark = pytest.mark.prometheus

    def test_the_committed_file_is_valid(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            pytest.skip("promtool is not installed")
        answer = subprocess.run([promtool, "check", "rules", str(FILE)], capture_output=True)
        assert 0 == answer.returncode

    def test_peers_that_are_alike_have_no_suspect_and_all_are_counted(self, pages, says):
        says(pages, "5m", SUSPECTS, [])
        count = "lockstep:train_own_seconds:count"
        says(pages, "5m", count, [(f'{count}{{run="r",pp="0",tp="0"}}', 5)])

    def test_a_slow_rank_is_told_with_its_place(self, pages, says):
        pages.rank(3, own="0+1.2x40")
        labels = 'run="r",rank="3",world_size="5",dp="3",pp="0",tp="0",node="node-3",gpu="0"'
        # (0.12 - 0.10) / (1.4826 * 0 + 0.01 * 0.10 + 0.0001)
        expected = [(f'{{{labels},uuid="GPU-3"}}', 18.182)]
        says(pages, "5m", "round(lockstep:train_own_seconds:z > 3, 0.001)", expected)

    @pytest.mark.parametrize(
        ("own", "found"), [("0+1.032x40", []), ("0+1.034x40", [('{rank="3"}', 1)])]
    )
    def test_the_boundary_is_three_floors_where_peers_are_exactly_alike(
        self, pages, says, own, found
    ):
        pages.rank(3, own=own)
        says(pages, "5m", SUSPECTS, found)

    def test_a_rank_that_nobody_scrapes_is_absent_and_not_a_suspect(self, pages, says):
        pages.rank(3, own="0+1.2x10 _x30", steps="0+10x10 _x30", info="1x10 _x30", up="1x10 _x30")
        says(pages, "9m", SUSPECTS, [])
        says(pages, "9m", "sum(lockstep:train_own_seconds:count)", [("{}", 4)])

    def test_half_of_the_ranks_missing_leaves_the_rest_compared(self, pages, says):
        for rank in (0, 1):
            pages.rank(rank, own="_x40", steps="_x40")
        pages.rank(3, own="0+1.2x40")
        says(pages, "5m", SUSPECTS, [('{rank="3"}', 1)])

    def test_nan_is_no_value(self, pages, says):
        pages.rank(0, own=" ".join(["NaN"] * 40))
        pages.rank(3, own="0+1.2x40")
        says(pages, "5m", SUSPECTS, [('{rank="3"}', 1)])
        says(pages, "5m", "sum(lockstep:train_own_seconds:count)", [("{}", 4)])

    def test_attempts_and_a_node_that_a_rank_left_are_no_second_match(self, pages, says):
        pages.rank(3, own="0+1.2x40", attempt=1)  # beside attempt 0, on the same page
        pages.rank(2, node="spare", own="0+1x40", attempt=1)  # two pages tell of a living rank 2
        says(pages, "5m", f"count({PLACE})", [("{}", RANKS)])
        says(pages, "5m", SUSPECTS, [('{rank="3"}', 1)])

    def test_a_rank_that_moved_is_where_it_lives(self, pages, says):
        pages.rank(2, up="0x40", own="5+0x40", steps="50+0x40")
        pages.rank(2, node="spare", attempt=1)
        node = f'count by (node) ({PLACE}{{rank="2"}})'
        says(pages, "5m", node, [('{node="spare"}', 1)])

    def test_the_node_that_the_page_tells_goes_before_that_of_the_target(self, pages, says):
        pages.series.clear()
        pages.rank(2, node="node-2", target='job="lockstep",instance="host:9410",node="host"')
        says(pages, "5m", f"count by (node) ({PLACE})", [('{node="node-2"}', 1)])

    def test_a_resumed_run_has_no_negative_or_enormous_step(self, pages, says):
        # Steps fall from 200 to 150; own seconds begin anew.
        pages.rank(3, own="0+1x20 0+1x20", steps="0+10x20 150+10x20")
        for moment in ("5m15s", "5m45s", "7m"):
            says(pages, moment, "count(abs(lockstep:train_own_seconds:z) > 3)", [])

    def test_the_late_rank_waits_least(self, pages, says):
        for rank in range(RANKS):
            pages.collectives(rank, "0+0.1x40" if rank == 3 else "0+0.5x40")
        wait = 'round(lockstep:train_wait_seconds:avg1m{rank=~"0|3"}, 0.001)'
        says(
            pages, "5m", f"sort(max by (rank) ({wait}))", [('{rank="3"}', 0), ('{rank="0"}', 0.04)]
        )
        low = "count by (rank) (lockstep:train_wait_seconds:z < -3)"
        says(pages, "5m", low, [('{rank="3"}', 1)])

    def test_a_hot_gpu_with_a_low_clock_stands_out_by_both(self, pages, says):
        for rank in range(RANKS):
            celsius, hertz = ("91x40", "1.5e9x40") if rank == 3 else ("64x40", "1.98e9x40")
            pages.gpu(rank, "lockstep_gpu_temperature_celsius", celsius, ',sensor="gpu"')
            pages.gpu(rank, "lockstep_gpu_clock_hertz", hertz, ',domain="sm"')
        hot, slow = "gpu_temperature_celsius:z > 3", "gpu_sm_clock_hertz:z < -3"
        for outlier in (hot, slow):
            says(pages, "5m", f"count by (rank) (lockstep:{outlier})", [('{rank="3"}', 1)])


class TestNcclRankWait:
    pytestmark = pytest.mark.prometheus
    WAIT = "round(lockstep:nccl_rank_wait:rate1m, 0.001)"

    @staticmethod
    def told(pages, rank, seconds, counts="0+150x40", communicator="0xa", ranks=3):
        group = f'job="lockstep",instance="node-{rank}:9410",run="r",group="dp"'
        mine = f'{group},communicator="{communicator}"'
        pages.series |= {
            f"lockstep_nccl_inspector_ranks{{{mine}}}": f"{ranks}x40",
            f'lockstep_nccl_rank_collective_seconds_total{{{mine},rank="{rank}"}}': seconds,
            f'lockstep_nccl_rank_collectives_total{{{mine},rank="{rank}"}}': counts,
        }

    def test_the_late_rank_waits_nothing_and_the_others_for_it(self, pages, says):
        for rank, seconds in enumerate(("0+6x40", "0+1.5x40", "0+6x40")):
            self.told(pages, rank, seconds)
        labels = 'run="r",group="dp",communicator="0xa",rank='
        expected = [(f'{{{labels}"{rank}"}}', wait) for rank, wait in ((0, 0.3), (1, 0), (2, 0.3))]
        says(pages, "5m", self.WAIT, expected)

    def test_with_a_rank_that_nobody_scrapes_nothing_is_said(self, pages, says):
        self.told(pages, 0, "0+6x40")
        self.told(pages, 1, "0+1.5x40")
        says(pages, "5m", self.WAIT, [])

    def test_a_rank_that_told_of_fewer_collectives_is_not_compared(self, pages, says):
        for rank, counts in enumerate(("0+150x40", "0+100x40", "0+150x40")):
            self.told(pages, rank, "0+6x40", counts)
        says(pages, "5m", self.WAIT, [])
