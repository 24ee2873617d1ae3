"""A run that a Prometheus recorded, diagnosed; what goes wrong as a sentence and an exit code."""

import math
from typing import TYPE_CHECKING

from collector.contract.words import ExitCode
from lockstep.output import fail

if TYPE_CHECKING:
    from analyzer.attribute import Diagnosis


def diagnose(
    url: str,
    run: str,
    since: str | None = None,
    until: str | None = None,
    gpu_hour_price: float | None = None,
    *,
    push_down: bool = False,
) -> "Diagnosis":
    """Loads and diagnoses a run from a Prometheus.

    Args:
        url: Its address.
        run: The run's id.
        since: A date, unix seconds or how long ago; None = the run's begin.
        until: Likewise; None = the run's end.
        gpu_hour_price: Money per GPU-hour, in any currency; None = cost in hours only.
        push_down: Read the ranks that its recording rules single out, and some peers.

    Raises:
        CommandError: 64, no such run, rules, moment or price; 69, Prometheus cannot be asked.
    """
    if gpu_hour_price is not None and not math.isfinite(gpu_hour_price):
        fail(ExitCode.USAGE, f"--gpu-hour-price {gpu_hour_price} is not a price; give a number")
    from analyzer import attribute
    from analyzer.load import prometheus
    from analyzer.pushdown import diagnosis

    try:
        if push_down:
            return diagnosis.diagnose(url, run, since, until, gpu_hour_price=gpu_hour_price)
        recorded = prometheus.load(url, run, since, until)
    except prometheus.RequestError as error:
        fail(ExitCode.USAGE, str(error))
    except prometheus.SourceError as error:
        fail(ExitCode.UNREACHABLE, str(error))
    return attribute.diagnose(recorded, gpu_hour_price=gpu_hour_price)
