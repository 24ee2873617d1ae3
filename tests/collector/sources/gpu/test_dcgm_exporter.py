"""The page of a dcgm-exporter, read and turned into base units."""

import http.server
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.config import ConfigError, load
from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.source import IMPLAUSIBLE, SourceError
from lockstep.collector.samples.gpu import collect
from lockstep.collector.sources.gpu import dcgm_exporter
from lockstep.collector.sources.gpu.dcgm_exporter import LOST_SECONDS, MAX_GPUS, DcgmExporter, parse
from tests.hostile_server import drops, serving
from tests.wild import wild

WHO = (
    'gpu="0",UUID="GPU-a",pci_bus_id="00000000:18:00.0",device="nvidia0",'
    'modelName="NVIDIA H100 80GB HBM3",Hostname="n1",DCGM_FI_DRIVER_VERSION="550.54.15"'
)
PAGE = f"""# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{{{WHO}}} 1980
DCGM_FI_DEV_GPU_TEMP{{{WHO},container="",namespace="",pod=""}} 61
DCGM_FI_DEV_POWER_USAGE{{{WHO}}} 650.125
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{WHO}}} 123456789
DCGM_FI_DEV_FB_USED{{{WHO}}} 65536
DCGM_FI_DEV_GPU_UTIL{{{WHO}}} 97
DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS{{{WHO}}} 3
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{{{WHO}}} 64
DCGM_FI_DEV_XID_ERRORS{{{WHO},err_code="0",err_msg="No Error"}} 0
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{WHO}}} 0.525
"""


def values(text: str) -> dict:
    return {(s.metric.name, s.labels): s.value for s in collect(parse(text))}


def test_the_page_of_today_is_in_base_units():
    told = values(PAGE)
    who = ("0", "GPU-a")

    assert told[m.GPU_CLOCK.name, (*who, "sm")] == 1.98e9
    assert told[m.GPU_TEMPERATURE.name, (*who, "gpu")] == 61
    assert told[m.GPU_POWER_AVERAGE.name, who] == 650.125
    assert told[m.GPU_POWER.name, who] == 650.125
    assert told[m.GPU_ENERGY.name, who] == 123456.789
    assert told[m.GPU_MEMORY_USED.name, who] == 64 << 30
    assert told[m.GPU_UTILIZATION.name, who] == 0.97
    assert told[m.GPU_REMAPPED_ROWS.name, (*who, "correctable")] == 3
    assert told[m.GPU_CLOCK_EVENT_ACTIVE.name, (*who, "hw_thermal")] == 1
    assert told[m.GPU_TENSOR_ACTIVE.name, who] == 0.525
    info = next(labels for name, labels in told if name == m.GPU_INFO.name)
    assert info[2:5] == ("NVIDIA H100 80GB HBM3", "550.54.15", "false")


def test_the_names_of_dcgm_4_6_are_the_same_fields():
    renamed = PAGE.replace("DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS").replace(
        "DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS"
    ).replace("PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO")  # fmt: skip

    assert values(renamed) == values(PAGE)


def test_a_mig_device_stands_apart():
    text = PAGE + f'DCGM_FI_DEV_FB_USED{{{WHO},GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"}} 1024\n'
    told = values(text)

    assert told[m.GPU_MEMORY_USED.name, ("0", "GPU-a/gi7")] == 1 << 30
    assert told[m.MIG_INFO.name, ("0", "GPU-a/gi7", "GPU-a", "1g.10gb", "7", "")] == 1


def test_a_blank_value_is_absent():
    assert (m.GPU_TEMPERATURE.name, ("0", "GPU-a", "memory")) not in values(
        f"{PAGE}DCGM_FI_DEV_MEMORY_TEMP{{{WHO}}} 2147483635.0\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "DCGM_FI_DEV_GPU_TEMP 61",
        "DCGM_FI_DEV_GPU_TEMP{} 61",
        'DCGM_FI_DEV_GPU_TEMP{gpu="x",UUID="GPU-b"} 61',
        'DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-b} 61',
        'DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-b"} NaN',
        'DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-b"} warm',
        'DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-b"} 61,0',
    ],
)
def test_a_bad_line_is_counted_and_the_others_stand(line):
    reading = parse(f"{PAGE}{line}\n")

    assert [one.reason for one in reading.rejected] == ["content"]
    assert {key: v for key, v in values(f"{PAGE}{line}\n").items() if "GPU-a" in key[1]} == values(
        PAGE
    )


