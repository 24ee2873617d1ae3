"""A job that tells nothing of its training: some GPUs of a Prometheus, judged by hardware alone."""

from typing import TYPE_CHECKING

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail

if TYPE_CHECKING:
    from lockstep.analyzer.shapes.run import Verdict


def diagnose_hardware(
    url: str, gpus: str, since: str | None = None, until: str | None = None
) -> "Verdict":
    """The verdict about the GPUs of one job; its confidence is 0.7 at most.

    Args:
        url: Of the Prometheus.
        gpus: As `node-1:0-7,node-2:0,3`.
        since: A date, unix seconds or how long ago; None = an hour before the end.
        until: Likewise; None = now.

    Raises:
        CommandError: 64, no such GPUs or moment; 69, Prometheus cannot be asked.
    """
    from lockstep.analyzer.hardware.anomalies.uninstrumented import uninstrumented
    from lockstep.analyzer.read.prometheus.access import RequestError, SourceError, access
    from lockstep.analyzer.read.prometheus.connection import Connection
    from lockstep.analyzer.read.prometheus.hardware import gpu_list, hardware

    try:
        job = gpu_list(gpus)
        with Connection(access(url, None)) as connection:
            samples = hardware(connection, job, since, until)
    except RequestError as error:
        fail(ExitCode.USAGE, str(error))
    except SourceError as error:
        fail(ExitCode.UNREACHABLE, str(error))
    return uninstrumented(gpus, samples, job)
