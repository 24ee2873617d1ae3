"""Several runs on one cluster."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.shapes.run import Culprit
from lockstep.analyzer.stats.shared_part import Part
from lockstep.analyzer.verdict.cluster import RunView, Span, cluster, cluster_json, run_view
from lockstep.analyzer.verdict.pipeline import diagnose

DAY = Span(0.0, 1000.0)
PLACES = {
    **{f"a{n}": {"leaf": "leaf-1", "rack": "r1", "storage": "nfs-a"} for n in range(4)},
    **{f"b{n}": {"leaf": "leaf-2", "rack": "r1", "storage": "nfs-a"} for n in range(4)},
    **{f"c{n}": {"leaf": "leaf-3", "rack": "r2", "storage": "nfs-b"} for n in range(4)},
}


def run(name, nodes, *slow, culprits=(), **more):
    spans = tuple(Span(*each) for each in slow)
    return RunView(name, frozenset(nodes.split()), DAY, spans, True, tuple(culprits), **more)


def culprit(node, cause, confidence=0.9):
    return Culprit("rank", 1, node, 0, None, 1, 0, 0, None, 5, None, None, 1.4, (1.3, 1.5), cause,
                   confidence, "page", ())  # fmt: skip


def test_the_leaf_that_all_slow_runs_use_and_no_healthy_one_does_is_named():
    told = cluster(
        [
            run("one", "a0 c0", (100, 900)),
            run("two", "a1 b0", (200, 950)),
            run("three", "b1 c1"),
        ],
        PLACES,
    )

    assert ("shared", Part("leaf", "leaf-1")) == (told.status, told.part)
    assert (("one", "two"), ("three",)) == (told.slow, told.healthy)
    assert Span(200, 900) == told.when
    assert told.sentence == (
        "Leaf leaf-1 probably holds 2 runs back (one, two): all of them use it and none of 1"
        " healthy ones does. Confidence in that part 0.50."
    )


def test_a_node_that_two_slow_runs_share_is_narrower_than_its_leaf():
    told = cluster(
        [run("one", "a0 b0", (0, 9)), run("two", "a0 b1", (0, 9)), run("three", "c0")], PLACES
    )

    assert Part("node", "a0") == told.part
    assert told.confidence < 0.5


def test_a_healthy_run_on_the_same_storage_clears_it():
    views = [run("one", "a0", (0, 9)), run("two", "b0", (0, 9)), run("far", "c0")]

    assert Part("rack", "r1") == cluster(views, PLACES).part
    cleared = cluster([*views, run("three", "b1")], PLACES)
    assert ("unknown", None, ()) == (cleared.status, cleared.part, cleared.possible)
    assert "no part that is known is used by all of them" in cleared.sentence


def test_two_nodes_that_are_both_possible_are_told_and_neither_is_named():
    told = cluster([run("one", "a0 a1", (0, 9)), run("two", "a0 a1", (0, 9))], {})

    assert ("unknown", None) == (told.status, told.part)
    assert (Part("node", "a0"), Part("node", "a1")) == told.possible
    assert "no topology" in told.sentence


def test_runs_that_were_slow_one_after_the_other_share_nothing():
    told = cluster([run("one", "a0", (0, 50)), run("two", "a0", (60, 90))], PLACES)

    assert "quiet" == told.status


def test_runs_with_culprits_of_their_own_and_other_causes_are_separate():
    told = cluster(
        [
            run("one", "a0 a1", (0, 9), culprits=[culprit("a0", "thermal")]),
            run("two", "a2 a3", (0, 9), culprits=[culprit("a3", "data")]),
        ],
        PLACES,
    )

    assert ("separate", None) == (told.status, told.part)


def test_a_node_that_two_runs_blame_for_other_causes_is_what_they_share():
    for nodes in (("a0 a1", "a0 a2"), ("a0", "a0")):
        told = cluster(
            [
                run("one", nodes[0], (0, 9), culprits=[culprit("a0", "thermal")]),
                run("two", nodes[1], (0, 9), culprits=[culprit("a0", "power")]),
            ],
            {},
        )

        assert ("shared", Part("node", "a0")) == (told.status, told.part)


def test_runs_that_blame_other_causes_on_nodes_of_one_storage_accuse_no_storage():
    told = cluster(
        [
            run("one", "a0", (0, 9), culprits=[culprit("a0", "thermal")]),
            run("two", "b0", (0, 9), culprits=[culprit("b0", "power")]),
            run("three", "c0"),
        ],
        PLACES,
    )

    assert ("unknown", None) == (told.status, told.part)
    assert (Part("rack", "r1"), Part("storage", "nfs-a")) == told.possible


def test_the_words_name_the_culprits_that_decided():
    link = dataclasses.replace(
        culprit("c8", "network"), scope="link", rank=None, node=None, link="c8--c9"
    )
    told = cluster(
        [
            run("one", "a0 a1", (0, 9), culprits=[link, culprit("a0", "thermal")]),
            run("two", "a2 a3", (0, 9), culprits=[culprit("a3", "data")]),
        ],
        PLACES,
    )

    assert "separate" == told.status
    assert "one by rank 1 (thermal), two by rank 1 (data)" in told.sentence
    assert "c8--c9" not in told.sentence


def test_a_storage_that_the_whole_cluster_uses_is_possible_and_not_named():
    places = {"d0": {"storage": "nfs-a"}, "d1": {"storage": "nfs-a"}}
    slow = [run("one", "d0", (0, 9)), run("two", "d1", (0, 9))]

    for views in (slow, [*slow, run("three", "somewhere")]):
        told = cluster(views, places)

        assert ("unknown", None) == (told.status, told.part)
        assert (Part("storage", "nfs-a"),) == told.possible
        assert "used by all of them" in told.sentence
        assert "0 healthy" not in told.sentence
    assert "no other storage that is known to be healthy" in told.sentence


def test_runs_that_cannot_be_judged_are_not_quiet():
    dark = [dataclasses.replace(run(name, "a0"), known=False) for name in ("dark", "darker")]
    slow, well = run("one", "a1", (0, 9)), run("three", "b0")

    for views in (dark, [slow, dark[0]], [slow, well, *dark]):
        told = cluster(views, PLACES)
        named = tuple(view.run for view in views if not view.known)

        assert ("unknown", named) == (told.status, told.unjudged)
        assert f"of {', '.join(named)} it cannot be said" in told.sentence
        assert ("one was slow" in told.sentence) == (slow in views)
    assert "quiet" == cluster([well, dark[0]], PLACES).status


def test_a_run_s_own_innocent_nodes_clear_what_they_stand_on():
    own = [culprit("a0", "power"), culprit("a3", "power")]
    told = cluster(
        [
            run("one", "a0 a1", (0, 9), culprits=own[:1]),
            run("two", "a3 c0", (0, 9), culprits=own[1:]),
        ],
        PLACES,
    )

    assert ("unknown", None) == (told.status, told.part)


def test_a_healthy_emulated_run_clears_no_real_node_of_the_same_name():
    real = [run("one", "a0 b0", (0, 9)), run("two", "a0 c0", (0, 9)), run("three", "b1 c1")]
    told = cluster([*real, run("emulated", "a0 a1", emulated=True)], PLACES)

    assert ("shared", Part("node", "a0")) == (told.status, told.part)
    assert ("emulated",) == told.unjudged
    assert told.sentence.endswith(
        " 1 run is left out (emulated): of emulated nodes, and real ones of the same names are"
        " other machines."
    )


def test_a_slow_emulated_run_shares_no_leaf_with_a_real_one():
    told = cluster([run("one", "a0", (0, 9)), run("two", "a0", (0, 9), emulated=True)], PLACES)

    assert ("quiet", None) == (told.status, told.part)


def test_emulated_runs_are_compared_with_each_other_where_only_those_are_two():
    emulated = [run(name, "a0", (0, 9), emulated=True) for name in ("one", "two")]
    told = cluster([*emulated, run("three", "b0")], {})

    assert (("one", "two"), ("three",)) == (told.slow, told.unjudged)


def test_emulated_nodes_of_two_runs_are_never_one_machine():
    told = cluster(
        [run("one", "node-0", (0, 9), emulated=True), run("two", "node-0", (0, 9), emulated=True)],
        {},
    )

    assert ("unknown", ()) == (told.status, told.possible)
    assert "not the same machine" in told.sentence


def test_a_place_that_is_not_known_lowers_the_confidence():
    views = [run("one", "a0 x0", (0, 9)), run("two", "a1 x1", (0, 9)), run("three", "b0")]

    told = cluster(views, PLACES)

    assert Part("leaf", "leaf-1") == told.part
    assert 0.25 == told.confidence
    assert "the place of 2 of 4 nodes is not known" in told.sentence


RUNS = st.lists(
    st.tuples(
        st.sets(st.sampled_from(sorted(PLACES)), min_size=1, max_size=4),
        st.lists(st.tuples(st.integers(0, 90), st.integers(1, 60)), max_size=2),
    ),
    max_size=6,
)


@given(RUNS, st.randoms(use_true_random=False))
def test_a_named_part_is_used_by_every_slow_run_and_by_no_healthy_one(drawn, dice):
    views = [
        run(f"run-{n}", " ".join(nodes), *((at, at + long) for at, long in slow))
        for n, (nodes, slow) in enumerate(drawn)
    ]
    told = cluster(views, PLACES)
    shuffled = dice.sample(views, len(views))
    by_name = {each.run: each for each in views}

    def uses(name: str) -> bool:
        nodes = by_name[name].nodes
        if told.part is None or told.part.kind == "node":
            return told.part is not None and told.part.name in nodes
        return told.part.name in {PLACES[node][told.part.kind] for node in nodes}

    json.dumps(cluster_json(told), allow_nan=False)
    if told.part is not None:
        assert all(map(uses, told.slow))
        assert not any(map(uses, told.healthy))
    if told.status in ("quiet", "shared"):
        again = cluster(shuffled, PLACES)
        assert again.status == "quiet" or len(again.slow) == len(told.slow)


def test_a_diagnosed_run_is_slow_from_its_finding_on(synthetic, fault):
    diagnosed = diagnose(synthetic(faults=[fault("thermal", 2, first=120)]).run())
    seen = run_view(diagnosed)
    begin = float(diagnosed.grid.start[diagnosed.grid.from_step >= 120][0])

    assert begin == pytest.approx(seen.slow[0].begin, abs=0.5)
    assert (True, 1) == (seen.known, len(seen.culprits))


def test_only_a_run_that_says_so_has_emulated_nodes(synthetic):
    healthy = synthetic(steps=30).run()
    spec = {"launcher": "local"}

    for said, emulated in ((True, True), (False, False), (None, False)):
        meta = {**healthy.meta, "spec": spec, "emulated_devices": True, "emulated_nodes": said}
        told = run_view(diagnose(dataclasses.replace(healthy, meta=meta)))
        assert emulated == told.emulated


def test_a_healthy_run_is_known_to_be_and_one_without_step_times_is_not(synthetic):
    healthy = synthetic().run()
    blind = dataclasses.replace(
        healthy, windows=healthy.windows.iloc[:0], samples=healthy.samples.iloc[:0]
    )

    assert (True, ()) == (run_view(diagnose(healthy)).known, run_view(diagnose(healthy)).slow)
    assert (False, ()) == (run_view(diagnose(blind)).known, run_view(diagnose(blind)).slow)
