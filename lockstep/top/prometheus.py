"""A look through a Prometheus: the newest of each series, and what `lockstep watch` says there."""

import re
from collections.abc import Mapping

from lockstep.analyzer.findings.assessment import UNKNOWN, WORDS
from lockstep.analyzer.read.prometheus.promql import one_of, quoted, window
from lockstep.analyzer.read.prometheus.questions import (
    own_per_step,
    steps_per_second,
    waiting_per_second,
)
from lockstep.analyzer.shapes.labels import number, page_label
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.words import ExitCode
from lockstep.dashboard.shapes import Span
from lockstep.dashboard.sources.prometheus.asking import Asking
from lockstep.dashboard.sources.prometheus.directory import Directory
from lockstep.dashboard.sources.prometheus.findings import findings
from lockstep.dashboard.sources.prometheus.known import Known
from lockstep.dashboard.trouble import TroubleError
from lockstep.dashboard.words.findings import worst_first
from lockstep.terminal.output import fail
from lockstep.top.look import GAUGES, Answered, Look, LookError, Rates, Who, by_name

SPAN = 60.0
"""Seconds that rates are over, where scrapes are close enough."""
BACK = 900.0
"""Findings that were open so long ago, or are."""


class Recorded:
    """Whatever a Prometheus scrapes.

    Args:
        url: Of it; credentials in it or in the environment, as of every command.
        run: Only this run; None = all.

    Raises:
        CommandError: 64, that is no address.
    """

    def __init__(self, url: str, run: str | None) -> None:
        try:
            self._asking = Asking(url, None)
        except TroubleError as error:
            fail(ExitCode.USAGE, str(error).rstrip("."))
        self._known = Known(self._asking)
        self._run = run
        self.source = self._asking.url

    def look(self) -> Look:
        """Asks it.

        Raises:
            LookError: It does not answer, or knows nothing of Lockstep.
        """
        try:
            return self._look()
        except TroubleError as error:
            raise LookError(str(error).rstrip(".")) from error

    def _look(self) -> Look:
        last = self._known.latest()
        if last is None:
            raise LookError(f"{self.source} has seen no collector in two weeks")
        now, scrape = self._asking.now(), self._known.scrape()
        known, silent = self._known.directory(last), self._known.silent()
        age = max(0.0, now - last)
        nodes = [
            *(Answered(name, None, "not scraped") for name in silent),
            *(Answered(name, age) for name in known.nodes if name not in silent),
        ]
        gone = frozenset(silent)
        rows = [
            (name, labels, value)
            for name, labels, value in self._gauges(known, last)
            if labels["node"] not in gone
        ]
        watched = self._asking.instant(f"group ({m.LAST_EVALUATION.name})", last)
        return Look(
            self.source, now, max(SPAN, 4 * scrape), nodes, by_name(rows),
            self._rates(last, scrape),
            findings=self._findings(now, scrape) if watched else None,
            doubts=self._doubts(last), warnings=self._asking.warnings,
        )  # fmt: skip

    def _gauges(self, known: Directory, at: float) -> list[tuple[str, Mapping[str, str], float]]:
        """One question for all of them: what a look costs is mostly how often it asks."""
        names = one_of(one.name for one in GAUGES)
        mine = f",run=~{quoted(f'|{re.escape(self._run)}')}" if self._run else ""
        found: list[tuple[str, Mapping[str, str], float]] = []
        for labels, value in self._asking.instant(f"{{__name__=~{names}{mine}}}", at):
            name = labels.get("__name__", "")
            of_page = {key: page_label(labels, key) for key in labels if key != "__name__"}
            found.append((name, {**of_page, "node": known.name(labels)}, value))
        return found

    def _rates(self, at: float, scrape: float) -> dict[Who, Rates]:
        here = f"{{run={quoted(self._run)}}}" if self._run else ""
        span = window(SPAN, scrape)

        def each(query: str) -> dict[Who, float]:
            return {
                (labels.get("run", ""), rank): value
                for labels, value in self._asking.instant(query, at)
                if (rank := number(labels, "rank")) is not None
            }

        own = each(own_per_step(span, here))
        steps = each(steps_per_second(span, here))
        inside = each(waiting_per_second(span, here))
        return {
            who: Rates(
                own=own.get(who),
                step=1.0 / rate if rate > 0 else float("inf"),
                waits=min(1.0, inside[who]) if who in inside and rate > 0 else None,
            )
            for who, rate in steps.items()
        }

    def _findings(self, now: float, scrape: float) -> tuple[str, ...]:
        span = Span(now - BACK, now)
        found = findings(self._asking, None, span, self._run or "", scrape, now)
        return tuple(one.sentence for one in worst_first(found) if one.open)

    def _doubts(self, at: float) -> dict[str, str]:
        return {
            labels.get("run", ""): WORDS.get(labels.get("reason", ""), "the reason is unknown")
            for labels, value in self._asking.instant(m.RUN_STATUS.name, at)
            if value > 0 and labels.get("status") == UNKNOWN
        }
