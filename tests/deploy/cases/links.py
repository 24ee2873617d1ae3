"""Alerts about what GPUs and nodes talk over."""

from tests.deploy.cases.shape import GPU, ON_A, Case, page, watch

WHO = "GPU 0 (GPU-0) on a"
PORT = {"device": "mlx5_0", "port": "1"}
PORT_ON_A = {"node": "a", **PORT}


def _nvlink(kind: str, link: str = "3", **more: str) -> str:
    return page("lockstep_gpu_nvlink_errors_total", **GPU, link=link, kind=kind, **more)


CRC = Case(
    "NvlinkCrcRateHigh", {**ON_A, "link": "3"}, f"{WHO}, NVLink 3: 200 CRC errors a second",
    {"flit": (_nvlink("crc_flit"), "0x100"), "new": (_nvlink("dl_crc"), "0x100"),
     "replay": (_nvlink("replay"), "0x100"), "other link": (_nvlink("dl_crc", "4"), "0x100"),
     "next pod": (_nvlink("dl_crc", pod="c-2"), "_x100")},
    fires=[({"flit": "0+3000x40"}, "-2m +8m"), ({"new": "_x8 3000+3000x40"}, "+8m")],
    silent=[({"replay": "0+3000x40"}, "-8m"),
            ({"new": "0+900x40", "other link": "0+900x40"}, "-8m"),
            ({"new": "0+900x40", "next pod": "0+900x40"}, "-8m")],
    boundary=[({"flit": "0+1500x40"}, "-8m"), ({"flit": "0+1515x40"}, "+8m")],
    clears=[({"flit": "0+3000x20 60000x40"}, "+5m -9m")],
)  # fmt: skip

REPLAY = Case(
    "NvlinkReplayOrRecovery", {**ON_A, "link": "3"},
    f"{WHO}, NVLink 3: 40 replays or recoveries in 10 minutes",
    {"replay": (_nvlink("replay"), "0x200"), "crc": (_nvlink("crc_data"), "0x200"),
     "new": (_nvlink("dl_recovery"), "_x200")},
    fires=[({"replay": "0+1x60"}, "+11m")],
    silent=[({"crc": "0+1x60"}, "-14m"), ({"replay": "9x100"}, "-14m")],
    boundary=[({"replay": "0x40 1x60"}, "-15m -20m -22m"),
              ({"new": "_x40 1x20 2x20 3x60"}, "-25m +26m")],
    clears=[({"replay": "0+1x60 60x80"}, "+15m -27m")],
)  # fmt: skip

NVLINK_DOWN = Case(
    "NvlinkDown", ON_A, f"{WHO}: only 1 of its NVLinks are up",
    {
        "0": (page("lockstep_gpu_nvlink_up", **GPU, link="0"), "1x60"),
        "1": (page("lockstep_gpu_nvlink_up", **GPU, link="1"), "1x60"),
        "replica": (page("lockstep_gpu_nvlink_up", **GPU, link="0", pod="c-2"), "_x60"),
        "expected": (watch("lockstep_gpu_nvlink_expected", **ON_A), "2x60"),
    },
    fires=[({"1": "1x20 0x40"}, "+8m")],
    silent=[({}, "-8m"), ({"0": "0x60", "1": "0x60", "expected": "_x60"}, "-8m")],
    boundary=[({"1": "1x20 0x3 1x30"}, "-6m -6m15s"), ({"1": "1x20 0x30"}, "-6m +6m15s")],
    clears=[({"1": "0x20 1x40"}, "+4m -6m")],
    more={"two replicas are not twice the links": (
        {"0": "1x60", "replica": "1x60", "1": "0x60"}, "+8m")},
)  # fmt: skip

PCIE_REPLAY = Case(
    "PcieReplayRateHigh", ON_A, f"{WHO}: 40 PCIe replays a minute",
    {
        "replays": (page("lockstep_gpu_pcie_replay_total", **GPU), "0x60"),
        "generation": (page("lockstep_gpu_pcie_link_generation", **GPU), "5x60"),
        "width": (page("lockstep_gpu_pcie_link_width", **GPU), "16x60"),
    },
    fires=[({"replays": "0+10x60"}, "-2m +8m")],
    silent=[({"replays": "900x60"}, "-8m"), ({"replays": "0+7x60"}, "-8m")],
    boundary=[
        ({"replays": "0+7.75x60"}, "-8m"), ({"replays": "0+7.76x60"}, "+8m"),
        ({"replays": "0+2x60", "generation": "3x60"}, "-8m"),
        ({"replays": "0+2.01x60", "generation": "3x60"}, "+8m"),
        ({"replays": "0+4x60", "generation": "4x60"}, "-8m"),
        ({"replays": "0+4.01x60", "generation": "4x60"}, "+8m"),
    ],
    clears=[({"replays": "0+10x30 300x40"}, "+7m -11m")],
)  # fmt: skip

