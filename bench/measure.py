"""From a run's archive to a row of results; what the archive does not tell is null."""

import json
import math
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.bench.results import METRIC_PREFIX, ResultError, Value, checked
from lockstep.bench.spec import BenchError
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import RESULTS_FILE, VERDICT_FILE
from lockstep.collector.contract.robust import MAD_TO_SIGMA
from lockstep.collector.contract.words import PHASES

if TYPE_CHECKING:
    import pandas as pd

    from lockstep.analyzer.shapes.run import Run


# Versions that no archive holds: the commit of the code, the digest of the image, NCCL.

COMMIT, DIGEST, NCCL = "LOCKSTEP_COMMIT", "LOCKSTEP_IMAGE_DIGEST", "NCCL_VERSION"
"""Of the environment; they overrule what is found. NVIDIA's images set the last."""


def surroundings(beside: Path) -> dict[str, Value]:
    """Columns of COLUMNS; null = unknown.

    Args:
        beside: A folder of the code that is measured.
    """
    return {
        "commit": os.environ.get(COMMIT) or commit(beside),
        "image_digest": os.environ.get(DIGEST),
        "nccl": os.environ.get(NCCL),
    }


def commit(folder: Path) -> str | None:
    """The commit of the git repository there, `-dirty` where files differ from it; None = none."""

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *words],  # noqa: S607 - the user's own
                capture_output=True, text=True, timeout=10,
                check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    found = git("rev-parse", "HEAD")
    if not found:
        return None
    return f"{found}-dirty" if git("status", "--porcelain", "--untracked-files=no") else found


KEY = ("bench", "cell", "repeat")
"""Columns that a run does not know."""
BLOCKS = 8
"""Of steps, for the standard error of a median: neighbouring steps are alike, blocks hardly."""
VERSIONS_OF = {
    "GPU driver": "driver", "CUDA driver API": "cuda", "VBIOS": "vbios",
    "GPU firmware": "gpu_firmware", "kernel": "kernel", "NIC firmware": "nic_firmware",
}  # fmt: skip
"""lockstep.analyzer.align.versions.SOURCES -> column."""
WARM_UP = 0.1
"""Share of the steps, at the beginning, that are not measured: caches fill, allocators grow."""


def of_archive(archive: Path) -> dict[str, Value]:
    """All columns that an archive tells.

    Raises:
        BenchError: It is no archive.
    """
    from lockstep.analyzer.read.archive.load import load_archive
    from lockstep.analyzer.shapes.run import LoadError

    try:
        run = load_archive(archive)
    except LoadError as error:
        raise BenchError(f"the archive cannot be read: {error}") from error
    return {
        "archive": str(archive),
        **_of_run(run),
        **speed(run.windows, {each.rank: each.node for each in run.ranks}),
        **_versions(run),
        **_outcome(archive),
        **_verdict(archive),
    }


def line(archive: Path) -> str:
    """What `of_archive` has, as the line of JSON that a pod beside the archive says.

    Raises:
        BenchError: It is no archive.
    """
    return json.dumps({"measured": of_archive(archive)}, separators=(",", ":"), allow_nan=False)


def of_cluster(launch: Path) -> dict[str, Value]:
    """All columns that a run on a cluster answered with; what is no column is left out.

    Args:
        launch: What `lockstep run` printed, whose last line is its answer.
    """
    told = answer(launch)
    found: dict[str, Any] = dict(_tree(told.get("measured")))
    found |= {name: told[name] for name in ("archive", "run") if told.get(name)}
    if isinstance(told.get("queued_seconds"), int | float):
        found["queued_seconds"] = float(told["queued_seconds"])
    if isinstance(told.get("images"), list) and told["images"]:
        found["image_digest"] = ", ".join(map(str, told["images"]))
    if nodes := sorted({str(each) for each in _tree(told.get("nodes")).values()} - {""}):
        found["node_names"] = nodes
    row: dict[str, Value] = {}
    for name, value in found.items():
        with suppress(ResultError):  # a pod may say anything
            if value is not None and name not in KEY:
                checked({"bench": "-", "cell": "-", name: value})
                row[name] = value
    return row


def answer(launch: Path) -> Mapping[str, Any]:
    """What `lockstep run` answered, in the last line of its output; empty = it did not."""
    try:
        lines = launch.read_text(errors="replace").splitlines()
        return _tree(bounded_json.loads(lines[-1])) if lines else {}
    except (OSError, ValueError):
        return {}


def _tree(tree: object) -> Mapping[str, Any]:
    return tree if isinstance(tree, dict) else {}


