"""RDMA ports: right numbers in base units, or counted and absent."""

import errno
import os
import shutil
from collections import Counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.files.persistent_fds import MAX_HELD, PersistentFds
from lockstep.collector.samples import network
from lockstep.collector.sources.network.infiniband.errors import InfinibandErrors
from lockstep.collector.sources.network.infiniband.source import PLAN_READINGS, Infiniband
from tests.wild import wild

PROPERTY = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None
)
PORT = ("mlx5_0", "1")


@pytest.fixture
def port(machine, network_node):
    return network_node.rdma_port(machine, "mlx5_0", "eth0")


def told(machine):
    """(values by metric and labels, reasons of what was left out) of both sources."""
    values, reasons = {}, []
    for source, collect in (
        (Infiniband(machine.sys), network.collect_infiniband),
        (InfinibandErrors(machine.sys), network.collect_infiniband_errors),
    ):
        reading = source.read()
        reasons += [one.reason for one in reading.rejected]
        for sample in collect(reading):
            key = (sample.metric.name, sample.labels)
            assert key not in values, "each series has one source"
            values[key] = sample.value
    return values, reasons


def test_a_node_without_rdma_says_so(machine):
    for source in (Infiniband(machine.sys), InfinibandErrors(machine.sys)):
        assert not source.available()
        assert "no RDMA device under" in source.why_not()


def test_a_port_is_in_base_units(machine, port, network_node):
    values, reasons = told(machine)

    assert [] == reasons
    assert 4 == values[m.IB_STATE.name, PORT]
    assert 5 == values[m.IB_PHYSICAL_STATE.name, PORT]
    assert 50e9 == values[m.IB_RATE.name, PORT]
    assert 4 * 1_000_000_007 == values[m.IB_DATA.name, (*PORT, "transmit")]
    assert 4 * 2_000_000_011 == values[m.IB_DATA.name, (*PORT, "receive")]
    assert 1_000_003 == values[m.IB_PACKETS.name, (*PORT, "transmit")]
    assert 12_345 == values[m.IB_XMIT_WAIT.name, PORT]
    assert 65_534 == values[m.IB_ERRORS.name, (*PORT, "symbol_error")]
    assert 31 == values[m.RDMA_HW_COUNTER.name, (*PORT, "np_cnp_sent")]
    assert 0 == values[m.RDMA_HW_COUNTER.name, (*PORT, "rnr_nak_retry_err")]


def test_a_port_has_an_identity(machine, port):
    values, _ = told(machine)

    (labels,) = [labels for name, labels in values if name == m.IB_INFO.name]
    assert dict(zip(m.IB_INFO.labels, labels, strict=True)) == {
        "device": "mlx5_0", "port": "1", "netdev": "eth0", "board_id": "MT_0000000838",
        "firmware": "28.39.1002", "hca_type": "MT4129", "link_layer": "Ethernet", "numa": "0",
        "pci_bus_id": "0000:18:00.0",
    }  # fmt: skip


def test_no_place_in_memory_is_not_minus_one(machine, port):
    device = port.parent.parent / "device"
    (device / "numa_node").write_text("-1\n")
    values, reasons = told(machine)

    (labels,) = [labels for name, labels in values if name == m.IB_INFO.name]
    assert "" == labels[m.IB_INFO.labels.index("numa")]
    assert [] == reasons


def test_the_network_device_of_the_second_port_is_its_own(machine, port):
    device = port.parent.parent / "device"
    shutil.copytree(port, port.parent / "2")
    machine.file(device / "net/eth1/dev_port", "1\n")
    values, reasons = told(machine)

    index = m.IB_INFO.labels.index("netdev")
    found = {labels[1]: labels[index] for name, labels in values if name == m.IB_INFO.name}
    assert {"1": "eth0", "2": "eth1"} == found
    assert [] == reasons


@pytest.mark.parametrize(
    ("layer", "errors", "hardware"), [("Ethernet", 4, 11), ("InfiniBand", 8, 7)]
)
def test_a_link_layer_has_its_own_counters(machine, network_node, layer, errors, hardware):
    network_node.rdma_port(machine, "mlx5_0", "eth0", layer)
    values, _ = told(machine)

    names = Counter(name for name, _ in values)
    assert (errors, hardware) == (names[m.IB_ERRORS.name], names[m.RDMA_HW_COUNTER.name])


def test_a_node_of_ten_ports_keeps_to_its_share_of_the_page(machine, network_node):
    network_node.node_8x400g(machine)
    values, reasons = told(machine)

    assert [] == reasons
    assert 24 * 10 == len(values)