PCIE_DOWN = Case(
    "PcieDowntrained", ON_A, f"{WHO}: its PCIe link runs below what it can do",
    {
        "width": (page("lockstep_gpu_pcie_link_width", **GPU), "16x60"),
        "most": (page("lockstep_gpu_pcie_link_width_max", **GPU), "16x60"),
        "generation": (page("lockstep_gpu_pcie_link_generation", **GPU), "5x60"),
        "best": (page("lockstep_gpu_pcie_link_generation_max", **GPU), "5x60"),
        "busy": (page("lockstep_gpu_utilization_ratio", **GPU), "0.9x60"),
    },
    fires=[({"width": "8x60"}, "+8m"), ({"generation": "4x60"}, "+8m"),
           ({"width": "8x60", "busy": "0x60"}, "+8m")],
    silent=[({"generation": "1x60", "busy": "0x60"}, "-10m"), ({}, "-10m")],
    boundary=[({"generation": "4x60", "busy": "0.1x60"}, "-10m"),
              ({"generation": "4x60", "busy": "0.11x60"}, "-4m45s +5m"),
              ({"width": "15x60"}, "-4m45s +5m")],
    clears=[({"width": "8x30 16x30"}, "+7m -8m")],
)  # fmt: skip

_UP = {
    "state": (page("lockstep_ib_port_state_id", **PORT), "4x100"),
    "expected": (watch("lockstep_ib_port_expected", **PORT_ON_A), "1x100"),
    "page": (page("lockstep_build_info", version="1", python="3"), "1x100"),
}

IB_DOWN = Case(
    "IbLinkDown", PORT_ON_A, "mlx5_0 port 1 on a is down", _UP,
    fires=[({"state": "4x20 1x80"}, "+12m"), ({"state": "4x20 _x80"}, "+18m")],
    silent=[({}, "-20m"), ({"state": "1x100", "expected": "_x100"}, "-20m"),
            ({"state": "4x20 _x80", "page": "1x20 stale"}, "-20m")],
    boundary=[({"state": "4x20 1x14 4x40"}, "-9m -9m15s"), ({"state": "4x20 3x80"}, "-9m +9m15s")],
    clears=[({"state": "1x40 4x60"}, "+8m -11m")],
)  # fmt: skip

_DOWNED = page("lockstep_ib_port_errors_total", **PORT, kind="link_downed")

IB_DOWNED = Case(
    "IbLinkDownedCounter", {**PORT_ON_A, "kind": "link_downed"},
    "mlx5_0 port 1 on a: link_downed",
    {
        "downed": (_DOWNED, "0x200"),
        "state": (page("lockstep_ib_port_state_id", **PORT), "1x200"),
        "received": (
            page("lockstep_ib_port_errors_total", **PORT, kind="port_rcv_errors"), "0x200",
        ),
        "retries": (page("lockstep_rdma_hw_counters_total", **PORT, kind="rnr_nak_retry_err"),
                    "0x200"),
        "next pod": (_DOWNED.replace('"c-1"', '"c-2"'), "_x200"),
        "full": (
            page("lockstep_ib_port_counter_saturated", **PORT, kind="link_downed"), "_x200",
        ),
    },
    fires=[({"downed": "0x20 1x60"}, "-5m +5m15s"),
           ({"retries": "0x20 1x60"}, "+5m15s", [{**PORT_ON_A, "kind": "rnr_nak_retry_err"}])],
    silent=[({"received": "0+1x60"}, "-8m"), ({"downed": "_x20 7x60"}, "-6m -12m"),
            ({"downed": "0x20 1x60", "state": "4x19 1x2 4x60"}, "-5m -5m15s -5m30s -6m -9m")],
    boundary=[({"downed": "2x60"}, "-12m"), ({"downed": "2x30 3x60"}, "-7m30s +7m45s")],
    clears=[({"downed": "2x20 3x80"}, "+9m -11m")],
    more={
        "a link that went down in 20 minutes without scrapes is one event": (
            {"downed": "2x20 _x80 3x60"}, "+26m -32m",
        ),
        "an old count after 20 minutes without scrapes is none": (
            {"downed": "2x20 _x80 2x60"}, "-26m",
        ),
        "an old count with another pod after a roll-out is none, a later one is": (
            {"downed": "3x40 stale", "next pod": "_x44 3x40 4x40"}, "-12m -20m +22m",
        ),
        "two replicas are one alert": ({"downed": "0x20 1x60", "next pod": "0x20 1x60"}, "+5m15s"),
        "a register that reaches its maximum is an event": (
            {"downed": "254x20 stale", "full": "_x20 1x100"}, "+5m30s -16m",
        ),
        "one that stood there before anybody looked is none": (
            {"downed": "_x200", "full": "1x200"}, "-5m -12m",
        ),
        "nor is one that an earlier collector told as a count": (
            {"downed": "255x20 stale", "full": "_x20 1x100"}, "-5m30s -9m",
        ),
        "of a register of four bits, which is full at 15, neither": (
            {"downed": "15x20 stale", "full": "_x20 1x100"}, "-5m30s -9m",
        ),
        "one that counted 14 before was not full": (
            {"downed": "14x20 stale", "full": "_x20 1x100"}, "+5m30s -16m",
        ),
        "a count that began anew and came back the same at once is an event": (
            {"downed": "1x40 0x4 1x40"}, "-10m +12m",
        ),
        "so it is for the other kind of counter": (
            {"retries": "1x40 0x4 1x40"}, "-10m +12m", [{**PORT_ON_A, "kind": "rnr_nak_retry_err"}],
        ),
        "a link that went down and stays down is told of after a minute": (
            {"downed": "0x20 1x60", "state": "4x19 1x60"}, "-5m30s +6m +9m",
        ),
        "a link that flaps between two scrapes is up": (
            {"downed": "0x20 1x60", "state": "4x200"}, "-5m15s -9m",
        ),
        "data lost on a link that is up is told at once": (
            {"retries": "0x20 1x60", "state": "4x200"}, "+5m15s",
            [{**PORT_ON_A, "kind": "rnr_nak_retry_err"}],
        ),
        "where nobody tells the port's state a rise is told at once": (
            {"downed": "0x20 1x60", "state": "_x200"}, "+5m15s",
        ),
    },
)  # fmt: skip


