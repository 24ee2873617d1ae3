"""Telemetry that lies, changes its names or is not there: said in words, and nobody is accused."""

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.hardware.anomalies.judge import judge
from lockstep.analyzer.shapes.run import RankInfo
from tests.analyzer.hardware.anomalies.conftest import HEAT, MODEL, POWER, UTIL


def test_full_utilisation_at_idle_power_contradicts_itself(hardware):
    fleet = hardware()
    fleet.gpus[UTIL][:] = 1.0
    fleet.gpus[POWER][20:, 3] = 90.0

    judged = judge(fleet.samples())

    assert () == judged.deviations
    words = (
        "GPU 3 of node-0 reports 100% utilisation and 90 W, the power of an idle GPU: one of the"
        " two is wrong, and neither counts"
    )
    assert (words,) == judged.missing


@pytest.mark.parametrize(("key", "value", "name"), [
    (POWER, 431.0, "power"), (HEAT, 85.0, "temperature"), (UTIL, 0.31, "utilization"),
])  # fmt: skip
def test_a_source_that_always_tells_the_same_is_not_believed(hardware, key, value, name):
    fleet = hardware()
    fleet.gpus[HEAT] += 5.0 * np.sin(fleet.seconds / 100.0)
    fleet.gpus[UTIL] = 0.6 + 0.1 * np.sin(fleet.seconds / 100.0) * np.ones((1, 8))
    fleet.gpus[key][:, 2] = value

    judged = judge(fleet.samples())

    assert () == judged.deviations
    words = (
        f"the {name} of GPU 2 of node-0 stands at exactly {value:g} while that of its peers moves:"
        " it does not count"
    )
    assert (words,) == judged.missing


def test_full_utilisation_that_stands_while_the_peers_wait_is_believed(hardware):
    fleet = hardware().wait(2, since=30)
    fleet.gpus[UTIL][:, 2] = 1.0

    assert () == judge(fleet.samples()).missing


def test_steady_temperatures_in_whole_degrees_are_believed(hardware):
    fleet = hardware()
    fleet.gpus[HEAT][:] = 60.0
    fleet.gpus[HEAT][30:, :4] = 61.0

    assert ((), ()) == (judge(fleet.samples()).deviations, judge(fleet.samples()).missing)


def test_another_part_in_the_same_place_is_not_held_to_the_past_of_the_first(hardware):
    fleet = hardware()
    fleet.gpus[HEAT][:30, 2] += 30.0
    fleet.info[2] = lambda at: MODEL.format(gpu=2 if at < 30 else 99)

    judged = judge(fleet.samples())

    assert () == judged.deviations
    assert judged.missing == (
        "GPU 2 of node-0 is another part than at first: only what it reported since then counts",
    )


def test_a_driver_that_was_updated_leaves_the_part_the_same(hardware):
    fleet = hardware()
    fleet.info[2] = lambda at: MODEL.format(gpu=2).replace("580", "580" if at < 30 else "590")

    assert () == judge(fleet.samples()).missing


def test_labels_that_change_mid_run_are_no_deviation(hardware):
    samples = hardware().samples()
    late = samples["time"] > samples["time"].median()
    labels = samples["labels"].where(~late, samples["labels"] + ',zone="b"')

    assert () == judge(samples.assign(labels=labels.str.removeprefix(","))).deviations


def renamed(samples: pd.DataFrame, at: float, boots: dict[str, str]) -> pd.DataFrame:
    """node-1 is node-9 from a time on; each node tells its boot."""
    told = samples.drop_duplicates(["time", "node"]).assign(metric="lockstep_boot_info", value=1.0)
    told = told.assign(gpu=pd.NA, labels=told["node"].map(lambda node: f'boot_id="{boots[node]}"'))
    samples = pd.concat([samples, told.astype({"gpu": "Int32"})])
    late = (samples["time"] >= at) & (samples["node"] == "node-1")
    return samples.assign(node=samples["node"].where(~late, "node-9"))


def test_a_node_that_changes_its_name_stays_one_node(hardware):
    samples = hardware().hot(5, since=20).samples()
    boots = {"node-0": "a", "node-1": "b"}

    judged = judge(renamed(samples, samples["time"].quantile(0.7), boots))

    assert {("node-9", 1)} == {(each.node, each.gpu) for each in judged.deviations}
    assert ("node-1 is called node-9 since a restart",) == judged.missing


def test_a_node_that_was_away_for_hours_goes_on_under_its_new_name(hardware):
    samples = hardware().samples()
    at = samples["time"].quantile(0.5)
    told = renamed(samples, at, {"node-0": "a", "node-1": "b"})
    later = told.assign(time=told["time"].where(told["time"] < at, told["time"] + 7200.0))

    assert ("node-1 is called node-9 since a restart",) == judge(later).missing


def test_names_that_answer_side_by_side_are_emulated_nodes_of_one_machine(hardware):
    samples = hardware().samples()
    boots = {"node-0": "a", "node-1": "a"}

    judged = judge(renamed(samples, float("inf"), boots))

    assert ((), ()) == (judged.deviations, judged.missing)


def test_half_of_a_fleet_that_is_missing_is_said_and_accuses_nobody(hardware):
    samples = hardware(nodes=2).samples()
    ranks = [RankInfo(r, f"node-{r // 4}", r % 4, None, r % 4, r, 0, 0) for r in range(16)]

    judged = judge(samples, ranks)

    assert () == judged.deviations
    words = (
        "only 8 of 16 GPUs reported anything, not node-2:0, node-2:1, node-2:2, node-2:3,"
        " node-3:0, node-3:1, node-3:2, node-3:3"
    )
    assert (words,) == judged.missing


def test_a_single_gpu_that_is_missing_is_said(hardware):
    ranks = [RankInfo(r, f"node-{r // 4}", r % 4, None, r % 4, r, 0, 0) for r in range(9)]

    assert ("only 8 of 9 GPUs reported anything, not node-2:0",) == judge(
        hardware().samples(), ranks
    ).missing


def test_no_samples_at_all_are_no_deviation(hardware):
    assert ((), ()) == (judge(hardware().samples().iloc[:0]).deviations, ())
    assert () == judge(hardware(bins=1).samples()).deviations
