"""The charts and the events of a run, from its steps and its samples."""

from concurrent.futures import ThreadPoolExecutor

from lockstep.analyzer.read.archive import Archive
from lockstep.dashboard.shapes import Event, Lines, Span
from lockstep.dashboard.sources.archive import hardware, training, training_events, trouble_events
from lockstep.dashboard.sources.archive.sample_log import SampleLog
from lockstep.dashboard.sources.archive.step_log import StepLog
from lockstep.workloads.outcome.peak import Peak


class Page:
    """Lines and events of one archive.

    Args:
        log: Its steps.
        archive: It.
    """

    def __init__(self, log: StepLog, archive: Archive) -> None:
        self._log, self._scraped = log, archive.series
        self._samples = SampleLog(archive)

    def lines(self, run: str, cut: Span | None, peak: Peak | None) -> tuple[Lines, ...]:
        """All charts of the page; those of the hardware with the step at each moment."""
        # Both tables at once: neither Arrow nor numpy keeps the other from running.
        with ThreadPoolExecutor(1) as pool:
            series = pool.submit(self._samples.series, cut)
            steps = self._log.summary(cut)
            above = training.lines(steps, peak)
            below = hardware.lines(series.result())
        return (*above, *(training.numbered(chart, steps) for chart in below))

    def events(
        self, run: str, cut: Span | None, span: Span, node: str, ended: float | None
    ) -> list[Event]:
        """Of the training, where no node is asked for, and of the hardware."""
        found = trouble_events.events(
            self._samples.series(cut), self._scraped.interval(),
            # What a counter had counted before anybody looked says nothing of this span.
            Span(max(span.start, self._scraped.begin()), span.end), run, node, ended,
        )  # fmt: skip
        return found if node else [*training_events.events(self._log.summary(cut), run), *found]
