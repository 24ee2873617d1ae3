"""The figures of what-if, each explained."""

import math

from lockstep.dashboard.words import what_if

TOLD = {
    "method": "simulation", "S": 1.3, "S_interval": [1.2, 1.4], "S_strata": 1.1, "M_W": 0.8,
    "M_S": None, "S_t": {"forward-compute": 1.1, "backward-compute": 1.2}, "S_dp": {"0": 1.0},
    "fixes": [{"remove": "node-1", "gain": 0.2, "interval": [0.1, 0.25], "by": "bound",
               "over": "all steps seen"}],
    "notes": ["without stages, longer sequences count"],
}  # fmt: skip


def test_every_figure_that_is_known_is_explained() -> None:
    frame = what_if.figures(TOLD)
    expected = [
        "Run against ideal (S)", "Run against its middle workers (S_strata)",
        "Explained by the worst workers (M_W)", "Operation backward-compute alone (S_t)",
        "Operation forward-compute alone (S_t)", "Replica 0 alone (S_dp)",
    ]  # fmt: skip
    assert expected == frame["figure"].tolist()
    assert frame["what it says"].str.len().min() > 20


def test_parts_of_s_stand_worst_first() -> None:
    frame = what_if.figures(TOLD)
    parts = frame[frame["figure"].str.endswith("(S_t)")]
    assert [1.2, 1.1] == parts["value"].tolist()
    assert parts["what it says"].iloc[0].startswith("with only operation backward-compute")


def test_an_interval_that_is_not_told_is_no_number() -> None:
    frame = what_if.figures(TOLD).set_index("figure")
    assert [1.2, 1.4] == frame.loc["Run against ideal (S)", ["at least", "at most"]].tolist()
    assert math.isnan(frame.loc["Run against its middle workers (S_strata)", "at least"])


def test_a_fix_says_what_it_gives_and_how_that_is_known() -> None:
    assert [["node-1", 0.2, 0.1, 0.25, "bound, all steps seen"]] == (
        what_if.fixes(TOLD).to_numpy().tolist()
    )


def test_a_fix_without_its_own_method_is_known_by_that_of_all() -> None:
    told = {"method": "simulation", "fixes": [{"remove": "node-1", "gain": 0.2}]}
    assert "simulation" == what_if.fixes(told).loc[0, "known by"]


def test_shorter_steps_are_told_as_more_steps_in_the_same_time() -> None:
    assert "Without node-1: +25 % steps an hour (95 % interval +11 % to +33 %)." == what_if.without(
        TOLD
    )
    assert "Without x: +25 % steps an hour." == (
        what_if.without({"fixes": [{"remove": "x", "gain": 0.2, "interval": None}]})
    )


def test_without_a_fix_nothing_is_promised() -> None:
    assert "" == what_if.without({"method": "none"})
    assert "" == what_if.without({"fixes": [{"remove": "x", "gain": "much"}, 4]})


def test_the_method_is_told_with_its_notes() -> None:
    assert "Simulated from the operations" in what_if.method(TOLD)
    assert "Note: without stages" in what_if.method(TOLD)


def test_no_method_says_why() -> None:
    assert (
        "What the run would take without its culprits is unknown: clocks differ."
        == what_if.method({"method": "none", "why": "clocks differ"})
    )


def test_what_is_no_number_is_left_out() -> None:
    assert what_if.figures({"S": float("nan"), "S_t": [1], "M_W": True}).empty
