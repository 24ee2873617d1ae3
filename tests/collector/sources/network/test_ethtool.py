"""Statistics of NIC drivers: the structs of the ioctl, the names, and what goes wrong."""

import errno
import os
import shutil
import struct
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.source import IMPLAUSIBLE, SourceError
from lockstep.collector.samples import network
from lockstep.collector.sources.network.ethtool import source as kernel_module
from lockstep.collector.sources.network.ethtool.names import ERRORS, meaning
from lockstep.collector.sources.network.ethtool.source import (
    MAX_STATISTICS,
    SIOCETHTOOL,
    Ethtool,
    Kernel,
)
from tests.wild import wild

PROPERTY = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)


@pytest.fixture
def source(network_node):
    def build(**drivers):
        nics = network_node.FakeNics(drivers)
        return Ethtool(lambda: [*drivers], nics.open), nics

    return build


def values_of(reading):
    return {
        (sample.metric, sample.labels): sample.value for sample in network.collect_ethernet(reading)
    }


def test_mlx5_is_in_base_units(source, network_node):
    nic, _ = source(eth0=network_node.mlx5_statistics())
    reading = nic.read()
    values = values_of(reading)

    assert () == reading.rejected
    assert 100 == values[m.NET_PAUSE, ("eth0", "3", "receive")]
    assert 200 == values[m.NET_PAUSE, ("eth0", "3", "transmit")]
    assert 2.5 == values[m.NET_PAUSE_SECONDS, ("eth0", "3", "receive")]
    assert 1.5 == values[m.NET_PAUSE_SECONDS, ("eth0", "3", "transmit")]
    assert 0.25 == values[m.NET_PCI_STALLED, ("eth0", "read")]
    assert 0 == values[m.NET_PCI_STALLED, ("eth0", "write")]
    assert 41 == values[m.NET_PHY_ERRORS, ("eth0", "outbound_pci_stalled_rd_events")]
    assert 9 == values[m.NET_PHY_ERRORS, ("eth0", "rx_err_lane_1_phy")]
    assert sum(range(8)) == values[m.NET_PHY_ERRORS, ("eth0", "rx_prio_discards")]
    assert 31 == len(values)


def test_names_of_trouble_that_nobody_knows_are_counted_once_they_are_not_zero(source):
    new = {"rx_dropped_by_moonlight": 3, "tx_lost_in_thought": 0, "rx_packets": 9}
    nic, _ = source(eth0=new, eth1=new)

    assert {"rx_dropped_by_moonlight"} == nic.read().unknown_names


def test_eight_priorities_of_which_one_pauses_are_not_thirty_two_series(source):
    bnxt = {f"{way}_pfc_ena_frames_pri{p}": 0 for way in ("rx", "tx") for p in range(8)}
    bnxt |= {f"pfc_pri{p}_{way}_duration_us": 0 for way in ("rx", "tx") for p in range(8)}
    nic, nics = source(eth0=bnxt)
    healthy = values_of(nic.read())
    nics.drivers["eth0"] = bnxt | {"rx_pfc_ena_frames_pri3": 7}
    paused = values_of(nic.read())

    assert set(healthy) == {
        (metric, ("eth0", "other", direction))
        for metric in (m.NET_PAUSE, m.NET_PAUSE_SECONDS) for direction in ("receive", "transmit")
    }  # fmt: skip
    assert {0} == {*healthy.values()}
    assert healthy | {(m.NET_PAUSE, ("eth0", "3", "receive")): 7} == paused


def test_a_priority_that_has_pfc_is_told_before_it_pauses(source):
    nic, _ = source(eth0={"rx_prio3_pause": 0, "rx_symbol_err_phy": 0, "link_down_events_phy": 0})

    assert values_of(nic.read()) == {
        (m.NET_PAUSE, ("eth0", "3", "receive")): 0,
        (m.NET_PHY_ERRORS, ("eth0", "other")): 0,
        (m.NET_PHY_ERRORS, ("eth0", "link_down_events_phy")): 0,
    }


def test_a_link_without_priorities_pauses_as_a_whole(source):
    nic, _ = source(eth0={"rx_global_pause": 5, "rx_global_pause_duration": 1_000_000})

    assert values_of(nic.read()) == {
        (m.NET_PAUSE, ("eth0", "global", "receive")): 5,
        (m.NET_PAUSE_SECONDS, ("eth0", "global", "receive")): 1.0,
    }


