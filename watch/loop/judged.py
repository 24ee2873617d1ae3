"""A verdict that watch reached, with all that it is a function of: read again, it is the same."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lockstep.analyzer.read.archive.files import ANSWERED_KEY, SPAN_KEY
from lockstep.analyzer.read.places import META_KEY, Places
from lockstep.analyzer.rules.recording_rules.suspects import Answered
from lockstep.analyzer.shapes.run import Span, Verdict
from lockstep.watch.judge.choice import Pages


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict about a run, and what was read for it.

    Attributes:
        verdict: About the windows of `span`.
        pages: Whose samples were read.
        span: Of these samples, unix seconds; its end is the moment that the verdict is about.
        answered: Of a run that was read in part, how many of its ranks are known; None = all of it
            was read.
        places: Where nodes stand.
        told: Its sentence without what was lost in these windows: a finding counts for longer.
    """

    verdict: Verdict
    pages: Pages
    span: Span
    answered: Answered | None = None
    places: Places = field(default_factory=dict)
    told: str = ""

    @property
    def at(self) -> float:
        """Unix seconds of the moment that it is about."""
        return self.span.end


def judged_json(judged: Judged) -> Mapping[str, Any]:
    """What run.json of an archive says of it, so that a diagnosis looks at the same."""
    told: dict[str, Any] = {SPAN_KEY: {"start": judged.span.start, "end": judged.span.end}}
    if judged.answered is not None:
        told[ANSWERED_KEY] = {
            "told": judged.answered.known, "expected": judged.answered.expected,
        }  # fmt: skip
    if judged.places:
        told[META_KEY] = {node: dict(kinds) for node, kinds in judged.places.items()}
    return told
