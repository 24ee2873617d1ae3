"""A look at the pages of collectors themselves; rates are between two looks."""

import math
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from lockstep.analyzer.shapes.labels import number
from lockstep.analyzer.shapes.waits import own_each
from lockstep.collector.contract import metrics as m
from lockstep.collector.files.opening import opened
from lockstep.collector.readings.source import SourceError
from lockstep.collector.recorder.rows import AnswerError
from lockstep.top.look import GAUGES, Answered, Labels, Look, LookError, Rates, Who, by_name
from lockstep.watch.look.collectors import ask
from lockstep.workloads.launch.processes import COMMAND_FILE, is_dead

ANSWER_SECONDS = 4.0
"""For all pages together: who has not answered by then is silent."""
MOST_BYTES = 64 << 20
AT_ONCE = 16
SPAN = 60.0
"""Seconds that rates are over, as the recording rules' and the dashboard's."""
MOST_ANNOUNCED = 256
ADDRESS_BYTES = 256
COMMAND_BYTES = 4096
_ADDRESS = re.compile(r"[\w.-]+:\d{1,5}|\[[0-9A-Fa-f:]+\]:\d{1,5}", re.ASCII)
COUNTERS = (m.TRAIN_OWN, m.TRAIN_STEPS, m.TRAIN_KNOWN_STEPS, m.TRAIN_COLLECTIVE)
_READ = frozenset(one.name for one in (*GAUGES, *COUNTERS, m.NODE_INFO))
Counted = tuple[float, float, float, float]
"""Own seconds, steps, known steps and seconds in collectives so far; NaN = not told."""
Told = tuple[str, Labels, float]


@dataclass
class _Page:
    """A collector that is asked again and again.

    Attributes:
        node: Its name as it told it last; its address until then.
        answered: Unix seconds of its last answer, NaN = never.
        counted: Its last answers, oldest first: when, and (run, rank) -> counters.
    """

    node: str
    answered: float = math.nan
    counted: "deque[tuple[float, Mapping[Who, Counted]]]" = field(default_factory=deque)


class Pages:
    """The collectors of some nodes.

    Args:
        find: Their pages' addresses, asked before each look, with or without /metrics; credentials
            in them or in LOCKSTEP_COLLECTOR_TOKEN, or LOCKSTEP_COLLECTOR_USER and _PASSWORD.
        wall: Unix seconds.
        started: Asked at each look for `Look.commands`.
    """

    def __init__(
        self, find: Callable[[], Sequence[str]], wall: Callable[[], float],
        started: Callable[[], Mapping[str, str]] = dict,
    ) -> None:  # fmt: skip
        import prometheus_client.parser  # noqa: F401 - now, and not in the first look

        self._find = find
        self._pages: dict[str, _Page] = {}
        self._wall, self._started = wall, started

    @property
    def source(self) -> str:
        """Where it asks, without credentials."""
        urls = tuple(self._pages) or tuple(self._find())
        more = f" and {len(urls) - 2} more" if len(urls) > 2 else ""
        return ", ".join(_shown(url) for url in urls[:2]) + more

    def look(self) -> Look:
        """Asks all of them.

        Raises:
            LookError: None answers.
        """
        urls = tuple(dict.fromkeys(self._find()))
        self._pages = {url: self._pages.get(url) or _Page(_place(url)) for url in urls}
        given, silent = ask(
            urls, "/metrics", read, ANSWER_SECONDS, MOST_BYTES, min(AT_ONCE, len(urls))
        )
        now = self._wall()
        if not given:
            why = ", or ".join(dict.fromkeys(silent.values()))
            who = "the collector" if len(urls) == 1 else f"none of {len(urls)} collectors"
            verb = "does not answer" if len(urls) == 1 else "answers"
            raise LookError(f"{who} at {self.source} {verb}: {why}")
        rows: list[Told] = []
        rates: dict[Who, Rates] = {}
        span = 0.0
        for url, told in given.items():
            page = self._pages[url]
            page.node, page.answered = _name(told, page.node), now
            rows += [(name, {"node": page.node, **labels}, value) for name, labels, value in told]
            seconds, mine = _rates(page, now, counters(told))
            span = max(span, seconds)
            rates.update(mine)
        nodes = [
            Answered(
                page.node,
                None if math.isnan(page.answered) else now - page.answered,
                silent.get(url, ""),
            )
            for url, page in self._pages.items()
        ]
        return Look(self.source, now, span, nodes, by_name(rows), rates, commands=self._started())