def _port_rate(
    alert: str,
    kind: str,
    summary: str,
    fires: str,
    under: str,
    at: str,
    ends: str,
    last: str,
    wait: str,
) -> Case:
    """A rate of one kind of port errors; `ends` = values that stop to rise, silent at `last`."""
    return Case(
        alert, PORT_ON_A, f"mlx5_0 port 1 on a{summary}",
        {
            "errors": (page("lockstep_ib_port_errors_total", **PORT, kind=kind), "0x60"),
            "replica": (
                page("lockstep_ib_port_errors_total", "a", "c-2", **PORT, kind=kind), "_x60",
            ),
            "others": (
                page("lockstep_ib_port_errors_total", **PORT, kind="port_rcv_errors"), "0x60",
            ),
        },
        fires=[({"errors": fires}, f"-{wait} +9m")],
        silent=[({"others": fires}, "-9m"), ({"errors": "65535x60"}, "-9m")],
        boundary=[({"errors": under}, "-9m"), ({"errors": at}, "+9m")],
        clears=[({"errors": ends}, f"+9m -{last}")],
        more={"two replicas are not twice the errors": (
            {"errors": under, "replica": under}, "-9m")},
    )  # fmt: skip


SYMBOL_RATE = _port_rate(
    "IbSymbolErrorRate", "symbol_error", ": 20 symbol errors a second",
    "0+300x60", "0+150x60", "0+152x60", "0+300x36 10800x40", "15m", "2m",
)  # fmt: skip
RECOVERY = _port_rate(
    "IbLinkErrorRecovery", "link_error_recovery", ": retrains 8 times a minute",
    "0+2x60", "0+1.24x60", "0+1.26x60", "0+2x36 72x60", "18m", "4m",
)  # fmt: skip
DISCARDS = _port_rate(
    "RoceCongestionDiscards", "port_xmit_discards", ": 200 packets discarded a second",
    "0+3000x60", "0+1500x60", "0+1515x60", "0+3000x36 108000x40", "15m", "5m",
)  # fmt: skip

SYMBOL_HOUR = Case(
    "IbSymbolErrorsFatal", PORT_ON_A, "mlx5_0 port 1 on a: 300 symbol errors in an hour",
    {
        "errors": (page("lockstep_ib_port_errors_total", **PORT, kind="symbol_error"), "0x90"),
        "others": (page("lockstep_ib_port_errors_total", **PORT, kind="port_rcv_errors"), "0x90"),
    },
    fires=[({"errors": "0+5x90"}, "+1h10m")],
    silent=[({"others": "0+5x90"}, "-1h10m"), ({"errors": "65535x90"}, "-1h10m")],
    boundary=[({"errors": "0+2x90"}, "-1h20m"), ({"errors": "0+2.05x90"}, "+1h10m")],
    clears=[({"errors": "0+5x40 200x80"}, "+50m -1h45m")],
    interval="1m",
)  # fmt: skip