@pytest.mark.parametrize("labels", [
    'nvswitch="nvswitch0",Hostname="n1"', 'nvlink="3",nvswitch="nvswitch0"', 'cpu="0"',
    'cpucore="5",cpu="0",Hostname="n1"',
])  # fmt: skip
def test_lines_of_switches_links_and_processors_are_passed_over(labels):
    reading = parse(f"{PAGE}DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{{{labels}}} 45\n")

    assert parse(PAGE) == reading
    with pytest.raises(SourceError, match="of a GPU"):
        parse(f"DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{{{labels}}} 45\n")


@pytest.mark.parametrize(
    "blanks",
    [
        lambda page: page.replace('",UUID', '", UUID'),
        lambda page: page.replace('",', '" , '),
        lambda page: page.replace('="', ' = "'),
        lambda page: page.replace("} ", "}  ").replace("{", " { "),
        lambda page: page.replace("\n", "  \n").replace("DCGM_FI_DEV_FB", "\tDCGM_FI_DEV_FB"),
        lambda page: page.replace("}", ",}"),
    ],
)
def test_blanks_between_tokens_change_nothing(blanks):
    """Exporters up to 2.0 write one after the comma between labels."""
    assert values(blanks(PAGE)) == values(PAGE)
    assert () == parse(blanks(PAGE)).rejected


@pytest.mark.parametrize(
    "line",
    [
        "DCGM_FI_DEV_GPU_UTIL{%s} 4294967295",
        "DCGM_FI_DEV_GPU_UTIL{%s} 808334905",
        "DCGM_FI_DEV_GPU_TEMP{%s} 644245923",
        "DCGM_FI_DEV_GPU_TEMP{%s} 82505",
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{%s} -1",
    ],
)
def test_what_cannot_be_is_counted_and_its_gpu_stays(line):
    text = PAGE + line % 'gpu="1",UUID="GPU-b"' + "\n"

    assert [one.reason for one in parse(text).rejected] == [IMPLAUSIBLE]
    assert {name for name, labels in values(text) if labels[1:2] == ("GPU-b",)} == {
        m.GPU_UP.name, m.GPU_STALLED.name, m.GPU_INFO.name,
    }  # fmt: skip


def test_an_old_page_tells_its_limit_and_its_last_xid():
    told = values(
        f"DCGM_FI_DEV_POWER_MGMT_LIMIT{{{WHO}}} 300.000000\n"
        f'DCGM_FI_DEV_XID_ERRORS{{{WHO},err_code="79",err_msg="GPU has fallen off the bus"}} 79\n'
    )

    assert told[m.GPU_POWER_LIMIT.name, ("0", "GPU-a", "requested")] == 300
    assert told[m.GPU_POWER_LIMIT.name, ("0", "GPU-a", "enforced")] == 300
    assert told[m.GPU_LAST_XID.name, ("0", "GPU-a")] == 79


def test_the_enforced_limit_is_told_as_it_is():
    told = values(
        f"DCGM_FI_DEV_POWER_MGMT_LIMIT{{{WHO}}} 300\n"
        f"DCGM_FI_DEV_ENFORCED_POWER_LIMIT{{{WHO}}} 250\n"
    )

    assert told[m.GPU_POWER_LIMIT.name, ("0", "GPU-a", "enforced")] == 250


@pytest.mark.parametrize("blank", ["9223372036854775794", "9223372036854775792", "2147483632"])
def test_blanks_of_64_bits_are_absent_and_no_error(blank):
    reading = parse(f"{PAGE}DCGM_FI_DEV_BOARD_LIMIT_VIOLATION{{{WHO}}} {blank}\n")

    assert () == reading.rejected
    assert values(PAGE) == {(s.metric.name, s.labels): s.value for s in collect(reading)}


def test_a_line_that_was_cut_tells_nothing():
    whole = f"{PAGE}DCGM_FI_DEV_FB_FREE{{{WHO}}} 24268"
    reading = parse(whole[:-2])

    assert m.GPU_MEMORY_FREE.name not in reading.gpus[0].values
    assert ["content"] == [one.reason for one in reading.rejected]


def test_a_page_of_something_else_is_refused():
    with pytest.raises(SourceError, match="no line of the page"):
        parse("<html>\nnode_load1 0.5\n")


