"""Healthy synthetic runs, made slow in some steps, on nodes of several ranks, in long windows."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from lockstep.analyzer.shapes.run import Run

Strength = Callable[[np.ndarray], np.ndarray]


def _slowed(run: Run, ranks: Sequence[int], factor: float, strength: Strength) -> Run:
    """The run with the own time of `ranks` longer by 1 + (factor - 1) * strength(step)."""
    windows = run.windows.copy()
    share = np.where(windows["rank"].isin(ranks), strength(windows["from_step"].to_numpy()), 0.0)
    extra = (factor - 1.0) * share * windows["own_seconds"]
    windows["own_seconds"] += extra
    windows["backward_seconds"] += extra
    longest = extra.groupby(windows["from_step"]).transform("max")
    windows["wall_seconds"] += longest
    windows["collective_seconds"] += longest - extra
    return dataclasses.replace(run, windows=windows)


def _on_nodes(run: Run, per_node: int, name: str = "node-{}") -> Run:
    """The run with `per_node` ranks on each node."""
    ranks = tuple(
        dataclasses.replace(info, node=name.format(info.rank // per_node), gpu=info.rank % per_node)
        for info in run.ranks
    )
    return dataclasses.replace(run, ranks=ranks)


def _scraped(run: Run, steps: int) -> Run:
    """The run in windows of so many steps, as a scrape tells them."""
    windows = run.windows.assign(window=run.windows["from_step"] // steps)
    sums = [name for name in windows if name.endswith("_seconds")]
    sums += ["steps", "samples", "tokens", "flops"]
    how = dict.fromkeys(sums, "sum") | {
        "from_step": "min", "to_step": "max", "start": "min", "end": "max",
        "tags": "max", "loss": "last",
    }  # fmt: skip
    told = windows.groupby(["rank", "attempt", "window"], as_index=False).agg(how)
    return dataclasses.replace(run, windows=told[list(run.windows.columns)])


@pytest.fixture(scope="session")
def slowed():
    return _slowed


@pytest.fixture(scope="session")
def on_nodes():
    return _on_nodes


@pytest.fixture(scope="session")
def scraped():
    return _scraped


@pytest.fixture(scope="session")
def steadily():
    """Strength 1 from a step on."""
    return lambda first: lambda step: (step >= first).astype(float)


@pytest.fixture(scope="session")
def turning():
    """Strength 1 in the first half of every period, from a step on."""
    return lambda first, period: (
        lambda step: ((step >= first) & ((step - first) % period < period / 2)).astype(float)
    )


@pytest.fixture(scope="session")
def climbing():
    """Strength from 0 at a step to 1 at another."""
    return lambda first, last: lambda step: np.clip((step - first) / (last - first), 0.0, 1.0)
