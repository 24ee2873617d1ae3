"""Findings on their way to Alertmanager, and alerts on their way to post-mortems."""

from collections.abc import Iterator, Sequence
from email.message import Message
from pathlib import Path

from lockstep.analyzer.findings.alertmanager.posting import FIRING_SECONDS
from lockstep.analyzer.findings.alertmanager.service import Alertmanagers
from lockstep.analyzer.findings.alerts import alerts, superseded
from lockstep.analyzer.findings.finding import WatchFinding
from lockstep.analyzer.read.prometheus.access import RequestError
from lockstep.analyzer.rules.alert_rules.shape import PLACEHOLDERS, Addresses
from lockstep.collector.clock import SystemClock
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail
from lockstep.watch.deliver.postmortem import PostMortems, WatchAccess
from lockstep.watch.deliver.webhook import Webhook, ensure_token_file
from lockstep.watch.loop import Watch
from lockstep.watch.serve.server import Reply, Request, Route, text


class Delivery:
    """Wires a watch with Alertmanagers, both ways.

    Args:
        watch: Whose findings are told, and that writes archives.
        alertmanagers: URLs of every replica; none = findings are told to nobody.
        out: Folder of the archives; None = there are none, and no post-mortems.
        token_file: As Webhook; None = webhook_token.made in `state`, or in `out` without one.
        addresses: Where alerts point to.
        state: Folder of what is remembered.

    Attributes:
        routes: What is served for Alertmanagers.
        addresses: Where alerts point to.

    Raises:
        CommandError: 64, a URL is none; 65, the file of the token cannot be read.
    """

    def __init__(
        self,
        watch: Watch,
        alertmanagers: Sequence[str],
        out: Path | None,
        token_file: Path | None,
        addresses: Addresses = PLACEHOLDERS,
        state: Path | None = None,
    ) -> None:
        self._unix = unix = SystemClock().wall
        self._watch, self.addresses = watch, addresses
        try:
            self._alertmanagers = Alertmanagers(alertmanagers, unix)
        except RequestError as error:
            fail(ExitCode.USAGE, str(error))
        self._post_mortems: PostMortems | None = None
        self._webhook: Webhook | None = None
        self.routes: tuple[Route, ...] = ()
        if out is not None:
            self._post_mortems = PostMortems(
                WatchAccess(out, watch.live, watch.archive), unix, watch.reports
            )
            self._webhook = Webhook(
                self._post_mortems.take, token_file or ensure_token_file(state or out)
            )
            self.routes = (Route("POST", "/alertmanager", self._answer, self._admit),)
        watch.on_change.append(self._changed)
        watch.more_samples.append(self._samples)
        self._alertmanagers.remember(watch.taken_before())
        watch.taken = self._alertmanagers.taken

    def start(self) -> None:
        """Deliver from now on; what an earlier process left open is told again at once."""
        self._alertmanagers.start()
        self._alertmanagers.want(alerts(self._watch.findings(), self.addresses))
        closed = self._watch.closed_lately()
        # One that another took the place of just then may not have been ended; an older one lapsed.
        lately = self._unix() - FIRING_SECONDS
        before = superseded([*self._watch.findings(), *closed], self.addresses)
        self._alertmanagers.ended(
            [(old, until) for old, until in before if until >= lately], late=False
        )
        self._alertmanagers.ended(
            [(over, one.closed) for one in closed if one.closed is not None
             for over in alerts([one], self.addresses)]
        )  # fmt: skip
        if self._post_mortems is not None:
            self._post_mortems.start()

    def stop(self) -> None:
        """End. Open findings are not resolved: whoever watches next goes on with them."""
        self._alertmanagers.stop()
        if self._post_mortems is not None:
            self._post_mortems.stop()

    def _changed(
        self,
        opened: Sequence[WatchFinding],
        closed: Sequence[WatchFinding],
        still: Sequence[WatchFinding],
    ) -> None:
        # What is no more wanted is resolved, with what it cost in all, or what is told instead.
        replaced = [old for old, _ in superseded(still, self.addresses)]
        over = [*alerts(closed, self.addresses), *replaced]
        self._alertmanagers.want(alerts([*still, *opened], self.addresses), over)

    def _admit(self, _: str, headers: Message) -> Reply | None:
        assert self._webhook is not None
        refused = self._webhook.admit(headers)
        return None if refused is None else text(*refused)

    def _answer(self, request: Request) -> Reply:
        assert self._webhook is not None
        return text(*self._webhook.answer(request.body))

    def _samples(self) -> Iterator[Sample]:
        yield from self._alertmanagers.samples()
        if self._webhook is not None and self._post_mortems is not None:
            yield from self._webhook.samples()
            yield from self._post_mortems.samples()