def test_fields_of_later_versions_are_metrics_too():
    told = values(f"{PAGE}DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS{{{WHO}}} 2e9\n")

    assert 2 == told[m.GPU_CLOCK_EVENT_SECONDS.name, ("0", "GPU-a", "sw_power_cap")]


SECOND = WHO.replace('gpu="0"', 'gpu="1"').replace("GPU-a", "GPU-b")
BOTH = f"{PAGE}DCGM_FI_DEV_GPU_TEMP{{{SECOND}}} 50\n"


def ups(reading) -> dict[str, bool]:
    return {gpu.uuid: gpu.up for gpu in reading.gpus}


def test_a_gpu_that_left_the_page_is_not_up_for_a_while(clock):
    source = DcgmExporter("http://x", clock)
    first = source.with_lost(parse(BOTH))
    clock.sleep(1)
    second = source.with_lost(parse(PAGE))
    clock.sleep(LOST_SECONDS)
    third = source.with_lost(parse(PAGE))

    assert ({"GPU-a": True, "GPU-b": True}, 2) == (ups(first), first.present)
    assert ({"GPU-a": True, "GPU-b": False}, 1) == (ups(second), second.present)
    assert () == next(tuple(gpu.values) for gpu in second.gpus if not gpu.up)
    assert {"GPU-a": True} == ups(third)


def test_a_gpu_of_which_only_its_last_xid_is_told_is_lost(clock):
    source = DcgmExporter("http://x", clock)
    source.with_lost(parse(BOTH))
    clock.sleep(1)
    reading = source.with_lost(parse(f"{PAGE}DCGM_FI_DEV_XID_ERRORS{{{SECOND}}} 79\n"))

    assert {"GPU-a": True, "GPU-b": False} == ups(reading)
    assert 1 == reading.present


def test_a_gpu_that_was_divided_is_not_lost(clock):
    source = DcgmExporter("http://x", clock)
    source.with_lost(parse(BOTH))
    part = f'DCGM_FI_DEV_FB_USED{{{SECOND},GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"}} 1024\n'
    clock.sleep(1)
    reading = source.with_lost(parse(PAGE + part))

    assert {"GPU-a": True, "GPU-b/gi7": True} == ups(reading)
    assert 2 == reading.present


def test_a_page_of_ever_new_gpus_is_bounded(clock):
    source = DcgmExporter("http://x", clock)
    for turn in range(4):
        page = "".join(
            f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="GPU-{turn}-{number}"}} 1\n'
            for number in range(2 * MAX_GPUS)
        )
        reading = source.with_lost(parse(page))
        clock.sleep(1)

    assert [f"{MAX_GPUS} lines: more than {MAX_GPUS} GPUs"] == [
        one.message for one in reading.rejected
    ]
    assert MAX_GPUS == sum(gpu.up for gpu in reading.gpus)
    assert len(reading.gpus) <= 2 * MAX_GPUS


@settings(deadline=None)
@given(st.lists(st.text(max_size=80)), st.text(max_size=40), st.text(max_size=20))
def test_noise_never_becomes_a_value(noise, labels, number):
    lines = [*noise, f"DCGM_FI_DEV_GPU_TEMP{{{labels}}} {number}"]
    reading = parse(PAGE + "\n".join(lines))

    told = {
        (s.metric.name, s.labels): s.value for s in collect(reading) if s.labels[1:2] == ("GPU-a",)
    }
    assert told == values(PAGE)


@pytest.fixture
def exporter_page() -> Iterator[tuple[str, dict]]:
    answer = {"status": 200, "body": PAGE.encode()}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(answer["status"])
            self.end_headers()
            self.wfile.write(answer["body"])

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/metrics", answer
    server.shutdown()
    server.server_close()


def test_a_page_is_fetched(exporter_page, clock):
    source = DcgmExporter(exporter_page[0], clock)

    assert source.available()
    assert [gpu.uuid for gpu in source.read().gpus] == ["GPU-a"]


def test_a_proxy_of_the_environment_is_not_asked(exporter_page, clock, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)

    assert 1 == len(DcgmExporter(exporter_page[0], clock).read().gpus)


def test_a_failing_exporter_is_named(exporter_page, clock):
    exporter_page[1]["status"] = 500

    with pytest.raises(SourceError, match="500"):
        DcgmExporter(exporter_page[0], clock).read()


def test_an_endless_page_is_refused(exporter_page, monkeypatch, clock):
    monkeypatch.setattr(dcgm_exporter, "LIMIT", 100)

    with pytest.raises(SourceError, match="larger than 100 bytes"):
        DcgmExporter(exporter_page[0], clock).read()


