"""What a page is, to the frame around it."""

from collections.abc import Callable
from dataclasses import dataclass

from lockstep.dashboard.context import Context


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
        needs: Field of Place without which it asks the reader to choose: `run`, `node`, or empty.
        alone: Whether it has something to say without a source.
    """

    key: str
    title: str
    icon: str
    question: str
    group: str
    intention: str
    show: Callable[[Context], None]
    needs: str = ""
    alone: bool = False