_CYCLE = "4x20 1 1 2 3 "

FLAPPING = Case(
    "IbLinkFlapping", PORT_ON_A,
    "mlx5_0 port 1 on a: went down and came back 3 times in 12 hours",
    {"state": (page("lockstep_ib_port_state_id", **PORT), "4x100"),
     "downed": (_DOWNED, "0x100")},
    fires=[({"state": _CYCLE * 3 + "4x30"}, "+1h30m")],
    silent=[({}, "-1h30m"), ({"state": "4x20 _x40 4x40"}, "-1h30m"),
            ({"state": "4x20 1x3 4x80", "downed": "0x20 1x80"}, "-22m -1h30m"),
            ({"downed": "7x20 0x20 7x20 0x20 7x20"}, "-1h30m")],
    boundary=[({"downed": "0x20 1x20 2x60"}, "-1h30m"),
              ({"downed": "0x20 1x20 2x20 3x60"}, "-1h2m +1h4m"),
              ({"state": _CYCLE * 2 + "4x60"}, "-1h30m"),
              ({"state": _CYCLE * 3 + "4x30"}, "-1h14m +1h15m")],
    clears=[({"state": _CYCLE * 3 + "4x800"}, "+12h -13h30m")],
    interval="1m",
)  # fmt: skip

_RATE = "lockstep_ib_port_rate_bytes_per_second"

RATE = Case(
    "IbRateReduced", PORT_ON_A,
    "mlx5_0 port 1 on a: its link is active at 2.5e+10 B/s, less than before",
    {
        "rate": (page(_RATE, **PORT), "5e10x100"),
        "state": (page("lockstep_ib_port_state_id", **PORT), "4x100"),
        "other": (page(_RATE, device="mlx5_1", port="1"), "1.25e10x100"),
    },
    fires=[({"rate": "5e10x20 2.5e10x80"}, "-10m +11m")],
    silent=[({}, "-20m"), ({"rate": "2.5e10x20 5e10x80"}, "-20m"),
            ({"rate": "5e10x20 1e9x80", "state": "4x20 1x80"}, "-20m")],
    boundary=[({"rate": "5e10x20 4.9e10x19 5e10x60"}, "-10m -10m15s -12m"),
              ({"rate": "5e10x20 4.9e10x80"}, "-10m +10m15s")],
    clears=[({"rate": "5e10x20 2.5e10x40 5e10x40"}, "+12m -16m")],
)  # fmt: skip

_PAUSED = "lockstep_net_pfc_pause_seconds_total"
_PRIORITY = {"device": "eth2", "priority": "3"}

PAUSED = Case(
    "PfcPauseSustained", {"node": "a", **_PRIORITY},
    "eth2 on a, priority 3: told to wait 0.20 of the time",
    {
        "receive": (page(_PAUSED, **_PRIORITY, direction="receive"), "0x100"),
        "transmit": (page(_PAUSED, **_PRIORITY, direction="transmit"), "0x100"),
    },
    fires=[({"receive": "0+3x60"}, "-5m +9m")],
    silent=[({}, "-12m"), ({"transmit": "0+3x60"}, "-12m"), ({"receive": "900x60"}, "-12m")],
    boundary=[({"receive": "0+1.5x60"}, "-12m"), ({"receive": "0+1.515x60"}, "+12m")],
    clears=[({"receive": "0+3x40 120x40"}, "+9m -13m")],
)  # fmt: skip

ETHERNET = Case(
    "EthernetLinkDown", {"node": "a", "device": "eth2"}, "eth2 on a: its Ethernet link is down",
    {
        "up": (page("lockstep_net_up", device="eth2"), "1x100"),
        "never": (page("lockstep_net_up", device="eth3"), "0x100"),
    },
    fires=[({"up": "1x20 0x80"}, "-9m +11m")],
    silent=[({}, "-20m"), ({"up": "1x20 _x80"}, "-20m"), ({"up": "1x20 0x2 1x70"}, "-5m30s -20m")],
    boundary=[({"up": "1x20 0x15 1x60"}, "-9m -9m15s"), ({"up": "1x20 0x80"}, "+9m15s")],
    clears=[({"up": "1x20 0x40 1x40"}, "+12m -16m")],
)  # fmt: skip

CASES = (
    RATE, PAUSED, ETHERNET,
    CRC, REPLAY, NVLINK_DOWN, PCIE_REPLAY, PCIE_DOWN, IB_DOWN, IB_DOWNED, SYMBOL_HOUR,
    SYMBOL_RATE, RECOVERY, DISCARDS, FLAPPING,
)  # fmt: skip
