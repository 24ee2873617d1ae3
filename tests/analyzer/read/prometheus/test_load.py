"""A run from Prometheus is the run of the archive's scrapes; what was not scraped is not known."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.read.archive.load import load_archive as load_archive
from lockstep.analyzer.read.prometheus import ranges
from lockstep.analyzer.read.prometheus.load import load_prometheus, read_targets
from lockstep.analyzer.verdict.pipeline import diagnose
from tests.analyzer.read.prometheus.fake import NOW

RUN = "synthetic-0"


@pytest.fixture
def both(synthetic, fault, fake, stored, tmp_path):
    """`both(faults)` gives the run by its archive's scrapes, and by Prometheus."""

    def make(faults=(), edit=lambda series: series, steps=200):
        recipe = synthetic(steps=steps, faults=faults)
        folder = recipe.write(tmp_path / "archive")
        (folder / "steps.parquet").unlink()
        archived = load_archive(folder)
        fake.series = edit(stored(archived.samples, RUN, recipe.world))
        return archived, load_prometheus(fake.url, RUN, environment={})

    return make


@pytest.mark.parametrize("kind", ["thermal", "data", "freeze"])
def test_a_run_from_prometheus_has_the_culprit_and_cause_of_its_archive(both, fault, kind):
    archived, recorded = both([fault(kind, 2, 1.5, 160)], steps=400)
    # Only a launcher knows how a run ended.
    expected, actual = (
        diagnose(dataclasses.replace(run, meta={})).verdict for run in (archived, recorded)
    )

    assert expected.culprits
    assert [(one.rank, one.node, one.cause, one.from_step) for one in expected.culprits] == [
        (one.rank, one.node, one.cause, one.from_step) for one in actual.culprits
    ]


def test_windows_and_samples_are_those_of_the_archive(both):
    archived, recorded = both()

    keys = ["rank", "from_step"]
    expected, actual = (
        run.windows.sort_values(keys, ignore_index=True) for run in (archived, recorded)
    )
    assert expected[[*keys, "to_step", "steps"]].equals(actual[[*keys, "to_step", "steps"]])
    np.testing.assert_allclose(expected["own_seconds"], actual["own_seconds"], rtol=1e-9)
    np.testing.assert_allclose(expected["start"], actual["start"], atol=1e-3)
    names = set(align(archived).signals) - {"lockstep_train_wall_seconds_total"}  # no such metric
    assert names <= set(align(recorded).signals)
    assert [("node-0", 0, "GPU-node-0-0"), ("node-1", 0, "GPU-node-1-0")] == [
        (info.node, info.gpu, info.uuid) for info in recorded.ranks[:2]
    ]


@pytest.mark.parametrize("left_closed", [True, False])
def test_a_long_run_is_read_in_parts_without_loss_or_repeat(both, fake, monkeypatch, left_closed):
    fake.left_closed = left_closed
    monkeypatch.setattr(ranges, "MOST_POINTS", 7)
    archived, recorded = both()

    assert fake.points <= 8
    ours = recorded.samples[recorded.samples["metric"] == "up"]
    assert len(archived.samples[archived.samples["metric"] == "up"]) == len(ours)
    assert not recorded.samples.duplicated().any()


def test_an_answer_that_prometheus_finds_too_large_is_asked_for_in_halves(both, fake):
    fake.most_ms = 20_000
    archived, recorded = both()

    assert len(archived.windows) == len(recorded.windows)


def test_of_a_run_too_long_to_hold_the_end_is_read_and_told(both, monkeypatch):
    monkeypatch.setattr(read_targets, "__defaults__", (1000,))
    _, recorded = both()

    assert 0 < len(recorded.samples) < 2000
    assert any("too much for one analysis" in word for word in recorded.missing)


def test_a_rank_that_nobody_saw_is_unknown_and_not_healthy(both):
    _, recorded = both(
        edit=lambda series: [one for one in series if "node-3" not in one[0]["instance"]]
    )
    verdict = diagnose(recorded).verdict

    assert (3, "unknown") == (recorded.ranks[3].rank, recorded.ranks[3].node)
    assert any("rank 3 of 4 never reported who it is" in word for word in verdict.missing)
    assert verdict.coverage < 0.8


