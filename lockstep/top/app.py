"""The terminal: draws each look, keeps to its share of a core, and leaves all as it was.

textual is imported here and nowhere else.
"""

import signal
import threading
import time
from asyncio import get_running_loop
from collections.abc import Callable
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.message import Message
from textual.widgets import Static

from lockstep.collector.contract import threads
from lockstep.collector.contract.visible import visible_line
from lockstep.collector.contract.words import ExitCode
from lockstep.top.look import Look, LookError
from lockstep.top.screen import Mood, Screen, Table, screen
from lockstep.top.text import MARKS, body, cut

SHARE = 0.008
"""Of a core, all that this process does included: after so many seconds of it since the last look,
the next one is 1 / SHARE as many seconds away, whatever the period."""
SECOND_LOOK_SECONDS = 2.0
"""After the first one: rates of pages need two."""
WIDE = 130
"""Columns from which tables stand beside each other."""
STYLES = {Mood.BAD: "bold $text-error", Mood.UNKNOWN: "$text-warning", Mood.NOTE: "$text-muted",
          Mood.OK: ""}  # fmt: skip
SAID_STYLES = {**STYLES, Mood.OK: "$text-success", Mood.NOTE: ""}
KEYS = "q quit   tab next table   arrows scroll   space look now"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Looked(Message):
    """A look came back."""

    def __init__(self, shown: Screen, pause: float) -> None:
        super().__init__()
        self.shown = shown
        self.pause = pause


