import math
import threading
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import METRICS, Kind
from lockstep.collector.exporter.page import OFTEN, PAGE_SECONDS, Form, PageCache, Renderer, render
from lockstep.collector.exporter.series_cap import FIRST_TO_GO, Cap, capped
from lockstep.collector.exporter.server import form_of, wants_gzip


def parsed(text: str) -> dict:
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_families_come_in_the_order_of_the_contract_with_help_and_type_once():
    text = render([m.GPU_UP(1, "0", "a"), m.BUILD_INFO(1, "1", "3"), m.GPU_UP(1, "1", "b")])

    assert text == (
        "# HELP lockstep_build_info Version of this collector.\n"
        "# TYPE lockstep_build_info gauge\n"
        'lockstep_build_info{version="1",python="3"} 1\n'
        "# HELP lockstep_gpu_up 1 if the GPU answers.\n"
        "# TYPE lockstep_gpu_up gauge\n"
        'lockstep_gpu_up{gpu="0",uuid="a"} 1\n'
        'lockstep_gpu_up{gpu="1",uuid="b"} 1\n'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (3.0, "3.0"),
        (0.1, "0.1"),
        (1e22, "1e+22"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_numbers_keep_their_value(value, text):
    assert render([m.HOST_CPUS(value)]).endswith(f"lockstep_host_cpus {text}\n")


def test_a_nan_is_absent():
    assert "lockstep_train_loss" not in render([m.TRAIN_LOSS(math.nan, "r", "0")])


def test_of_two_equal_series_the_first_stands():
    assert render([m.GPU_UP(1, "0", "a"), m.GPU_UP(0, "0", "a")]).count("lockstep_gpu_up{") == 1


@settings(deadline=None)
@given(st.text(), st.text(), st.floats(allow_nan=False))
def test_any_label_and_any_number_survive_the_page(gpu, uuid, value):
    text = render([m.GPU_POWER(value, gpu, uuid)])

    assert parsed(text) == {("lockstep_gpu_power_watts", ("gpu", gpu), ("uuid", uuid)): value}


@given(st.lists(st.lists(st.integers(0, 3)), max_size=5))
def test_parts_make_the_page_that_they_make_together(parts):
    readings = [[m.GPU_POWER(10 * n + gpu, str(gpu), "u") for gpu in part] for n, part in
                enumerate(parts)]  # fmt: skip
    together = [sample for reading in readings for sample in reading]

    assert Renderer().render(readings) == render(together)


def _samples(ranks: int):
    yield m.SOURCE_UP(1, "procfs")
    for rank in range(ranks):
        key = ("run", str(rank))
        yield m.RANK_UP(1, *key)
        yield m.TRAIN_OWN(1.0, *key)
        yield m.TRAIN_FLOPS(1.0, *key)
        yield m.GPU_CLOCK(1.0, str(rank), "u", "sm")
        yield m.NET_BYTES(1, f"eth{rank}", "receive")
        yield m.NET_BYTES(1, f"eth{rank}", "transmit")


def test_nothing_is_dropped_under_the_cap():
    samples = list(_samples(3))

    assert capped(samples, len(samples)) == (samples, {})


def test_what_verdicts_need_goes_last():
    samples = list(_samples(10))
    orders = []
    for cap in range(len(samples), -1, -1):
        kept, dropped = capped(samples, cap)
        assert len(kept) == cap
        assert len(kept) + dropped.total() == len(samples)
        orders += [name for name in dropped if name not in orders]

    assert orders == [
        m.NET_BYTES.name,
        m.GPU_CLOCK.name,
        m.TRAIN_FLOPS.name,
        m.TRAIN_OWN.name,
        *sorted((m.SOURCE_UP.name, m.RANK_UP.name), key=orders.index),
    ]


def capped_naively(samples, cap):
    """One sample after the other, as the order of the cap says; then broken histograms."""

    def place(name):
        fitting = [prefix for prefix in FIRST_TO_GO if name.startswith(prefix)]
        return FIRST_TO_GO.index(max(fitting, key=len))

    def histogram(sample):
        name = sample.metric.name.removesuffix("_bucket").removesuffix("_count")
        labels = [text for key, text in zip(sample.metric.labels, sample.labels, strict=True)
                  if key != "le"]  # fmt: skip
        return (name.removesuffix("_sum"), *labels)

    order = sorted(range(len(samples)), key=lambda at: (place(samples[at].metric.name), -at))
    gone = set(order[: max(0, len(samples) - cap)])
    broken = {histogram(samples[at]) for at in gone
              if samples[at].metric.family != samples[at].metric.name}  # fmt: skip
    return [sample for at, sample in enumerate(samples)
            if at not in gone and histogram(sample) not in broken]  # fmt: skip


def _reading(number, kinds):
    labels = (str(number), "u")
    for kind in kinds:
        match kind:
            case 0:
                yield m.NET_BYTES(number, f"eth{number}", "receive")
            case 1:
                yield m.GPU_POWER(number, *labels)
            case 2:
                yield m.TRAIN_OWN(number, "run", str(number))
            case 3:
                bounds = len(m.NCCL_DURATION.bounds)
                keys = ["x"] * (len(m.NCCL_DURATION.labels) - 1)
                yield from m.NCCL_DURATION.histogram([1] * (bounds + 1), 1.0, *keys, str(number))


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=5), st.data())
def test_page_after_page_the_cap_keeps_what_it_keeps_of_one(kinds, data):
    """Readings stay, change and go between pages; what is known of them changes no page."""
    cap, renderer = Cap(), Renderer()
    readings = [tuple(_reading(number, each)) for number, each in enumerate(kinds)]
    for page in range(4):
        limit = data.draw(st.integers(0, sum(map(len, readings)) + 2))
        together = [sample for part in readings for sample in part]
        kept, dropped = cap.kept(readings, limit)
        told = [sample for part in kept for sample in part]

        assert told == capped_naively(together, limit)
        assert dropped.total() == len(together) - len(told)
        assert renderer.render(kept) == render(told)
        if readings:
            place = data.draw(st.integers(0, len(readings) - 1))
            again = data.draw(st.lists(st.integers(0, 3), max_size=4))
            readings[place] = tuple(_reading(10 * page + place, again))


