"""What MLBench published of its runs, of any results: each figure first as data, then as a picture.

Time to accuracy, speed-up, cost, communication and computation, phases. Sizes are sorted as
numbers; the smallest that was run is what a speed-up is over. Without a number there is no point.
"""

import csv
import io
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lockstep.bench.spec import BenchError
from lockstep.bench.summary import mean_interval
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.words import PHASES

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Series:
    """One line, or one part of stacked bars.

    Attributes:
        points: (ranks, value, low, high) by ranks; low and high are the 95 % interval, or None.
    """

    name: str
    points: tuple[tuple[int, float, float | None, float | None], ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure as data.

    Attributes:
        stacked: Its series are parts of one bar.
        ideal: Whether the line of an ideal speed-up belongs into it.
        missing: What could not be drawn, and why.
    """

    name: str
    title: str
    unit: str
    series: tuple[Series, ...]
    stacked: bool = False
    ideal: bool = False
    missing: tuple[str, ...] = ()

    def to_csv(self) -> str:
        """Its points, a line each."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("series", "ranks", "value", "low", "high"))
        writer.writerows((one.name, *point) for one in self.series for point in one.points)
        return text.getvalue()


@dataclass(slots=True)
class _Group:
    """Results of one workload in all sizes."""

    name: str
    by_ranks: dict[int, list[Row]] = field(default_factory=dict)


def plots(rows: Sequence[Row], prices: Mapping[str, float] | None = None) -> list[Plot]:
    """Every figure that the results have data for.

    Args:
        prices: Money per hour of one rank, by the column `hardware`; None = no figure of cost.
    """
    groups = _groups(rows)
    found = [
        _lines("time-to-accuracy", "Training time to the goal", "s", groups,
               lambda row: row.get("time_to_goal_seconds")),
        _speed_up(groups),
        *([] if prices is None else [_cost(groups, prices), _price_index(groups, prices)]),
        *(_shares(group) for group in groups),
        *(_phases(group) for group in groups),
    ]  # fmt: skip
    return [each for each in found if each.series]


def read_prices(text: str) -> dict[str, float]:
    """Hardware -> money per hour of one rank, of a TOML file with a table `prices`.

    Raises:
        BenchError: It is none.
    """
    import tomllib

    try:
        told = tomllib.loads(text).get("prices")
    except tomllib.TOMLDecodeError as error:
        raise BenchError(f"the price table is not TOML: {error}") from error
    if not isinstance(told, dict) or not told:
        raise BenchError('the price table has no [prices], as "NVIDIA H100" = 2.5')
    for name, price in told.items():
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < 1e9:
            raise BenchError(f"the price of {name} is {price!r}; it must be a number from 0")
    return {name: float(price) for name, price in told.items()}


def draw(plot: Plot, form: str) -> bytes:
    """The picture.

    Args:
        form: `svg` or `png`.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    colours = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000",
               "#8c8c8c", "#7f3c8d")  # fmt: skip
    with mpl.rc_context({"svg.hashsalt": "lockstep", "font.size": 9}):
        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        axes = figure.subplots()
        sizes = sorted({point[0] for one in plot.series for point in one.points})
        places = {size: place for place, size in enumerate(sizes)}
        below = dict.fromkeys(sizes, 0.0)
        for index, one in enumerate(plot.series):
            colour = colours[index % len(colours)]
            at = [places[point[0]] for point in one.points]
            values = [point[1] for point in one.points]
            if plot.stacked:
                bottom = [below[point[0]] for point in one.points]
                axes.bar(at, values, 0.6, bottom=bottom, label=one.name, color=colour)
                for point in one.points:
                    below[point[0]] += point[1]
                continue
            axes.plot(at, values, marker="o", label=one.name, color=colour)
            known = [
                (places[ranks], low, high) for ranks, _, low, high in one.points
                if low is not None and high is not None
            ]  # fmt: skip
            if known:
                axes.vlines([k[0] for k in known], [k[1] for k in known], [k[2] for k in known],
                            color=colour, alpha=0.5, linewidth=3)  # fmt: skip
        if plot.ideal and sizes:
            axes.plot(range(len(sizes)), [size / sizes[0] for size in sizes], "--", color="#8c8c8c",
                      label="ideal")  # fmt: skip
        axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
        axes.set_xlabel("ranks")
        axes.set_ylabel(plot.unit)
        axes.set_ylim(bottom=0)
        axes.set_title(plot.title, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", ncols=min(4, len(plot.series) + plot.ideal),
                      frameon=False, fontsize=8)  # fmt: skip
        sink = io.BytesIO()
        figure.savefig(
            sink, format=form, dpi=150, metadata={"Date": None} if form == "svg" else None
        )
    return sink.getvalue()


def _groups(rows: Sequence[Row]) -> list[_Group]:
    found: dict[str, _Group] = {}
    for row in rows:
        if row.get("status", "finished") != "finished" or not row.get("ranks"):
            continue
        name = _group_name(row)
        found.setdefault(name, _Group(name)).by_ranks.setdefault(int(row["ranks"]), []).append(row)
    return list(found.values())


def _group_name(row: Row) -> str:
    """Workload, its settings and how ranks are split beside data parallel."""
    settings = str(row.get("settings") or "{}")
    try:
        told = bounded_json.loads(settings)
    except ValueError:
        told = {}
    words = [str(row.get("workload")), *(f"{key}={value}" for key, value in told.items()
                                         if key not in ("steps", "command"))]  # fmt: skip
    words += [f"{name}={row[name]}" for name in ("tp", "pp") if (row.get(name) or 1) > 1]
    words += [str(row["image"])] if row.get("image") else []
    return " ".join(words)


def _lines(
    name: str, title: str, unit: str, groups: Sequence[_Group],
    value: Callable[[Row], float | None], missing: Sequence[str] = (),
) -> Plot:  # fmt: skip
    series = []
    for group in groups:
        points = []
        for ranks in sorted(group.by_ranks):
            values = [each for row in group.by_ranks[ranks] if (each := value(row)) is not None]
            if values:
                mean, interval = mean_interval(values)
                points.append((ranks, mean, *(interval or (None, None))))
        if points:
            series.append(Series(group.name, tuple(points)))
    return Plot(name, title, unit, tuple(series), missing=tuple(missing))


def speed(row: Row) -> float | None:
    """What a speed-up is of: samples per second, or steps per second where none are told."""
    samples: float | None = row.get("samples_per_second")
    step: float | None = row.get("step_seconds")
    return samples or (1.0 / step if step else None)


def _speed_up(groups: Sequence[_Group]) -> Plot:
    plot = _lines("speed-up", "Speed-up over the smallest size", "times", groups, speed)
    series, missing = [], []
    for one in plot.series:
        least = one.points[0]
        if len(one.points) < 2:
            missing.append(f"{one.name}: one size only")
            continue
        over = least[1]
        points = tuple(
            (ranks, value / over, _over(low, over), _over(high, over))
            for ranks, value, low, high in one.points
        )
        series.append(Series(one.name, points))
    return Plot(plot.name, plot.title, plot.unit, tuple(series), ideal=True,
                missing=tuple(missing))  # fmt: skip


def _over(value: float | None, least: float) -> float | None:
    return None if value is None else value / least


def _cost(groups: Sequence[_Group], prices: Mapping[str, float]) -> Plot:
    """Of the time to the goal, or of the whole run where it had none."""
    return _costs("cost", groups, prices)


def _price_index(groups: Sequence[_Group], prices: Mapping[str, float]) -> Plot:
    """Cost over that of the smallest size: above 1, speed is bought dearer than in proportion."""
    plot = _costs("price-index", groups, prices)
    return Plot(
        plot.name, "Price index: cost over that of the smallest size", "times",
        tuple(Series(one.name, tuple(
            (ranks, value / one.points[0][1], _over(low, one.points[0][1]),
             _over(high, one.points[0][1]))
            for ranks, value, low, high in one.points
        )) for one in plot.series if len(one.points) > 1 and one.points[0][1] > 0),
        missing=plot.missing,
    )  # fmt: skip


def _costs(name: str, groups: Sequence[_Group], prices: Mapping[str, float]) -> Plot:
    unknown = {str(row.get("hardware")) for group in groups for rows in group.by_ranks.values()
               for row in rows if row.get("hardware") not in prices}  # fmt: skip

    def cost(row: Row) -> float | None:
        price = prices.get(str(row.get("hardware")))
        seconds = row.get("time_to_goal_seconds") or row.get("wall_seconds")
        if price is None or not seconds:
            return None
        return float(price * row["ranks"] * seconds / 3600.0)

    missing = [f"no price of {each}" for each in sorted(unknown)]
    return _lines(name, "Cost, to the goal or of the whole run", "money", groups, cost, missing)


def _shares(group: _Group) -> Plot:
    return _stacked(
        f"share-{_file(group.name)}", f"Computation and communication: {group.name}",
        "share of a step", group,
        (("computation", "computation_share"), ("communication", "communication_share")),
    )  # fmt: skip


def _phases(group: _Group) -> Plot:
    return _stacked(
        f"phases-{_file(group.name)}", f"Phases of a step: {group.name}", "s", group,
        tuple((phase, f"{phase}_seconds") for phase in PHASES),
    )  # fmt: skip


def _stacked(
    name: str, title: str, unit: str, group: _Group, parts: Sequence[tuple[str, str]]
) -> Plot:
    series = []
    for part, column in parts:
        points = []
        for ranks in sorted(group.by_ranks):
            values = [row[column] for row in group.by_ranks[ranks] if row.get(column) is not None]
            if values:
                points.append((ranks, statistics.fmean(values), None, None))
        if points and any(point[1] > 0 for point in points):
            series.append(Series(part, tuple(points)))
    return Plot(name, title, unit, tuple(series), stacked=True)


def _file(name: str) -> str:
    return "".join(each if each.isalnum() or each in "-=." else "-" for each in name)[:80]
