"""Network devices: which are shown, and what their links tell."""

import errno
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.source import SourceError
from lockstep.collector.registry import feeds
from lockstep.collector.samples import network
from lockstep.collector.sources.network.netdev.devices import MAX_DEVICES, Devices, traffic_of
from lockstep.collector.sources.network.netdev.source import Netdev

PROPERTY = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None
)
SLOW = 30.0


@pytest.fixture
def netdev(machine, network_node):
    network_node.interface(machine, "eth0")
    network_node.traffic(machine, "eth0")
    return Netdev(Devices(machine.proc, machine.sys), machine.clock, SLOW)


def shown(machine, **settings):
    return Devices(machine.proc, machine.sys, **settings).names()


def values_of(reading):
    return {
        (sample.metric, sample.labels): sample.value for sample in network.collect_devices(reading)
    }


def test_traffic_and_link_of_a_device(netdev):
    reading = netdev.read()

    assert () == reading.rejected
    assert values_of(reading) == {
        (m.NET_UP, ("eth0",)): 1,
        (m.NET_CARRIER_CHANGES, ("eth0",)): 2,
        (m.NET_SPEED, ("eth0",)): 50e9,
        (m.NET_MTU, ("eth0",)): 9000,
        (m.NET_BYTES, ("eth0", "receive")): 1000,
        (m.NET_BYTES, ("eth0", "transmit")): 2000,
        (m.NET_PACKETS, ("eth0", "receive")): 10,
        (m.NET_PACKETS, ("eth0", "transmit")): 20,
        (m.NET_ERRORS, ("eth0", "receive")): 1,
        (m.NET_ERRORS, ("eth0", "transmit")): 3,
        (m.NET_DROPS, ("eth0", "receive")): 2,
        (m.NET_DROPS, ("eth0", "transmit")): 4,
    }


def test_a_node_shows_its_hardware_and_counts_no_packet_twice(machine, network_node):
    netdevs = network_node.node_8x400g(machine)

    assert [*netdevs, "eno1"] == shown(machine)


def test_virtual_devices_are_shown_when_asked_for(machine, network_node):
    network_node.node_8x400g(machine)

    assert {"docker0", "bond0", "vlan100", "veth1234"} < {*shown(machine, virtual=True)}
    assert "lo" not in shown(machine, virtual=True)


@pytest.mark.parametrize("virtual", [False, True])
def test_the_setting_reaches_both_sources(machine, network_node, virtual):
    network_node.node_8x400g(machine)
    config = machine.config(virtual_devices=virtual, sources=("netdev", "ethtool"))
    netdev, ethtool = (feed.source for feed in feeds(config, machine.clock))
    names = [traffic.device for traffic, _ in netdev.read().devices]

    assert virtual == ("veth1234" in names)
    assert names == ethtool._devices()


def test_a_container_shows_the_only_device_it_has(machine, network_node):
    network_node.interface(machine, "eth0", physical=False)
    network_node.traffic(machine, "eth0")

    assert ["eth0"] == shown(machine)


def test_hardware_under_the_virtual_bus_is_virtual(machine, network_node):
    network_node.traffic(machine, "eth0", "hwsim0")
    network_node.interface(machine, "eth0")
    network_node.interface(machine, "hwsim0")
    folder = machine.sys / "class/net/hwsim0"
    target = machine.sys / "devices/virtual/net/hwsim0"
    shutil.move(folder, target)
    folder.symlink_to(target)

    assert ["eth0"] == shown(machine)


def test_too_many_devices_are_said_and_hardware_comes_first(machine, network_node):
    names = [f"veth{number}" for number in range(100)]
    for name in names:
        network_node.interface(machine, name, physical=False)
    network_node.interface(machine, "eth0")
    network_node.traffic(machine, *names, "eth0")
    reading = Devices(machine.proc, machine.sys, virtual=True).read()

    assert MAX_DEVICES == len(reading.traffic)
    assert "eth0" == reading.traffic[0].device
    assert ["too_many"] == [one.reason for one in reading.rejected]


