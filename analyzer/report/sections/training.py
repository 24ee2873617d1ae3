"""Whether the model still learns, and how fast: loss, throughput, step times, FLOPs, phases."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.report import blocks
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.queries import Sources
from lockstep.analyzer.report.series import Spans, by_row, known, median, thinned
from lockstep.analyzer.shapes.run import FloatGrid, Grid, Run
from lockstep.collector.contract.words import PHASES


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


QUANTILES = (0.05, 0.5, 0.95)
Masks = dict[str, NDArray[np.bool_]]


def speed(run: Run, grid: Grid, cut: Spans, sources: Sources) -> list[Block | None]:
    """Tables of throughput, step times and phases, before and during the trouble."""
    spans: Masks = {"before": cut.before, "during": cut.during}
    spans = {"whole run": ~grid.masked} if cut.onset is None else spans
    return [
        _throughput(run, grid, spans, sources),
        _percentiles(grid, spans, sources.wall()),
        _phases(grid, spans, sources.phases()),
        _training_lines(run),
    ]


def per_second(run: Run, grid: Grid, column: str) -> FloatGrid:
    """(W,) a column of the windows, summed over ranks, per second of the window."""
    frame = run.windows[["from_step", "attempt", column]].dropna(subset=[column])
    # A step that was done again counts with its last attempt, as in the Grid's later windows.
    sums = frame.groupby(["attempt", "from_step"])[column].sum().groupby("from_step").last()
    steps = grid.to_step - grid.from_step
    seconds = by_row(grid.time["wall"], np.nanmedian) * steps
    rate: FloatGrid = sums.reindex(grid.from_step).to_numpy(np.float64) / seconds
    return rate


def _throughput(run: Run, grid: Grid, spans: Masks, sources: Sources) -> Block | None:
    tokens = per_second(run, grid, "tokens")
    columns = {"when": "", "tokens": "per second"}
    rows: list[list[object]] = [[name, median(tokens[mask])] for name, mask in spans.items()]
    source = sources.tokens()
    flops = per_second(run, grid, "flops") if "flops" in run.windows else np.zeros(0)
    if np.nan_to_num(flops).any():
        columns |= {"model FLOPs": "flops", "a rank": "flops"}
        source += f" · {sources.flops()}"
        peak = run.meta.get("measured_peak_flops")
        if isinstance(peak, int | float) and peak > 0:
            # Against a measured peak it is no MFU: PaLM's appendix B takes the data sheet's.
            columns["of the GEMM peak measured here"] = "share"
        for row, mask in zip(rows, spans.values(), strict=True):
            whole = median(flops[mask])
            rank = None if whole is None else whole / len(grid.ranks)
            row += [whole, rank]
            if len(columns) > len(row):
                row.append(None if rank is None else rank / float(str(peak)))
    return blocks.table("Throughput of the run, medians", columns, rows, source=source)


def _percentiles(grid: Grid, spans: Masks, source: str) -> Block | None:
    """Quantiles over steps of the step time, which is the same for all ranks."""
    wall = by_row(grid.time["wall"], np.nanmedian)
    rows: list[list[object]] = []
    for name, mask in spans.items():
        times = wall[mask & np.isfinite(wall)]
        if times.size:
            rows.append([name, *np.quantile(times, QUANTILES).tolist(), float(times.max())])
    columns = {
        "when": "",
        **{f"p{100 * q:.0f}": "seconds" for q in QUANTILES},
        "longest": "seconds",
    }
    return blocks.table("Step time over steps", columns, rows, source=source)


def _phases(grid: Grid, spans: Masks, source: str) -> Block | None:
    rows = []
    for phase in PHASES:
        values = grid.time.get(phase)
        if values is None or not np.nan_to_num(values).any():
            continue
        shares = values / grid.time["wall"]
        rows.append([phase, *(median(shares[mask]) for mask in spans.values())])
    columns = {"phase": "", **dict.fromkeys(spans, "share")}
    return blocks.table("Where a step goes, median over ranks and steps", columns, rows,
                        source=source)  # fmt: skip


def _training_lines(run: Run) -> Block | None:
    """What happened to the training itself, where anything did."""
    windows = run.windows
    if windows.empty or "attempt" not in windows:
        return None
    attempts = int(windows["attempt"].nunique())
    words = [f"{attempts - 1} restarts"] if attempts > 1 else []
    tags = windows.get("tags")
    for tag in ("checkpoint", "eval", "gc"):
        if tags is not None:
            mine = tags.astype(str).str.contains(tag, regex=False)
            count = int(windows.loc[mine, "from_step"].nunique())
            words += [f"{count} steps with {tag}"] if count else []
    return blocks.text(f"In this run: {', '.join(words)}.") if words else None