def test_the_wide_registers_of_old_kernels_are_preferred(machine, port):
    machine.file(port / "counters_ext/port_xmit_data_64", "5000000000\n")
    (port / "counters/port_xmit_data").write_text("4294967295\n")
    values, reasons = told(machine)

    assert 20_000_000_000 == values[m.IB_DATA.name, (*PORT, "transmit")]
    assert [] == reasons


def test_a_register_that_reached_its_end_is_no_traffic(machine, port):
    (port / "counters/port_xmit_data").write_text("4294967295\n")
    values, reasons = told(machine)

    assert (m.IB_DATA.name, (*PORT, "transmit")) not in values
    assert (m.IB_DATA.name, (*PORT, "receive")) in values
    assert ["saturated"] == reasons


@pytest.mark.parametrize(
    ("name", "most", "metric", "labels"),
    [
        ("link_downed", 255, m.IB_ERRORS, ("link_downed",)),
        ("link_error_recovery", 255, m.IB_ERRORS, ("link_error_recovery",)),
        ("symbol_error", 65535, m.IB_ERRORS, ("symbol_error",)),
        ("port_xmit_discards", 65535, m.IB_ERRORS, ("port_xmit_discards",)),
        ("excessive_buffer_overrun_errors", 15, m.IB_ERRORS, ("excessive_buffer_overrun_errors",)),
        ("local_link_integrity_errors", 15, m.IB_ERRORS, ("local_link_integrity_errors",)),
        ("port_xmit_wait", 4294967295, m.IB_XMIT_WAIT, ()),
        ("port_rcv_packets", 4294967295, m.IB_PACKETS, ("receive",)),
    ],
)
def test_a_register_at_its_maximum_is_told_as_that_and_not_as_a_count(
    machine, network_node, name, most, metric, labels
):
    port = network_node.rdma_port(machine, "mlx5_0", "eth0", "InfiniBand")
    file, key = port / "counters" / name, (metric.name, (*PORT, *labels))
    saturated = (m.IB_SATURATED.name, (*PORT, name))
    for count, stands in ((most - 1, False), (most, True), (most + 1, False)):
        file.write_text(f"{count}\n")
        values, reasons = told(machine)

        assert stands == (key not in values)
        assert stands == (saturated in values)
        assert ["saturated"] * stands == reasons
        if not stands:
            assert values[key] == count


def test_a_counter_of_the_driver_that_stands_is_told_too(machine, port):
    (port / "hw_counters/out_of_sequence").write_text("4294967295\n")
    values, reasons = told(machine)

    assert (m.RDMA_HW_COUNTER.name, (*PORT, "out_of_sequence")) not in values
    assert 1 == values[m.IB_SATURATED.name, (*PORT, "out_of_sequence")]
    assert ["saturated"] == reasons


def test_what_stands_is_listed_once_and_again_after_a_reset(machine, port):
    source, file = InfinibandErrors(machine.sys), port / "counters/link_downed"
    reasons = []
    for count in (255, 255, 0, 255):
        file.write_text(f"{count}\n")
        reasons.append([one.reason for one in source.read().rejected])

    assert [["saturated"], [], [], ["saturated"]] == reasons


class Refusing:
    """Files of a driver that answers EINVAL, as the kernel's log sees it: a line for each."""

    def __init__(self, monkeypatch, refuses):
        self.refused, pread = [], os.pread

        def refuse(descriptor, length, offset):
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if refuses(path):
                self.refused.append(path)
                raise OSError(errno.EINVAL, "Invalid argument")
            return pread(descriptor, length, offset)

        monkeypatch.setattr("lockstep.collector.files.persistent_fds.os.pread", refuse)


def read_for(minutes, fast, slow, clock, every=1):
    """Both sources as they are read for so long."""
    for second in range(0, 60 * minutes, every):
        reading = fast.read()
        if second % 30 == 0:
            slow.read()
        clock.sleep(every)
    return reading


@pytest.fixture
def both(machine, clock):
    return Infiniband(machine.sys, clock.monotonic), InfinibandErrors(machine.sys, clock.monotonic)


def test_a_driver_that_refuses_is_left_alone_for_minutes(
    machine, network_node, clock, both, monkeypatch
):
    """The first round asked 540 times a minute, and each is a line in the kernel's log."""
    for number in range(2):
        network_node.rdma_port(machine, f"mlx5_{number}", f"eth{number}", "Ethernet", 0x18 + number)
    driver = Refusing(monkeypatch, lambda path: "mlx5_0" in path and "counters" in path)
    read_for(1, *both, clock)

    assert 2 <= len(driver.refused) <= 4, "one for each kind of question and source"
    reading = read_for(59, *both, clock, every=30)
    assert 10 <= len(driver.refused) <= 120, "540 a minute were 32,000"
    sick, well = reading.ports
    assert not sick.data
    assert 4 == sick.state, "what answers is read on"
    assert well.data, "and so are other devices"


