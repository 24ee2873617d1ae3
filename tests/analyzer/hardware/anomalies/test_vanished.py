"""A GPU that vanished, told from a scrape that failed."""

import numpy as np
import pytest

from lockstep.analyzer.hardware.anomalies.judge import judge
from tests.analyzer.hardware.anomalies.conftest import EPOCH, MODEL, SECONDS


def silent(fleet, columns, since, until=None):
    for cells in fleet.gpus.values():
        cells[since:until, columns] = np.nan
    return fleet


def test_one_gpu_whose_series_stop_while_its_node_answers_has_vanished(hardware):
    judged = judge(silent(hardware(), [5], 40).samples())

    assert [("gone", "node-1", 1)] == [(e.subject, e.node, e.gpu) for e in judged.deviations]
    assert judged.deviations[0].text == (
        "GPU 1 of node-1 reports nothing since 20 scrapes, in which its node answered"
    )
    assert abs(judged.deviations[0].since - (EPOCH + 40 * SECONDS)) <= SECONDS


def test_a_page_that_is_missing_says_nothing_of_its_gpus(hardware):
    fleet = hardware()
    fleet.of_nodes["up", ""][40:, 1] = 0.0

    judged = judge(fleet.samples())

    assert () == judged.deviations
    assert judged.missing == (
        "the last 3 scrapes of node-1 failed: the state of the hardware there is unknown since",
    )


def test_a_source_that_stops_takes_all_gpus_of_a_node_and_accuses_none(hardware):
    judged = judge(silent(hardware(), [4, 5, 6, 7], 40).samples())

    assert () == judged.deviations
    assert judged.missing == (
        "no GPU of node-1 reported anything at the end: the source of GPUs stopped",
    )


def test_a_lone_gpu_has_vanished_if_the_source_says_that_it_is_well(hardware):
    fleet = silent(hardware(nodes=2, width=1), [1], 40)
    fleet.of_nodes["lockstep_source_up", 'source="nvml"'] = np.ones((60, 2))

    assert ["node-1"] == [each.node for each in judge(fleet.samples()).deviations]


def test_a_gpu_that_misses_two_scrapes_is_still_there(hardware):
    assert () == judge(silent(hardware(), [5], 58).samples()).deviations
    assert () == judge(silent(hardware(), [5], 30, 33).samples()).deviations


def test_telemetry_that_collapses_to_a_few_series_is_a_gpu_that_is_going(hardware):
    fleet = hardware()
    for key in list(fleet.gpus)[3:]:
        fleet.gpus[key][40:, 5] = np.nan

    found = judge(fleet.samples()).deviations

    assert ["GPU 1 of node-1 reports next to nothing since 20 scrapes"] == [
        each.text.partition(",")[0] for each in found
    ]


def test_a_simulated_gpu_goes_with_its_process(hardware):
    fleet = silent(hardware(), [5], 40)
    fleet.info[5] = lambda _: MODEL.format(gpu=1) + ',simulated="true"'

    assert () == judge(fleet.samples()).deviations


def test_a_gpu_that_does_not_answer_its_driver_is_told(hardware):
    fleet = hardware()
    up = np.ones((60, 8))
    up[50:, 2] = 0.0
    fleet.gpus["lockstep_gpu_up", ""] = up

    assert ["GPU 2 of node-0 does not answer its driver"] == [
        each.text for each in judge(fleet.samples()).deviations
    ]


def test_a_gpu_that_answers_again_or_was_asked_twice_is_well(hardware):
    fleet = hardware()
    up = np.ones((60, 8))
    up[50:55, 2] = up[58:, 3] = 0.0
    fleet.gpus["lockstep_gpu_up", ""] = up

    assert () == judge(fleet.samples()).deviations


def test_a_driver_that_counts_fewer_gpus_than_the_bus_is_told_of_its_node(hardware):
    fleet = hardware()
    present, expected = np.full((60, 2), 4.0), np.full((60, 2), 4.0)
    present[50:, 1] = 3.0
    fleet.of_nodes["lockstep_gpu_present", ""] = present
    fleet.of_nodes["lockstep_gpu_expected", ""] = expected

    assert ["node-1: its driver counts 3 of 4 GPUs"] == [
        each.text for each in judge(fleet.samples()).deviations
    ]


def test_a_driver_that_counts_ever_fewer_gpus_is_told_with_what_it_counts_now(hardware):
    fleet = hardware()
    present = np.full((60, 2), 4.0)
    present[30:, 1], present[50:, 1] = 3.0, 1.0
    fleet.of_nodes["lockstep_gpu_present", ""] = present
    fleet.of_nodes["lockstep_gpu_expected", ""] = np.full((60, 2), 4.0)

    (told,) = judge(fleet.samples()).deviations

    assert "node-1: its driver counts 1 of 4 GPUs" == told.text
    assert EPOCH + 30 * SECONDS == pytest.approx(told.since, abs=SECONDS)


def test_a_gpu_that_refuses_and_collapses_is_named_once(hardware):
    fleet = silent(hardware(), [5], 40)
    up = np.ones((60, 8))
    up[40:, 5] = 0.0
    fleet.gpus["lockstep_gpu_up", ""] = up

    words = (
        "GPU 1 of node-1 does not answer its driver; reports next to nothing since 20 scrapes, in"
        " which its node answered"
    )

    assert [words] == [each.text for each in judge(fleet.samples()).deviations]
