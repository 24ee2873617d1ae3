"""Slow links: named where it is known whose, told where it is not, and silent in healthy runs."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.causes.symptoms.network_counters import (
    QUOTA,
    always_worse,
    counted,
    movements,
)
from lockstep.analyzer.stragglers.detectors.links import FULL, links
from lockstep.analyzer.stragglers.model.adjusted_time import without_slow
from lockstep.analyzer.stragglers.model.effects import effects
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.metrics import (
    IB_ERRORS,
    IB_RATE,
    NET_PAUSE,
    NET_SPEED,
    TCP_RETRANSMITTED,
    TRAIN_ROUND_TRIP,
)

PAUSES = NET_PAUSE.series(device="eth0", direction="receive", priority="3")


@pytest.mark.parametrize("factor", [1.3, 2.0])
def test_of_two_nodes_the_link_between_is_named(synthetic, fault, factor):
    verdict = diagnose(synthetic(world=2, faults=[fault("link", 1, factor, 80)]).run()).verdict
    (culprit,) = verdict.culprits

    assert ("link", None, None, "node-0 -- node-1", "link") == (
        culprit.scope, culprit.rank, culprit.node, culprit.link, culprit.cause
    )  # fmt: skip
    assert 80 == pytest.approx(culprit.from_step, abs=6)
    assert factor == pytest.approx(culprit.slowdown, rel=0.1)
    assert verdict.sentence.startswith("The link node-0 -- node-1 holds the run back from step ")


@pytest.mark.parametrize(("kind", "cause"), [("loss", "link"), ("full", "congestion")])
def test_the_node_whose_counters_moved_is_named(synthetic, fault, kind, cause):
    verdict = diagnose(synthetic(world=4, faults=[fault(kind, 2, 1.5, 80)]).run()).verdict

    assert [("link", None, "node-2", cause)] == [
        (c.scope, c.rank, c.node, c.cause) for c in verdict.culprits
    ]


@pytest.mark.parametrize("folded", [False, True])
def test_a_kind_of_errors_that_is_told_from_its_first_count_on_was_0_before(
    synthetic, fault, folded
):
    """Kinds that have counted nothing are told as one (docs/reference/metrics.md)."""
    run = synthetic(world=4, faults=[fault("loss", 2, 1.5, 80)]).run()
    samples = run.samples
    mine = samples["metric"] == TCP_RETRANSMITTED.name
    kind = 'device="mlx5_0",kind="{}",port="1"'
    errors = samples[mine].assign(metric=IB_ERRORS.name, labels=kind.format("symbol_error"))
    quiet = errors.assign(labels=kind.format("other"), value=0.0)
    first = errors.groupby("node")["value"].transform("min")
    errors = errors.assign(value=np.where(errors["node"] == "node-2", errors["value"] - first, 0.0))
    told = errors[errors["value"] > 0] if folded else errors
    every = pd.concat([samples[~mine], told, quiet], ignore_index=True)
    (culprit,) = diagnose(dataclasses.replace(run, samples=every)).verdict.culprits

    assert ("link", "node-2") == (culprit.scope, culprit.node)


def with_round_trips(run, usual, slow, since=80):
    """What every rank tells each second: `usual` seconds, and `slow` by node from a step on."""
    since = float(run.windows.loc[run.windows["from_step"] == since, "start"].min())
    dice, rows = np.random.default_rng(5), []
    times = np.arange(run.windows["start"].min(), run.windows["end"].max(), 1.0)
    for rank in run.ranks:
        late = np.where(times >= since, slow.get(rank.node, usual), usual)
        for time, value in zip(times, late * dice.lognormal(0.0, 0.2, len(times)), strict=True):
            rows.append((time, rank.node, None, rank.rank, TRAIN_ROUND_TRIP.name, "", value))
    told = pd.DataFrame(rows, columns=run.samples.columns)
    return dataclasses.replace(run, samples=pd.concat([run.samples, told], ignore_index=True))


@pytest.mark.parametrize("per_node", [1, 2])
def test_a_link_of_which_no_counter_moves_is_named_by_its_round_trips(synthetic, fault, per_node):
    """As of a lower rate, or a longer way: its neighbours have one connection that is as ever."""
    run = synthetic(world=4 * per_node, ranks_per_node=per_node,
                    faults=[fault("link", 2 * per_node, 1.5, 80)]).run()  # fmt: skip
    slow = {"node-2": 4e-3, "node-1": 3e-4, "node-3": 3e-4}
    (culprit,) = diagnose(with_round_trips(run, 2e-4, slow)).verdict.culprits

    assert ("link", "node-2", "link") == (culprit.scope, culprit.node, culprit.cause)
    assert any("round trips of node-2 to the others" in each.text for each in culprit.evidence)


def test_round_trips_less_than_twice_as_long_name_a_link_as_well(synthetic, fault):
    """A delay that lengthens steps by a tenth doubles them (measured on real links)."""
    run = synthetic(world=4, steps=400, faults=[fault("link", 2, 1.5, 80)]).run()
    (culprit,) = diagnose(with_round_trips(run, 8e-4, {"node-2": 1.5e-3})).verdict.culprits

    assert ("link", "node-2", "link") == (culprit.scope, culprit.node, culprit.cause)


def test_what_noise_hides_among_all_spans_is_told_at_the_time_that_a_counter_knows(
    synthetic, fault
):
    """Transfers wander, as of runs that share a network: alone they are no change."""
    run = synthetic(world=4, steps=300, faults=[fault("link", 2, 1.25, 100)]).run()
    windows, dice = run.windows.copy(), np.random.default_rng(1)
    wanders = np.repeat(dice.normal(0.0, 0.6, 21), 15)[windows["from_step"]]
    for name in ("wall_seconds", "collective_seconds", "grad_sync_seconds"):
        windows[name] += 6e-3 * np.exp(wanders)
    noisy = dataclasses.replace(run, windows=windows)
    told = diagnose(with_round_trips(noisy, 8e-4, {"node-2": 4e-3}, since=100)).verdict

    assert () == diagnose(noisy).verdict.culprits
    assert [("node-2", "link")] == [(one.node, one.cause) for one in told.culprits]


@pytest.mark.parametrize(("held", "kind"), [(0.7, "network"), (0.0, "link")])
def test_transfers_of_a_rank_that_its_quota_holds_back_are_not_told_as_a_link(
    synthetic, fault, held, kind
):
    grid = align(synthetic(world=2, faults=[fault("link", 1, 1.5, 80)]).run())
    share = np.zeros(grid.time["own"].shape)
    share[80:, 1] = held
    (found,) = links(dataclasses.replace(grid, signals={**grid.signals, QUOTA: share}))

    assert kind == found.kind
    assert ("CPU quota holds rank 1 back" in found.text) == (kind == "network")


@pytest.mark.parametrize(("slow", "transfers", "told"), [
    ({"node-2": 4e-3}, 0.4, "unknown"),
    ({"node-2": 4e-3}, 0.0, "healthy"),
    ({f"node-{number}": 4e-3 for number in range(4)}, 0.4, "healthy"),
])  # fmt: skip
def test_of_a_link_that_always_was_worse_nobody_knows_what_it_costs(
    synthetic, slow, transfers, told
):
    """Where transfers are much of a step, and it is one node's alone."""
    run = synthetic(world=4).run()
    windows = run.windows.copy()
    for name in ("wall_seconds", "collective_seconds", "grad_sync_seconds"):
        windows[name] += transfers * windows["own_seconds"].median()
    run = with_round_trips(dataclasses.replace(run, windows=windows), 2e-4, slow, since=0)
    verdict = diagnose(run).verdict

    assert (told, ()) == (verdict.status, verdict.culprits)
    trips = "round trips of node-2 to the others take 4.1 ms, 0.2 ms elsewhere, from the first step"
    assert (trips in verdict.sentence) == (told == "unknown")


