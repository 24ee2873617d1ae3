"""The stages of a verdict: pure, in one order, drawn in the docs; and each effect at its place."""

import copy
import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.shapes.run import Finding
from lockstep.analyzer.shapes.verdict_json import verdict_json
from lockstep.analyzer.stats.changepoint import FALSE_ALARM
from lockstep.analyzer.stragglers.confidence import CERTAIN, place_confidence
from lockstep.analyzer.verdict.case import accuses, opened
from lockstep.analyzer.verdict.pipeline import STAGES, comparable, diagnose, effects, through
from lockstep.evaluation.synth import traces as synth
from lockstep.evaluation.synth.draw import drawn
from lockstep.evaluation.synth.whole import labelled
from tests.analyzer.stages import verdict_of

PAGE = Path(__file__).parents[3] / "docs/method/verdict.md"
KINDS = ("thermal", "data", "cpu-quota", "freeze", "crash", "loss")


def _arrays(value):
    """Every array and frame of a case, however deep."""
    if isinstance(value, (np.ndarray, pd.DataFrame)):
        yield value
    elif dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            yield from _arrays(getattr(value, each.name))
    elif isinstance(value, dict):
        for each in value.values():
            yield from _arrays(each)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _arrays(each)


def _same(one, other):
    if isinstance(one, pd.DataFrame):
        return one.equals(other)
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def _told(case):
    """All of a case that is no array, as text."""
    return [repr(getattr(case, name)) for name in ("findings", "evidences", "verdict", "accused")]


@pytest.fixture(params=[*KINDS, "healthy", "trace"])
def run(request, synthetic, fault):
    if request.param == "trace":
        return synth.trace(synth.Scene(dp=4, pp=2, slow=(synth.Slow(1, 1, 1.2, 8),)))
    faults = [] if request.param == "healthy" else [fault(request.param, 1, 1.5, 80)]
    return synthetic(faults=faults).run()


def test_each_stage_leaves_the_case_that_it_gets_as_it_was_and_says_the_same_again(run):
    case = opened(run)
    for stage in STAGES:
        for each in _arrays(case.grid):
            each.setflags(write=False)
        arrays, told = [each.copy() for each in _arrays(case)], _told(case)
        meta = copy.deepcopy(dict(case.run.meta))
        after = stage(case)

        assert told == _told(case), stage.__name__
        assert meta == case.run.meta, stage.__name__
        assert all(map(_same, arrays, _arrays(case))), stage.__name__
        assert _told(after) == _told(stage(case)), stage.__name__
        case = after


def test_a_verdict_is_a_function_of_the_run_alone(synthetic, fault):
    slow = synthetic(faults=[fault("thermal", 1)]).run()
    alone = verdict_json(diagnose(slow).verdict)
    diagnose(synthetic(faults=[fault("data", 3)]).run())

    assert alone == verdict_json(diagnose(slow).verdict)


def test_the_page_draws_exactly_the_stages_in_their_order():
    section = PAGE.read_text("utf-8").partition("## The stages")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|([^|]+)\|([^|]+)\|([^|]+)\|$", section, re.MULTILINE)

    assert [stage.__name__ for stage in STAGES] == [name for name, *_ in rows]
    assert all("→" in what and formula.strip() and "](" in page for _, what, formula, page in rows)


def test_every_stage_names_its_page():
    docs = PAGE.parent.parent
    for stage in STAGES:
        pages = re.findall(r"docs/([\w/-]+\.md)", stage.__doc__)
        assert pages, stage.__name__
        assert all((docs / page).exists() for page in pages), stage.__name__


def test_every_culprit_tells_how_certain_its_place_is(run):
    verdict = diagnose(run).verdict
    culprits = verdict.culprits

    assert (verdict.status == "degraded") == bool(culprits)
    assert all(0.0 <= culprit.place_confidence <= 1.0 for culprit in culprits)


@pytest.mark.sweep(sample=3)
@pytest.mark.parametrize("seed", range(8))
def test_so_does_every_culprit_of_drawn_fleets_in_the_sentence_too(seed):
    verdict = diagnose(labelled(drawn(seed, injected=True)).run).verdict
    places = [culprit.place_confidence for culprit in verdict.culprits]

    assert all(0.0 <= place <= 1.0 for place in places)
    assert len(places) == verdict.sentence.count("Confidence in the place ")


def test_a_node_is_as_sure_a_place_as_the_surest_of_its_ranks(synthetic, fault):
    faults = [fault("compute", rank, 1.5, 80) for rank in (2, 3)]
    found = diagnose(synthetic(world=8, ranks_per_node=2, faults=faults).run())
    (culprit,) = found.verdict.culprits

    assert ("node", "node-1") == (culprit.scope, culprit.node)
    assert culprit.place_confidence == max(
        place_confidence(one, found.grid) for one in found.findings if one.kind == "slow"
    )


def _finding(kind="slow", score=8.0, **details):
    rank = 1 if kind in ("slow", "hang") else None
    return Finding("test", kind, rank, 20, None, 1.3, (1.2, 1.4), score, {}, "it is", details)


def _grid(ranks=8):
    return SimpleNamespace(ranks=range(ranks), meta={})


def test_whoever_found_it_knows_its_place_best():
    assert 0.4 == place_confidence(_finding(place_confidence=0.4, critical_score=5.0), _grid())
    assert 0.5 == place_confidence(_finding("hang", certainty=0.5), _grid())
    assert CERTAIN == place_confidence(_finding("hang", certainty=1.0), _grid())


def test_at_the_critical_score_the_place_is_as_sure_as_the_false_alarms_are_few():
    at = place_confidence(_finding(score=5.0, critical_score=5.0), _grid())

    # Sellke, Bayarri and Berger 2001, table 1: p = 0.01 leaves a probability of chance of 0.11.
    assert 0.89 == pytest.approx(at, abs=0.005)
    assert 0.01 == FALSE_ALARM


@pytest.mark.parametrize("details", [{}, {"critical_score": 4.0}])
def test_what_stands_out_further_is_surer_and_never_beyond_certain(details):
    scores = [-1.0, 0.0, 2.0, 3.0, 4.0, 4.5, 6.0, 50.0, float("inf")]
    told = [place_confidence(_finding(score=score, **details), _grid()) for score in scores]

    assert told == sorted(told)
    assert (0.5, CERTAIN) == (told[0], told[-1])


def test_the_more_ranks_may_have_been_it_by_chance_the_less_sure_is_the_place():
    few, many = (place_confidence(_finding(score=4.0), _grid(ranks)) for ranks in (4, 400))

    assert few > many


@pytest.mark.parametrize("kind", ["structure", "change", "network", "wait", "cpu"])
def test_what_a_stage_or_all_ranks_share_is_never_a_culprit(synthetic, kind):
    finding = _finding(kind)
    verdict = verdict_of(align(synthetic().run()), [finding])

    assert not accuses(finding)
    assert () == verdict.culprits
    assert (kind == "structure") == bool(verdict.structure)


def test_the_first_stages_alone_find_what_is_off(synthetic, fault):
    slow = synthetic(faults=[fault("compute", 2, 1.5, 80)]).run()
    found = through((comparable, effects), opened(slow)).findings

    assert {2} == {finding.rank for finding in found if accuses(finding)}
