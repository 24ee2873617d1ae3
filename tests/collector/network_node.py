"""A node with ten 400G ports that does not exist: its sysfs, and the drivers behind ethtool.

Names and layout are those of mlx5 on a node with eight ConnectX-7 for computing and two for storage
(mlx5_0 to mlx5_9), as in the kernel's sysfs and `ethtool -S`; the values are made up.
"""

import struct
from typing import Any

from lockstep.collector.readings.source import SourceError

PORT_COUNTERS = {
    "port_xmit_data": 1_000_000_007, "port_rcv_data": 2_000_000_011,
    "port_xmit_packets": 1_000_003, "port_rcv_packets": 2_000_003, "port_xmit_wait": 12_345,
    "unicast_xmit_packets": 1_000_000, "unicast_rcv_packets": 2_000_000,
    "multicast_xmit_packets": 3, "multicast_rcv_packets": 3,
    "symbol_error": 65_534, "link_error_recovery": 0, "link_downed": 2, "port_rcv_errors": 5,
    "port_rcv_remote_physical_errors": 0, "port_rcv_switch_relay_errors": 0,
    "port_xmit_discards": 7, "port_xmit_constraint_errors": 0, "port_rcv_constraint_errors": 0,
    "local_link_integrity_errors": 0, "excessive_buffer_overrun_errors": 0, "VL15_dropped": 0,
}  # fmt: skip
HW_COUNTERS = {
    "duplicate_request": 1, "implied_nak_seq_err": 0, "lifespan": 10, "local_ack_timeout_err": 4,
    "out_of_buffer": 6, "out_of_sequence": 99, "packet_seq_err": 98, "req_cqe_error": 0,
    "req_cqe_flush_error": 0, "req_remote_access_errors": 0, "req_remote_invalid_request": 0,
    "resp_cqe_error": 0, "resp_cqe_flush_error": 0, "resp_local_length_error": 0,
    "resp_remote_access_errors": 0, "rnr_nak_retry_err": 0, "rx_atomic_requests": 0,
    "rx_dct_connect": 0, "rx_read_requests": 11, "rx_write_requests": 12,
    "np_cnp_sent": 31, "np_ecn_marked_roce_packets": 32, "rp_cnp_handled": 33, "rp_cnp_ignored": 0,
    "roce_adp_retrans": 0, "roce_adp_retrans_to": 0, "roce_slow_restart": 0,
    "roce_slow_restart_cnps": 0, "roce_slow_restart_trans": 0, "rx_icrc_encapsulated": 0,
}  # fmt: skip
PRIORITY = 3
"""The priority with PFC."""


def interface(machine: Any, device: str, speed: str = "400000\n", *, physical: bool = True) -> None:
    """A device in /sys/class/net."""
    folder = machine.sys / "class/net" / device
    for name, text in (
        ("operstate", "up\n"), ("carrier_changes", "2\n"), ("speed", speed), ("mtu", "9000\n")
    ):  # fmt: skip
        machine.file(folder / name, text)
    if physical:
        machine.file(folder / "device/vendor", "0x15b3\n")


def statistics(machine: Any, device: str, value: int) -> None:
    """Its counters in sysfs, all the same."""
    for name in ("bytes", "packets", "errors", "dropped"):
        for way in ("rx", "tx"):
            machine.file(machine.sys / f"class/net/{device}/statistics/{way}_{name}", f"{value}\n")


def traffic(machine: Any, *devices: str) -> None:
    """/proc/net/dev of the loopback and these devices."""
    lines = [
        f"{device:>6}: {1000 + n} 10 1 2 0 0 0 0 {2000 + n} 20 3 4 0 0 0 0\n"
        for n, device in enumerate(devices)
    ]
    machine.file(
        machine.proc / "net/dev",
        "Inter-|   Receive                            |  Transmit\n"
        " face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs\n"
        "    lo:    9 9 9 9 0 0 0 0 9 9 9 9 0 0 0 0\n" + "".join(lines),
    )
    interface(machine, "lo", "-1\n", physical=False)


def rdma_port(
    machine: Any, device: str, netdev: str, layer: str = "Ethernet", bus: int = 0x18
) -> Any:
    """A device with one port in /sys/class/infiniband; the port's folder."""
    folder = machine.sys / "class/infiniband" / device
    port = folder / "ports/1"
    pci = machine.sys / f"devices/pci0000:00/0000:{bus:02x}:00.0"
    files = {
        folder / "board_id": "MT_0000000838", folder / "fw_ver": "28.39.1002",
        folder / "hca_type": "MT4129", pci / "numa_node": "0", pci / f"net/{netdev}/dev_port": "0",
        port / "state": "4: ACTIVE", port / "phys_state": "5: LinkUp",
        port / "rate": "400 Gb/sec (4X NDR)", port / "link_layer": layer,
    }  # fmt: skip
    files |= {port / "counters" / name: str(value) for name, value in PORT_COUNTERS.items()}
    files |= {port / "hw_counters" / name: str(value) for name, value in HW_COUNTERS.items()}
    for path, text in files.items():
        machine.file(path, f"{text}\n")
    (folder / "device").symlink_to(pci)
    return port


