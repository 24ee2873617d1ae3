import numpy as np

from lockstep.dashboard.comparison import Measure, Nodes
from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.words.compared import COLUMNS, RATIOS, answer, missing, table, verdict

SLOWER = Measure("step", "Step time, p50", "s", 1.0, 1.12, 1.12, (1.09, 1.15), 0.97, 1e-9, True)
FASTER = Measure("step", "Step time, p50", "s", 1.0, 0.8, 0.8, (0.78, 0.82), -1.0, 1e-9, True)
SAME = Measure("step", "Step time, p50", "s", 1.0, 1.02, 1.02, (0.98, 1.06), 0.1, 0.6, False)
FEW = Measure("step", "Step time, p50", "s", 1.0, 1.5, None, None, np.nan, np.nan, False)
NODES = Nodes(("node-3",), (), 3)


def test_a_slower_run_is_told_with_interval_phase_and_nodes() -> None:
    said = answer(SLOWER, ("backward",), NODES)
    assert said.text == (
        "b is 12 % slower per step than a (95 % interval +9.0 % to +15.0 %): backward grew;"
        " b ran without node-3."
    )
    assert Severity.WARNING == said.severity


def test_a_faster_run_is_told_with_what_shrank() -> None:
    said = answer(FASTER, ("forward", "backward"), None)
    assert said.text == (
        "b is 20 % faster per step than a (95 % interval -22.0 % to -18.0 %): forward and backward"
        " shrank."
    )
    assert Severity.OK == said.severity


def test_within_noise_nobody_is_slower() -> None:
    said = answer(SAME, ("backward",), Nodes((), (), 4))
    assert said.text == (
        "The steps of b and a take the same time within noise (+2.0 %, 95 % interval -2.0 % to"
        " +6.0 %)."
    )


def test_too_few_steps_or_none_are_unknown_and_no_nan() -> None:
    for step in (FEW, None):
        said = answer(step, (), None)
        assert Severity.UNKNOWN == said.severity
        assert "cannot be said" in said.text
        assert "nan" not in said.text


def test_runs_of_another_workload_are_told_to_be() -> None:
    said = answer(SLOWER, (), None, ("gpt dp=4", "resnet dp=4"))
    assert said.text.endswith("; a step is not the same work: a is gpt dp=4, b is resnet dp=4.")
    assert "not the same work" not in answer(SLOWER, (), None, ("gpt dp=4", "gpt dp=4")).text


def test_many_nodes_are_counted() -> None:
    said = answer(SAME, (), Nodes((), tuple(f"node-{at}" for at in range(9)), 0))
    assert "b ran with node-0, node-1, node-2 and 6 more." in said.text


def test_each_measure_has_a_verdict_in_words() -> None:
    assert ["12 % higher in b", "20 % lower in b", "same within noise"] == [
        verdict(each) for each in (SLOWER, FASTER, SAME)
    ]
    assert verdict(FEW).startswith("too few values")


def test_the_table_has_numbers_in_base_units_also_when_it_is_empty() -> None:
    assert list(COLUMNS) == list(table([]).columns)
    row = table([SLOWER]).iloc[0]
    assert [1.0, 1.12, "s"] == [row["a"], row["b"], row["unit"]]
    assert [0.12, 0.09, 0.15] == [round(row[each], 9) for each in RATIOS]


def test_charts_of_only_one_run_are_named() -> None:
    assert missing(["Loss", "MFU"], ["Loss"]) == "Only a has MFU."
    assert missing(["Loss"], ["Loss"]) == ""