HOST = (
    "host_",
    "cpu_",
    "memory_",
    "load_average",
    "disk_",
    "tcp_",
    "softnet_",
    "pressure_",
    "oom_",
)


def _node(links=18):
    """A large node, in the order of its sources: the host first, links last."""
    for name, metric in METRICS.items():
        if name.startswith(tuple(f"lockstep_{prefix}" for prefix in HOST)):
            yield metric(1.0, *("x" for _ in metric.labels))
    for gpu in map(str, range(8)):
        yield m.RANK_UP(1, "run", gpu)
        yield m.GPU_POWER(300.0, gpu, f"GPU-{gpu}")
        yield m.GPU_MEMORY_USED(1.0, gpu, f"GPU-{gpu}")
        for link in map(str, range(links)):
            yield m.GPU_NVLINK_UP(1, gpu, f"GPU-{gpu}", link)


@pytest.mark.parametrize("excess", [1, 17, 18, 19, 100, 144])
def test_what_is_there_once_for_each_link_goes_before_the_host(excess):
    samples = list(_node())
    kept, dropped = capped(samples, len(samples) - excess)

    assert {m.GPU_NVLINK_UP.name} == set(dropped)
    assert excess <= dropped.total() < excess + 18
    # A GPU of which some links are there has lost the others: LockstepNvlinkDown counts them.
    links = Counter(one.labels[0] for one in kept if one.metric is m.GPU_NVLINK_UP)
    assert {18} >= set(links.values())


def test_the_host_goes_before_what_verdicts_need_and_behind_everything_else():
    samples = [*_node(), *(m.NET_BYTES(1, f"eth{port}", "receive") for port in range(8)),
               *(m.IB_STATE(4, f"mlx5_{port}", "1") for port in range(8))]  # fmt: skip
    host = sum(one.metric.name.startswith(tuple(f"lockstep_{p}" for p in HOST)) for one in samples)
    verdicts = (m.RANK_UP, m.GPU_POWER)
    needed = sum(one.metric in verdicts for one in samples)

    kept, _ = capped(samples, host + needed)
    assert host + needed == len(kept)
    kept, _ = capped(samples, needed)
    assert set(verdicts) == {one.metric for one in kept}


def test_of_a_reading_that_stays_the_very_same_is_kept():
    cap = Cap()
    stays = tuple(_samples(3))
    first, _ = cap.kept([stays, tuple(_samples(1))], 20)
    second, _ = cap.kept([stays, tuple(_samples(1))], 20)

    assert len(stays) > len(first[0])
    assert first[0] is second[0]


def test_every_metric_has_a_place_in_the_order_of_the_cap():
    assert all(name.startswith(FIRST_TO_GO) for name in METRICS)


# Pages that lie ready: who shares one, when they are made ahead, and when that ends.

PLAIN, PACKED = (Form.TEXT, False), (Form.TEXT, True)


class Maker:
    """Makes numbered pages; fails while it is broken."""

    def __init__(self) -> None:
        self.made: list[tuple[Form, bool]] = []
        self.threads: set[str] = set()
        self.broken = False

    def __call__(self, form: Form, packed: bool) -> bytes:
        if self.broken:
            raise ValueError("broken")
        self.made.append((form, packed))
        self.threads.add(threading.current_thread().name)
        return b"%d" % len(self.made)


