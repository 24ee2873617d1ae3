"""The Prometheus text page (format 0.0.4): order, escaping, numbers and the cap on series."""

import math
from collections import Counter
from collections.abc import Sequence

from collector.contract.metrics import METRICS, Kind, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

FIRST_TO_GO: tuple[str, ...] = (
    "lockstep_net_",
    "lockstep_load_average",
    "lockstep_host_",
    "lockstep_pressure_",
    "lockstep_collector_",
    "lockstep_gpu_memory_",
    "lockstep_gpu_temperature_limit_",
    "lockstep_gpu_energy_",
    "lockstep_gpu_utilization_",
    "lockstep_gpu_",
    "lockstep_train_model_flops_",
    "lockstep_train_samples_",
    "lockstep_train_tokens_",
    "lockstep_train_",
    "lockstep_",
)
"""Prefixes in the order in which series give way to the cap: what verdicts need goes last."""

_ORDER = {name: index for index, name in enumerate(METRICS)}
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def render(samples: Sequence[Sample]) -> str:
    """The page: families in the order of METRICS, samples in their own order inside a family.

    A NaN is an absent value and is left out; of two equal series the first stands.
    """
    families: dict[str, dict[tuple[str, ...], float]] = {}
    for metric, labels, value in samples:
        if not math.isnan(value):
            families.setdefault(metric.name, {}).setdefault(labels, value)
    lines: list[str] = []
    for name in sorted(families, key=_ORDER.__getitem__):
        metric = METRICS[name]
        help_text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
        kind = "counter" if metric.kind is Kind.COUNTER else "gauge"
        lines += (f"# HELP {name} {help_text}", f"# TYPE {name} {kind}")
        for labels, value in families[name].items():
            pairs = ",".join(
                f'{key}="{text.translate(_ESCAPES)}"'
                for key, text in zip(metric.labels, labels, strict=True)
            )
            lines.append(
                f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}"
            )
    return "\n".join(lines) + "\n"


def capped(samples: Sequence[Sample], cap: int) -> tuple[list[Sample], Counter[str]]:
    """At most `cap` samples, and how many of each family were dropped.

    Families go in the order of FIRST_TO_GO; inside one step of that order, later samples first.
    """
    excess = len(samples) - cap
    if excess <= 0:
        return list(samples), Counter()
    place = {sample.metric.name: _place(sample.metric.name) for sample in samples}
    by_need = sorted(range(len(samples)), key=lambda i: (place[samples[i].metric.name], -i))
    gone = set(by_need[:excess])
    dropped = Counter(samples[index].metric.name for index in gone)
    return [sample for index, sample in enumerate(samples) if index not in gone], dropped


def _place(name: str) -> int:
    return next(place for place, prefix in enumerate(FIRST_TO_GO) if name.startswith(prefix))


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
