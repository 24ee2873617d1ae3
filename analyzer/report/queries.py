"""Where each number comes from: the column of the archive, and the PromQL that shows it live."""

from dataclasses import dataclass

from lockstep.analyzer.read.prometheus.promql import quoted
from lockstep.analyzer.read.prometheus.questions import steps_per_second, waiting_per_second
from lockstep.collector.contract import archive, metrics
from lockstep.collector.contract.metrics import Metric

PER = "1m"
"""Span of the rates; wider than four scrapes of 15 s."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of one run's numbers, as `archive column · PromQL`.

    Attributes:
        run: The run id, quoted for PromQL.
    """

    run: str

    @classmethod
    def of(cls, run: str) -> "Sources":
        """For a run id that may hold anything."""
        return cls(quoted(run))

    def own(self) -> str:
        """Own time per step of each rank, of the steps of which it is known."""
        query = f"{self._rate(metrics.TRAIN_OWN)} / on (run, rank) "
        return self._both(
            "median own_seconds by rank", query + self._rate(metrics.TRAIN_KNOWN_STEPS)
        )

    def wall(self) -> str:
        """Time per step."""
        query = f"1 / {self._rate(metrics.TRAIN_STEPS)}"
        return self._both("median wall_seconds", query)

    def phases(self) -> str:
        """Time per step of each phase."""
        query = f"{self._rate(metrics.TRAIN_PHASE)} / on (run, rank) group_left () "
        return self._both("median seconds of each phase", query + self._rate(metrics.TRAIN_STEPS))

    def waits(self) -> str:
        """Waiting in collectives per step."""
        here = f"{{run={self.run}}}"
        query = f"{waiting_per_second(PER, here)} / on (run, rank) {steps_per_second(PER, here)}"
        return self._both("median of wall_seconds - own_seconds by rank", query)

    def loss(self) -> str:
        """Training loss."""
        return self._both("mean loss by step", f"avg ({self.of_run(metrics.TRAIN_LOSS)})")

    def tokens(self) -> str:
        """Tokens of the whole run per second."""
        return self._both("sum of tokens over wall_seconds", self._sum(metrics.TRAIN_TOKENS))

    def flops(self) -> str:
        """Model FLOPs of the whole run per second."""
        return self._both("sum of flops over wall_seconds", self._sum(metrics.TRAIN_FLOPS))

    def of_run(self, metric: Metric) -> str:
        """The series of a rank's metric."""
        return f"{metric.name}{{run={self.run}}}"

    def _rate(self, metric: Metric) -> str:
        return f"rate({self.of_run(metric)}[{PER}])"

    def _sum(self, metric: Metric) -> str:
        return f"sum ({self._rate(metric)})"

    @staticmethod
    def _both(column: str, query: str) -> str:
        return f"{archive.STEPS_FILE}: {column} · {query}"


def samples(metric: Metric, labels: str = "", *, over: str = "") -> str:
    """The PromQL of telemetry; samples.parquet has the same rows under the metric's name.

    Args:
        metric: A metric of the contract.
        labels: `name="value"`, joined by commas.
        over: A function of PromQL that is applied to a range of it, as `increase`.
    """
    told = f"{metric.name}{{{labels}}}" if labels else metric.name
    return f"{over}({told}[1h])" if over else told
