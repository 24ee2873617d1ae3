"""A run archive (docs/reference/archive.md): its columns and windows, or all of it as a Run.

What was injected (truth.json) is never opened.
"""

import math
import reprlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from lockstep.analyzer.read.archive.files import ANSWERED_KEY, LATEST, Files, judged_samples, lacks
from lockstep.analyzer.read.archive.series import ScrapedSeries
from lockstep.analyzer.read.archive.table import WORDS, Table
from lockstep.analyzer.read.places import META_KEY, TOPOLOGY_FILE, read
from lockstep.analyzer.read.ranks import rank_infos, world_of
from lockstep.analyzer.shapes.run import LoadError, Run
from lockstep.analyzer.shapes.windows import from_samples, from_steps
from lockstep.collector.contract import archive, bounded_json

MOST_RANKS = 1_000_000
LONGEST = 1e7
"""Seconds; no step takes four months."""
MOST_SHOWN = 40
"""Characters of a name from outside in a sentence."""


class Archive:
    """The files and tables of one archive, each read where it lies when it is asked for.

    Args:
        folder: Where it is.
        strict: For its owner: links out of the folder are followed, and damage is a LoadError; else
            what is torn or leads elsewhere is left out and reported by `Table.missing`.

    Attributes:
        files: run.json, verdict.json, finding.json.
        steps, samples, ops, ranks: The tables of the contract.
        series: What scrapes saw, out of `samples`.
    """

    def __init__(self, folder: Path, *, strict: bool = False) -> None:
        self.files = Files(folder, links=strict)

        def table(name: str, columns: Sequence[archive.Column], words: Sequence[str]) -> Table:
            return Table(self.files, name, columns, strict=strict, words=words)

        # A frame of steps or operations has words as texts; of samples there are far more.
        few = () if strict else WORDS
        self.steps = table(archive.STEPS_FILE, archive.STEPS, few)
        self.samples = table(archive.SAMPLES_FILE, archive.SAMPLES, WORDS)
        self.ops = table(archive.OPS_FILE, archive.OPS, few)
        self.ranks = table(archive.RANKS_FILE, archive.RANKS, few)
        self.series = ScrapedSeries(self.samples)

    @property
    def tables(self) -> tuple[Table, ...]:
        """All of them."""
        return self.steps, self.samples, self.ops, self.ranks


def load_archive(path: Path) -> Run:
    """The archive in the folder `path`.

    A run that still goes on or was killed loads; what it lacks stands in `Run.missing`. Without
    steps.parquet, and where run.json says which samples are judged (`archive.judged`), the windows
    come from the scraped counters. A topology.toml in the folder says where the nodes stand
    (`read.places`). Words of `Run.samples` are categories.

    Raises:
        LoadError: The folder or run.json is missing, a file is damaged, lacks columns or has
            another schema version.
    """
    told = Archive(path, strict=True)
    meta = told.files.meta()
    if (path / TOPOLOGY_FILE).is_file():
        meta = {**meta, META_KEY: read(path / TOPOLOGY_FILE)}
    if pods := _pods(path):
        meta = {**meta, "pods": pods}
    missing: list[str] = []
    if "ended" not in meta or meta["ended"] is None:
        why = "another launcher started it" if "started_by" in meta else "it goes on or was killed"
        missing.append(f"run.json has no end of the run: {why}")
    missing += lacks(meta)
    lost = _object(meta, "recording", path).get("lost_steps")
    if lost:
        missing.append(f"{lost} steps of ranks were overwritten before they were recorded")
    samples, steps, ops, table = (
        _frame(each, missing) for each in (told.samples, told.steps, told.ops, told.ranks)
    )
    _require(path / archive.RANKS_FILE, table, ("rank", "node", "local_rank", "dp", "pp", "tp"))
    _require(path / archive.STEPS_FILE, steps, ("step", "rank", "start"))
    _check(path / archive.STEPS_FILE, steps)
    for name in ("spec", "versions"):
        _object(meta, name, path)
    _outcome(meta, path)
    if meta.get("own_time_known") is False:
        # No step of any rank: of an archive whose steps do not say so themselves, own times are
        # wall times. Where some are known, the steps say which.
        steps = steps.assign(own_seconds=math.nan, wait_seconds=math.nan)
    judged = judged_samples(meta, samples)
    samples = samples if judged is None else judged
    windows = from_steps(steps) if judged is None and not steps.empty else from_samples(samples)
    others = {*range(world_of(samples)), *windows["rank"].astype(int).tolist()}
    if ANSWERED_KEY in meta:
        others = set()  # other ranks are not silent: they were not asked
    ranks = rank_infos(table, samples, _layout(meta, path), missing, others=others)
    return Run(
        name=str(meta.get("run") or meta.get("id") or path.name),
        meta=meta,
        ranks=ranks,
        windows=windows,
        samples=samples,
        ops=None if ops.empty else ops,
        missing=tuple(missing),
    )


