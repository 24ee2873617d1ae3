"""What a page is, and what it is given: whom to ask, where the reader looks, what is allowed."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.contract import bounded_json
from lockstep.dashboard.address import Location
from lockstep.dashboard.protocol import Source
from lockstep.dashboard.shapes import Answer, Span


@dataclass(frozen=True, slots=True)
class Settings:
    """How the dashboard was started.

    Attributes:
        runs: Folder where started runs go; None = pages may not start runs.
        grafana: Address of Grafana; empty = no links to it.
        refresh_seconds: Between two looks of a live page; 0 = only when asked.
        api: Address of the `lockstep api` that starts, stops and deletes runs, in place of `runs`;
            empty = none. Its token is in the environment.
        login: Whether only people who are logged in may look.
        alertmanager: Where findings are acknowledged and silenced, by who is logged in; empty =
            nowhere. Its credentials are in the environment.
        local: Whether only this machine can reach it: then everybody on it may write notes.
    """

    runs: Path | None = None
    grafana: str = ""
    refresh_seconds: float = 15.0
    login: bool = False
    alertmanager: str = ""
    local: bool = False
    api: str = ""

    @classmethod
    def read(cls, text: str) -> "Settings":
        """Of the JSON that `written` made; an empty text is the defaults."""
        words = bounded_json.loads(text or "{}")
        runs = words.pop("runs", None)
        return cls(runs=None if runs is None else Path(runs), **words)

    def written(self) -> str:
        """As JSON, for the environment of the dashboard's process."""
        runs = None if self.runs is None else str(self.runs)
        return json.dumps(
            {
                "runs": runs,
                "grafana": self.grafana,
                "refresh_seconds": self.refresh_seconds,
                "login": self.login,
                "alertmanager": self.alertmanager,
                "local": self.local,
                "api": self.api,
            }
        )


@dataclass(frozen=True, slots=True)
class Context:
    """One look at one page.

    Attributes:
        source: With its answers kept (lockstep.dashboard.sources.opened).
        location: What the address says.
        span: Its range; of the run where one is looked at, of the source otherwise.
        answer: How whole the numbers are.
        settings: How the dashboard was started.
    """

    source: Source
    location: Location
    span: Span
    answer: Answer
    settings: Settings


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    Attributes:
        key: Its path below the dashboard's address; `now` is at `/`.
        title: In the navigation.
        icon: A Material symbol.
        question: That it answers, under the title.
        group: In the navigation: Watch, Look closer, Runs, Help.
        intention: What a reader wants who opens it, behind "if you want to"; empty = Help does
            not lead to it.
        show: Draws it.
        needs: Field of Location without which the reader is asked to choose: `run`, `node`, or
            empty.
        alone: Its views that have something to say without a source; empty = none.
    """

    key: str
    title: str
    icon: str
    question: str
    group: str
    intention: str
    show: Callable[[Context], None]
    needs: str = ""
    alone: tuple[str, ...] = ()