def announced(folder: Path) -> list[str]:
    """The collectors that runs of this user have started, as they announced them, by run and node.

    Args:
        folder: Where runs keep their rings: `<run>/<node>.address` holds HOST:PORT.
    """
    told = (text for _, text in _told_by_runs(folder, "*.address", ADDRESS_BYTES))
    return [f"http://{text}" for text in told if _ADDRESS.fullmatch(text)]


def commands(folder: Path) -> dict[str, str]:
    """Run -> the line that started it, of the runs on this machine that this user has started."""
    return dict(_told_by_runs(folder, COMMAND_FILE, COMMAND_BYTES))


def _told_by_runs(folder: Path, name: str, most: int) -> Iterator[tuple[str, str]]:
    """Runs of this user that live, and the beginnings of such files of theirs, by run and name."""
    for path in sorted(folder.glob(f"*/{name}"))[:MOST_ANNOUNCED]:
        try:
            with opened(path) as file:
                mine = os.fstat(file).st_uid == os.getuid()
                text = os.read(file, most).decode(errors="replace").strip()
        except SourceError:
            continue
        if mine and not is_dead(path.parent):
            yield path.parent.name, text


def read(body: bytes) -> list[Told]:
    """Name, labels and value of the series of a page that a look reads.

    The other lines, nine tenths of a page, are not parsed.

    Raises:
        AnswerError: It is no page in the text format.
    """
    from prometheus_client.parser import text_string_to_metric_families

    try:
        text = body.decode()
        kept = [line for line in text.splitlines() if _metric(line) in _READ]
        families = text_string_to_metric_families("\n".join([*kept, ""]))
        return [(each.name, each.labels, each.value) for one in families for each in one.samples]
    except (ValueError, KeyError, IndexError) as error:
        raise AnswerError(f"the page is not in the text format: {error!r}") from error


def counters(samples: Sequence[Told]) -> dict[Who, Counted]:
    """(run, rank) -> its counters; those of collectives are summed over groups."""
    names = [one.name for one in COUNTERS]
    found: dict[Who, list[float]] = {}
    for name, labels, value in samples:
        rank = number(labels, "rank")
        if rank is None or name not in names:
            continue
        mine = found.setdefault((labels.get("run", ""), rank), [math.nan] * len(names))
        place = names.index(name)
        mine[place] = value if math.isnan(mine[place]) else mine[place] + value
    return {who: (own, steps, known, inside) for who, (own, steps, known, inside) in found.items()}


def _rates(page: _Page, now: float, fresh: Mapping[Who, Counted]) -> tuple[float, dict[Who, Rates]]:
    """Over at most SPAN, from the answers that are kept; the new one is kept, too."""
    page.counted.append((now, fresh))
    while len(page.counted) > 2 and now - page.counted[0][0] > SPAN:
        page.counted.popleft()
    before, old = page.counted[0]
    seconds = now - before
    if seconds <= 0:
        return 0.0, {}
    return seconds, {
        who: rates(old[who], fresh[who], seconds) for who in fresh if who in old
    }  # fmt: skip


def rates(old: Counted, new: Counted, seconds: float) -> Rates:
    """From two looks at the counters of a rank, so many seconds apart."""
    own, steps, known, inside = np.array([old, new], dtype=np.float64).T
    each = own_each(own[:, None], steps[:, None], known[:, None])[0, 0]
    rise, within = float(np.diff(steps)[0]), float(np.diff(inside)[0])
    step = None
    if rise >= 0:  # a counter that fell began anew
        step = seconds / rise if rise > 0 else math.inf
    waits = min(1.0, within / seconds) if within >= 0 and rise > 0 else None
    return Rates(float(each) if math.isfinite(each) else None, step, waits)


def _metric(line: str) -> str:
    """The name that a line of a page begins with."""
    brace, space = line.find("{"), line.find(" ")
    end = brace if 0 <= brace < space or space < 0 else space
    return line[:end] if end > 0 else ""


def _name(samples: Sequence[Told], otherwise: str) -> str:
    """The node's name, as its ranks call it, or else as it calls itself."""
    names: Iterator[str] = (
        labels[label]
        for metric, label in ((m.RANK_INFO.name, "node"), (m.NODE_INFO.name, "hostname"))
        for name, labels, _ in samples
        if name == metric and labels.get(label)
    )
    return next(names, otherwise)


def _place(url: str) -> str:
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] or url


def _shown(url: str) -> str:
    """Without credentials."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{_place(url)}" if parts.scheme else url