def test_nobody_there_is_an_error_and_not_configured_is_none(clock):
    assert not DcgmExporter(None, clock).available()
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:1"):
        DcgmExporter("http://127.0.0.1:1/metrics", clock).read()


def test_the_page_is_configured_by_its_url():
    url = "http://127.0.0.1:9400/metrics"

    assert load(None, {"LOCKSTEP_COLLECTOR_DCGM_EXPORTER": url}, {}).dcgm_exporter == url


@pytest.mark.parametrize("url", ["127.0.0.1:9400", "file:///etc/passwd", "http://", "ftp://x/y"])
def test_what_is_no_url_is_a_configuration_error(url):
    with pytest.raises(ConfigError, match=r"it must be a URL, as http://127\.0\.0\.1:9400/metrics"):
        load(None, {"LOCKSTEP_COLLECTOR_DCGM_EXPORTER": url}, {})


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\nA: ", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_page_that_drips_is_given_up(start, clock, monkeypatch):
    monkeypatch.setattr(dcgm_exporter, "TIMEOUT_SECONDS", 0.3)
    slow = drops(start + b"page" * 9, 0.01)

    with (
        serving(lambda _: slow) as address,
        pytest.raises(SourceError, match="not whole within"),
    ):
        DcgmExporter(address, clock).read()


def test_fields_that_nobody_knows_are_named():
    page = """\
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1"} 40
DCGM_FI_DEV_ENC_UTIL{gpu="0",UUID="GPU-1"} 0
DCGM_FI_DEV_MOONLIGHT{gpu="0",UUID="GPU-1"} 1
DCGM_FI_DEV_MOONLIGHT{gpu="1",UUID="GPU-2"} 1
"""
    assert {"DCGM_FI_DEV_MOONLIGHT"} == parse(page).unknown_names


# Pages that dcgm-exporters of real machines served: each as it has to be read.


@pytest.fixture
def page():
    def read(name):
        reading = parse(wild(f"dcgm_exporter/{name}").read_text())
        return reading, {(s.metric, *s.labels[2:], s.labels[0]): s.value for s in collect(reading)}

    return read


def test_a_page_with_blanks_between_labels(page):
    reading, told = page("page-old-space-after-comma-2.0.prom")

    assert () == reading.rejected
    assert 1 == len(reading.gpus)
    assert 5057 << 20 == told[m.GPU_MEMORY_FREE, "0"]
    assert 0 == told[m.GPU_LAST_XID, "0"]
    reasons = {key[1] for key in told if key[0] is m.GPU_CLOCK_EVENT_SECONDS}
    assert {"sw_power_cap", "thermal"} <= reasons
    assert not reasons & {"board_limit", "low_util", "reliability"}, "these were blank"


def test_a_page_whose_only_limit_is_the_requested_one(page):
    reading, told = page("page-v100-sxm2-3.3.prom")

    assert () == reading.rejected
    assert 4 == len(reading.gpus)
    limits = {key[-1]: value for key, value in told.items()
              if key[:2] == (m.GPU_POWER_LIMIT, "enforced")}  # fmt: skip
    assert {300.0} == set(limits.values())


def test_a_page_with_the_words_of_an_xid(page):
    reading, told = page("page-rtx3090-xid-labels-pr326.prom")

    assert () == reading.rejected
    assert 1 == len(reading.gpus)
    assert 0 == told[m.GPU_LAST_XID, "0"]
    assert 24268 << 20 == told[m.GPU_MEMORY_FREE, "0"]


def test_no_counter_is_made_of_a_rate(page):
    reading, told = page("page-a100-nvlink-rate-zero-DCGM149.prom")

    assert () == reading.rejected
    assert 2 == len(reading.gpus)
    assert not [key for key in told if key[0] is m.GPU_NVLINK_BYTES]


def test_garbage_is_refused_as_impossible(page):
    reading, told = page("values-garbage-h100-DCGM199-exporter312-418.prom")

    assert {IMPLAUSIBLE} == {*Counter(one.reason for one in reading.rejected)}
    assert not {m.GPU_TEMPERATURE, m.GPU_UTILIZATION, m.GPU_FP64_ACTIVE} & {key[0] for key in told}
    assert {"0", "1"} == {key[-1] for key in told if key[0] is m.GPU_UP}
