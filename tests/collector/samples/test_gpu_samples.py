"""Samples of GPUs from one reading to the next: what stays the same is the same object."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.readings.gpu import Gpu, GpuReading
from lockstep.collector.sampler.reader import FeedReader
from lockstep.collector.samples.counters import Counters, Falls, after_reboot
from lockstep.collector.samples.feed import Feed
from lockstep.collector.samples.gpu import Collect, collect

VALUES = st.dictionaries(
    st.sampled_from([m.GPU_ECC_ERRORS.name, m.GPU_PCIE_ERRORS.name]),
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


def errors(metric: m.Metric, told: Mapping[str, float], uuid: str = "u") -> GpuReading:
    return GpuReading((Gpu(0, uuid, values={metric.name: told}),))


def labelled(metric: m.Metric, samples) -> dict[tuple[str, ...], float]:
    """Values by the labels that come after the GPU's own."""
    return {one.labels[2:]: one.value for one in samples if one.metric is metric}


def test_links_that_never_counted_are_one_series_a_kind_beside_the_driver_s_own_sums():
    links = {f"{link}/{kind}": 0 for link in range(18) for kind in ("dl_crc", "dl_replay")}
    told = collect(errors(m.GPU_NVLINK_ERRORS, {"all/ecc": 0} | links))

    assert labelled(m.GPU_NVLINK_ERRORS, told) == {
        ("all", "ecc"): 0, ("other", "dl_crc"): 0, ("other", "dl_replay"): 0
    }  # fmt: skip


def test_a_link_that_has_counted_is_told_for_good_also_after_its_gpu_was_gone():
    told, metric = Collect(), m.GPU_NVLINK_ERRORS
    still, counted = {"3/dl_crc": 0, "4/dl_crc": 0}, {"3/dl_crc": 7, "4/dl_crc": 0}
    first = [labelled(metric, told(errors(metric, one))) for one in (still, counted, still)]
    list(told(GpuReading(())))

    other = ("other", "dl_crc")
    assert [{other: 0}, {("3", "dl_crc"): 7, other: 0}, {("3", "dl_crc"): 0, other: 0}] == first
    assert first[-1] == labelled(metric, told(errors(metric, still)))
    assert {other: 0} == labelled(metric, told(errors(metric, still, "another")))


class Told:
    """A source of readings."""

    name = "nvml"

    def __init__(self, *readings: GpuReading) -> None:
        self._readings = iter(readings)

    def available(self) -> bool:
        return True

    def read(self) -> GpuReading:
        return next(self._readings)


def test_what_a_link_counted_before_a_reboot_stays_in_the_sum_over_links(clock):
    metric = m.GPU_NVLINK_ERRORS

    def reader(*counts: int) -> FeedReader:
        readings = [errors(metric, {"3/dl_crc": count, "4/dl_crc": 0}) for count in counts]
        return FeedReader(Feed(Told(*readings), Collect(), 1.0, falls=Falls.CARRY), clock)

    def on_page(one: FeedReader) -> dict[tuple[str, ...], float]:
        one.read_once()
        return labelled(metric, one.samples(clock.now, 5.0))

    before, after = reader(7), reader(0, 1)
    before.read_once()
    after.resume(after_reboot(before.kept()))

    other = ("other", "dl_crc")
    assert {("3", "dl_crc"): 7, other: 0} == on_page(after)
    assert {("3", "dl_crc"): 8, other: 0} == on_page(after)


def test_places_of_memory_errors_that_never_counted_are_one_series_a_type_and_counter():
    places = {
        f"{type_}/{counter}/{place}": 0
        for type_ in ("corrected", "uncorrected")
        for counter in ("volatile", "aggregate")
        for place in ("l1", "l2", "dram", "register", "texture", "cbu", "sram")
    }
    metric = m.GPU_ECC_LOCATION_ERRORS
    told = labelled(metric, collect(errors(metric, places | {"corrected/aggregate/dram": 5})))

    assert {("corrected", "aggregate", "dram"): 5} == {at: n for at, n in told.items() if n}
    assert 5 == len(told)
    assert {"dram", "other"} == {place for _, _, place in told}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=20))
def test_no_sum_over_links_is_another_than_that_of_every_link_told_alone(steps):
    """A step is what two links count, and whether the driver begins anew before it."""
    metric, told = m.GPU_NVLINK_ERRORS, Collect()
    folded, plain = Counters(Falls.CARRY), Counters(Falls.CARRY)
    links = [0, 0]
    for *counted, anew in steps:
        links = [more + (0 if anew else link) for link, more in zip(links, counted, strict=True)]
        raw = {f"{number}/dl_crc": link for number, link in enumerate(links)}
        alone = [metric(n, "0", "u", *labels.split("/")) for labels, n in raw.items()]
        on_page = labelled(metric, folded.through(told(errors(metric, raw))))

        assert sum(labelled(metric, plain.through(alone)).values()) == sum(on_page.values())


@settings(max_examples=60)
@given(st.lists(GPUS, max_size=4))
def test_what_is_remembered_changes_no_value_and_no_counter(machines):
    told, kept, plain = Collect(), Counters(Falls.CARRY), Counters(Falls.CARRY)
    for gpus in machines:
        one = GpuReading(tuple(gpus))

        assert by_series(plain.through(collect(one))) == by_series(kept.through(told(one)))
