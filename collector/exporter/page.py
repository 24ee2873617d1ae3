"""The page's text: order, escaping and numbers, in Prometheus' format and in OpenMetrics."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from lockstep.collector.clock import Clock
from lockstep.collector.contract import threads
from lockstep.collector.contract.metrics import EVERY, Kind, Metric, Sample


class Form(Enum):
    """A format of the page; the value is its content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


SPARE_STARTS = 1000
"""Series beyond twice a page whose text is remembered before all of it is forgotten."""

_ORDER = {name: index for index, name in enumerate(EVERY)}
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = {
    Form.TEXT: str.maketrans({"\\": r"\\", "\n": r"\n"}),
    Form.OPENMETRICS: _ESCAPES,
}


class _Family(NamedTuple):
    """The lines of one family in one reading: together, and by what stands before the value."""

    text: str
    lines: dict[str, str]


class _Part(NamedTuple):
    """One reading and its lines by family."""

    samples: Sequence[Sample]
    families: dict[str, _Family]


class Renderer:
    """Renders pages, one at a time; what did not change since the page before is kept."""

    def __init__(self) -> None:
        self._starts: dict[str, dict[tuple[str, ...], str]] = {}
        self._heads: dict[tuple[str, Form], str] = {}
        self._rendered: dict[int, _Part] = {}

    def render(self, parts: Sequence[Sequence[Sample]], form: Form = Form.TEXT) -> str:
        """The page: families in the order of the contract, samples in their own inside a family.

        A NaN is an absent value and is left out; of two equal series the first stands.

        Args:
            parts: Samples of each reading, never changed once they were passed.
            form: The format.
        """
        known = self._rendered
        rendered = [known.get(id(samples)) or self._part(samples) for samples in parts]
        # The old parts are forgotten; those of this page are alive, so that no id is used twice.
        self._rendered = {id(part.samples): part for part in rendered}
        if sum(map(len, self._starts.values())) > 2 * sum(map(len, parts)) + SPARE_STARTS:
            self._starts.clear()
        families: dict[str, list[_Family]] = {}
        for part in rendered:
            for name, family in part.families.items():
                families.setdefault(name, []).append(family)
        texts: list[str] = []
        for name in sorted(families, key=_ORDER.__getitem__):
            texts += (self._head(name, form), _text(families[name]))
        if form is Form.OPENMETRICS:
            texts.append("# EOF\n")
        return "".join(texts)

    def _part(self, samples: Sequence[Sample]) -> _Part:
        families: dict[str, dict[str, str]] = {}
        rows: dict[str, tuple[dict[tuple[str, ...], str], dict[str, str]]] = {}
        for metric, labels, value in samples:
            row = rows.get(metric.name)
            if row is None:
                # The parts of a histogram share their family's lines.
                lines = families.setdefault(metric.family, {})
                row = rows[metric.name] = (self._starts.setdefault(metric.name, {}), lines)
            starts, lines = row
            start = starts.get(labels)
            if start is None:
                start = starts[labels] = _start(metric, labels)
            number = repr(value)
            if number[-1] in "fn":  # inf, nan
                if value != value:
                    continue
                number = "+Inf" if value > 0 else "-Inf"
            if start not in lines:
                lines[start] = f"{start}{number}\n"
        return _Part(
            samples,
            {name: _Family("".join(lines.values()), lines) for name, lines in families.items()
             if lines},
        )  # fmt: skip

    def _head(self, name: str, form: Form) -> str:
        head = self._heads.get((name, form))
        if head is None:
            head = self._heads[name, form] = _head(EVERY[name], form)
        return head


def render(samples: Sequence[Sample], form: Form = Form.TEXT) -> str:
    """One page, as `Renderer.render`."""
    return Renderer().render([samples], form)


def escaped(text: str) -> str:
    """A label's value as it stands between the quotes."""
    return text.translate(_ESCAPES)


def _text(families: list[_Family]) -> str:
    """The lines of a family that one or several readings hold."""
    if len(families) == 1:
        return families[0].text
    lines: dict[str, str] = {}
    for family in reversed(families):
        lines = family.lines | {start: line for start, line in lines.items()
                                if start not in family.lines}  # fmt: skip
    return "".join(lines.values())


def _head(metric: Metric, form: Form) -> str:
    """HELP and TYPE; OpenMetrics names a family without the suffix of its samples."""
    name, kind = metric.name, str(metric.kind)
    if form is Form.OPENMETRICS:
        if metric.kind is Kind.COUNTER:
            name = name.removesuffix("_total")
        elif name.endswith("_info"):
            name, kind = name.removesuffix("_info"), "info"
    return f"# HELP {name} {metric.help.translate(_HELP_ESCAPES[form])}\n# TYPE {name} {kind}\n"


def _start(metric: Metric, labels: tuple[str, ...]) -> str:
    pairs = ",".join(
        f'{key}="{escaped(text)}"' for key, text in zip(metric.labels, labels, strict=True)
    )
    return f"{metric.name}{{{pairs}}} " if pairs else f"{metric.name} "


# Pages ready to be sent: made on request, and ahead of requests while there are many.

PAGE_SECONDS = 0.25
"""A page is sent again for so long: scrapers that come together share one rendering."""
OFTEN = 4
"""Requests in a second from which on pages are made ahead: it costs no more than they do."""
OFTEN_SECONDS = 1.0

Asked = tuple[Form, bool]
"""A format, and whether it is packed with gzip."""


class _Page(NamedTuple):
    """A page, and the time at which it was begun."""

    at: float
    body: bytes


class PageCache:
    """Bodies of pages for many threads; one at a time is made.

    While requests come often, a thread makes the pages anew before they are too old, so that a
    request only sends what lies ready. It ends when they come seldom.

    Args:
        make: Makes a page now.
    """

    def __init__(self, make: Callable[[Form, bool], bytes], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._making = threading.Lock()
        self._pages: dict[Asked, _Page] = {}
        self._asked: dict[Asked, float] = {}
        self._times: deque[float] = deque(maxlen=OFTEN)
        self._thread: threading.Thread | None = None

    def body(self, form: Form, packed: bool) -> bytes:
        """The page, at most PAGE_SECONDS old."""
        asked, now = (form, packed), self._clock.monotonic()
        self._times.append(now)
        self._asked[asked] = now
        page = self._pages.get(asked)
        if page is not None and now - page.at <= PAGE_SECONDS:
            return page.body
        with self._making:
            page = self._pages.get(asked)
            if page is None or now - page.at > PAGE_SECONDS:
                page = self._made(asked)
            if self._often() and self._thread is None:
                self._thread = threads.task("ahead", self._run)
                self._thread.start()
        return page.body

    def _made(self, asked: Asked) -> _Page:
        now = self._clock.monotonic()
        page = self._pages[asked] = _Page(now, self._make(*asked))
        return page

    def _often(self) -> bool:
        recent = self._clock.monotonic() - OFTEN_SECONDS
        return len(self._times) == OFTEN and self._times[0] >= recent

    def _run(self) -> None:
        try:
            while self._again():
                # Well before the pages are too old: this thread may have to wait for its turn.
                self._clock.sleep(PAGE_SECONDS * 0.8)
        finally:
            self._thread = None

    def _again(self) -> bool:
        """Make what was asked for lately; False once requests come seldom."""
        with self._making:
            recent = self._clock.monotonic() - OFTEN_SECONDS
            for asked, at in tuple(self._asked.items()):
                if at >= recent:
                    self._made(asked)
            return self._often()
