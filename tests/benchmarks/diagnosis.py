"""CPU of one diagnosis: 8 ranks and 400 steps, one of the ranks hot."""

import importlib.util
import sys
from pathlib import Path
from time import process_time

from lockstep.analyzer.verdict.pipeline import diagnose

SYNTHETIC = Path(__file__).parent.parent / "analyzer" / "conftest.py"
REPEATS = 5
GOALS = {"seconds": 0.5}


def main() -> dict[str, float]:
    """Figures; GOALS has what they may be at most."""
    spec = importlib.util.spec_from_file_location("synthetic_runs", SYNTHETIC)
    assert spec is not None
    assert spec.loader is not None
    runs = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = runs  # its dataclasses look themselves up
    spec.loader.exec_module(runs)
    fault = runs.Fault("thermal", 5, 1.5, 150)
    run = runs.Synthetic(world=8, steps=400, faults=[fault]).run()
    spent = []
    for _ in range(REPEATS):
        begun = process_time()
        diagnose(run)
        spent.append(process_time() - begun)
    return {"seconds": min(spent)}
