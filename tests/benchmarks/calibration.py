"""Whether confidences are calibrated: fitted on one file of scored runs, judged on another.

python -m tests.benchmarks.calibration TUNING.jsonl HELD_OUT.jsonl

Both are results.jsonl as `lockstep score` leaves them; the held-out file loses the trials
that it shares with the other.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analyzer.scoring.calibration import CalibrationError, Pairs, Scaling, brier, platt, temperature
from analyzer.scoring.score import LINK, calibration_error

Line = Mapping[str, Any]


def main(tuning: Path, held_out: Path) -> dict[str, float]:
    """Figures: how many, ECE and Brier score of the held-out verdicts as told and as scaled."""
    known, unseen = read(tuning), read(held_out)
    fit = pairs(known)
    judged = pairs({trial: line for trial, line in unseen.items() if trial not in known})
    if not judged:
        raise CalibrationError(f"{held_out} names nobody in a trial that {tuning} does not have")
    scalings = {"as told": Scaling(), "temperature": temperature(fit), "Platt": platt(fit)}
    figures: dict[str, float] = {
        "verdicts for tuning": len(fit),
        "of them right": sum(right for _, right in fit),
        "held-out verdicts": len(judged),
        "of those right": sum(right for _, right in judged),
        "temperature": scalings["temperature"].temperature,
        "Platt's slope": scalings["Platt"].slope,
        "Platt's shift": scalings["Platt"].shift,
    }
    for name, scaling in scalings.items():
        scaled = judged if name == "as told" else scaling.over(judged)
        figures[f"ECE, {name}"] = calibration_error(scaled) or 0.0
        figures[f"Brier score, {name}"] = brier(scaled) or 0.0
    return figures


def read(path: Path) -> dict[tuple[str, str], Line]:
    """(setting, trial) -> line; the last one counts, torn lines do not."""
    lines: dict[tuple[str, str], Line] = {}
    for text in path.read_text("utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and {"setting", "trial", "truth", "verdict"} <= line.keys():
            lines[line["setting"], line["trial"]] = line
    return lines


def pairs(lines: Mapping[tuple[str, str], Line]) -> Pairs:
    """(confidence, whether culprit and cause are the injected ones) of every named culprit."""
    return [
        (culprit["confidence"], _is_right(line["truth"], culprit))
        for line in lines.values()
        for culprit in line["verdict"]["culprits"]
        if culprit["confidence"] is not None
    ]


def _is_right(truth: Mapping[str, Any] | None, culprit: Mapping[str, Any]) -> bool:
    """As analyzer.scoring.score judges it."""
    if truth is None or culprit["cause"] != truth["cause"]:
        return False
    if culprit["scope"] == "link":
        return truth.get("node") in (culprit["node"], *(culprit["link"] or "").split(LINK))
    if truth.get("rank") is not None and culprit["rank"] is not None:
        return bool(culprit["rank"] == truth["rank"])
    return bool(culprit["node"] == truth.get("node"))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("give two files: results.jsonl to fit on, and one of other seeds to judge by")
    try:
        told = main(Path(sys.argv[1]), Path(sys.argv[2]))
    except (OSError, CalibrationError) as error:
        sys.exit(str(error))
    for name, value in told.items():
        sys.stdout.write(f"  {name:24}{value:10.4g}\n")
