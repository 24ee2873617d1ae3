"""What a test of an alert is made of: series as they are scraped, and when the alert fires."""

from dataclasses import dataclass, field

Labels = dict[str, str]
Changes = dict[str, str]
"""Values by the short name of a series, in promtool's words; the others stay healthy."""
Probe = tuple[Changes, str] | tuple[Changes, str, list[Labels]]
"""Changes; moments as `+2m` (fires then) and `-9m` (does not); whom it names, if not the usual."""

GPU = {"gpu": "0", "uuid": "GPU-0"}
ON_A = {"node": "a", **GPU}


def page(metric: str, node: str = "a", pod: str = "c-1", **labels: str) -> str:
    """A series of a collector with everything that Prometheus adds to it."""
    return _series(metric, job="lockstep-collector", instance=node, pod=pod, node=node, **labels)


def watch(metric: str, **labels: str) -> str:
    """A series of `lockstep watch`: its target has no node."""
    return _series(metric, job="lockstep-analyzer", instance="z:9411", **labels)


def _series(metric: str, **labels: str) -> str:
    pairs = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{metric}{{{pairs}}}"


@dataclass(frozen=True)
class Case:
    """All tests of one alert.

    Attributes:
        alert: Name without prefix.
        labels: Whom it names when it fires, without severity and action.
        summary: What it says at the first moment of `fires`.
        series: By short name, the series and its values while all is well.
        fires: It does; `silent`: it does not, though something is near.
        boundary: Just under the threshold and just at it.
        clears: It fires, and later no more.
        more: Further claims by their words.
        interval: Between samples and between evaluations.
        severity: Where it is not that of the rule: a template's result.
    """

    alert: str
    labels: Labels
    summary: str
    series: dict[str, tuple[str, str]]
    fires: list[Probe]
    silent: list[Probe]
    boundary: list[Probe]
    clears: list[Probe]
    more: dict[str, Probe] = field(default_factory=dict)
    interval: str = "15s"
    severity: str = ""

    @property
    def key(self) -> str:
        """Two cases of one alert differ in their severity."""
        return self.alert + self.severity

    def probes(self) -> dict[str, Probe]:
        """Every test by its claim."""
        return {
            f"{kind} {number}": probe
            for kind in ("fires", "silent", "boundary", "clears")
            for number, probe in enumerate(getattr(self, kind), 1)
        } | self.more


def moments(probe: Probe) -> list[tuple[str, bool]]:
    """When it is looked at, and whether it fires then."""
    return [(word[1:], word[0] == "+") for word in probe[1].split()]
