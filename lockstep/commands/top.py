"""`lockstep top`: nodes, ranks and GPUs on one screen of a terminal."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal import output

if TYPE_CHECKING:
    from lockstep.top.look import Look
    from lockstep.top.pages import Pages
    from lockstep.top.prometheus import Recorded

USUAL = "http://127.0.0.1:9410"
"""Where a collector listens by itself."""
APART_SECONDS = 2.0
"""Between the two looks of --once at pages: rates need two."""


def top(
    collectors: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="URL...",
            help=f"Pages of collectors, one a node; default: those of the runs on this machine,"
                 f" else {USUAL}.",
            show_default=False,
        ),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A Prometheus that scrapes all nodes, instead."),
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="With --prometheus: only this run.")
    ] = None,
    period: Annotated[
        float,
        typer.Option(min=1, max=3600, help="Least seconds between two readings: more where one is"
                                           " expensive, so that it stays below 1 % of a core."),
    ] = 5.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print one screen as plain text, for a pipe.")
    ] = False,
) -> int:  # fmt: skip
    """Show nodes, ranks and GPUs on one screen, who is late first.

    How things are now, not a verdict: `lockstep watch` tests whether it lasts and says why, and
    what it says is shown with --prometheus. Credentials come from LOCKSTEP_COLLECTOR_TOKEN or _USER
    and _PASSWORD, or the same with PROMETHEUS in the name. Leave with q.

    Example: lockstep top --prometheus http://localhost:9090
    """
    if prometheus is not None and collectors:
        raise typer.BadParameter("pages of collectors and --prometheus are two sources; give one")
    if run is not None and prometheus is None:
        raise typer.BadParameter("--run goes with --prometheus URL")
    source = _source(collectors or [], prometheus, run)
    if once:
        return _once(source)
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if not all(output.is_terminal(each) for each in streams):
        output.fail(ExitCode.USAGE, "this is no terminal; --once prints one screen as plain text")
    try:
        from lockstep.top.app import Top
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        output.fail(
            ExitCode.UNREACHABLE,
            "textual is not installed, and the screen needs it; `pip install '.[top]'` in the"
            " checkout brings it; --once does without",
        )
    app = Top(source.look, source.source, period)
    code = app.run()
    if app.error is not None:
        raise app.error
    return ExitCode.INTERNAL if code is None else code


def _source(pages: list[str], prometheus: str | None, run: str | None) -> "Pages | Recorded":
    import os
    from urllib.parse import urlsplit

    from lockstep.collector.clock import SystemClock
    from lockstep.collector.config import load

    if prometheus is not None:
        from lockstep.top.prometheus import Recorded

        return Recorded(prometheus, run)
    from lockstep.top.pages import Pages, announced, commands

    for url in pages:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise typer.BadParameter(f"{url!r} is no address of a page, as {USUAL}")
    rings = load(None, os.environ, {}).lockstep_dir
    return Pages(
        lambda: pages or announced(rings) or [USUAL], SystemClock().wall, lambda: commands(rings)
    )


def _once(source: "Pages | Recorded") -> int:
    from shutil import get_terminal_size

    from lockstep.collector.clock import SystemClock
    from lockstep.top.look import LookError
    from lockstep.top.screen import screen
    from lockstep.top.text import plain

    try:
        look: Look = source.look()
        if look.span <= 0:
            SystemClock().sleep(APART_SECONDS)
            look = source.look()
    except LookError as error:
        output.fail(ExitCode.UNREACHABLE, str(error))
    wide = get_terminal_size((120, 24)).columns
    output.data(plain(screen(look), max(60, wide)))
    return ExitCode.OK
