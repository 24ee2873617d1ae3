"""Samples of GPUs from one reading to the next: what stays the same is the same object."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.collectors.gpu import Collect, collect
from collector.contract import metrics as m
from collector.contract.metrics import Sample
from collector.counters import Counters, Falls
from collector.gpu_reading import Gpu, GpuReading

VALUES = st.dictionaries(
    st.sampled_from([m.GPU_ECC_ERRORS.name, m.GPU_NVLINK_ERRORS.name]),
    st.dictionaries(st.sampled_from(["a/b", "c/d"]), st.integers(0, 3), min_size=1),
)
GPUS = st.lists(
    st.builds(Gpu, st.integers(0, 1), st.sampled_from("uvw"), st.booleans(), values=VALUES),
    max_size=4,
    unique_by=lambda gpu: gpu.uuid,
)


def reading(power: float, ecc: Mapping[str, float], uuid: str = "u", *, up: bool = True):
    values = {m.GPU_POWER.name: {"": power}, m.GPU_ECC_ERRORS.name: ecc}
    return GpuReading((Gpu(0, uuid, up, values=values if up else {}),))


def by_series(samples) -> dict[tuple[str, tuple[str, ...]], float]:
    return {(one.metric.name, one.labels): one.value for one in samples}


def of(metric: m.Metric, samples) -> Sample | None:
    return next((one for one in samples if one.metric is metric), None)


def test_a_value_that_did_not_change_is_the_same_sample():
    told, gpus = Collect(), {"corrected/volatile": 3.0}
    before = list(told(reading(650, gpus)))
    after = list(told(reading(655, dict(gpus))))

    assert of(m.GPU_ECC_ERRORS, after) is of(m.GPU_ECC_ERRORS, before)
    assert of(m.GPU_POWER, after).value == 655


def test_another_gpu_at_the_same_place_has_its_own_samples():
    told, gpus = Collect(), {"corrected/volatile": 3.0}
    list(told(reading(650, gpus)))
    after = list(told(reading(650, gpus, "another")))

    assert {"another"} == {one.labels[1] for one in after}


def test_a_gpu_that_is_lost_leaves_no_sample_behind():
    told, gpus = Collect(), {"corrected/volatile": 3.0}
    list(told(reading(650, gpus)))
    down = list(told(reading(650, gpus, up=False)))

    assert {m.GPU_UP, m.GPU_STALLED} == {one.metric for one in down}
    assert of(m.GPU_ECC_ERRORS, told(reading(650, gpus))).value == 3


@settings(max_examples=60)
@given(st.lists(GPUS, max_size=4))
def test_what_is_remembered_changes_no_value_and_no_counter(machines):
    told, kept, plain = Collect(), Counters(Falls.CARRY), Counters(Falls.CARRY)
    for gpus in machines:
        one = GpuReading(tuple(gpus))

        assert by_series(plain.through(collect(one))) == by_series(kept.through(told(one)))