def test_a_sysfs_of_another_namespace_tells_nothing_of_this_one(netdev, machine, network_node):
    network_node.interface(machine, "eth7")
    reading = netdev.read()

    assert {m.NET_BYTES, m.NET_PACKETS, m.NET_ERRORS, m.NET_DROPS} == {
        metric for metric, _ in values_of(reading)
    }
    (rejected,) = reading.rejected
    assert "namespace" == rejected.reason
    assert "--sys" in rejected.message
    assert () == netdev.read().rejected  # it stays so, and was said


def test_in_a_pod_the_nodes_own_sysfs_tells_of_the_nodes_devices(machine, network_node):
    network_node.interface(machine, "eth7")
    network_node.statistics(machine, "eth7", 70)
    network_node.interface(machine, "cali1", physical=False)  # has no counters: goes just now
    network_node.traffic(machine, "eth0")  # the pod's
    (machine.sys / "class/net/lo").mkdir(exist_ok=True)
    devices = Devices(machine.proc, machine.sys, nodes_sysfs=True)
    reading = Netdev(devices, machine.clock, SLOW).read()

    assert () == reading.rejected
    assert ["eth7"] == [one.device for one, _ in reading.devices]
    assert {70} == {
        value for (metric, _), value in values_of(reading).items() if metric == m.NET_BYTES
    }
    assert 50e9 == values_of(reading)[m.NET_SPEED, ("eth7",)]
    # Asked by its name here, the kernel would answer for a device of the pod.
    assert devices.elsewhere()
    assert [] == devices.names()


def test_a_sysfs_that_was_given_and_is_of_this_network_changes_nothing(netdev, machine):
    devices = Devices(machine.proc, machine.sys, nodes_sysfs=True)

    assert netdev.read() == Netdev(devices, machine.clock, SLOW).read()
    assert not devices.elsewhere()
    assert ["eth0"] == devices.names()


@pytest.mark.parametrize("text", ["", "-1\n", "many\n", "1" * 40 + "\n"])
def test_a_malformed_counter_of_the_node_leaves_that_device_out(machine, network_node, text):
    for name in ("eth7", "eth8"):
        network_node.interface(machine, name)
        network_node.statistics(machine, name, 70)
    network_node.traffic(machine, "eth0")
    machine.file(machine.sys / "class/net/eth7/statistics/tx_bytes", text)
    reading = Devices(machine.proc, machine.sys, nodes_sysfs=True).read()

    assert ["eth8"] == [one.device for one in reading.traffic]
    assert ["content"] == [one.reason for one in reading.rejected]


def test_devices_that_come_and_go_while_they_are_read_change_nothing_for_the_hardware(
    netdev, machine, network_node
):
    netdev.read()
    network_node.interface(machine, "veth1", physical=False)  # the table does not have it yet
    before = netdev.read()
    network_node.traffic(machine, "eth0", "veth2")  # sysfs does not have it any more
    after = netdev.read()

    assert [["eth0"]] * 2 == [[one.device for one, _ in each.devices] for each in (before, after)]
    assert {m.NET_UP, m.NET_SPEED} <= {metric for metric, _ in values_of(after)}
    assert () == before.rejected + after.rejected


def test_a_machine_without_sysfs_has_its_traffic(netdev, machine):
    shutil.rmtree(machine.sys / "class/net")
    reading = netdev.read()

    assert 1000 == values_of(reading)[m.NET_BYTES, ("eth0", "receive")]
    assert ["missing"] == [one.reason for one in reading.rejected]


@pytest.mark.parametrize(
    ("operstate", "up"),
    [("up", 1), ("down", 0), ("lowerlayerdown", 0), ("dormant", 0), ("unknown", None)],
)
def test_a_link_is_up_down_or_not_told(netdev, machine, operstate, up):
    (machine.sys / "class/net/eth0/operstate").write_text(f"{operstate}\n")
    reading = netdev.read()
    values = values_of(reading)

    assert up == values.get((m.NET_UP, ("eth0",)))
    assert (up == 1) == ((m.NET_SPEED, ("eth0",)) in values)
    assert () == reading.rejected


@pytest.mark.parametrize("text", ["-1\n", "4294967295\n"])
def test_an_unknown_speed_is_absent(netdev, machine, text):
    (machine.sys / "class/net/eth0/speed").write_text(text)
    reading = netdev.read()

    assert (None, ()) == (reading.devices[0][1].speed, reading.rejected)


