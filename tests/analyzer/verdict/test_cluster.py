"""Several runs on one cluster: which part holds them back, and what stays unknown."""

import dataclasses
import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.shapes.run import Culprit
from lockstep.analyzer.stats.shared_part import Part
from lockstep.analyzer.verdict.cluster import RunView, Span, cluster, cluster_json, run_view
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.app import main
from lockstep.collector.contract import archive

DAY = Span(0.0, 1000.0)
PLACES = {
    **{f"a{n}": {"leaf": "leaf-1", "rack": "r1", "storage": "nfs-a"} for n in range(4)},
    **{f"b{n}": {"leaf": "leaf-2", "rack": "r1", "storage": "nfs-a"} for n in range(4)},
    **{f"c{n}": {"leaf": "leaf-3", "rack": "r2", "storage": "nfs-b"} for n in range(4)},
}
STORAGE = {"d0": {"storage": "nfs-a"}, "d1": {"storage": "nfs-a"}}
TOPOLOGY = """
[leaf]
leaf-1 = ["a-0", "a-1", "a-2", "a-3", "b-0", "b-1", "b-2", "b-3"]
leaf-2 = ["c-0", "c-1", "c-2", "c-3"]
"""


def run(name, nodes, *slow, culprits=(), **more):
    spans = tuple(Span(*each) for each in slow)
    return RunView(name, frozenset(nodes.split()), DAY, spans, True, tuple(culprits), **more)


def slow(name, nodes, *culprits, **more):
    """A run that was slow for some seconds, and whom it blames."""
    return run(name, nodes, (0, 9), culprits=culprits, **more)


def culprit(node, cause, confidence=0.9):
    return Culprit("rank", 1, node, 0, None, 1, 0, 0, None, 5, None, None, 1.4, (1.3, 1.5), cause,
                   confidence, "page", ())  # fmt: skip


HOT_A0, LATE_A3 = culprit("a0", "thermal"), culprit("a3", "data")
POWER_A0, POWER_B0 = culprit("a0", "power"), culprit("b0", "power")
LINK = dataclasses.replace(
    culprit("c8", "network"), scope="link", rank=None, node=None, link="c8--c9"
)
NODE_A0, RACK_1, NFS_A = Part("node", "a0"), Part("rack", "r1"), Part("storage", "nfs-a")


@pytest.mark.parametrize(
    ("views", "places", "status", "part", "possible"),
    [
        pytest.param(
            [slow("one", "a0 b0"), slow("two", "a0 b1"), run("three", "c0")], PLACES,
            "shared", NODE_A0, None, id="a node is narrower than its leaf",
        ),
        pytest.param(
            [slow("one", "a0"), slow("two", "b0"), run("far", "c0")], PLACES,
            "shared", RACK_1, (RACK_1, NFS_A), id="a rack",
        ),
        pytest.param(
            [slow("one", "a0"), slow("two", "b0"), run("far", "c0"), run("three", "b1")], PLACES,
            "unknown", None, (), id="a healthy run on the same storage clears it",
        ),
        pytest.param(
            [slow("one", "a0 a1"), slow("two", "a0 a1")], {},
            "unknown", None, (NODE_A0, Part("node", "a1")), id="two nodes, and no topology",
        ),
        pytest.param(
            [run("one", "a0", (0, 50)), run("two", "a0", (60, 90))], PLACES,
            "quiet", None, (), id="one after the other",
        ),
        pytest.param(
            [slow("one", "a0 a1", HOT_A0), slow("two", "a2 a3", LATE_A3)], PLACES,
            "separate", None, (), id="a culprit each, of another cause each",
        ),
        pytest.param(
            [slow("one", "a0 a1", HOT_A0), slow("two", "a0 a2", POWER_A0)], {},
            "shared", NODE_A0, None, id="one node that is blamed for other causes",
        ),
        pytest.param(
            [slow("one", "a0", HOT_A0), slow("two", "a0", POWER_A0)], {},
            "shared", NODE_A0, None, id="the same, where there is no other node",
        ),
        pytest.param(
            [slow("one", "a0", HOT_A0), slow("two", "b0", POWER_B0), run("three", "c0")], PLACES,
            "unknown", None, (RACK_1, NFS_A), id="other causes accuse no storage",
        ),
        pytest.param(
            [slow("one", "d0"), slow("two", "d1")], STORAGE,
            "unknown", None, (NFS_A,), id="a storage that all use is not named",
        ),
        pytest.param(
            [slow("one", "d0"), slow("two", "d1"), run("three", "somewhere")], STORAGE,
            "unknown", None, (NFS_A,), id="nor beside a run of an unknown place",
        ),
        pytest.param(
            [slow("one", "a0 a1", POWER_A0), slow("two", "a3 c0", culprit("a3", "power"))], PLACES,
            "unknown", None, None, id="a run's own innocent nodes clear what they stand on",
        ),
        pytest.param(
            [slow("one", "a0"), slow("two", "a0", emulated=True)], PLACES,
            "quiet", None, (), id="an emulated run shares nothing with a real one",
        ),
        pytest.param(
            [slow("one", "node-0", emulated=True), slow("two", "node-0", emulated=True)], {},
            "unknown", None, (), id="emulated nodes are never one machine",
        ),
    ],
)  # fmt: skip
def test_a_part_is_named_where_nothing_else_explains_it(views, places, status, part, possible):
    verdict = cluster(views, places)

    assert (status, part) == (verdict.status, verdict.part)
    assert possible is None or possible == verdict.possible


