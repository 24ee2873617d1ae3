"""The page's text: order, escaping and numbers, in Prometheus' format and in OpenMetrics."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

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