def test_a_driver_that_refuses_to_tell_its_speed_is_no_error(netdev, monkeypatch):
    refused = SourceError("io", "speed: Invalid argument")
    refused.__cause__ = OSError(errno.EINVAL, "Invalid argument")
    read = netdev._files.read

    def refuse(path):
        if path.endswith("/speed"):
            raise refused
        return read(path)

    monkeypatch.setattr(netdev._files, "read", refuse)
    reading = netdev.read()

    assert (None, ()) == (reading.devices[0][1].speed, reading.rejected)


def test_a_speed_is_asked_again_when_the_carrier_changed_or_time_passed(netdev, machine, clock):
    folder = machine.sys / "class/net/eth0"
    speeds = []
    for speed, changes, passed in (
        ("400000", 2, 0), ("100000", 2, 1), ("100000", 4, 1), ("200000", 4, SLOW)
    ):  # fmt: skip
        clock.sleep(passed)
        (folder / "speed").write_text(f"{speed}\n")
        (folder / "carrier_changes").write_text(f"{changes}\n")
        speeds.append(netdev.read().devices[0][1].speed)

    assert [50e9, 50e9, 12.5e9, 25e9] == speeds


def test_a_link_that_goes_down_leaves_no_stale_speed(netdev, machine):
    netdev.read()
    (machine.sys / "class/net/eth0/operstate").write_text("down\n")

    assert None is netdev.read().devices[0][1].speed


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["operstate", "carrier_changes", "speed", "mtu"])
@pytest.mark.parametrize("content", ["", "\n", "-7\n", "N/A\n", "9" * 20_000, "\0\n"])
def test_a_malformed_file_is_counted_and_the_rest_stands(netdev, machine, name, content):
    (machine.sys / "class/net/eth0" / name).write_text(content)
    reading = netdev.read()

    assert ["content"] == [one.reason for one in reading.rejected]
    assert 8 < len(values_of(reading)) < 12


def test_a_device_that_vanishes_after_it_was_listed_is_said_once(netdev, machine):
    netdev.read()
    for path in (machine.sys / "class/net/eth0").iterdir():
        if path.is_file():
            path.unlink()
    reading = netdev.read()

    assert ["missing"] == [one.reason for one in reading.rejected]
    assert 8 == len(values_of(reading))


def test_a_device_that_is_gone_leaves_nothing_open(netdev, machine, network_node):
    netdev.read()
    held = len(netdev._files._open)
    network_node.traffic(machine)
    shutil.rmtree(machine.sys / "class/net/eth0")
    reading = netdev.read()

    assert (4, 0) == (held, len(netdev._files._open))
    assert () == reading.devices + reading.rejected


@pytest.mark.parametrize("content", ["", "\n", "one\n", "a\nb\n  eth0: 1 2\n", "a\nb\n" + "9" * 99])
def test_a_malformed_table_is_no_reading(netdev, machine, content):
    (machine.proc / "net/dev").write_text(content)
    if content.endswith("9"):
        assert () == netdev.read().devices  # the line has no end: it may lack digits
        return

    with pytest.raises(SourceError, match="net/dev"):
        netdev.read()


@PROPERTY
@given(st.data())
def test_a_cut_table_gives_the_right_number_or_none(data):
    lines = [" x", " y", *(f"eth{n}: {n}0 {' '.join('1' * 15)}" for n in range(3))]
    text = "\n".join(lines)
    cut = text[: data.draw(st.integers(0, len(text)))]
    whole = cut.rpartition("\n")[0].split("\n") if "\n" in cut else []

    try:
        found = [*traffic_of(whole)]
    except ValueError:
        return
    assert set(found) <= set(traffic_of(lines))


@PROPERTY
@given(
    name=st.sampled_from(["operstate", "carrier_changes", "speed", "mtu"]),
    content=st.binary(max_size=300),
)
def test_noise_never_raises(netdev, machine, name, content):
    path = machine.sys / "class/net/eth0" / name
    before = path.read_bytes()
    path.write_bytes(content)

    netdev.read()
    path.write_bytes(before)