@pytest.mark.parametrize(("share", "worse"), [(0.25, True), (1.0, False), (0.0, False)])
def test_of_one_port_that_always_was_slower_nobody_knows_what_it_costs(synthetic, share, worse):
    """A port of no speed is not plugged in."""
    grid = align(synthetic(world=4).run())
    speeds = {}
    for port in range(2):
        cells = np.full(grid.time["own"].shape, 5e10)
        cells[:, 2] *= share if port else 1.0
        speeds[IB_RATE.series(device=f"mlx5_{port}", port="1")] = cells
    told = always_worse(dataclasses.replace(grid, signals={**grid.signals, **speeds}))

    said = "a port of node-2 runs at 100 Gb/s, 400 Gb/s elsewhere"
    assert ((said,) if worse else ()) == told


def test_round_trips_that_all_have_longer_are_nobodys_link(synthetic, fault):
    run = synthetic(world=4, faults=[fault("link", 2, 1.5, 80)]).run()
    slow = {f"node-{number}": 4e-3 for number in range(4)}
    verdict = diagnose(with_round_trips(run, 2e-4, slow)).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)


def test_longer_round_trips_alone_accuse_nobody(synthetic):
    verdict = diagnose(with_round_trips(synthetic(world=4).run(), 2e-4, {"node-2": 4e-3})).verdict

    assert ("healthy", ()) == (verdict.status, verdict.culprits)