def until(holds) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_those_who_ask_together_share_a_page_and_later_ones_get_another(clock):
    ahead = PageCache(Maker(), clock)

    first = [ahead.body(*PLAIN), ahead.body(*PLAIN)]
    packed = ahead.body(*PACKED)
    clock.sleep(PAGE_SECONDS + 0.01)

    assert ([b"1", b"1"], b"2") == (first, packed)
    assert b"3" == ahead.body(*PLAIN)


def test_who_asks_seldom_has_no_page_made_ahead(clock):
    maker = Maker()
    ahead = PageCache(maker, clock)
    for _ in range(10):
        ahead.body(*PLAIN)
        clock.sleep(1.0)

    assert (10, {"MainThread"}) == (len(maker.made), maker.threads)


def test_who_asks_often_finds_pages_ready_until_the_asking_ends():
    maker = Maker()
    ahead = PageCache(maker, SystemClock())
    deadline = time.monotonic() + 60
    while "ahead" not in maker.threads:
        ahead.body(*PLAIN)
        assert time.monotonic() < deadline
        time.sleep(0.02)

    until(lambda: ahead._thread is None)
    assert "ahead" not in {thread.name for thread in threading.enumerate()}
    assert {PLAIN} == set(maker.made)


def test_a_page_that_cannot_be_made_is_the_askers_error_and_no_old_page(clock):
    maker = Maker()
    ahead = PageCache(maker, clock)
    ahead.body(*PLAIN)
    maker.broken = True
    clock.sleep(PAGE_SECONDS + 0.01)

    with pytest.raises(ValueError, match="broken"):
        ahead.body(*PLAIN)
    maker.broken = False
    assert b"2" == ahead.body(*PLAIN)


def test_many_who_ask_at_once_wait_for_one_page(clock):
    maker, go = Maker(), threading.Event()

    def slow(form: Form, packed: bool) -> bytes:
        go.wait(10)
        return maker(form, packed)

    ahead, bodies = PageCache(slow, clock), []
    threads = [
        threading.Thread(target=lambda: bodies.append(ahead.body(*PLAIN))) for _ in range(OFTEN - 1)
    ]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()

    assert [b"1"] * (OFTEN - 1) == bodies


PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form.TEXT),
        ("*/*", Form.TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", Form.TEXT),
        ("text/plain", Form.TEXT),
        ("application/openmetrics-text", Form.OPENMETRICS),
        ("Application/OpenMetrics-Text; q=0.9, text/plain", Form.TEXT),
        ("application/openmetrics-text;q=0", Form.TEXT),
        (PROMETHEUS_2, Form.OPENMETRICS),
        (PROMETHEUS_3, Form.OPENMETRICS),
    ],
)
def test_openmetrics_only_for_those_who_ask_for_it(accept, form):
    assert form is form_of(accept)


@pytest.mark.parametrize(
    ("header", "packed"),
    [("", False), ("gzip", True), ("br, GZIP;q=0.5", True), ("gzip;q=0", False), ("xgzip", False)],
)
def test_gzip_only_for_those_who_take_it(header, packed):
    assert packed is wants_gzip(header)


@given(st.text())
def test_any_header_is_answered(header):
    assert form_of(header) in Form
    assert wants_gzip(header) in (True, False)


def test_openmetrics_has_its_own_heads_and_an_end():
    text = render([m.GPU_ENERGY(2.5, "0", "u"), m.BUILD_INFO(1, "1", "3")], Form.OPENMETRICS)

    assert text == (
        "# HELP lockstep_build Version of this collector.\n"
        "# TYPE lockstep_build info\n"
        'lockstep_build_info{version="1",python="3"} 1\n'
        f"# HELP lockstep_gpu_energy_joules {m.GPU_ENERGY.help}\n"
        "# TYPE lockstep_gpu_energy_joules counter\n"
        'lockstep_gpu_energy_joules_total{gpu="0",uuid="u"} 2.5\n'
        "# EOF\n"
    )


def told(metric):
    if metric.parts:
        return metric.histogram([1] * (len(metric.bounds) + 1), 1.0, *metric.labels)
    return [metric(1, *metric.labels)]


def test_every_metric_is_openmetrics():
    samples = [sample for metric in METRICS.values() for sample in told(metric)]

    families = list(openmetrics(render(samples, Form.OPENMETRICS)))
    assert [sample.metric.name for sample in samples] == [
        sample.name for family in families for sample in family.samples
    ]
    for family, metric in zip(families, METRICS.values(), strict=True):
        kind = "info" if metric.name.endswith("_info") else Kind(metric.kind).value
        assert (kind, metric.help) == (family.type, family.documentation)


@given(st.text(), st.floats(allow_nan=False))
def test_any_label_and_any_number_survive_openmetrics(label, value):
    (family,) = openmetrics(render([m.GPU_POWER(value, label, "u")], Form.OPENMETRICS))

    (sample,) = family.samples
    assert (label, value) == (sample.labels["gpu"], sample.value)