class Failed(Message):
    """Nothing answered."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why


class Broke(Message):
    """A bug: the terminal is given back first."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class Panel(Container):
    """A table: a title, a header that stays, and rows that scroll."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self._head = Static("", classes="header", markup=False)
        self._rows = Static("", markup=False)
        self.table: Table | None = None
        self.border_title = name.capitalize() if name != "gpus" else "GPUs"

    def compose(self) -> ComposeResult:
        """A header over the rows."""
        yield self._head
        with VerticalScroll():
            yield self._rows

    def show(self, table: Table) -> None:
        """Draw it, if it is another one or has another width."""
        self.table = table
        self.border_title = Content(table.title)
        lines = body(table, max(8, self.size.width - 1))
        first, *rest = [_styled(text, STYLES[mood]) for text, mood in lines]
        self._head.update(first)
        self._rows.update(Content("\n").join(rest))

    def on_resize(self, _: Resize) -> None:
        """Columns are cut to the new width."""
        if self.table is not None:
            self.show(self.table)

    @property
    def wanted(self) -> int:
        """Rows that it would fill, title included."""
        return 2 + (len(self.table.lines) if self.table is not None else 1)


class Top(App[int]):
    """One screen over a source that is looked at again and again.

    Args:
        look: Asks the source; raises LookError.
        source: Its name, without credentials.
        period: Seconds between two looks, at least.

    Attributes:
        error: The bug that ended it; None = there was none.
    """

    CSS = """
    Screen { background: $background; }
    #head { height: 1; color: $text-muted; }
    #said { height: auto; max-height: 5; margin: 0 0 0 0; }
    #keys { height: 1; color: $text-muted; }
    #tables { height: 1fr; }
    Panel { height: auto; border-top: solid $surface-lighten-2; border-title-color: $text;
            border-title-align: left; layout: vertical; }
    Panel:focus-within { border-top: solid $accent; }
    Panel .header { height: 1; color: $text-muted; text-wrap: nowrap; }
    Panel VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; }
    Panel VerticalScroll Static { height: auto; text-wrap: nowrap; }
    .stale Panel { opacity: 55%; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave(0)", "quit"),
        Binding("ctrl+c", f"leave({ExitCode.INTERRUPTED})", "quit", priority=True),
        Binding("ctrl+q", "leave(0)", "quit", priority=True),
        Binding("space", "look", "look now"),
    ]

    def __init__(self, look: Callable[[], Look], source: str, period: float) -> None:
        super().__init__()
        self._look = look
        self._source = visible_line(source)
        self._period = period
        self._shown: Screen | None = None
        self._pause = period
        self._why = ""
        self._now = threading.Event()
        self._ended = False
        self.error: Exception | None = None

    def compose(self) -> ComposeResult:
        """Head, sentences, three tables, keys."""
        yield Static("", id="head", markup=False)
        yield Static(f"asking {self._source} ...", id="said", markup=False)
        with Container(id="tables"):
            for name in ("nodes", "ranks", "gpus"):
                yield Panel(name)
        yield Static(KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        """Begin to look; be ready to be told to end."""
        loop = get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.action_leave, int(ExitCode.INTERRUPTED))
        # A daemon: an answer that does not come keeps nobody from leaving.
        threads.task("looks", self._looking).start()
        self.query_one("#ranks VerticalScroll").focus()
        self._draw()

    def _looking(self) -> None:
        before = time.process_time()
        while not self._ended:
            try:
                look = self._look()
                shown = screen(look)
                now = time.process_time()
                cost, before = now - before, now  # with the drawing of the last one
                pause = max(self._period, cost / SHARE) if look.span > 0 else SECOND_LOOK_SECONDS
                self.post_message(Looked(shown, pause))
            except LookError as error:
                pause = self._period
                self.post_message(Failed(str(error)))
            except Exception as error:  # noqa: BLE001 - a thread's bug would be seen by nobody
                self.post_message(Broke(error))
                return
            self._now.wait(pause)
            self._now.clear()

    def on_looked(self, message: Looked) -> None:
        """Draw what came."""
        self._shown, self._pause, self._why = message.shown, message.pause, ""
        self._draw()

    def on_failed(self, message: Failed) -> None:
        """Say so, over what was there before."""
        self._why = visible_line(message.why)
        self._draw()

    def on_broke(self, message: Broke) -> None:
        """Leave, and let the command tell it."""
        self._handle_exception(message.error)

    def _handle_exception(self, error: Exception) -> None:
        """Likewise of a bug in drawing, where textual would print a traceback."""
        self.error = self.error or error
        self.action_leave(ExitCode.INTERNAL)

    def on_resize(self, _: Resize) -> None:
        """Room is shared anew."""
        self.call_after_refresh(self._draw)

    def action_leave(self, code: int) -> None:
        """End, with the terminal as it was."""
        self._ended = True
        self._now.set()
        self.exit(int(code), return_code=int(code))

    def action_look(self) -> None:
        """Do not wait for the period."""
        self._now.set()

    def _draw(self) -> None:
        wide = max(20, self.size.width)
        when = f"{self._shown.when} UTC, every {self._pause:.0f} s" if self._shown else ""
        left = cut(f"lockstep top  {self._source}", max(12, wide - len(when) - 2))
        head = f"{left.ljust(wide - len(when))}  "[: max(14, wide - len(when))] + when
        self.query_one("#head", Static).update(Content(head))
        self.query_one("#said", Static).update(self._said())
        self.set_class(bool(self._why), "stale")
        if self._shown is not None:
            tables = (self._shown.nodes, self._shown.ranks, self._shown.gpus)
            for name, table in zip(("nodes", "ranks", "gpus"), tables, strict=True):
                self.query_one(f"#{name}", Panel).show(table)
        self._share_room()

    def _said(self) -> Content:
        lines = []
        if self._why:
            kept = f" Below is what it reported at {self._shown.when} UTC." if self._shown else ""
            lines.append(_styled(f"{MARKS[Mood.UNKNOWN]} {self._why}.{kept}",
                                 SAID_STYLES[Mood.UNKNOWN]))  # fmt: skip
        elif self._shown is None:
            return Content(f"asking {self._source} ...")
        for text, mood in self._shown.sentences if self._shown else ():
            style = STYLES[Mood.NOTE] if self._why else SAID_STYLES[mood]
            lines.append(_styled(f"{MARKS[mood]} {text}", style))
        return Content("\n").join(lines)

    def _share_room(self) -> None:
        """Beside each other where it is wide; else ranks have what nodes and GPUs leave."""
        nodes, ranks, gpus = (self.query_one(f"#{name}", Panel) for name in
                              ("nodes", "ranks", "gpus"))  # fmt: skip
        tables = self.query_one("#tables", Container)
        room = tables.size.height
        if self.size.width >= WIDE:
            tables.styles.layout = "grid"
            tables.styles.grid_size_columns, tables.styles.grid_size_rows = 2, 2
            tables.styles.grid_gutter_vertical = 2
            half = min(nodes.wanted, max(4, room // 2))
            tables.styles.grid_rows = f"{half} 1fr"
            ranks.styles.row_span = 2
            for panel in (nodes, ranks, gpus):
                panel.styles.height = "100%"
            return
        tables.styles.layout = "vertical"
        ranks.styles.row_span = 1
        nodes.styles.height = min(nodes.wanted, max(3, room * 3 // 10))
        gpus.styles.height = min(gpus.wanted, max(3, room * 3 // 10))
        ranks.styles.height = "1fr"


def _styled(text: str, style: str) -> Content:
    return Content.styled(text, style) if style else Content(text)
