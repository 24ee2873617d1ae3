"""Does the model still learn: loss against its floor."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.report import blocks
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.queries import Sources
from lockstep.analyzer.report.series import known, thinned
from lockstep.analyzer.report.spans import Spans
from lockstep.analyzer.report.speed import speed
from lockstep.analyzer.shapes.run import FloatGrid, Grid, Run


def learning(run: Run, grid: Grid, cut: Spans, sources: Sources) -> Block:
    """The section on the model."""
    losses = run.windows.groupby("from_step")["loss"].mean().dropna()
    step, loss = losses.index.to_numpy(np.int64), losses.to_numpy(np.float64)
    floor = _floor(run.meta)
    return blocks.section(
        "model",
        "Model",
        [
            _loss_chart(step, loss, floor, cut, sources.loss()),
            _loss_table(step, loss, floor, sources.loss()),
            *speed(run, grid, cut, sources),
        ],
    )


def _floor(meta: Mapping[str, Any]) -> float | None:
    value = meta.get("entropy_rate_nats")
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None


def _loss_chart(
    step: NDArray[np.int64], loss: FloatGrid, floor: float | None, cut: Spans, source: str
) -> Block | None:
    if not loss.size:
        return None
    picked = thinned(loss)
    drawn = [blocks.line("loss", "peers", step[picked].tolist(), known(loss[picked]))]
    alt = f"Training loss, mean over ranks, from {loss[0]:.3f} to {loss[-1]:.3f} nats."
    if floor is not None:
        ends = [int(step[0]), int(step[-1])]
        drawn.append(blocks.line("entropy rate of the data", "reference", ends, [floor, floor]))
        alt += f" The entropy rate of the data, {floor:.3f} nats, is the lowest honest loss."
    marks = () if cut.onset is None else ({"step": cut.onset, "label": "onset"},)
    return blocks.lines("Training loss", alt, "nats", drawn, marks=marks, source=source)


def _loss_table(
    step: NDArray[np.int64], loss: FloatGrid, floor: float | None, source: str
) -> Block | None:
    picked = np.unique(np.linspace(0, len(loss) - 1, min(len(loss), 6)).astype(int))
    rows = [
        [int(step[i]), float(loss[i]), None if floor is None else float(loss[i]) - floor]
        for i in picked
    ]
    columns = {"step": "count", "loss": "nats", "above the entropy rate": "nats"}
    if floor is None:
        columns.popitem()
        rows = [row[:2] for row in rows]
    return blocks.table("Training loss at steps", columns, rows, source=source)