def node_8x400g(machine: Any, layer: str = "Ethernet") -> list[str]:
    """Names of the network devices of a node with eight ports for computing and two for storage."""
    netdevs = [f"{'eth' if layer == 'Ethernet' else 'ib'}{number}" for number in range(10)]
    for number, netdev in enumerate(netdevs):
        rdma_port(machine, f"mlx5_{number}", netdev, layer, 0x18 + number)
        interface(machine, netdev)
    interface(machine, "eno1", "25000\n")
    for device in ("docker0", "bond0", "vlan100", "veth1234"):
        interface(machine, device, "10000\n", physical=False)
    traffic(machine, *netdevs, "eno1", "docker0", "bond0", "vlan100", "veth1234")
    (machine.sys / "class/net/bonding_masters").write_text("bond0\n")
    return netdevs


def mlx5_statistics(queues: int = 63, priority: int = PRIORITY) -> dict[str, int]:
    """What mlx5 tells by ethtool, in its order; PFC is on for one priority."""
    told = {"rx_packets": 20, "rx_bytes": 2000, "rx_out_of_buffer": 6, "rx_steer_missed_packets": 1}
    told |= {
        f"{name}_phy": value
        for value, name in enumerate((
            "rx_discards", "tx_discards", "tx_errors", "rx_crc_errors", "rx_symbol_err",
            "link_down_events", "rx_pcs_symbol_err", "rx_corrected_bits", "rx_err_lane_0",
            "rx_err_lane_1", "rx_err_lane_2", "rx_err_lane_3",
        ))
    }  # fmt: skip
    told |= {
        "rx_pci_signal_integrity": 0, "tx_pci_signal_integrity": 9, "outbound_pci_stalled_rd": 25,
        "outbound_pci_stalled_wr": 0, "outbound_pci_stalled_rd_events": 41,
        "outbound_pci_stalled_wr_events": 0,
    }  # fmt: skip
    for number in range(8):
        told |= {f"rx_prio{number}_{what}": number for what in
                 ("bytes", "buf_discard", "cong_discard", "discards", "marked")}  # fmt: skip
    told |= {
        f"rx_prio{priority}_pause": 100, f"rx_prio{priority}_pause_duration": 2_500_000,
        f"tx_prio{priority}_pause": 200, f"tx_prio{priority}_pause_duration": 1_500_000,
        f"rx_prio{priority}_pause_transition": 50, "tx_pause_storm_warning_events": 0,
        "tx_pause_storm_error_events": 0, "module_bus_stuck": 0, "module_high_temp": 0,
    }  # fmt: skip
    ring = ("packets", "bytes", "csum_complete", "lro_packets", "recover", "wqe_err")
    return told | {f"rx{queue}_{what}": queue for queue in range(queues) for what in ring}


class FakeNics:
    """Drivers that answer the structs of linux/ethtool.h; a device's entry may be its error."""

    def __init__(self, drivers: dict[str, Any]) -> None:
        self.drivers = drivers
        self.asked: list[int] = []

    def open(self) -> "FakeNics":
        return self

    def close(self) -> None:
        pass

    def __call__(self, device: str, request: bytes, size: int) -> bytes:
        driver = self.drivers.get(device)
        if driver is None:
            raise SourceError("missing", f"ethtool on {device}: No such device")
        if isinstance(driver, SourceError):
            raise driver
        (command,) = struct.unpack_from("=I", request)
        self.asked.append(command)
        names = [name if isinstance(name, bytes) else name.encode() for name in driver]
        if command == 0x37:
            _, _, mask, _ = struct.unpack("=IIQI", request)
            assert mask == 2, "the set of statistics"
            return struct.pack("=IIQI", command, 0, mask, len(names))[:size]
        if command == 0x1B:
            head, width = struct.pack("=III", command, 1, len(names)), 32
            rows = b"".join(name[:32].ljust(32, b"\0") for name in names)
        else:
            assert command == 0x1D, "nothing else is asked"
            head, width = struct.pack("=II", command, len(names)), 8
            rows = struct.pack(f"={len(names)}Q", *driver.values())
        assert len(request) == len(head) <= size
        # The kernel writes all it has; what is beyond the wanted size is not looked at.
        assert width * len(names) == len(rows)
        return (head + rows)[:size].ljust(size, b"\0")