def test_the_leaf_that_all_slow_runs_use_and_no_healthy_one_does_is_named():
    views = [
        run("one", "a0 c0", (100, 900)),
        run("two", "a1 b0", (200, 950)),
        run("three", "b1 c1"),
    ]
    verdict = cluster(views, PLACES)

    assert ("shared", Part("leaf", "leaf-1")) == (verdict.status, verdict.part)
    assert (("one", "two"), ("three",)) == (verdict.slow, verdict.healthy)
    assert Span(200, 900) == verdict.when
    assert verdict.sentence == (
        "Leaf leaf-1 probably holds 2 runs back (one, two): all of them use it and none of 1"
        " healthy ones does. Confidence in that part 0.50."
    )


@pytest.mark.parametrize(
    ("views", "places", "words"),
    [
        ([slow("one", "a0"), slow("two", "b0"), run("far", "c0"), run("three", "b1")], PLACES,
         "no part that is known is used by all of them"),
        ([slow("one", "a0 a1"), slow("two", "a0 a1")], {}, "no topology"),
        ([slow("one", "a0 a1", LINK, HOT_A0), slow("two", "a2 a3", LATE_A3)], PLACES,
         "one by rank 1 (thermal), two by rank 1 (data)"),
        ([slow("one", "d0"), slow("two", "d1")], STORAGE, "used by all of them"),
        ([slow("one", "d0"), slow("two", "d1"), run("three", "somewhere")], STORAGE,
         "no other storage that is known to be healthy"),
        ([slow("one", "x", emulated=True), slow("two", "x", emulated=True)], {},
         "not the same machine"),
    ],
)  # fmt: skip
def test_the_sentence_says_why(views, places, words):
    sentence = cluster(views, places).sentence

    assert words in sentence
    assert "c8--c9" not in sentence
    assert "0 healthy" not in sentence


def test_runs_that_cannot_be_judged_are_not_quiet():
    dark = [dataclasses.replace(run(name, "a0"), known=False) for name in ("dark", "darker")]
    first, well = slow("one", "a1"), run("three", "b0")

    for views in (dark, [first, dark[0]], [first, well, *dark]):
        verdict = cluster(views, PLACES)
        named = tuple(view.run for view in views if not view.known)

        assert ("unknown", named) == (verdict.status, verdict.unjudged)
        assert f"{', '.join(named)} cannot be judged" in verdict.sentence
        assert ("one was slow" in verdict.sentence) == (first in views)
    assert "quiet" == cluster([well, dark[0]], PLACES).status


def test_a_healthy_emulated_run_clears_no_real_node_of_the_same_name():
    real = [slow("one", "a0 b0"), slow("two", "a0 c0"), run("three", "b1 c1")]
    verdict = cluster([*real, run("emulated", "a0 a1", emulated=True)], PLACES)

    assert ("shared", NODE_A0) == (verdict.status, verdict.part)
    assert ("emulated",) == verdict.unjudged
    assert verdict.sentence.endswith(
        " 1 run is left out (emulated): of emulated nodes, and real ones of the same names are"
        " other machines."
    )


def test_emulated_runs_are_compared_with_each_other_where_only_those_are_two():
    emulated = [slow(name, "a0", emulated=True) for name in ("one", "two")]
    verdict = cluster([*emulated, run("three", "b0")], {})

    assert (("one", "two"), ("three",)) == (verdict.slow, verdict.unjudged)


