"""`python -m tests.benchmarks.synth_noise ARCHIVE...`: the noise of healthy runs, for synth.

Prints the constants of evaluation.synth.variant: medians over the archives. The archives are
healthy runs of `lockstep score real --nodes 8 --steps 150`; those that the constants come from are
of 2026-11-22, seeds 2026 to 2045, with every layout.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds

from lockstep.collector.contract.robust import MAD_TO_SIGMA

WARM = 10
"""Steps left out at the begin."""
STALL = 5.0
"""Deviations from which a step is a stall and no noise."""


def fit(archive: Path) -> dict[str, float]:
    """Of one run with at least three ranks; logarithms of own seconds a step."""
    table = ds.dataset(archive / "steps.parquet", format="parquet").to_table().to_pandas()
    usual = table[(table["tags"].fillna("") == "") & (table["step"] >= WARM)]
    wide = usual.pivot_table("own_seconds", "step", "rank").dropna()
    values = np.log(wide.to_numpy())
    values = values - np.median(values, axis=0)
    common = np.median(values, axis=1)
    own = values - common[:, None]
    rank = MAD_TO_SIGMA * float(np.median(np.abs(own)))
    calm = np.clip(own, -3 * rank, 3 * rank)
    memory = [np.corrcoef(calm[:-1, c], calm[1:, c])[0, 1] for c in range(calm.shape[1])]
    edge = STALL * rank
    beyond = own[own > edge] - edge
    # An exponential forgets where it was cut: its median excess is its scale times ln 2.
    scale = float(np.median(beyond) / np.log(2.0)) if beyond.size else 0.0
    share = float((own > edge).mean() * np.exp(edge / scale)) if scale else 0.0
    return {
        "rank": rank,
        "common": MAD_TO_SIGMA * float(np.median(np.abs(common - np.median(common)))),
        "memory": float(np.median(memory)),
        "spike": share,
        "spike_scale": scale,
    }


def main(archives: list[str]) -> int:
    """Prints the medians and the tenth and ninth tenth."""
    fits = [fit(Path(archive)) for archive in archives]
    for name in fits[0]:
        values = [each[name] for each in fits]
        low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
        told = f"{name:12} {middle:.4f}  ({low:.4f} to {high:.4f}, {len(values)} runs)\n"
        sys.stdout.write(told)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