def test_one_counter_that_is_refused_keeps_no_other_off(port, clock, both, monkeypatch):
    driver = Refusing(monkeypatch, lambda path: path.endswith("counters/port_xmit_wait"))
    reading = read_for(30, *both, clock, every=10)

    assert 3 <= len(driver.refused) <= 6, "4, 8, 16 minutes"
    (one,) = reading.ports
    assert None is one.xmit_wait
    assert {"transmit", "receive"} == {*one.data} == {*one.packets}
    assert one.hardware


def test_a_device_that_begins_to_refuse_waits_and_comes_back(machine, port, clock, monkeypatch):
    source, sick = Infiniband(machine.sys, clock.monotonic), [False]
    driver = Refusing(monkeypatch, lambda path: sick[0] and "/counters/" in path)
    source.read()
    sick[0] = True
    lost = [source.read() for _ in range(3)][-1]

    assert 1 == len(driver.refused)
    assert not lost.ports[0].data
    assert 4 == lost.ports[0].state
    sick[0] = False
    clock.sleep(300)
    assert source.read().ports[0].data


def test_why_a_counter_is_left_alone_is_said_once(machine, port, clock, monkeypatch):
    Refusing(monkeypatch, lambda path: path.endswith("port_xmit_wait"))
    source = Infiniband(machine.sys, clock.monotonic)
    first, second = source.read().rejected, source.read().rejected

    (why,) = first
    assert "io" == why.reason
    assert "Invalid argument; it is left alone for 4 minutes" in why.message
    assert () == second


def test_efa_counts_bytes_and_not_words(machine, port):
    shutil.rmtree(port / "counters")
    shutil.rmtree(port / "hw_counters")
    counters = {"tx_bytes": 77, "rx_bytes": 88, "tx_pkts": 7, "rx_pkts": 8, "rx_drops": 3,
                "retrans_pkts": 0, "lifespan": 12}  # fmt: skip
    for name, value in counters.items():
        machine.file(port / "hw_counters" / name, f"{value}\n")
    (port / "link_layer").write_text("Unspecified\n")
    values, reasons = told(machine)

    assert [] == reasons
    assert 77 == values[m.IB_DATA.name, (*PORT, "transmit")]
    assert 8 == values[m.IB_PACKETS.name, (*PORT, "receive")]
    assert {"rx_drops": 3, "other": 0} == {
        labels[2]: value for (name, labels), value in values.items()
        if name == m.RDMA_HW_COUNTER.name
    }  # fmt: skip


def test_a_port_without_performance_counters_is_no_error(machine, port):
    for path in (port / "counters").iterdir():
        path.write_text("N/A (no PMA)\n")
    values, reasons = told(machine)

    assert [] == reasons
    names = {name for name, _ in values}
    assert names.isdisjoint({m.IB_DATA.name, m.IB_XMIT_WAIT.name, m.IB_ERRORS.name})
    assert m.IB_STATE.name in names


def test_a_port_that_is_down_is_told_and_not_dropped(machine, port):
    (port / "state").write_text("1: DOWN\n")
    (port / "phys_state").write_text("2: Polling\n")
    (port / "rate").write_text("2.5 Gb/sec (1X SDR)\n")
    values, reasons = told(machine)

    assert [] == reasons
    assert (1, 2) == (values[m.IB_STATE.name, PORT], values[m.IB_PHYSICAL_STATE.name, PORT])
    assert 312_500_000 == values[m.IB_RATE.name, PORT]


def test_a_physical_state_that_the_driver_does_not_tell_is_absent_and_no_error(machine, port):
    (port / "phys_state").write_text("0: <unknown>\n")
    values, reasons = told(machine)

    assert [] == reasons
    assert (m.IB_PHYSICAL_STATE.name, PORT) not in values


def test_an_error_is_told_on_its_own_once_it_has_counted(machine, port):
    source, path = InfinibandErrors(machine.sys), port / "hw_counters/rp_cnp_ignored"
    kinds = []
    for text in ("0\n", "2\n", "0\n"):
        path.write_text(text)
        kinds.append(source.read().ports[0].hardware)

    assert [None, 2, 0] == [one.get("rp_cnp_ignored") for one in kinds]
    assert [0, 0, 0] == [one["other"] for one in kinds]
    assert all(one["rnr_nak_retry_err"] == 0 for one in kinds)


