"""How often a culprit was one before: counted out of its runs, beside its peers, never mixed."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.read.verdicts import Past, PastCulprit, PastRun
from lockstep.analyzer.shapes.run import Culprit, Verdict
from lockstep.analyzer.verdict.recurrence import recurrence

NOW = 1_760_000_000.0
DAY = 86400.0
NODES = frozenset(f"host-{i}" for i in range(4))


def _culprit(node="host-1", uuid="GPU-1"):
    fields = dict.fromkeys(field.name for field in dataclasses.fields(Culprit))
    told = {"scope": "rank", "rank": 1, "node": node, "gpu": 3, "uuid": uuid, "cause": "thermal",
            "confidence": 0.9, "tier": "page", "evidence": ()}  # fmt: skip
    return Culprit(**{**fields, **told})


def _verdict(*culprits):
    return Verdict("now", "degraded", "", 1.3, None, 0.1, 1.0, culprits=culprits)


def _run(number, culprits=(), *, emulated=False, nodes=NODES, days=1.0):
    uuids = frozenset(node.replace("host", "GPU") for node in nodes)
    return PastRun(f"run-{number}", NOW - days * DAY, emulated, nodes, uuids, tuple(culprits))


HOT = PastCulprit("host-1", "GPU-1", "thermal", False)


def _told(runs, verdict=None, *, emulated=False):
    verdict = _verdict(_culprit()) if verdict is None else verdict
    return recurrence(verdict, Past(tuple(runs)), ended=NOW, emulated=emulated)


def test_a_gpu_and_its_node_are_counted_out_of_the_runs_they_took_part_in():
    runs = [_run(i, [HOT] * (i < 3)) for i in range(10)]
    runs += [_run(20, nodes=frozenset({"host-8", "host-9"}))]
    gpu, node = _told(runs)

    assert ("gpu", "GPU-1", 3, 10) == (gpu["by"], gpu["uuid"], gpu["culprit_runs"], gpu["runs"])
    assert ("node", "host-1", 3, 10) == (
        node["by"], node["node"], node["culprit_runs"], node["runs"]
    )  # fmt: skip
    # Wilson (1927) for 3 of 10.
    assert (0.108, 0.603) == pytest.approx(node["interval"], abs=1e-3)
    assert "in 3 of the 10 runs" in node["text"]


def test_one_that_is_named_far_more_often_than_its_peers_is_told_to_be_examined():
    often = _told([_run(i, [HOT] * (i < 5)) for i in range(10)])[0]["text"]
    once = _told([_run(i, [HOT] * (i < 1)) for i in range(2)])[0]["text"]

    assert ("have it examined" in often, "have it examined" in once) == (True, False)


def test_runs_older_than_a_month_or_later_than_this_one_do_not_count():
    told = _told([_run(0, [HOT], days=31.0), _run(1, [HOT], days=-1.0), _run(2, days=29.0)])

    assert [(0, 1), (0, 1)] == [(one["culprit_runs"], one["runs"]) for one in told]


@pytest.mark.parametrize("emulated", [True, False])
def test_emulated_and_real_nodes_of_one_name_are_never_counted_together(emulated):
    told = _told([_run(0, [HOT], emulated=not emulated), _run(1, emulated=emulated)],
                 emulated=emulated)  # fmt: skip

    assert {0} == {one["culprit_runs"] for one in told}
    assert {emulated} == {"it may be another one" in one["text"] for one in told}


def test_the_uuid_of_a_simulated_gpu_is_no_identity():
    told = _told([_run(0, [HOT])], _verdict(_culprit(uuid="SIM-1")))

    assert ["node"] == [one["by"] for one in told]


def test_what_metas_lemon_features_have_in_verdicts_is_told():
    stopped = PastCulprit("host-1", "GPU-1", "xid", True)
    runs = [_run(0, [stopped]), _run(1, [stopped], nodes=frozenset({"host-1"})), _run(2)]
    told = _told(runs)[1]

    assert {"xid_cnt": 2, "multi_node_node_fails": 1, "single_node_node_fails": 1,
            "single_node_node_failure_rate": 1.0} == told["features"]  # fmt: skip


def test_without_past_runs_nothing_is_told():
    assert () == _told([])


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(0, 3))
def test_the_share_lies_in_its_interval_and_no_sentence_has_nan(named, peer):
    other = PastCulprit(f"host-{peer}", f"GPU-{peer}", "data", False)
    told = _told([_run(i, [HOT, other] if each else [other]) for i, each in enumerate(named)])

    for one in told:
        low, high = one["interval"]
        assert 0 <= low <= one["share"] <= high <= 1
        assert "nan" not in one["text"]