@pytest.mark.parametrize(
    ("name", "metric", "labels", "value"),
    [
        ("rx_pfc_ena_frames_pri3", m.NET_PAUSE, ("3", "receive"), 8),
        ("tx_pause_frames", m.NET_PAUSE, ("global", "transmit"), 8),
        ("pfc_pri5_tx_duration_us", m.NET_PAUSE_SECONDS, ("5", "transmit"), 8e-6),
        ("rx_fcs_err_frames", m.NET_PHY_ERRORS, ("rx_fcs_err_frames",), 8),
        ("rx_priority_3_xoff.nic", m.NET_PAUSE, ("3", "receive"), 8),
        ("link_xoff_tx.nic", m.NET_PAUSE, ("global", "transmit"), 8),
        ("mac_local_faults.nic", m.NET_PHY_ERRORS, ("mac_local_faults.nic",), 8),
        ("port.rx_priority_3_xoff", m.NET_PAUSE, ("3", "receive"), 8),
        ("port.link_xoff_tx", m.NET_PAUSE, ("global", "transmit"), 8),
        ("hc_tc5_rx_pause_phy", m.NET_PAUSE, ("5", "receive"), 8),
        ("port.rx_dropped", m.NET_PHY_ERRORS, ("port.rx_dropped",), 8),
        ("rx_pfc_frames", m.NET_PAUSE, ("any", "receive"), 8),
        ("rx_discard_packets_cos3", m.NET_PHY_ERRORS, ("rx_discard_packets_cos",), 8),
        ("[0]: rx_discards", m.NET_PHY_ERRORS, ("rx_total_ring_discards",), 8),
        ("[12]: tx_errors", m.NET_PHY_ERRORS, ("tx_ring_errors",), 8),
        ("ena_admin_q_no_completion", m.NET_PHY_ERRORS, ("ena_admin_q_no_completion",), 8),
        ("ena_admin_q_out_of_space", m.NET_PHY_ERRORS, ("ena_admin_q_out_of_space",), 8),
        ("bw_in_allowance_exceeded", m.NET_PHY_ERRORS, ("bw_in_allowance_exceeded",), 8),
    ],
)
def test_other_drivers_say_the_same_by_other_names(source, name, metric, labels, value):
    nic, _ = source(eth0={"queue_0_tx_cnt": 1, name: 8})

    assert values_of(nic.read()) == {(metric, ("eth0", *labels)): value}


def test_rings_and_classes_are_added_unless_the_driver_tells_the_sum(source):
    rings = {"[0]: rx_discards": 3, "[1]: rx_discards": 4, "rx_discard_packets_cos0": 1}
    nic, nics = source(eth0=rings | {"rx_discard_packets_cos7": 2})
    added = values_of(nic.read())
    nics.drivers["eth0"] = rings | {"rx_total_ring_discards": 9}

    assert 7 == added[m.NET_PHY_ERRORS, ("eth0", "rx_total_ring_discards")]
    assert 3 == added[m.NET_PHY_ERRORS, ("eth0", "rx_discard_packets_cos")]
    assert 9 == values_of(nic.read())[m.NET_PHY_ERRORS, ("eth0", "rx_total_ring_discards")]


def test_pauses_of_any_priority_are_not_counted_beside_those_of_each(source):
    nic, _ = source(eth0={"rx_pfc_frames": 5, "rx_pfc_ena_frames_pri3": 5, "tx_pfc_frames": 2})

    assert values_of(nic.read()) == {
        (m.NET_PAUSE, ("eth0", "3", "receive")): 5,
        (m.NET_PAUSE, ("eth0", "any", "transmit")): 2,
    }


def test_all_bits_set_is_no_count(source):
    nothing = (1 << 64) - 1
    nic, _ = source(eth0={
        "rx_crc_errors_phy": nothing, "rx_discards_phy": nothing - 1,
        "[0]: rx_discards": 3, "[1]: rx_discards": nothing, "not_ours": nothing,
    })  # fmt: skip
    reading = nic.read()

    assert values_of(reading) == {(m.NET_PHY_ERRORS, ("eth0", "rx_discards_phy")): nothing - 1}
    assert [(IMPLAUSIBLE, "ethtool on eth0: 2 statistics of 2^64-1, which is no count")] == [
        (one.reason, one.message) for one in reading.rejected
    ]


@pytest.mark.parametrize("name", ["rx_prio8_pause", "rx_prio3_pause_x", "rx3_packets", ""])
def test_names_that_are_not_ours_mean_nothing(name):
    assert None is meaning(name)