def test_a_place_that_is_not_known_lowers_the_confidence():
    verdict = cluster([slow("one", "a0 x0"), slow("two", "a1 x1"), run("three", "b0")], PLACES)

    assert (Part("leaf", "leaf-1"), 0.25) == (verdict.part, verdict.confidence)
    assert "the place of 2 of 4 nodes is unknown" in verdict.sentence


def test_each_wider_part_that_is_possible_lowers_the_confidence():
    views = [slow("one", "a0 b0"), slow("two", "a0 b1"), run("three", "c0")]

    assert cluster(views, PLACES).confidence < cluster(views, {}).confidence == 0.5


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
        run(f"run-{n}", " ".join(nodes), *((at, at + long) for at, long in spans))
        for n, (nodes, spans) in enumerate(drawn)
    ]
    verdict = cluster(views, PLACES)
    nodes_of = {view.run: view.nodes for view in views}

    def uses(name: str) -> bool:
        if verdict.part.kind == "node":
            return verdict.part.name in nodes_of[name]
        return verdict.part.name in {PLACES[node][verdict.part.kind] for node in nodes_of[name]}

    json.dumps(cluster_json(verdict), allow_nan=False)
    if verdict.part is not None:
        assert all(map(uses, verdict.slow))
        assert not any(map(uses, verdict.healthy))
    if verdict.status in ("quiet", "shared"):
        again = cluster(dice.sample(views, len(views)), PLACES)
        assert again.status == "quiet" or len(again.slow) == len(verdict.slow)


def test_a_diagnosed_run_is_slow_from_its_finding_on(synthetic, fault):
    diagnosed = diagnose(synthetic(faults=[fault("thermal", 2, first=120)]).run())
    view = run_view(diagnosed)
    begin = float(diagnosed.grid.start[diagnosed.grid.from_step >= 120][0])

    assert begin == pytest.approx(view.slow[0].begin, abs=0.5)
    assert (True, 1) == (view.known, len(view.culprits))


def test_only_a_run_that_says_so_has_emulated_nodes(synthetic):
    healthy = synthetic(steps=30).run()
    spec = {"launcher": "local"}

    for said, emulated in ((True, True), (False, False), (None, False)):
        meta = {**healthy.meta, "spec": spec, "emulated_devices": True, "emulated_nodes": said}
        assert emulated == run_view(diagnose(dataclasses.replace(healthy, meta=meta))).emulated


def test_a_healthy_run_is_known_to_be_and_one_without_step_times_is_not(synthetic):
    healthy = synthetic().run()
    blind = dataclasses.replace(
        healthy, windows=healthy.windows.iloc[:0], samples=healthy.samples.iloc[:0]
    )
    views = [run_view(diagnose(each)) for each in (healthy, blind)]

    assert [(True, ()), (False, ())] == [(view.known, view.slow) for view in views]


@pytest.fixture
def archives(synthetic, tmp_path):
    """Two archives of runs in which all ranks became slower together."""
    return [
        str(synthetic(seed=seed, uniform=(100, 1.4)).write(tmp_path / f"run-{seed}"))
        for seed in (1, 2)
    ]


def moved(folder, letter):
    """The archive as if its ranks had run on nodes of another letter."""
    ranks = pd.read_parquet(Path(folder) / archive.RANKS_FILE)
    ranks["node"] = ranks["node"].str.replace("node", letter)
    ranks.to_parquet(Path(folder) / archive.RANKS_FILE)
    return str(folder)


def test_the_command_names_the_leaf_of_two_slow_runs(archives, synthetic, tmp_path, capsys):
    path = tmp_path / "topology.toml"
    path.write_text(TOPOLOGY)
    runs = [*archives, synthetic(seed=3).write(tmp_path / "run-3")]
    runs = [moved(each, letter) for each, letter in zip(runs, "abc", strict=True)]

    code = main(["cluster", *runs, "--topology", str(path), "-o", "json"])
    verdict = json.loads(capsys.readouterr().out)

    assert (2, "shared") == (code, verdict["status"])
    assert {"kind": "leaf", "name": "leaf-1"} == verdict["part"]


def test_without_a_topology_the_command_says_what_is_missing(archives, capsys):
    code = main(["cluster", *archives])
    text = capsys.readouterr().out

    assert 3 == code
    assert "no topology" in text
    assert "slow together" in text


def test_what_the_command_cannot_use_is_said_in_a_sentence(archives, tmp_path, capsys):
    path = tmp_path / "topology.toml"
    path.write_text("[hall]\nx = 1\n")

    assert 64 == main(["cluster", archives[0]])
    assert 65 == main(["cluster", *archives, "--topology", str(path)])
    assert "[hall] is not one of the tables" in capsys.readouterr().err