def speed(windows: "pd.DataFrame", nodes: Mapping[int, str]) -> dict[str, Value]:
    """How fast, by the steps of all ranks; those that are slow by design are left out.

    A step's time is the median over ranks; that of the run is the median over steps, with its
    standard error by BLOCKS blocks of steps in time order.

    Args:
        windows: `Run.windows`.
        nodes: Rank -> its node.
    """
    import numpy as np

    if windows.empty:
        return {}
    began, ended = windows["start"].min(), windows["end"].max()
    kept = windows[windows["tags"] == ""] if "tags" in windows else windows
    steps = np.sort(kept["from_step"].unique())
    if len(steps) > BLOCKS:
        kept = kept[kept["from_step"] >= steps[int(WARM_UP * len(steps))]]
    if kept.empty:
        return {}

    def a_step(name: str) -> "pd.DataFrame":
        table = kept.assign(value=kept[name] / kept["steps"])
        return table.pivot_table(index="from_step", columns="rank", values="value", dropna=False)

    wall, own = a_step("wall_seconds"), a_step("own_seconds")
    per_step = wall.median(axis=1).to_numpy(dtype=float)
    step_seconds = _number(np.nanmedian(per_step)) if np.isfinite(per_step).any() else None
    ranks = [int(rank) for rank in wall.columns]
    owns = [own[rank].to_numpy(dtype=float) for rank in ranks]
    known = all(np.isfinite(each).any() for each in owns)
    medians = [float(np.nanmedian(each)) for each in owns] if known else None
    share = None
    if known and step_seconds:
        share = min(1.0, float(np.nanmean(own.to_numpy()) / np.nanmean(wall.to_numpy())))
    alone = len(ranks) == 1
    told: dict[str, Value] = {
        "steps": int(kept.groupby("rank")["steps"].sum().min()),
        "step_seconds": step_seconds,
        "step_seconds_error": _number(block_error(per_step)),
        "wall_seconds": _number(ended - began),
        "gpu_hours": _number((ended - began) * len(nodes) / 3600.0),
        # Whoever is alone waits for nobody: what is not own time then is the step's remainder.
        "computation_share": 1.0 if alone and step_seconds else share,
        "communication_share": 0.0 if alone and step_seconds else
        (None if share is None else 1.0 - share),
        "rank_own_seconds": medians,
        "rank_own_error": [block_error(each) for each in owns] if known else None,
        "rank_nodes": [nodes.get(rank, "") for rank in ranks],
        "node_names": sorted({nodes.get(rank, "") for rank in ranks}),
    }  # fmt: skip
    if told["rank_own_error"] is not None and any(map(math.isnan, told["rank_own_error"])):  # type: ignore[arg-type]
        told["rank_own_error"] = None
    for phase in PHASES:
        values = kept[f"{phase}_seconds"] / kept["steps"] if f"{phase}_seconds" in kept else None
        told[f"{phase}_seconds"] = None if values is None else _number(values.mean())
    if step_seconds:
        for column, name in (("samples", "samples_per_second"), ("tokens", "tokens_per_second"),
                             ("flops", "flops_per_second")):  # fmt: skip
            if column in kept and np.isfinite(kept[column].to_numpy(dtype=float)).any():
                a_rank = (kept[column] / kept["steps"]).groupby(kept["rank"]).mean().sum()
                told[name] = _number(a_rank / step_seconds)
    if "loss" in windows:
        losses = windows[windows["loss"].notna()].sort_values("from_step")["loss"]
        told["loss"] = None if losses.empty else _number(losses.iloc[-1])
    return told


def block_error(values: Any) -> float:
    """Standard error of the median of a series, by the medians of blocks of it; NaN = too few.

    A median of a block has the error of the whole's times the root of the number of blocks. Blocks
    further out than 3 spreads (of the median deviation) are drawn in: long steps come in bursts.
    """
    import numpy as np

    values = np.asarray(values, dtype=float)
    values = values[np.isfinite(values)]
    if len(values) < 2 * BLOCKS:
        return math.nan
    medians = np.array([float(np.median(each)) for each in np.array_split(values, BLOCKS)])
    middle = np.median(medians)
    reach = 3 * MAD_TO_SIGMA * np.median(np.abs(medians - middle))
    medians = np.clip(medians, middle - reach, middle + reach)
    return float(np.std(medians, ddof=1) / math.sqrt(BLOCKS))


def metrics(path: Path) -> dict[str, Value]:
    """Numbers of a JSON object, as columns.

    Raises:
        BenchError: It is none, or a value is no number.
    """
    try:
        told = bounded_json.read(path)
    except (OSError, ValueError) as error:
        raise BenchError(f"{path.name} cannot be read as JSON: {error}") from error
    if not isinstance(told, dict):
        raise BenchError(f"{path.name} is no JSON object of numbers")
    found: dict[str, Value] = {}
    for name, value in told.items():
        if not name.strip():
            raise BenchError(f"{path.name} has a number without a name")
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            raise BenchError(f"{path.name}: {name} is {value!r:.60}; it must be a number or null")
        found[f"{METRIC_PREFIX}{name}"] = None if value is None else _number(value)
    return found


