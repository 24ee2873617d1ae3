"""Results of a run beside its steps (results.json) in words, and its last lines."""

import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import RESULTS_FILE
from lockstep.terminal.output import CommandError, grid


def read(archive: Path) -> dict[str, Any] | None:
    """The results of a run; None where it left none, as one that was ended does."""
    try:
        found = bounded_json.read(archive / RESULTS_FILE)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def lines(learned: Mapping[str, Any] | None) -> list[str]:
    """Its goal, its last evaluation, its throughput, sweep and probe, where it has them."""
    if learned is None:
        return []
    return [*_learned(learned), *_throughput(learned), *_sweep(learned), *_probe(learned)]


def _learned(learned: Mapping[str, Any]) -> list[str]:
    told = []
    evaluations, goal = learned.get("evaluations") or [], learned.get("goal")
    if evaluations:
        last = dict(evaluations[-1])
        step = last.pop("step")
        values = [f"{name} {value:.4g}" for name, value in last.items() if "seconds" not in name]
        best = learned.get("bayes_accuracy") or learned.get("best_accuracy")
        if best is not None:
            values.append(f"best possible accuracy {best:.4g}")
        data = " (synthetic data)" if learned.get("synthetic") else ""
        told.append(f"{'after':8}step {step}: {', '.join(values)}{data}")
    if goal is not None:
        reached = goal["reached"]
        sign = ">=" if goal["higher_is_better"] else "<="
        missed = f"{goal['metric']} {sign} {goal['threshold']:g} was not reached"
        told.append(f"{'goal':8}{missed if reached is None else reached['text']}")
    return told


def _throughput(learned: Mapping[str, Any]) -> list[str]:
    rate = learned.get("throughput")
    if rate is None:
        return []
    low, high = rate["confidence_interval_95"]
    mean, spread = rate["samples_per_second_per_rank"], rate["horovod_spread"]
    return [
        (
            f"{'rate':8}{mean:.1f} +-{spread:.1f} {rate['sample']}/s a rank (horovod's spread;"
            f" 95 % interval of the mean {low:.1f} to {high:.1f})"
        )
    ]


def _sweep(learned: Mapping[str, Any]) -> list[str]:
    rows = [
        (
            f"{row['bytes']:,}",
            f"{1e6 * row['mean_seconds']:.1f}",
            f"{1e6 * row['p95_seconds']:.1f}",
            _megabytes(row["algorithm_bandwidth"]),
            _megabytes(row["bus_bandwidth"]),
            f"{row['wrong']}",
        )
        for row in learned.get("sweep") or []
    ]
    header = ("bytes", "mean µs", "p95 µs", "algbw MB/s", "busbw MB/s", "#wrong")
    return ["", grid(header, rows)] if rows else []


def _probe(learned: Mapping[str, Any]) -> list[str]:
    probe = learned.get("probe")
    if probe is None:
        return []
    told = [probe["finding"]["text"]] if probe.get("finding") else []
    return ["", *told, *([probe["gemm"]["text"]] if probe.get("gemm") else [])]


def _megabytes(rate: float | None) -> str:
    return "-" if rate is None else f"{rate / 1e6:.1f}"


# The last lines of a finished run: the verdict in a sentence, and the next command.


def next_command(archive: Path) -> str:
    """The command that tells why."""
    return f"lockstep analyze {shlex.quote(str(archive))}"


def verdict_sentence(archive: Path) -> str:
    """The verdict of a run, or why there is none; never raises, for the run went as it went.

    The archive keeps it (verdict.json), where one can be made and written.

    Returns:
        One sentence; empty where the analyzer is not installed, as in the image of ranks.
    """
    from lockstep.diagnose import diagnosis

    try:
        verdict = diagnosis.diagnose_archive(archive).verdict
        with suppress(OSError):  # of a disk that is full its sentence is said all the same
            diagnosis.write_verdict(verdict, archive)
        return verdict.sentence
    except CommandError as failure:
        return f"none: {failure.sentence}"
    except ModuleNotFoundError:
        return ""
    except Exception as error:  # noqa: BLE001 - a run is not spoilt by what is wrong with its verdict
        return f"none: {type(error).__name__}: {error}".partition("\n")[0]