@pytest.mark.parametrize(
    ("rate", "gigabits"),
    [("400 Gb/sec (4X NDR)", 400), ("200 Gb/sec (4X HDR)", 200), ("100 Gb/sec", 100),
     ("56 Gb/sec (4X FDR)", 56), ("800 Gb/sec (8X NDR)", 800), ("14 Gb/sec (1X FDR)", 14)],
)  # fmt: skip
def test_rates_of_all_generations(machine, port, rate, gigabits):
    (port / "rate").write_text(f"{rate}\n")

    assert gigabits * 1e9 / 8 == Infiniband(machine.sys).read().ports[0].rate


@pytest.mark.sweep
@pytest.mark.parametrize(
    "name", ["state", "rate", "counters/port_xmit_data", "hw_counters/np_cnp_sent"]
)
@pytest.mark.parametrize(
    "content", ["", "\n", "-1\n", "12", "9" * 21 + "\n", "1e3\n", "N/A\n", "\0\n", "7" * 20_000]
)  # fmt: skip
def test_a_malformed_file_is_counted_and_the_rest_stands(machine, port, name, content):
    right, _ = told(machine)
    (port / name).write_text(content)
    values, reasons = told(machine)

    assert ["content"] == reasons
    assert 1 == len(right) - len(values)
    assert values.items() <= right.items()


@PROPERTY
@example(b"4294967295\n")
@example(b"N/A (no PMA)\n")
@given(st.binary(max_size=40) | st.integers(-5, 1 << 65).map(lambda n: b"%d\n" % n))
def test_a_counter_is_its_number_or_absent(machine, network_node, content):
    port = machine.sys / "class/infiniband/mlx5_0/ports/1"
    if not port.exists():
        network_node.rdma_port(machine, "mlx5_0", "eth0")
    (port / "counters/port_xmit_packets").write_bytes(content)
    values, reasons = told(machine)

    value = values.get((m.IB_PACKETS.name, (*PORT, "transmit")))
    if value is None:
        kept = content != b"N/A (no PMA)\n"
        assert [reason for reason in reasons if reason in ("content", "saturated")] or not kept
    else:
        assert int(content) == value
        assert 0 <= value < 1 << 64


@PROPERTY
@given(
    name=st.sampled_from(["state", "phys_state", "rate", "link_layer", "counters/link_downed"]),
    content=st.binary(max_size=300),
)
def test_noise_never_raises(machine, network_node, name, content):
    port = machine.sys / "class/infiniband/mlx5_0/ports/1"
    if not port.exists():
        network_node.rdma_port(machine, "mlx5_0", "eth0")
    before = (port / name).read_bytes()
    (port / name).write_bytes(content)

    told(machine)
    (port / name).write_bytes(before)


def test_a_device_that_vanishes_between_listing_and_reading_is_said_once(machine, network_node):
    gone = network_node.rdma_port(machine, "mlx5_0", "eth0")
    network_node.rdma_port(machine, "mlx5_1", "eth1", bus=0x19)
    source = Infiniband(machine.sys)
    source.read()
    for path in [*gone.rglob("*")]:
        if path.is_file():
            path.unlink()
    reading = source.read()

    assert ["mlx5_1"] == [one.device for one in reading.ports]
    assert ["missing"] == [one.reason for one in reading.rejected]


def test_a_device_that_returns_is_read_anew(machine, port, network_node):
    source = Infiniband(machine.sys)
    source.read()
    shutil.rmtree(machine.sys)
    without = source.read if source.available() else None
    port = network_node.rdma_port(machine, "mlx5_0", "eth0")
    (port / "counters/port_xmit_wait").write_text("3\n")

    assert without is None
    assert 3 == source.read().ports[0].xmit_wait


def test_a_successor_of_the_same_name_is_never_mistaken_for_what_was_open(machine, port):
    source = Infiniband(machine.sys)
    source.read()
    path = port / "counters/port_xmit_wait"
    path.unlink()
    path.write_text("4\n")

    assert 4 == source.read().ports[0].xmit_wait


def test_a_link_in_place_of_a_counter_is_refused(machine, port, tmp_path):
    path = port / "counters/port_xmit_wait"
    path.unlink()
    path.symlink_to(machine.file(tmp_path / "secret", "42\n"))
    reading = Infiniband(machine.sys).read()

    assert None is reading.ports[0].xmit_wait
    assert ["symlink"] == [one.reason for one in reading.rejected]


def test_hostile_names_are_left_out(machine, port):
    (machine.sys / "class/infiniband/bad name\n").mkdir()
    (port.parent / "../ports/x").mkdir()
    reading = Infiniband(machine.sys).read()

    assert [PORT] == [(one.device, one.port) for one in reading.ports]
    assert ["content"] == [one.reason for one in reading.rejected]


