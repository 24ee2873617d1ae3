"""The optional page under the names of dcgm-exporter, so that existing dashboards keep working."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Metric, Sample
from lockstep.collector.contract.words import CLOCK_EVENT_BITS
from lockstep.collector.exporter.page import escaped
from lockstep.collector.sources.dcgm_fields import (
    CLOCK_EVENTS_FIELD,
    DCGM_FIELDS,
    PREFIX,
    DcgmField,
)

_FIELDS: dict[tuple[str, tuple[str, ...]], DcgmField] = {
    (field.metric.name, field.labels): field for field in DCGM_FIELDS
}
_DRIVER = f"{PREFIX}DRIVER_VERSION"
_CLOCK_EVENTS = PREFIX + CLOCK_EVENTS_FIELD[1][1]
_POWER, _INSTANT_POWER = f"{PREFIX}DEV_POWER_USAGE", f"{PREFIX}DEV_POWER_USAGE_INSTANT"


class _Gpu(NamedTuple):
    """`gpu` and `uuid` of a series, by which it finds its other labels."""

    gpu: str
    uuid: str


def render_legacy(samples: Iterable[Sample]) -> str:
    """The GPU series among the samples, in DCGM's units: MHz, MiB, percent, millijoules.

    A GPU without an average of its power has the present power in its place.
    """
    info: dict[_Gpu, Mapping[str, str]] = {}
    mig: dict[_Gpu, Mapping[str, str]] = {}
    hostname = ""
    families: dict[str, tuple[str, dict[_Gpu, float]]] = {}

    def add(name: str, kind: str, gpu: _Gpu, value: float) -> None:
        families.setdefault(name, (kind, {}))[1].setdefault(gpu, value)

    events: dict[_Gpu, int] = {}
    for sample in samples:
        metric, labels, value = sample
        if metric is m.NODE_INFO:
            hostname = _named(metric, labels)["hostname"]
            continue
        if metric.labels[:2] != _Gpu._fields:
            continue
        gpu = _Gpu(*labels[:2])
        if metric is m.GPU_INFO:
            info[gpu] = _named(metric, labels)
        elif metric is m.MIG_INFO:
            mig[gpu] = _named(metric, labels)
        elif metric is m.GPU_CLOCK_EVENT_ACTIVE:
            events[gpu] = events.get(gpu, 0) | (CLOCK_EVENT_BITS.get(labels[2], 0) if value else 0)
        elif (field := _FIELDS.get((metric.name, labels[2:]))) is not None:
            kind = "counter" if field.counter else "gauge"
            add(field.legacy, kind, gpu, round(value * field.per, 6))
    for gpu, bits in events.items():
        add(_CLOCK_EVENTS, "gauge", gpu, bits)
    for gpu, watts in families.get(_INSTANT_POWER, ("", {}))[1].items():
        add(_POWER, "gauge", gpu, watts)
    lines: list[str] = []
    for name, (kind, values) in sorted(families.items()):
        lines.append(f"# TYPE {name} {kind}\n")
        for gpu, value in values.items():
            pairs = ",".join(
                f'{key}="{escaped(text)}"'
                for key, text in _labels(gpu, info, mig.get(gpu), hostname).items()
            )
            lines.append(f"{name}{{{pairs}}} {value!r}\n")
    return "".join(lines)


def _labels(
    gpu: _Gpu,
    info: Mapping[_Gpu, Mapping[str, str]],
    mig: Mapping[str, str] | None,
    hostname: str,
) -> dict[str, str]:
    uuid = gpu.uuid if mig is None else mig["parent"]
    about = info.get(_Gpu(gpu.gpu, uuid), {})
    labels = {
        "gpu": gpu.gpu,
        "UUID": uuid,
        "pci_bus_id": about.get("pci_bus_id", ""),
        "device": f"nvidia{about.get('minor') or gpu.gpu}",
        "modelName": about.get("model", ""),
        "Hostname": hostname,
        _DRIVER: about.get("driver", ""),
    }
    if mig is not None:
        labels |= {"GPU_I_PROFILE": mig["profile"], "GPU_I_ID": mig["gpu_instance"]}
    return labels


def _named(metric: Metric, labels: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(metric.labels, labels, strict=True))