def test_pfc_that_moves_to_another_priority_is_not_told_under_the_old_one(source, network_node):
    nic, nics = source(eth0=network_node.mlx5_statistics(priority=3))
    before = {labels[1] for metric, labels in values_of(nic.read()) if metric is m.NET_PAUSE}
    nics.drivers["eth0"] = network_node.mlx5_statistics(priority=4)
    after = {labels[1] for metric, labels in values_of(nic.read()) if metric is m.NET_PAUSE}

    assert ({"3"}, {"4"}) == (before, after)


def test_queues_that_come_between_two_requests_are_waited_for(source, network_node):
    _, nics = source(eth0=network_node.mlx5_statistics(queues=8))
    ask = type(nics).__call__

    class Growing(type(nics)):
        def __call__(self, device, request, size):
            if len(self.asked) == 1:  # after the count, before the names
                self.drivers["eth0"] = network_node.mlx5_statistics(queues=16)
            return ask(self, device, request, size)

    growing = Growing(nics.drivers)
    reading = Ethtool(lambda: ["eth0"], growing.open).read()

    assert () == reading.rejected
    assert 31 == len(values_of(reading))
    assert [0x37, 0x1B, 0x1D] * 2 == growing.asked


def test_statistics_that_never_stand_still_are_counted(source, network_node):
    _, nics = source(eth0={"rx_out_of_buffer": 1})
    ask = type(nics).__call__

    class Restless(type(nics)):
        def __call__(self, device, request, size):
            self.drivers["eth0"][f"n{len(self.asked)}"] = 0
            return ask(self, device, request, size)

    reading = Ethtool(lambda: ["eth0"], Restless(nics.drivers).open).read()

    assert ((), ["changing"]) == (reading.devices, [one.reason for one in reading.rejected])


@pytest.mark.parametrize("reason", ["missing", "permission", "busy"])
def test_a_device_that_refuses_is_counted_and_the_others_stand(source, network_node, reason):
    nic, _ = source(eth0=SourceError(reason, "no"), eth1=network_node.mlx5_statistics())
    for _ in range(2):
        reading = nic.read()

        assert [reason] == [one.reason for one in reading.rejected]
        assert ["eth1"] == [one.device for one in reading.devices]


def test_a_driver_that_fails_is_left_alone_for_minutes(network_node, clock):
    """Each attempt would write a line into the kernel's log."""
    nics = network_node.FakeNics({"eth0": SourceError("io", "Invalid argument"), "eth1": {"a": 1}})
    source = Ethtool(lambda: ["eth0", "eth1"], nics.open, clock.monotonic)
    failures = []
    for _ in range(120):
        failures += source.read().rejected
        clock.sleep(30)

    assert 3 <= len(failures) <= 5, "after 4, 8, 16 and 32 minutes of an hour"
    nics.drivers["eth0"] = {"rx_total_ring_discards": 655_430_134}
    clock.sleep(3600)
    values = values_of(source.read())
    assert 655_430_134 == values[m.NET_PHY_ERRORS, ("eth0", "rx_total_ring_discards")]


@pytest.mark.parametrize("driver", ERRORS)
def test_every_name_of_a_driver_is_told_under_it(source, driver):
    nic, _ = source(eth0=dict.fromkeys(ERRORS[driver], 7))

    assert values_of(nic.read()) == {
        (m.NET_PHY_ERRORS, ("eth0", name)): 7 for name in ERRORS[driver]
    }


@pytest.mark.parametrize(
    ("statistics", "kind", "count"),
    [
        ({"queue_0_rx_bad_desc_num": 2, "queue_1_rx_bad_desc_num": 3}, "queue_rx_bad_desc_num", 5),
        ({"rx_queue_0_drops": 2, "rx_queue_11_drops": 3}, "rx_drops", 5),
        ({"rx_drops": 5, "rx0_drops": 2, "rx1_drops": 3}, "rx_drops", 5),
        ({"tx0_tx_timeouts": 1, "tx_tx_timeouts": 1}, "tx_tx_timeouts", 1),
        ({"rx_prio0_discards": 1, "rx_prio7_discards": 2}, "rx_prio_discards", 3),
    ],
)
def test_queues_are_added_unless_the_driver_did(source, statistics, kind, count):
    nic, _ = source(eth0=statistics)

    assert {(m.NET_PHY_ERRORS, ("eth0", kind)): count} == values_of(nic.read())


