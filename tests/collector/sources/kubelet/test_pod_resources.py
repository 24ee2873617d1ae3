"""The kubelet's pod-resources socket: a gRPC server of our own that says what a kubelet would."""

import os
import socket
import subprocess
import sys
import threading
import time
from concurrent import futures
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.source import SourceError
from lockstep.collector.registry import feeds
from lockstep.collector.sampler.sampler import Sampler
from lockstep.collector.samples.kubelet import collect_devices
from lockstep.collector.sources.kubelet.pod_resources import (
    KEPT_SECONDS,
    MAX_DEVICES,
    PERIOD_SECONDS,
    PodResources,
    pod_devices,
)
from tests.machine import slowness

GPU = "GPU-00000000-0000-0000-0000-00000000000{}"
RECORDED = bytes.fromhex(
    "0aae010a056770742d301205747261696e1a9d010a046d61696e126a0a0e6e76696469612e636f6d2f677075122847"
    "50552d30303030303030302d303030302d303030302d303030302d3030303030303030303030301228475055"
    "2d31313131313131312d313131312d313131312d313131312d3131313131313131313131311a040a02080112"
    "120a0872646d612f68636112066d6c78355f301a05000102ac02220e0a066d656d6f72791080808080200a6e"
    "0a056472612d301205747261696e1a5e0a046d61696e2a561204677075731a05747261696e22470a260a246b"
    "38732e6770752e6e76696469612e636f6d2f6465766963653d613162322d6770752d32120e6770752e6e7669"
    "6469612e636f6d1a066770752d303722056770752d320a170a03776562120764656661756c741a070a056e67"
    "696e78"
)
"""Made by protobuf 7.36 from the kubelet's api.proto: a pod with two GPUs, a network card, pinned
processors and memory; a pod with a DRA claim; a pod with nothing."""


def field(number: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2]) + varint(len(raw)) + raw


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def pod(name: str, *devices: str, resource: str = "nvidia.com/gpu", claims: bytes = b"") -> bytes:
    given = field(1, resource) + b"".join(field(2, device) for device in devices)
    container = field(1, "main") + (field(2, given) if devices else b"") + claims
    return field(1, field(1, name) + field(2, "train") + field(3, container))


class FakeKubelet:
    """Answers List with `answer` and counts the questions; a cleared `gate` holds them back."""

    def __init__(self, path: Path) -> None:
        self.path, self.answer, self.asked = path, b"", 0
        self.gate = threading.Event()
        self.gate.set()
        self._server: grpc.Server | None = None

    def start(self) -> None:
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        handler = grpc.unary_unary_rpc_method_handler(self._list)
        self._server.add_generic_rpc_handlers((
            grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler}),
        ))  # fmt: skip
        self._server.add_insecure_port(f"unix:{self.path}")
        self._server.start()

    def stop(self) -> None:
        self.gate.set()
        if self._server is not None:
            self._server.stop(None).wait(5)
        self.path.unlink(missing_ok=True)

    def _list(self, _request: bytes, _context: grpc.ServicerContext) -> bytes:
        self.asked += 1
        self.gate.wait(10)
        return self.answer


@pytest.fixture
def kubelet(tmp_path):
    fake = FakeKubelet(tmp_path / "kubelet.sock")
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def source(kubelet, clock):
    made = PodResources(kubelet.path, clock)
    yield made
    made.close()


def reason(source: PodResources) -> str:
    with pytest.raises(SourceError) as caught:
        source.read()
    assert "\n" not in str(caught.value)
    return caught.value.reason