def test_of_a_node_the_rank_with_the_least_round_trip_tells():
    """One that exchanges with the slow node alone says nothing of its own link."""
    ranks = [SimpleNamespace(node=f"node-{rank // 2}") for rank in range(4)]
    cells = np.array([[4e-3, 2e-4, np.nan, 5e-3], [np.nan, np.nan, 1e-4, 2e-4]])
    grid = SimpleNamespace(ranks=ranks, signals={TRAIN_ROUND_TRIP.series(): cells})

    np.testing.assert_equal(
        counted(grid, TRAIN_ROUND_TRIP.name),
        [[2e-4, 2e-4, 5e-3, 5e-3], [np.nan, np.nan, 1e-4, 1e-4]],
    )


def test_transfers_that_grow_to_a_level_are_a_link_by_its_counter(synthetic, fault):
    """No span of it has a level, and in noise like this none stands out."""
    run = synthetic(world=4, steps=400, faults=[fault("loss", 2, 1.0, 80)]).run()
    windows, dice = run.windows.copy(), np.random.default_rng(0)
    usual, noise = windows["wall_seconds"].median(), dice.exponential(0.05, 400)
    climb = np.clip((windows["from_step"] - 80) / 200, 0.0, 1.0) / 5
    for name in ("wall_seconds", "collective_seconds", "grad_sync_seconds"):
        windows[name] += usual * (climb + noise[windows["from_step"]])
    (found,) = links(align(dataclasses.replace(run, windows=windows)))

    assert ("link", "node-2") == (found.kind, found.details["node"])
    assert 40 <= found.first <= 160


def test_of_a_ring_without_counters_nobody_is_named_and_the_network_is_told(synthetic, fault):
    verdict = diagnose(synthetic(world=4, faults=[fault("link", 2, 1.5, 80)]).run()).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "it is the network, and no node counts" in verdict.sentence


@pytest.mark.parametrize("kind", ["compute", "nvlink", "cpu-quota"])
def test_a_slow_rank_is_no_slow_link(synthetic, fault, kind):
    grid = align(synthetic(world=2, faults=[fault(kind, 1, 2.0)]).run())

    assert () == tuple(links(grid))


@pytest.mark.parametrize("seen", ["nothing", "half"])
@pytest.mark.parametrize("per_node", [1, 2])
def test_waits_for_a_rank_whose_own_time_is_not_known_are_not_the_network(
    synthetic, fault, per_node, seen
):
    run = synthetic(ranks_per_node=per_node, faults=[fault("compute", 3)]).run()
    windows = run.windows.copy()
    unseen = (windows["rank"] == 3) & ((seen == "nothing") | (windows["from_step"] >= 80))
    windows.loc[unseen, ["own_seconds", "collective_seconds"]] = np.nan
    verdict = diagnose(dataclasses.replace(run, windows=windows)).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "network" not in verdict.sentence