def test_too_many_ports_are_said_and_not_read(machine, port):
    for number in range(2, 100):
        (port.parent / str(number)).mkdir()
    reading = Infiniband(machine.sys).read()

    reasons = Counter(one.reason for one in reading.rejected)
    assert reasons == {"too_many": 1, "missing": 63}
    assert 1 == len(reading.ports)


def test_counters_that_a_driver_adds_later_are_found(machine, port):
    path = port / "hw_counters/np_cnp_sent"
    path.unlink()
    source = Infiniband(machine.sys)
    before = source.read().ports[0].hardware
    path.write_text("5\n")
    for _ in range(PLAN_READINGS):
        after = source.read().ports[0].hardware

    assert "np_cnp_sent" not in before
    assert 5 == after["np_cnp_sent"]


def test_a_link_layer_that_is_noise_loses_nothing_but_its_name(machine, port):
    right, _ = told(machine)
    (port / "link_layer").write_bytes(b"\xff\n")
    values, reasons = told(machine)

    assert {"content"} == set(reasons)
    assert {key for key in right if key[0] != m.IB_INFO.name} <= values.keys()


def test_a_line_that_a_driver_ends_twice_is_the_same_line(machine, port):
    right, _ = told(machine)
    for name in ("link_layer", "rate"):
        (port / name).write_text((port / name).read_text() + "\n")
    values, reasons = told(machine)

    assert (right, []) == (values, [*reasons])


def test_no_more_than_so_many_files_are_kept_open(tmp_path):
    files = PersistentFds()
    paths = [tmp_path / str(number) for number in range(MAX_HELD + 5)]
    for number, path in enumerate(paths):
        path.write_text(f"{number}\n")

    assert [*range(len(paths))] == [int(files.read(str(path))) for path in paths]
    assert MAX_HELD == len(files._open)
    files.close()
    assert {} == files._open


# Ports of real machines: sysfs as it was recorded.


@pytest.fixture
def ports(machine):
    def read(name):
        """(values by metric and labels, reasons of what was left out)"""
        root = machine.sys / "class/infiniband"
        root.parent.mkdir(parents=True, exist_ok=True)
        root.symlink_to(wild(f"infiniband/{name}"))
        values, reasons = {}, []
        for source, collect in (
            (Infiniband(machine.sys), network.collect_infiniband),
            (InfinibandErrors(machine.sys), network.collect_infiniband_errors),
        ):
            reading = source.read()
            reasons += [one.reason for one in reading.rejected]
            values |= {(s.metric, *s.labels): s.value for s in collect(reading)}
        return values, reasons

    return read


def of(values, metric):
    return {key[1:]: value for key, value in values.items() if key[0] is metric}


def test_a_node_of_eight_ports_and_a_bond(ports):
    values, reasons = ports("h100-8x-ndr-plus-bluefield-bond")
    rates, saturated = of(values, m.IB_RATE), of(values, m.IB_SATURATED)

    assert {"saturated"} == {*reasons}
    assert 9 == len(rates)
    assert 25e9 == rates.pop(("mlx5_bond_0", "1"))
    assert {50e9} == {*rates.values()}
    info = {key[0]: key for key in of(values, m.IB_INFO)}
    assert "Ethernet" in info["mlx5_bond_0"]
    overruns = {key[0] for key in saturated if key[2] == "excessive_buffer_overrun_errors"}
    assert set(info) - {"mlx5_bond_0"} == overruns, "Ethernet has no such buffer"
    assert not [key for key in of(values, m.IB_ERRORS) if key[2] in
                ("excessive_buffer_overrun_errors",)]  # fmt: skip


def test_a_port_with_four_registers_at_their_end(ports):
    values, _ = ports("h100-mlx5_1-saturated-gpud-pr943")
    stand = {"port_xmit_wait", "link_downed", "port_xmit_discards",
             "excessive_buffer_overrun_errors"}  # fmt: skip

    assert stand == {key[2] for key in of(values, m.IB_SATURATED)}
    assert not of(values, m.IB_XMIT_WAIT)
    assert not stand & {key[2] for key in of(values, m.IB_ERRORS)}
    assert 4 * 205143497464492 == values[m.IB_DATA, "mlx5_1", "1", "transmit"]


def test_ports_of_three_makers(ports):
    values, _ = ports("procfs-hfi1-mlx4-mlx5")

    assert 4 == len(of(values, m.IB_STATE))
    assert {"hfi1_0", "mlx4_0", "mlx5_0"} == {key[0] for key in of(values, m.IB_STATE)}