@pytest.mark.parametrize("driver", [SourceError("unsupported", "no"), {}])
def test_a_driver_without_statistics_is_said_once(source, network_node, driver):
    nic, _ = source(eth0=driver, eth1={"rx_out_of_buffer": 1})
    readings = [nic.read() for _ in range(3)]

    assert [1, 0, 0] == [len(one.rejected) for one in readings]
    assert "unsupported" == readings[0].rejected[0].reason
    assert all(["eth1"] == [each.device for each in one.devices] for one in readings)


def test_a_device_that_returns_with_statistics_is_asked_again(network_node):
    nics = network_node.FakeNics({"eth0": {}})
    there = ["eth0"]
    nic = Ethtool(lambda: there, nics.open)
    nic.read()
    there.clear()
    nic.read()
    there.append("eth0")
    nics.drivers["eth0"] = {"rx_out_of_buffer": 4}

    assert {(m.NET_PHY_ERRORS, ("eth0", "rx_out_of_buffer")): 4} == values_of(nic.read())


def test_names_that_are_not_ascii_are_counted_and_the_rest_stands(source):
    nic, _ = source(eth0={b"rx_\xff\xfe": 1, "rx_out_of_buffer": 2})
    for _ in range(2):
        reading = nic.read()

        assert ["content"] == [one.reason for one in reading.rejected]
        assert [2] == [*values_of(reading).values()]


def test_a_name_told_twice_counts_once(source):
    nic, _ = source(eth0={"rx_out_of_buffer": 2, b"rx_out_of_buffer\0x": 3})

    assert [2] == [*values_of(nic.read()).values()]


def test_more_statistics_than_any_driver_has_are_not_read(source):
    nic, nics = source(eth0={f"n{number}": 0 for number in range(MAX_STATISTICS + 1)})
    reading = nic.read()

    assert ["too_many"] == [one.reason for one in reading.rejected]
    assert [0x37] == nics.asked


def test_a_stall_of_more_than_all_time_is_no_number(source):
    nic, _ = source(eth0={"outbound_pci_stalled_rd": 101, "outbound_pci_stalled_wr": 100})
    reading = nic.read()

    assert {(m.NET_PCI_STALLED, ("eth0", "write")): 1.0} == values_of(reading)
    assert ["content"] == [one.reason for one in reading.rejected]


def test_no_devices_is_no_error(source):
    nic, _ = source()

    assert not nic.available()
    assert "loopback" in nic.why_not()
    assert ((), ()) == (nic.read().devices, nic.read().rejected)


@PROPERTY
@given(
    names=st.lists(
        st.binary(min_size=1, max_size=40) | st.sampled_from([b"rx_prio3_pause", b"tx_timeout"]),
        max_size=20, unique_by=lambda name: name[:32].split(b"\0")[0],
    ),
    number=st.integers(0, (1 << 64) - 1),
)  # fmt: skip
def test_any_names_and_numbers_are_right_or_absent(network_node, names, number):
    nics = network_node.FakeNics({"eth0": dict.fromkeys(names, number)})
    reading = Ethtool(lambda: ["eth0"], nics.open).read()

    assert set(values_of(reading).values()) <= {number, number / 1e6, number / 100}


@PROPERTY
@given(answers=st.lists(st.binary(max_size=64), min_size=3, max_size=6))
def test_a_driver_that_answers_noise_gives_no_number(answers):
    left = list(answers)

    class Noise:
        def close(self):
            pass

        def __call__(self, device, request, size):
            return (left.pop(0) if left else b"")[:size].ljust(size, b"\0")

    reading = Ethtool(lambda: ["eth0"], Noise).read()
    assert reading.devices or reading.rejected


@pytest.mark.parametrize(
    ("code", "reason"),
    [(errno.ENODEV, "missing"), (errno.EPERM, "permission"), (errno.EOPNOTSUPP, "unsupported"),
     (errno.EBUSY, "busy"), (errno.EIO, "io")],
)  # fmt: skip
def test_an_error_of_the_ioctl_has_a_word(monkeypatch, code, reason):
    def refuse(_socket, request, _argument):
        assert SIOCETHTOOL == request
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(kernel_module.fcntl, "ioctl", refuse)
    channel = Kernel()
    with pytest.raises(SourceError, match="ethtool on eth0") as told:
        channel("eth0", bytes(20), 20)
    channel.close()

    assert reason == told.value.reason