@pytest.mark.parametrize("seed", range(6))
def test_a_healthy_run_has_no_slow_link(synthetic, seed):
    grid = align(synthetic(seed=seed, world=2 + seed % 3, noise=0.08, telemetry=False).run())

    assert () == tuple(links(grid))


def test_moved_counters_alone_accuse_nobody(synthetic, fault):
    verdict = diagnose(synthetic(faults=[fault("loss", 2, 1.0, 80)]).run()).verdict

    assert ("healthy", ()) == (verdict.status, verdict.culprits)


def test_bursts_between_few_scrapes_are_no_movement(synthetic):
    """Pauses come in bursts: of three scrapes of some node three times as many are soon chance."""
    grid = align(synthetic(world=8, telemetry=False).run())
    grid = dataclasses.replace(grid, scrape_seconds=4 * float(np.mean(grid.end - grid.start)))
    windows = np.arange(len(grid.start))
    many, moved, seen = 0, 0, 0
    for seed in range(300):
        dice = np.random.default_rng(seed)
        counted = dice.gamma(1.0, 40.0, (len(windows) // 4 + 1, 8))
        cells = np.repeat(counted, 4, axis=0)[: len(windows)]
        first = int(dice.integers(20, len(windows) - 20))
        during = np.arange(first, first + 12)
        before = np.setdiff1d(windows, during)
        bursts = dataclasses.replace(grid, signals={PAUSES: cells})
        now, then = cells[during].mean(axis=0), cells[before].mean(axis=0)
        many += bool((now >= 3.0 * np.maximum(then, np.median(now))).any())
        moved += bool(movements(bursts, during, before, [NET_PAUSE.name]))
        cells[during, 2] += 400.0
        seen += "node-2" in {m.node for m in movements(bursts, during, before, [NET_PAUSE.name])}
    assert many >= 9
    assert moved <= 5
    assert seen >= 285


def test_of_several_whose_counters_moved_it_is_the_one_of_which_they_did_with_the_transfers(
    synthetic, fault
):
    true, early, late = (
        fault("loss", 2, 1.5, 220),
        fault("loss", 1, 1.0, 100),
        fault("loss", 3, 1.0, 320),
    )
    (found,) = links(align(synthetic(world=7, steps=400, faults=[true, early, late]).run()))

    assert ("link", "node-2") == (found.kind, found.details["node"])
    silent = fault("link", 2, 1.5, 220)
    (found,) = links(align(synthetic(world=7, steps=400, faults=[silent, early, late]).run()))
    assert ("network", None) == (found.kind, found.details["node"])


@pytest.mark.parametrize("seed", [2, 4, 10, 11])
def test_bubbles_that_become_more_are_no_link_whose_counters_moved_far_from_them(
    synthetic, fault, seed
):
    grid = align(synthetic(world=4, steps=400, faults=[fault("loss", 2, 1.0, 300)]).run())
    windows, dice = np.arange(len(grid.start)), np.random.default_rng(seed)
    bubbles = 0.02 * (dice.random(len(windows)) < np.where(windows < 100, 0.04, 0.12))
    time = {**grid.time, "collective": grid.time["collective"] + bubbles[:, None]}
    stages = tuple(dataclasses.replace(info, dp=0, pp=info.rank) for info in grid.ranks)

    assert () == tuple(links(dataclasses.replace(grid, ranks=stages, time=time)))


@pytest.mark.parametrize(("first", "explains"), [(100, True), (50, False), (150, False)])
def test_when_a_counter_moved_is_its_own(synthetic, first, explains):
    grid = align(synthetic(world=8, steps=300, telemetry=False).run())
    grid = dataclasses.replace(grid, scrape_seconds=float(np.mean(grid.end - grid.start)))
    windows = np.arange(len(grid.start))
    counted = np.random.default_rng(0).gamma(4.0, 1.0, (len(windows), 8))
    counted[100:, 2] += 400.0
    bad = dataclasses.replace(grid, signals={PAUSES: counted})
    (one,) = movements(bad, windows[first:], windows[:first], [NET_PAUSE.name])

    assert ("node-2", explains) == (one.node, one.symptom.explains)
    assert grid.start[100] - grid.start[first] == pytest.approx(one.symptom.began)


def test_in_a_pipeline_transfers_that_a_slow_rank_lengthens_accuse_no_link(synthetic, fault):
    """The slow rank waits longer too: for what the other stage makes of its late work."""
    faults = [fault("compute", 1, 2.0, 80), fault("loss", 2, 1.0, 80)]
    grid = align(synthetic(world=4, faults=faults).run())
    late = 0.1 * (grid.time["own"][:, 1] - grid.time["own"][:, 0])
    time = {**grid.time, "collective": grid.time["collective"] + np.maximum(late, 0.0)[:, None]}
    stages = tuple(dataclasses.replace(i, dp=i.rank // 2, pp=i.rank % 2) for i in grid.ranks)
    waits = dataclasses.replace(grid, ranks=stages, time=time)

    assert () == tuple(links(waits))
    as_before = np.full(waits.time["own"].shape, 0.04)
    alone = dataclasses.replace(waits, time={**time, "own": as_before})
    assert ["node-2"] == [found.details["node"] for found in links(alone)]


@pytest.mark.parametrize(
    ("factor", "rank", "first"), [(1.3, 1, 80), (1.5, 1, 140), (1.5, 2, 80), (1.5, 2, 140)]
)
def test_in_the_only_group_a_slow_rank_hides_no_slow_link(synthetic, fault, factor, rank, first):
    """The last to come waits for nobody: what it is in its collectives is transfer."""
    faults = [fault("loss", 2, 1.5, 80), fault("compute", rank, factor, first)]
    verdict = diagnose(synthetic(world=4, faults=faults).run()).verdict

    assert {("link", None, "node-2"), ("rank", rank, f"node-{rank}")} == {
        (culprit.scope, culprit.rank, culprit.node) for culprit in verdict.culprits
    }


def test_pipeline_stages_hide_transfers_in_bubbles(synthetic, fault):
    grid = align(synthetic(world=2, faults=[fault("link", 1, 2.0)], telemetry=False).run())
    stages = tuple(dataclasses.replace(info, dp=0, pp=info.rank) for info in grid.ranks)

    assert ["link"] == [found.kind for found in links(grid)]
    assert () == tuple(links(dataclasses.replace(grid, ranks=stages)))


def test_transfers_that_are_slow_in_some_steps_only_are_a_lack_of_processors(synthetic):
    grid = align(synthetic(world=2, telemetry=False).run())
    longer = 0.04 * (np.arange(len(grid.start)) % 5 < 3)[:, None] * (grid.from_step > 80)[:, None]
    time = {**grid.time, "collective": grid.time["collective"] + longer}

    assert () == tuple(links(dataclasses.replace(grid, time=time)))


def test_transfers_that_always_took_long_are_told_where_a_nodes_counters_moved(synthetic, fault):
    """A real network's transfers are a fifth of a step: 1.6 times that is no three times."""
    run = synthetic(world=4, faults=[fault("loss", 2, 1.3, 80)]).run()
    grid = align(run)
    always = {**grid.time, "collective": grid.time["collective"] + 0.02}
    (found,) = links(dataclasses.replace(grid, time=always))

    assert ("link", "node-2") == (found.kind, found.details["node"])
    blind = {key: cells for key, cells in grid.signals.items() if "retransmitted" not in key}
    assert () == tuple(links(dataclasses.replace(grid, time=always, signals=blind)))


def test_with_pipeline_stages_counters_must_tell(synthetic, fault):
    grid = align(synthetic(world=4, faults=[fault("loss", 2, 1.5, 80)]).run())
    stages = tuple(dataclasses.replace(info, dp=0, pp=info.rank) for info in grid.ranks)
    (found,) = links(dataclasses.replace(grid, ranks=stages))

    assert ("link", "node-2") == (found.kind, found.details["node"])


def test_a_slow_rank_of_a_tensor_parallel_pair_is_no_slow_link(synthetic, fault):
    """Of the other half of its pair's group nobody is slow, and everybody waits for the rank."""
    grid = align(synthetic(world=4, faults=[fault("compute", 1, 2.0)]).run())
    ranks = tuple(
        dataclasses.replace(
            info, node=f"node-{info.rank // 2}", dp=info.rank // 2, tp=info.rank % 2
        )
        for info in grid.ranks
    )

    assert () == tuple(links(dataclasses.replace(grid, ranks=ranks)))


def test_windows_without_the_rank_that_all_wait_for_are_no_slow_link(synthetic, fault):
    run = synthetic(world=2, faults=[fault("compute", 1, 2.0, 80)]).run()
    gone = (run.windows["rank"] == 1) & run.windows["from_step"].between(120, 170)
    grid = align(dataclasses.replace(run, windows=run.windows[~gone]))

    assert () == tuple(links(grid))


def test_windows_of_which_some_ranks_are_not_known_say_nothing_and_the_others_do(synthetic, fault):
    """A node that nobody scraped for a while before clears nobody then, and hides no link later."""
    run = synthetic(world=4, faults=[fault("loss", 2, 1.5, 120)]).run()
    gone = (run.windows["rank"] == 3) & run.windows["from_step"].between(40, 90)
    verdict = diagnose(dataclasses.replace(run, windows=run.windows[~gone])).verdict

    assert [("link", "node-2", "link")] == [(c.scope, c.node, c.cause) for c in verdict.culprits]


def test_a_little_longer_is_told_where_one_nodes_counters_moved_and_nowhere_else(synthetic, fault):
    grid = align(synthetic(world=4, faults=[fault("loss", 2, 1.07, 80)]).run())
    (found,) = links(grid)

    assert ("link", "node-2") == (found.kind, found.details["node"])
    blind = {key: cells for key, cells in grid.signals.items() if "retransmitted" not in key}
    assert () == tuple(links(dataclasses.replace(grid, signals=blind)))


def test_a_link_that_just_became_slow_is_named_before_a_block_of_the_long_run_is_full(
    synthetic, fault
):
    grid = align(synthetic(world=4, steps=1000, faults=[fault("loss", 2, 1.5, 982)]).run())
    (found,) = links(grid)

    assert ("link", "node-2") == (found.kind, found.details["node"])
    assert 982 == pytest.approx(int(grid.from_step[found.first]), abs=5)


@pytest.mark.parametrize("counts", [True, False])
def test_a_link_that_goes_down_now_and_then_is_named_by_its_rare_events(synthetic, counts):
    """An event in every seventh step of a third of the run: no rate of any noise rose much."""
    grid = align(synthetic(world=4, steps=300, telemetry=False).run())
    down = (grid.from_step >= 80) & (grid.from_step < 180) & (grid.from_step % 7 == 0)
    usual = np.median(grid.time["wall"])
    longer = np.where(down, 3.0 * usual, 0.0)[:, None]
    series = IB_ERRORS.series(device="mlx5_0", kind="link_downed", port="1")
    errors = np.zeros(grid.time["own"].shape)
    errors[down, 2] = counts / 7.0
    grid = dataclasses.replace(
        grid,
        start=7.0 * np.arange(300),
        end=7.0 * np.arange(1, 301),
        scrape_seconds=15.0,
        time={**grid.time, **{name: grid.time[name] + longer for name in ("wall", "collective")}},
        signals={series: errors},
    )
    found = links(grid)

    if counts:
        (one,) = found
        assert ("link", "node-2") == (one.kind, one.details["node"])
        assert (77, 183) == pytest.approx((one.first, one.last), abs=8)
        # 14 of 100 steps take four times the usual one: (86 + 14 * 4) / 100.
        assert 1.42 == pytest.approx(one.slowdown, abs=0.03)
    else:
        assert () == tuple(found)


@pytest.mark.parametrize("first", [80, 140])
def test_what_a_counter_was_before_it_was_told_is_not_known_and_moved_nothing(synthetic, first):
    grid = align(synthetic(world=4, telemetry=False).run())
    longer = np.where(grid.from_step >= 80, 0.02, 0.0)[:, None]
    errors = np.zeros(grid.time["own"].shape)
    errors[:, 3] = np.where(np.arange(len(errors)) < first, np.nan, 0.05)
    signals = {IB_ERRORS.series(device="mlx5_0", kind="symbol_error", port="1"): errors}
    time = {**grid.time, **{name: grid.time[name] + longer for name in ("wall", "collective")}}
    found = links(dataclasses.replace(grid, time=time, signals=signals))

    assert ["network"] == [one.kind for one in found]


@pytest.mark.parametrize("told", ["run.json", "boot"])
def test_between_nodes_of_one_host_is_no_link(synthetic, fault, told):
    run = synthetic(world=2, faults=[fault("link", 1, 1.5, 80)]).run()
    if told == "run.json":
        run = dataclasses.replace(run, meta={**run.meta, "emulated_nodes": True})
    else:
        ups = run.samples[run.samples["metric"] == "up"]
        infos = ups.assign(metric="lockstep_node_info", labels='boot_id="b",emulated="false"')
        run = dataclasses.replace(run, samples=pd.concat([run.samples, infos], ignore_index=True))
    verdict = diagnose(run).verdict

    assert ((), "unknown") == (verdict.culprits, verdict.status)
    assert "are one host, without a link between them" in verdict.sentence
    emulated = dataclasses.replace(run, meta={**run.meta, "emulated_network": True})
    assert ["link"] == [one.scope for one in diagnose(emulated).verdict.culprits]


@pytest.mark.parametrize("ports", [1, 2, 8])
@pytest.mark.parametrize("share", [0.5, 0.25])
def test_one_port_of_a_node_that_is_slower_is_its_link(synthetic, fault, ports, share):
    """A transfer over all ports ends with the slowest, and their sum hardly falls."""
    grid = align(synthetic(world=4, faults=[fault("link", 2, 1.5, 80)]).run())
    speeds = {}
    for port in range(ports):
        speed = np.full(grid.time["own"].shape, 5e10)
        if port == ports - 1:
            speed[80:, 2] *= share
        speeds[IB_RATE.series(device=f"mlx5_{port}", port="1")] = speed
    (found,) = links(dataclasses.replace(grid, signals={**grid.signals, **speeds}))

    assert ("link", "node-2") == (found.kind, found.details["node"])


def test_ports_of_other_speeds_that_never_change_are_nobodys_link(synthetic, fault):
    """As of a port for management; and what is unknown for a while is no fall."""
    grid = align(synthetic(world=4, faults=[fault("link", 2, 1.5, 80)]).run())
    slow, some = np.full(grid.time["own"].shape, 1.25e8), np.full(grid.time["own"].shape, 5e10)
    some[100:120, 1] = np.nan
    speeds = {IB_RATE.series(device=f"mlx5_{port}", port="1"): cells
              for port, cells in enumerate((slow, some))}  # fmt: skip
    (found,) = links(dataclasses.replace(grid, signals={**grid.signals, **speeds}))

    assert "network" == found.kind


def test_a_port_for_management_that_becomes_slower_is_nobodys_link(synthetic, fault):
    grid = align(synthetic(world=4, faults=[fault("link", 2, 1.5, 80)]).run())
    data, other = np.full(grid.time["own"].shape, 5e10), np.full(grid.time["own"].shape, 1.25e8)
    other[80:, 2] /= 10
    speeds = {NET_SPEED.series(device=name): cells for name, cells in (("a", data), ("b", other))}
    (found,) = links(dataclasses.replace(grid, signals={**grid.signals, **speeds}))

    assert "network" == found.kind


def test_a_rank_whose_quota_holds_it_back_is_no_full_network(synthetic, fault):
    faults = [fault("full", rank, 1.05, 80) for rank in range(4)]
    grid = align(synthetic(world=4, faults=faults).run())
    share = np.zeros(grid.time["own"].shape)
    share[80:, 1] = 0.7
    told = links(dataclasses.replace(grid, signals={**grid.signals, QUOTA: share}))

    assert [] == [one for one in told if one.details[FULL]]


def test_two_links_that_are_slow_one_after_the_other_are_both_named(synthetic, fault):
    faults = [fault("loss", 2, 1.5, 80, 130), fault("loss", 1, 1.5, 300, 350)]
    grid = align(synthetic(world=4, steps=400, faults=faults).run())
    again = {}
    for key, cells in grid.signals.items():
        again[key] = cells.copy()
        if key.startswith(TCP_RETRANSMITTED.name):
            for node, span in ((2, slice(80, 130)), (1, slice(300, 350))):
                again[key][:, node] = 0.5
                again[key][span, node] = 20.0
    found = links(dataclasses.replace(grid, signals=again))

    assert {"node-1", "node-2"} == {one.details["node"] for one in found}
    assert {"link"} == {one.kind for one in found}


def test_a_slow_rank_of_another_stage_hides_no_slow_link(synthetic, fault):
    """Everybody waits for the rank as well: what is left without that is the link's."""
    faults = [fault("loss", 2, 1.5, 80)]
    grid = align(synthetic(world=8, steps=300, faults=faults).run())
    own, longer = grid.time["own"].copy(), np.zeros(len(grid.start))
    longer[140:] = 0.03
    own[:, 1] += longer
    time = {**grid.time, "own": own, "wall": grid.time["wall"] + longer[:, None]}
    for name in ("collective", "grad_sync"):
        time[name] = grid.time[name] + longer[:, None]
        time[name][:, 1] -= longer
    time["collective"][:, 1] += longer  # it waits in its stage as long as others wait for it
    stages = tuple(dataclasses.replace(i, dp=i.rank // 2, pp=i.rank % 2) for i in grid.ranks)
    both = dataclasses.replace(grid, ranks=stages, time=time)
    rest = without_slow(both, effects(both))
    assert rest is not None
    (found,) = links(rest)

    assert () == tuple(links(both))
    assert ("link", "node-2") == (found.kind, found.details["node"])


@pytest.mark.parametrize("staged", [False, True])
def test_a_network_that_is_full_between_all_nodes_is_told_and_nobody_named(
    synthetic, fault, staged
):
    faults = [fault("full", rank, 1.05, 80) for rank in range(4)]
    run = synthetic(world=4, faults=faults).run()
    if staged:
        ranks = tuple(dataclasses.replace(i, dp=i.rank // 2, pp=i.rank % 2) for i in run.ranks)
        run = dataclasses.replace(run, ranks=ranks)
    verdict = diagnose(run).verdict
    (told,) = verdict.structure

    assert ("degraded", ()) == (verdict.status, verdict.culprits)
    assert ("full-network", "congestion") == (told["kind"], told["cause"])
    assert 1.2 == pytest.approx(verdict.slowdown, abs=0.06)
    assert verdict.sentence.startswith("Slower, and no node is to blame: transfers between 4 nodes")


def test_a_run_that_crashed_is_not_cleared_by_a_network_that_was_full(synthetic, fault):
    faults = [fault("full", rank, 1.05, 80) for rank in range(4)]
    run = synthetic(world=4, faults=faults).run()
    verdict = diagnose(dataclasses.replace(run, meta={**run.meta, "outcome": "crash"})).verdict

    assert ("unknown", ()) == (verdict.status, verdict.structure)


def test_packets_that_wait_everywhere_while_transfers_are_as_ever_are_nothing(synthetic, fault):
    faults = [fault("full", rank, 1.0, 80) for rank in range(4)]

    assert "healthy" == diagnose(synthetic(world=4, faults=faults).run()).verdict.status


def test_where_a_link_counts_errors_beside_full_ones_the_network_is_not_told_to_be_full(
    synthetic, fault
):
    faults = [fault("full", rank, 1.05, 80) for rank in range(4)] + [fault("loss", 1, 1.0, 80)]
    verdict = diagnose(synthetic(world=4, faults=faults).run()).verdict

    assert "full-network" not in {one["kind"] for one in verdict.structure}
