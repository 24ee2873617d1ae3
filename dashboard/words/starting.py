"""What the page Start a run says when nothing goes on."""

from dashboard.shapes import Severity

OFF = (
    "Runs cannot be started here: the dashboard was started without a folder for them."
    " Start it so, on a machine that you trust its readers with:"
)
OFF_COMMAND = "lockstep dashboard runs --runs runs"


def idle() -> tuple[str, Severity]:
    """Before the first run."""
    return "Nothing runs. Choose an experiment below and start it.", Severity.NOTE
