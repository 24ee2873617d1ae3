"""With any one input taken away, no verdict names anybody else, is surer, or clears somebody.

A few cases are drawn at every run; the marker `slow` tries all of them.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.analyzer.read.archive.load import load_archive
from lockstep.analyzer.shapes.run import Run
from lockstep.analyzer.shapes.windows import from_samples
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract import archive
from tests.analyzer.claims import ACCUSED, CLEARED, HEALTHY, UNKNOWN, Claim, bolder, claim
from tests.analyzer.conftest import Fault, Synthetic

KILLED = {"ending": "crash", "ranks": [2], "reason": "killed by SIGKILL",
          "exits": [{"rank": 2, "code": -9, "seconds": 0.0}]}  # fmt: skip
RECIPES: dict[str, Synthetic] = {
    "healthy": Synthetic(),
    "healthy, no telemetry": Synthetic(telemetry=False),
    "uniform": Synthetic(uniform=(100, 1.4)),
    "slow rank": Synthetic(faults=[Fault("compute", 2)]),
    "hot GPU": Synthetic(faults=[Fault("thermal", 2)]),
    "slow data": Synthetic(faults=[Fault("data", 1)]),
    "two slow ranks": Synthetic(faults=[Fault("thermal", 2), Fault("data", 1, 1.4)]),
    "slow for a while": Synthetic(faults=[Fault("compute", 2, 1.6, 90, 160)]),
    "frozen": Synthetic(faults=[Fault("freeze", 2)], steps=120),
    "two nodes": Synthetic(ranks_per_node=2, faults=[Fault("compute", 3)]),
    "killed": Synthetic(faults=[Fault("crash", 2)], steps=120, outcome=KILLED),
}
EXPECTED = {"healthy": HEALTHY, "healthy, no telemetry": HEALTHY, "uniform": CLEARED}
STEPS, SCRAPES = "steps", "scrapes"
PARTS = 6
"""Of the windows, one of which is taken away at a time."""
BEGINNING = "all windows of part 0"
OWN = ["own_seconds", "collective_seconds"]
Removal = Callable[[Run], Run]


@cache
def run_of(recipe: str, seen: str) -> Run:
    """The run as an archive tells it, or as one without steps.parquet does."""
    run = RECIPES[recipe].run()
    if seen == STEPS:
        return run
    meta = {"outcome": run.meta["outcome"]}
    return replace(run, windows=from_samples(run.samples), meta=meta)


@cache
def claimed(recipe: str, seen: str) -> Claim:
    """What is said with everything there."""
    return said(run_of(recipe, seen))


def said(run: Run) -> Claim:
    """What is said of a run."""
    nodes: dict[str, tuple[int, ...]] = {}
    for info in run.ranks:
        nodes[info.node] = (*nodes.get(info.node, ()), info.rank)
    return claim(diagnose(run).verdict, nodes)


def compared(full: Claim, removal: str, less: Run) -> tuple[str, ...]:
    """How the claim of a run is bolder; one whose beginning is gone must say where it begins."""
    begin = f"after warm-up from step {less.windows['from_step'].min()} on"
    later = removal == BEGINNING and begin in diagnose(less).verdict.sentence
    return bolder(full, said(less), later=later)


def without_samples(keep: Callable[[pd.DataFrame], pd.Series]) -> Removal:
    """Takes samples away, and with them what windows have of them."""

    def remove(run: Run) -> Run:
        samples = run.samples[keep(run.samples)]
        from_scrapes = bool((run.windows["steps"] > 1).any())
        windows = from_samples(samples) if from_scrapes else run.windows
        return replace(run, samples=samples, windows=windows)

    return remove


def own_unknown(rank: int, part: int | None = None) -> Removal:
    """Nobody timed the waits of a rank, in all windows or in a part of them."""

    def remove(run: Run) -> Run:
        windows = run.windows.copy()
        mine = windows["rank"] == rank
        if part is not None:
            mine &= windows["from_step"].isin(parts(run)[part])
        windows.loc[mine, OWN] = np.nan
        return replace(run, windows=windows)

    return remove


def without_windows(part: int) -> Removal:
    """A group of windows of all ranks."""
    return lambda run: replace(
        run, windows=run.windows[~run.windows["from_step"].isin(parts(run)[part])]
    )


def parts(run: Run) -> list[np.ndarray]:
    return np.array_split(np.unique(run.windows["from_step"]), PARTS)


def removals(run: Run) -> dict[str, Removal]:
    """Every single input, by name."""
    ranks = [info.rank for info in run.ranks]
    found = {
        f"metric {metric}": without_samples(lambda s, m=metric: s["metric"] != m)
        for metric in sorted(set(run.samples["metric"]))
    }
    found |= {
        f"telemetry of {node}": without_samples(lambda s, n=node: s["node"] != n)
        for node in sorted({info.node for info in run.ranks})
    }
    for rank in ranks:
        found[f"steps of rank {rank}"] = lambda run, r=rank: replace(
            run, windows=run.windows[run.windows["rank"] != r]
        )
        found[f"own time of rank {rank}"] = own_unknown(rank)
        found |= {
            f"own time of rank {rank} in part {part}": own_unknown(rank, part)
            for part in range(PARTS)
        }
    found |= {f"all windows of part {part}": without_windows(part) for part in range(PARTS)}
    found["all samples"] = lambda run: replace(run, samples=run.samples.iloc[:0])
    found["all windows"] = lambda run: replace(run, windows=run.windows.iloc[:0])
    found["all own time"] = lambda run: replace(
        run, windows=run.windows.assign(own_seconds=np.nan, collective_seconds=np.nan)
    )
    found["run.json"] = lambda run: replace(run, meta={})
    return found


CASES = [
    (recipe, seen)
    for recipe in RECIPES
    for seen in (STEPS, SCRAPES)
    if RECIPES[recipe].telemetry or seen == STEPS
]


@pytest.mark.sweep
@pytest.mark.parametrize(("recipe", "seen"), CASES)
def test_with_everything_there_each_recipe_is_told_as_it_is(recipe, seen):
    assert EXPECTED.get(recipe, ACCUSED) == claimed(recipe, seen).says


@settings(max_examples=settings.default.max_examples // 4)
@given(case=st.sampled_from(CASES), data=st.data())
def test_with_an_input_less_no_verdict_says_more(case, data):
    run = run_of(*case)
    some = removals(run)
    removal = data.draw(st.sampled_from(sorted(some)))

    assert () == compared(claimed(*case), removal, some[removal](run))


@pytest.mark.sweep(sample=2)
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("recipe", "seen"), CASES)
def test_with_any_input_less_no_verdict_says_more(recipe, seen):
    run, full = run_of(recipe, seen), claimed(recipe, seen)
    told = {name: compared(full, name, remove(run)) for name, remove in removals(run).items()}

    assert {} == {name: words for name, words in told.items() if words}


def test_waits_that_end_a_scrape_before_the_slowness_does_confirm_it():
    (culprit,) = diagnose(run_of("two nodes", SCRAPES)).verdict.culprits

    assert any("they wait for it" in fact.text for fact in culprit.evidence)


def test_a_run_judged_from_its_middle_says_since_when_it_was_seen():
    less = without_windows(0)(run_of("healthy", STEPS))
    verdict = diagnose(less).verdict

    assert HEALTHY == verdict.status
    assert "Seen: 196 steps of 4 ranks after warm-up from step 40 on," in verdict.sentence
    assert " on," not in diagnose(run_of("healthy", STEPS)).verdict.sentence


@pytest.mark.parametrize("recipe", ["healthy", "uniform", "slow rank", "hot GPU"])
@pytest.mark.parametrize("seen", [STEPS, SCRAPES])
def test_without_own_time_of_anybody_nothing_is_said(recipe, seen):
    run = run_of(recipe, seen)
    windows = run.windows.assign(own_seconds=np.nan, collective_seconds=np.nan)
    verdict = diagnose(replace(run, windows=windows)).verdict

    assert UNKNOWN == verdict.status
    assert "docs/ml/timed-waits.md" in verdict.sentence
    assert not any(word in verdict.sentence for word in ("blame", "fault", "Healthy"))


def test_without_the_counter_of_known_steps_scrapes_know_nothing():
    run = run_of("healthy", SCRAPES)
    samples = run.samples[run.samples["metric"] != "lockstep_train_known_steps_total"]
    windows = from_samples(samples)

    assert len(run.windows) == len(windows)
    assert windows["own_seconds"].isna().all()
    assert windows["wall_seconds"].notna().all()


FILES = (archive.STEPS_FILE, archive.SAMPLES_FILE, archive.RANKS_FILE)


@pytest.mark.sweep(sample=4)
@pytest.mark.parametrize("recipe", ["healthy", "uniform", "slow rank"])
@pytest.mark.parametrize("what", [*FILES, "layout", "a row of ranks", "own_time_known"])
def test_an_archive_with_a_file_less_says_no_more(tmp_path, recipe, what):
    folder = RECIPES[recipe].write(tmp_path / "run")
    full = said(load_archive(folder))
    meta = json.loads((folder / archive.RUN_FILE).read_text())
    if what in FILES:
        path = folder / what
        for part in sorted(path.iterdir()) if path.is_dir() else [path]:
            part.unlink()
    elif what == "layout":
        (folder / archive.RUN_FILE).write_text(json.dumps(meta | {"layout": None}))
    elif what == "own_time_known":
        (folder / archive.RUN_FILE).write_text(json.dumps(meta | {"own_time_known": False}))
    else:
        table = pq.read_table(folder / archive.RANKS_FILE)
        kept = table.filter(pa.compute.not_equal(table["rank"], 2))
        pq.write_table(kept, folder / archive.RANKS_FILE)

    less = said(load_archive(folder))

    assert () == bolder(full, less)
    if what == "own_time_known":
        assert UNKNOWN == less.says
    if what == "a row of ranks":
        assert [0, 1, 2, 3] == [info.rank for info in load_archive(folder).ranks]