def _pods(path: Path) -> Mapping[str, Any]:
    """Pod -> its node and when it began, as who submitted the run wrote it; empty = nobody did.

    It lies in the archive, or where the first step of a Workflow left it beside the archive.
    """
    for folder in (path, path.with_name(f"{path.name}.launch")):
        with suppress(OSError, ValueError):
            told = bounded_json.read(folder / archive.CLUSTER_FILE)
            pods = told.get("pods") if isinstance(told, dict) else None
            if isinstance(pods, dict):
                return pods
    return {}


def _object(meta: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    """A JSON object of run.json; empty where it is absent."""
    value = meta.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise LoadError(
            f"{path / archive.RUN_FILE}: {name} is {reprlib.repr(value)}; it must be an object"
        )
    return value


def _outcome(meta: Mapping[str, Any], path: Path) -> None:
    """How the run ended: a word, or an object as of lockstep.workloads.launch.launcher.Outcome."""
    tree = meta.get("outcome")
    if tree is None or isinstance(tree, str):
        return

    def must(good: bool, name: str, value: object, what: str) -> None:
        if not good:
            raise LoadError(f"{path / archive.RUN_FILE}: {name} is {value!r}; it must be {what}")

    must(isinstance(tree, dict), "outcome", tree, "a word or an object")
    for name in ("ending", "reason"):
        value = tree.get(name)
        must(value is None or isinstance(value, str), f"outcome.{name}", value, "a text")
    for name in ("ranks", "exits", "raised"):
        value = tree.get(name)
        must(value is None or isinstance(value, list), f"outcome.{name}", value, "a list")
    for rank in tree.get("ranks") or ():
        must(_whole(rank), "outcome.ranks", rank, "whole numbers")
    for one in tree.get("exits") or ():
        good = isinstance(one, dict) and _whole(one.get("rank")) and _whole(one.get("code"))
        must(good, "outcome.exits", one, "objects with a whole rank and code")
    for one in tree.get("raised") or ():
        good = (
            isinstance(one, dict) and _whole(one.get("rank")) and isinstance(one.get("error"), str)
        )
        must(good, "outcome.raised", one, "objects with a whole rank and a text error")


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _layout(meta: Mapping[str, Any], path: Path) -> Mapping[str, Any] | None:
    layout = _object(meta, "layout", path)
    for name, value in layout.items():
        if not isinstance(value, int) or not 1 <= value <= MOST_RANKS:
            raise LoadError(
                f"{path / archive.RUN_FILE}: layout.{name[:MOST_SHOWN]} is {reprlib.repr(value)};"
                f" it must be a whole number from 1 to {MOST_RANKS}"
            )
    return layout or None


def _require(path: Path, frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Who and when: a row without it belongs to nobody."""
    for name in names:
        if bool(frame[name].isna().any()):
            row = int(frame[name].isna().to_numpy().argmax())
            raise LoadError(f"{path}: row {row} has no {name}")


def _check(path: Path, steps: pd.DataFrame) -> None:
    """Values that no run can have: a file of another kind, or a damaged one."""
    times = steps[[name for name in steps if str(name).endswith("_seconds")]]
    wrong = {
        "step": steps["step"] < 0,
        "rank": steps["rank"] < 0,
        "start": ~steps["start"].between(0, LATEST),
        "a duration": ((times < 0) | (times > LONGEST)).any(axis=1),
    }
    for name, bad in wrong.items():
        if bad.any():
            row = int(bad.to_numpy().argmax())
            raise LoadError(f"{path}: row {row} has an impossible value for {name}")


def _frame(table: Table, missing: list[str]) -> pd.DataFrame:
    """All of a table; absent is empty with a note in `missing`."""
    frame = table.frame()
    if frame.empty:
        missing.append(f"no rows in {table.name}" if table.parts() else f"no {table.name}")
    missing += table.missing()
    return frame