def test_a_target_that_vanishes_leaves_a_gap_in_coverage(both):
    def vanish(series):
        kept = []
        for labels, times, values in series:
            until = times.min() + 5_000 if "node-1" in labels["instance"] else times.max()
            kept.append((labels, times[times <= until], values[times <= until]))
        return [one for one in kept if len(one[1])]

    _, recorded = both(edit=vanish)
    grid = align(recorded)

    assert np.isnan(grid.time["own"][-3:, 1]).all()
    assert grid.coverage < 0.9


def test_a_gap_of_a_node_is_told_and_nobody_guesses_its_inside(both):
    def gap(series):
        kept = []
        for labels, times, values in series:
            middle = (times.min() + times.max()) / 2
            out = ("node-1" in labels["instance"]) & (abs(times - middle) < 2000)
            kept.append((labels, times[~out], values[~out]))
        return kept

    _, recorded = both(edit=gap)

    assert any("node-1 was not scraped for" in word for word in recorded.missing)
    assert np.isnan(align(recorded).time["own"][:, 1]).any()


def test_a_counter_that_falls_is_the_next_attempt(both):
    def restart(series):
        edited = []
        for labels, times, values in series:
            if labels["__name__"].startswith("lockstep_train_") and labels["__name__"].endswith(
                "_total"
            ):
                half = len(values) // 2
                values = np.concatenate([values[:half], values[half:] - values[half]])
            edited.append((labels, times, values))
        return edited

    _, recorded = both(edit=restart)

    assert {0, 1} == set(recorded.windows["attempt"])
    assert (recorded.windows["own_seconds"] >= 0).all()


def test_other_runs_on_the_same_nodes_are_left_out(both):
    def and_another(series):
        other = [(labels | {"run": "other"}, times, values * 3) for labels, times, values in series
                 if "run" in labels]  # fmt: skip
        return [*series, *other]

    archived, recorded = both(edit=and_another)

    assert len(archived.windows) == len(recorded.windows)


def test_labels_of_the_target_do_not_hide_those_of_the_page(both):
    def scraped(series):
        edited = []
        for labels, times, values in series:
            page = {f"exported_{name}": labels[name] for name in ("node",) if name in labels}
            edited.append((labels | page | {"node": "kubelet-name", "zone": "b"}, times, values))
        return edited

    archived, recorded = both(edit=scraped)

    assert {info.node for info in archived.ranks} == {info.node for info in recorded.ranks}
    assert set(archived.samples["node"]) == set(recorded.samples["node"])
    clock = "lockstep_gpu_clock_hertz"
    labels = {
        frozenset(run.samples.loc[run.samples["metric"] == clock, "labels"])
        for run in (archived, recorded)
    }
    assert {frozenset({'domain="sm"'})} == labels


def test_a_run_without_training_series_has_too_little_data(both):
    _, recorded = both(
        edit=lambda series: [one for one in series if "_train_" not in one[0]["__name__"]]
    )
    verdict = diagnose(recorded).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert any("no training series" in word for word in verdict.missing)


def test_series_that_are_gone_when_they_are_read_leave_an_unknown_run(both, fake):
    both()
    lost = [one for one in fake.series if one[0]["__name__"] == "lockstep_rank_up"]
    fake.series = lost
    verdict = diagnose(load_prometheus(fake.url, RUN, environment={})).verdict

    assert ("unknown", 0.0) == (verdict.status, verdict.coverage)


def test_since_and_until_cut_the_run(both, fake):
    _, whole = both()
    middle = float(whole.samples["time"].median())
    part = load_prometheus(fake.url, RUN, since=str(middle), environment={})

    assert middle <= part.samples["time"].min()
    assert 0 < len(part.windows) < len(whole.windows)


@pytest.mark.parametrize(("scrapes", "vanished"), [(2, False), (30, True)])
def test_a_run_whose_collectors_all_stopped_some_scrapes_ago_has_vanished(
    synthetic, fake, stored, scrapes, vanished
):
    samples = synthetic(outcome=None).run().samples
    samples = samples[samples["time"] < samples["time"].max() - 1.5]
    samples = samples.assign(time=samples["time"] + NOW - scrapes - samples["time"].max())
    fake.series = stored(samples, RUN, 4)
    run = load_prometheus(fake.url, RUN, environment={})

    assert vanished == run.meta.get("vanished", False)
    assert vanished == (diagnose(run).verdict.status != "healthy")