def test_what_protobuf_wrote_is_read_and_what_is_not_of_nvidia_is_left_out():
    devices = pod_devices(RECORDED)

    assert [
        ("gpt-0", "nvidia.com/gpu", GPU.format(0), ""),
        ("gpt-0", "nvidia.com/gpu", "GPU-11111111-1111-1111-1111-111111111111", ""),
        ("dra-0", "gpu.nvidia.com", "gpu-2 k8s.gpu.nvidia.com/device=a1b2-gpu-2", "train/gpus"),
    ] == [(one.pod, one.resource, one.device, one.claim) for one in devices]
    assert {("train", "main")} == {(one.namespace, one.container) for one in devices}


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_noise_in_place_of_an_answer_is_an_error_or_names_nothing_of_nvidia(noise):
    try:
        devices = pod_devices(noise)
    except SourceError:
        return

    assert all("nvidia.com" in one.resource + one.device for one in devices)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_torn_answer_never_gives_a_device_to_another_pod(data):
    whole = {(one.pod, one.device) for one in pod_devices(RECORDED)}
    torn = RECORDED[: data.draw(st.integers(0, len(RECORDED) - 1))]
    try:
        devices = pod_devices(torn)
    except SourceError:
        return

    assert whole >= {(one.pod, one.device) for one in devices}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"\x0a\x7f", "truncated"),
        (b"\x0a" + b"\xff" * 11, "truncated"),
        (b"\x0b", "content"),
        (b"\x02\x00", "content"),
        (pod("a\nb", GPU.format(0)), "content"),
        (pod("x" * 600, GPU.format(0)), "content"),
        (pod("a", *["GPU-1"] * (MAX_DEVICES + 1)), "too_many"),
    ],
)
def test_nonsense_is_one_sentence(answer, why):
    with pytest.raises(SourceError) as caught:
        pod_devices(answer)

    assert why == caught.value.reason


def test_numbers_and_unknown_fields_are_stepped_over():
    unknown = b"\x78\x96\x01" + b"\x7d\0\0\0\0" + b"\x79" + bytes(8) + field(15, "more")

    assert pod_devices(pod("a", "GPU-1")) == pod_devices(unknown + pod("a", "GPU-1") + unknown)


def test_it_asks_over_one_channel_and_seldom(kubelet, source, clock):
    kubelet.answer = pod("gpt-0", GPU.format(0))
    for _ in range(10):
        reading = source.read()
        clock.sleep(PERIOD_SECONDS / 4)

    assert 3 == kubelet.asked
    assert ["gpt-0"] == [one.pod for one in reading.devices]


def test_devices_are_counted_by_resource(kubelet, source):
    kubelet.answer = pod("a", "GPU-1", "GPU-2") + pod(
        "b", "MIG-1", resource="nvidia.com/mig-1g.10gb"
    )

    counts = {sample.labels: sample.value for sample in collect_devices(source.read())}

    assert {("nvidia.com/gpu",): 2, ("nvidia.com/mig-1g.10gb",): 1} == counts


def test_pods_stay_while_the_kubelet_is_down_but_not_for_ever(kubelet, source, clock):
    kubelet.answer = pod("gpt-0", GPU.format(0))
    source.read()
    kubelet.stop()
    clock.sleep(60)

    assert "missing" == reason(source)
    assert source.available()
    assert (60, ["gpt-0"]) == (source.held().age, [one.pod for one in source.held().devices])
    clock.sleep(KEPT_SECONDS)
    assert () == source.held().devices
    assert not source.available()


def test_a_pod_that_is_gone_from_the_answer_is_gone(kubelet, source, clock):
    kubelet.answer = pod("gpt-0", GPU.format(0))
    source.read()
    kubelet.answer = pod("gpt-1", GPU.format(0))
    clock.sleep(PERIOD_SECONDS)
    source.read()

    assert ["gpt-1"] == [one.pod for one in source.held().devices]


def test_a_restarted_kubelet_is_found_again(kubelet, source, clock):
    kubelet.answer = pod("gpt-0", GPU.format(0))
    source.read()
    kubelet.stop()
    clock.sleep(PERIOD_SECONDS)
    assert "missing" == reason(source)
    kubelet.start()

    deadline = time.monotonic() + 60
    while source.held().age != 0 and time.monotonic() < deadline:
        clock.sleep(PERIOD_SECONDS)
        with suppress(SourceError):  # gRPC looks again every half second
            source.read()
        time.sleep(0.02)

    assert 0 == source.held().age


def test_a_kubelet_that_answers_nonsense_keeps_the_answer_before(kubelet, source, clock):
    kubelet.answer = pod("gpt-0", GPU.format(0))
    source.read()
    kubelet.answer = b"\x0a\x7fnonsense"
    clock.sleep(PERIOD_SECONDS)

    assert "truncated" == reason(source)
    assert ["gpt-0"] == [one.pod for one in source.held().devices]