def _of_run(run: "Run") -> dict[str, Value]:
    meta = run.meta
    versions = meta.get("versions") or {}
    text = {
        name: str(versions[name]) for name in ("kernel", "torch", "python", "lockstep", "nccl")
        if versions.get(name) is not None
    }  # fmt: skip
    spec = meta.get("spec") or {}
    simulated = meta.get("simulated")
    return {
        "run": run.name,
        "started": _text(meta.get("started")),
        "ended": _text(meta.get("ended")),
        "seed": spec.get("seed") if isinstance(spec.get("seed"), int) else None,
        "emulated_devices": meta.get("emulated_devices"),
        "simulated": [str(each) for each in simulated] if isinstance(simulated, list) else None,
        **text,
    }


def _versions(run: "Run") -> dict[str, Value]:
    """As the nodes' own series tell them; several are joined, and told rank by rank."""
    import numpy as np

    from lockstep.analyzer.align.versions import versions
    from lockstep.analyzer.shapes.labels import parsed
    from lockstep.collector.contract.metric_rows.gpu import GPU_INFO

    told: dict[str, Value] = {}
    differing: dict[str, dict[str, str]] = {}
    found = versions(run.samples, run.ranks, np.array([np.inf]))
    for what, one in found.items():
        by_rank = {
            str(info.rank): one.words[code]
            for info, code in zip(run.ranks, one.codes[0].tolist(), strict=True) if code >= 0
        }  # fmt: skip
        words = sorted(set(by_rank.values()))
        if words:
            told[VERSIONS_OF[what]] = ", ".join(words)
        if len(words) > 1:
            differing[VERSIONS_OF[what]] = by_rank
    gpus = run.samples[run.samples["metric"] == GPU_INFO.name]["labels"].dropna().unique()
    models = sorted({parsed(str(each)).get("model", "") for each in gpus} - {""})
    told["hardware"] = ", ".join(models) if models else f"{platform.machine()} CPU"
    told["rank_versions"] = json.dumps(differing, sort_keys=True) if differing else None
    return told


def _outcome(archive: Path) -> dict[str, Value]:
    """What it learned: its goal, its evaluations, its bandwidth (results.json)."""
    try:
        told = bounded_json.read(archive / RESULTS_FILE)
    except (OSError, ValueError):
        return {}
    found: dict[str, Value] = {}
    goal = told.get("goal")
    if isinstance(goal, dict):
        sign = ">=" if goal.get("higher_is_better") else "<="
        found["goal"] = f"{goal.get('metric')}{sign}{goal.get('threshold')}"
        reached = goal.get("reached") or {}
        found["time_to_goal_seconds"] = _number(reached.get("training_seconds"))
    evaluations = told.get("evaluations") or [{}]
    for name, value in dict(evaluations[-1]).items():
        if name != "step" and "seconds" not in name:
            found[f"{METRIC_PREFIX}{name}"] = _number(value)
    for each in told.get("sweep") or []:
        name = f"{METRIC_PREFIX}bus_bandwidth_{each.get('bytes')}"
        found[name] = _number(each.get("bus_bandwidth"))
    return found


def _verdict(archive: Path) -> dict[str, Value]:
    try:
        told = bounded_json.read(archive / VERDICT_FILE)
    except (OSError, ValueError):
        return {}
    return {
        "verdict": _text(told.get("status")),
        "sentence": _text(told.get("sentence")),
        "culprits": [_culprit(each) for each in told.get("culprits") or []],
    }


def _culprit(culprit: Mapping[str, Any]) -> str:
    place = [f"{name} {culprit[name]}" for name in ("rank", "gpu") if culprit.get(name) is not None]
    where = culprit.get("link") or culprit.get("node") or ""
    return f"{where} {' '.join(place)}".strip() + f": {culprit.get('cause')}"


def failed_ranks(archive: Path) -> tuple[list[str], str]:
    """Who failed, as `rank 3 on node-1`, and the last lines of the first one's log."""
    try:
        meta = bounded_json.read(archive / "run.json")
        ranks: Sequence[int] = meta["outcome"]["ranks"]
        per_node, hosts = meta["layout"]["ranks_per_node"], meta["spec"].get("hosts") or []
    except (OSError, ValueError, KeyError, TypeError):
        return [], ""
    names = [
        f"rank {rank} on {hosts[rank // per_node] if hosts else f'node-{rank // per_node}'}"
        for rank in ranks
    ]
    lines = ""
    if ranks:
        with suppress(OSError):
            text = (archive / "logs" / f"rank-{ranks[0]}.log").read_bytes()[-16_384:]
            lines = "\n".join(text.decode("utf-8", "replace").strip().splitlines()[-12:])
    return names, lines


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