def test_the_kernel_knows_no_device_of_that_name():
    channel = Kernel()
    for device, reason in (("nothere0", "missing"), ("n" * 16, "content"), ("", "content")):
        with pytest.raises(SourceError) as told:
            channel(device, struct.pack("=IIQI", 0x37, 0, 2, 0), 20)

        assert reason == told.value.reason
    channel.close()


IN_A_NAMESPACE = """
import subprocess, sys, time
from pathlib import Path
from lockstep.collector.clock import SystemClock
from lockstep.collector.sources.network.ethtool.source import Ethtool, _count, _table
from lockstep.collector.sources.network.ethtool.source import GSTRINGS, GSTATS, STATISTICS
from lockstep.collector.sources.network.ethtool.source import STATS_HEAD, STRINGS_HEAD
from lockstep.collector.sources.network.ethtool.source import Kernel
from lockstep.collector.sources.network.netdev.source import Netdev
from lockstep.collector.sources.network.netdev.devices import Devices

run = lambda *words: subprocess.run(words, check=True, capture_output=True)
run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0")
run("ip", "link", "set", "a0", "mtu", "1400", "up")
run("ip", "link", "set", "b0", "up")
devices = Devices(Path("/proc"), Path("/sys"))
for _ in range(600):  # the kernel tells of a carrier when it comes to it
    reading = Netdev(devices, SystemClock(), 30).read()
    links = {traffic.device: link for traffic, link in reading.devices}
    if "a0" in links and links["a0"].up and links["a0"].speed:
        break
    time.sleep(0.1)
assert {"a0", "b0"} == links.keys(), links
assert () == reading.rejected, reading.rejected
assert links["a0"].up and 1400 == links["a0"].mtu, links
assert 10e9 / 8 == links["a0"].speed, links
kernel = Kernel()
count = _count(kernel, "a0")
raw = _table(kernel, "a0", STRINGS_HEAD.pack(GSTRINGS, STATISTICS, count), count, 32)
names = [raw[at:at + 32].split(b"\\0")[0].decode() for at in range(0, len(raw), 32)]
values = _table(kernel, "a0", STATS_HEAD.pack(GSTATS, count), count, 8)
peer = int.from_bytes(values[:8], sys.byteorder)
assert "peer_ifindex" == names[0] and count == len(names), names
assert Path("/sys/class/net/b0/ifindex").read_text() == f"{peer}\\n", peer
run("ip", "link", "del", "a0")
gone = Ethtool(lambda: ["a0", "b0"]).read()
assert ["missing", "missing"] == [one.reason for one in gone.rejected], gone
print("read", count)
"""


@pytest.mark.root
def test_the_ioctl_reads_a_real_pair_of_devices():
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("ip")):
        pytest.skip("needs root, unshare and ip")
    # The mount is of the new namespace: /sys/class/net is that of whoever mounts it.
    script = 'mount -t sysfs none /sys && exec "$0" -c "$1"'
    done = subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-c", script, sys.executable, IN_A_NAMESPACE],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    if "ermitted" in done.stderr and "Traceback" not in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr.strip()}")

    assert (0, "read") == (done.returncode, done.stdout.split(" ")[0]), done.stderr


# `ethtool -S` of real machines: what is known by its driver's name.


def statistics(name):
    """As the driver told them: names and values."""
    rows = (line.rpartition(":") for line in wild(f"ethtool/{name}.txt").read_text().splitlines())
    return {key.strip(): int(value) for key, _, value in rows if value.strip().isdigit()}


@pytest.mark.parametrize(
    ("name", "least"),
    [("ethq-mlx5_core", 20), ("ethq-ena", 2), ("ethq-ice", 26), ("ethq-iavf", 2),
     ("ethq-virtio_net", 0), ("node-exporter-eth0", 1)],
)  # fmt: skip
def test_so_many_are_understood(network_node, name, least):
    told = statistics(name)
    nics = network_node.FakeNics({"eth0": told})
    reading = Ethtool(lambda: ["eth0"], nics.open).read()

    assert least <= sum(meaning(each) is not None for each in told)
    assert () == reading.rejected
    assert bool(least) == bool([*network.collect_ethernet(reading)])


def test_drops_of_a_port_are_told(network_node):
    nics = network_node.FakeNics({"eth0": statistics("node-exporter-eth0")})
    reading = Ethtool(lambda: ["eth0"], nics.open).read()

    assert [m.NET_PHY_ERRORS(12028, "eth0", "port.rx_dropped")] == [
        *network.collect_ethernet(reading)
    ]
