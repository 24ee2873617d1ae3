"""A started run: where it is, what it says, and where to look at it."""

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import RUN_FILE
from lockstep.dashboard.address import Place
from lockstep.dashboard.context import Context
from lockstep.dashboard.starting.process import Snapshot, Stage
from lockstep.dashboard.starting.progress import Progress, lines, progress
from lockstep.dashboard.starting.run_status import duration, sentence
from lockstep.dashboard.trouble import TroubleError
from lockstep.dashboard.widgets import shown

MAX_BYTES = 1 << 20


def draw(now: Snapshot, context: Context, stop: Callable[[], None]) -> None:
    """Draws the sentence, the bar, Stop, the log, and links once there is something behind them."""
    log = lines(now.log)
    far = progress(log)
    text, severity = sentence(now, far)
    shown.sentence(text, severity)
    if now.stage is not Stage.OVER:
        st.progress(_share(now, far), text=f"{now.stage.value}, for {duration(now.seconds)}")
        st.button(
            "Stop", key="start-stop", icon=":material/stop_circle:", on_click=stop,
            disabled=now.stage is Stage.STOPPING,
            help="The ranks are ended and the archive is closed; nothing is thrown away.",
        )  # fmt: skip
    _links(now, context)
    with st.expander(f"What {now.name} says", expanded=now.stage is not Stage.OVER):
        st.code(now.command, language=None, wrap_lines=True)
        st.code("\n".join(log) or "Nothing yet.", language=None, height=140)


def _share(now: Snapshot, far: Progress) -> float:
    return far.share if now.stage in (Stage.RUNNING, Stage.STOPPING) else 1.0


def _links(now: Snapshot, context: Context) -> None:
    run = now.run or run_of(now.out)
    if not run:
        return
    try:
        context.source.run(run)
    except TroubleError:
        if now.stage is Stage.OVER:
            st.caption("Its archive is in another folder than this dashboard shows. Look at it by")
            st.code(f"lockstep dashboard {now.out}", language=None, wrap_lines=True)
        return
    with st.container(horizontal=True):
        shown.link_to("Look at the run", "run", Place(run=run))
        if now.stage is Stage.OVER:
            shown.link_to("Read its report", "reports", Place(run=run))


def run_of(archive: Path) -> str:
    """Id of the run of an archive; empty while nobody wrote it."""
    try:
        told = bounded_json.read(archive / RUN_FILE, limit=MAX_BYTES)
        return str(told["run"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