@pytest.mark.timed
def test_a_kubelet_that_hangs_costs_its_deadline(kubelet, source):
    kubelet.gate.clear()
    with slowness() as pace:
        began = time.monotonic()
        told = reason(source)
        took = time.monotonic() - began

    assert "timeout" == told
    assert took < 1.9 * pace.factor  # the sampler calls a reading of 2 s stalled


def test_a_server_that_is_no_kubelet_is_refused(tmp_path, clock):
    path = tmp_path / "kubelet.sock"
    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_insecure_port(f"unix:{path}")
    server.start()
    source = PodResources(path, clock)
    try:
        assert "refused" == reason(source)
    finally:
        source.close()
        server.stop(None).wait(5)


def _folder(path: Path) -> None:
    path.mkdir()


def _file(path: Path) -> None:
    path.write_text("not a socket")


def _link(path: Path) -> None:
    path.symlink_to("/dev/null")


def _nobody_listens(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_folder, "not_socket"),
        (_file, "not_socket"),
        (_link, "not_socket"),
        (_nobody_listens, "unreachable"),
    ],
)
def test_what_is_no_kubelet_socket_is_one_counted_line(tmp_path, clock, make, why):
    path = tmp_path / "kubelet.sock"
    make(path)
    source = PodResources(path, clock)
    try:
        assert source.available()
        assert why == reason(source)
    finally:
        source.close()


def test_a_socket_that_is_not_for_us_is_named(kubelet, clock, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may do everything

    assert "permission" == reason(PodResources(kubelet.path, clock))


def test_a_node_without_a_kubelet_has_no_source_and_says_why(tmp_path, clock):
    source = PodResources(tmp_path / "nowhere.sock", clock)

    assert not source.available()
    assert "no kubelet socket at" in source.why_not()


def test_a_node_without_a_kubelet_does_not_pay_for_grpc(tmp_path):
    script = (
        "import sys\n"
        "from lockstep.collector.__main__ import main\n"
        f"main(['--once', '--lockstep-dir', {str(tmp_path)!r}, '--sources', 'pod_resources'])\n"
        "assert 'grpc' not in sys.modules\n"
    )
    environment = os.environ | {"LOCKSTEP_PATHS_POD_RESOURCES": str(tmp_path / "nowhere.sock")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=240
    )

    assert (0, "") == (done.returncode, done.stderr)


def test_without_grpcio_a_kubelet_is_one_sentence(kubelet, source, monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)

    assert "missing" == reason(source)


def wait_for(condition, seconds: float = 60.0):
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


@pytest.mark.timed
def test_the_page_follows_the_kubelet_and_the_source_says_when_it_is_down(
    kubelet, machine, image, tmp_path
):
    machine.process(100)
    machine.ring(image(uuid=GPU.format(0)))
    kubelet.answer = pod("gpt-0", GPU.format(0))
    config = machine.config(
        pod_resources=kubelet.path, fast_period=0.1, sources=("pod_resources", "allocation")
    )
    sampler = Sampler(feeds(config, SystemClock()), SystemClock(), config.ttl)

    def shown(metric: m.Metric) -> dict[tuple[str, ...], float]:
        samples = [one for part in sampler.snapshot() for one in part]
        return {one.labels: one.value for one in samples if one.metric is metric}

    def pods() -> set[tuple[str, str]]:
        labels = m.GPU_ALLOCATION_INFO.labels
        rows = [dict(zip(labels, one, strict=True)) for one in shown(m.GPU_ALLOCATION_INFO)]
        return {(row["pod"], row["rank"]) for row in rows}

    sampler.start()
    try:
        assert wait_for(lambda: pods() == {("gpt-0", "0")})
        kubelet.answer = pod("gpt-1", GPU.format(0))
        changed = kubelet.asked
        assert wait_for(lambda: kubelet.asked > changed)
        with slowness() as pace:
            answered = time.monotonic()
            assert wait_for(lambda: pods() == {("gpt-1", "0")})
            assert time.monotonic() - answered < 1.0 * pace.factor
        kubelet.stop()
        assert wait_for(lambda: shown(m.SOURCE_UP)["pod_resources",] == 0)
        assert {("gpt-1", "0")} == pods()
        assert shown(m.GPU_ALLOCATION_AGE)[()] > 0
    finally:
        sampler.stop()
