"""Alerts about GPUs."""

from tests.deploy.cases.shape import GPU, ON_A, Case, page, watch

WHO = "GPU 0 (GPU-0) on a"


def _xid(number: str, source: str = "nvml", **more: str) -> str:
    labels = {"pci_bus_id": "0000:18:00.0", "xid": number, "source": source}
    return page("lockstep_gpu_xid_errors_total", **GPU, **labels, **more)


def _last(pod: str = "c-1") -> str:
    labels = {"pci_bus_id": "0000:18:00.0", "xid": "79"}
    return page("lockstep_gpu_xid_last_timestamp_seconds", **GPU, **labels, pod=pod)


def _of_line(xid: str, severity: str) -> str:
    return page(
        "lockstep_gpu_xid_last_timestamp_seconds", **GPU, pci_bus_id="0000:18:00.0", xid=xid,
        severity=severity,
    )  # fmt: skip


RECOVERY = Case(
    "GpuRecoveryActionRequired",
    ON_A,
    f"{WHO}: its driver asks for recovery action 1",
    {"action": (page("lockstep_gpu_recovery_action", **GPU), "0x200")},
    fires=[({"action": "0x8 1x60"}, "-2m +3m15s")],
    silent=[({}, "-10m"), ({"action": "0x8 1x2 0x60"}, "-2m30s -4m")],
    boundary=[({"action": "0x8 1x3 0x60"}, "-3m -3m15s"), ({"action": "0x8 1x4 0x60"}, "+3m15s")],
    clears=[({"action": "0x8 1x20 0x60"}, "+6m -8m")],
)
XID_FATAL = Case(
    "GpuXidFatal", {**ON_A, "xid": "79"}, f"{WHO}: fatal XID 79",
    {
        "count": (_xid("79"), "0x200"), "last": (_last(), "_x200"),
        "kmsg": (_xid("79", "kmsg"), "_x200"), "dcgm": (_xid("79", "dcgm"), "_x200"),
        "application": (_xid("43"), "0x200"),
        "next pod": (_xid("79", pod="c-2"), "_x200"), "next last": (_last("c-2"), "_x200"),
        "nonfatal": (_xid("145", "kmsg", severity="warning"), "_x200"),
        "nonfatal last": (_of_line("145", "warning"), "_x200"),
        "nvlink": (_xid("149", "kmsg", severity="fatal"), "_x200"),
        "nvlink last": (_of_line("149", "fatal"), "_x200"),
        "recovered last": (_of_line("154", "info"), "_x200"),
    },
    fires=[({"count": "0x8 1x60", "last": "_x9 120x60"}, "-1m45s +2m15s")],
    silent=[({}, "-10m"), ({"application": "0x8 1x60"}, "-2m15s -5m")],
    boundary=[({"count": "5x100"}, "-8m"), ({"count": "5x8 6x60"}, "-2m +2m15s")],
    clears=[({"count": "0x8 1x60", "last": "_x9 120x60"}, "+5m -9m")],
    more={
        "a series born at 1, of which no 0 was ever told, fires once": (
            {"count": "_x9 1x60", "last": "_x9 120x60"}, "-1m45s +2m15s -9m",
        ),
        "a second teller's first count is a rise though the first teller's 0 stands": (
            {"kmsg": "_x9 1x60", "last": "_x9 120x60"}, "+2m15s -9m",
        ),
        "where only dcgm-exporter tells of XIDs its counts are rises": (
            {"count": "_x200", "dcgm": "0x8 1x20 3x60", "last": "_x9 120x20 430x60"},
            "-1m45s +2m15s +8m",
        ),
        "what stood in DCGM when the collector was installed fires once, and a restart tells it"
        " of the boot again": (
            {"count": "_x200", "dcgm": "_x9 1x60", "last": "_x9 -86400x60"}, "-1m45s +2m15s -9m",
        ),
        "an old count after 20 minutes without scrapes is no new event": (
            {"count": "3x20 _x80 3x40", "last": "5x20 _x80 5x40"}, "-26m -30m",
        ),
        "an event in 20 minutes without scrapes is one": (
            {"count": "0x20 _x80 1x60", "last": "_x101 900x60"}, "-25m +25m45s -32m",
        ),
        "an old count with another pod after a roll-out is no new event, a later one is": (
            {"count": "3x40 stale", "last": "5x40 stale", "next pod": "_x44 3x40 4x40",
             "next last": "_x44 5x40 1275x40"},
            "-12m -20m +22m",
        ),
        "two replicas that tell of one event are one alert": (
            {"count": "0x8 1x60", "next pod": "0x8 1x60", "last": "_x9 120x60",
             "next last": "_x9 120x60"},
            "+2m15s -9m",
        ),
        "the same count again after a reboot is a new event": (
            {"count": "1x20 _x40 1x60", "last": "5x20 _x40 900x60"}, "-10m +15m45s -22m",
        ),
        "an NVLink error that its line calls fatal pages": (
            {"nvlink": "_x9 1x60", "nvlink last": "_x9 120x60"}, "-1m45s +2m15s -9m",
            [{**ON_A, "xid": "149"}],
        ),
        "what its line calls nonfatal, or recovered, does not": (
            {"nonfatal": "0x8 1x60", "nonfatal last": "_x9 120x60",
             "recovered last": "_x9 120x60"},
            "-1m45s -2m15s -5m",
        ),
        "a clock that was stepped by less than a minute is no event": (
            {"count": "1x80", "last": "5x40 50x40"}, "-9m -11m",
        ),
    },
)  # fmt: skip

XID_CONTAINED = Case(
    "GpuXidContainedRepeated", {**ON_A, "xid": "94"},
    f"{WHO}: XID 94 twice or more in a day",
    {
        "count": (_xid("94"), "0x200"), "kmsg": (_xid("94", "kmsg"), "_x200"),
        "other": (_xid("63"), "0x200"), "next pod": (_xid("94", pod="c-2"), "_x200"),
        "rated": (_xid("94", pod="c-2", severity="warning"), "_x200"),
    },
    fires=[({"count": "0x15 1x15 2x15"}, "-1h52m +2h32m")],
    silent=[({"count": "0x15 1x15", "other": "0x15 1x15"}, "-1h52m")],
    boundary=[({"count": "4x15 5x30"}, "-2h8m"), ({"count": "4x15 5x15 6x15"}, "-2h4m +2h8m")],
    clears=[({"count": "0x15 1x15 2x400"}, "+24h -25h16m")],
    more={
        "six lines of one burst are one time": ({"count": "0x15 6x30"}, "-1h4m -1h52m -2h"),
        "so they are where a scrape lies in between": ({"count": "0x15 3 6x30"}, "-1h8m -1h52m"),
        "two bursts are two times": ({"count": "0x15 6x15 9x15"}, "-2h4m +2h8m"),
        "an event in 40 minutes without scrapes is the second time": (
            {"count": "0x15 1x5 _x10 2x20"}, "-1h24m +2h12m",
        ),
        "two tellers of one event each are two events": (
            {"count": "0x15 1x15", "kmsg": "_x22 1x15"}, "-1h20m +1h52m",
        ),
        "a roll-out between two events hides none": (
            {"count": "0x15 1x5 stale", "next pod": "_x19 1x5 2x15"}, "-1h32m +1h52m",
        ),
        "a collector of before severities beside one that tells them is not two events": (
            {"count": "0x15 1x20", "rated": "_x16 1x19"}, "-1h32m -2h",
        ),
        "two replicas that tell of one event are one event": (
            {"count": "0x15 1x15", "next pod": "0x15 1x15"}, "-1h52m",
        ),
        "a node seen for the first time with one event is not extrapolated to two": (
            {"count": "_x5 3 4x20"}, "-24m -28m -32m -1h",
        ),
    },
    interval="4m",
)  # fmt: skip

XID_APPLICATION = Case(
    "GpuXidAppRepeatedSameGpu", {**ON_A, "xid": "31"},
    f"{WHO}: XID 31 twice or more in a day",
    {
        "count": (_xid("31"), "0x200"),
        "elsewhere": (page("lockstep_gpu_xid_errors_total", gpu="1", uuid="GPU-1", xid="31",
                           source="nvml", pci_bus_id="0000:2a:00.0"), "0x200"),
    },
    fires=[({"count": "0x15 1x15 2x15"}, "-1h52m +2h32m")],
    silent=[({"count": "0x15 1x15", "elsewhere": "0x15 1x15"}, "-1h52m"),
            ({"count": "0x15 6x30"}, "-1h4m -1h52m")],
    boundary=[({"count": "4x15 5x30"}, "-2h8m"), ({"count": "4x15 5x15 6x15"}, "-2h4m +2h8m")],
    clears=[({"count": "0x15 1x15 2x400"}, "+24h -25h16m")],
    interval="4m",
)  # fmt: skip

LOST = Case(
    "GpuLost", {"node": "a"}, "a has lost 1 of its GPUs",
    {
        "expected": (page("lockstep_gpu_expected"), "8x60"),
        "present": (page("lockstep_gpu_present"), "8x60"),
        "up": (page("lockstep_gpu_up", **GPU), "1x60"),
        "mine": (page("lockstep_gpu_up", gpu="0", uuid="MIG-1"), "1x60"),
    },
    fires=[({"present": "8x20 7x40"}, "+8m"), ({"up": "1x20 0x40"}, "+8m", [ON_A])],
    silent=[({}, "-10m"), ({"present": "_x60", "up": "_x60"}, "-10m")],
    boundary=[({"present": "8x20 7x7 8x40"}, "-6m45s -8m"), ({"present": "8x20 7x9"}, "+7m15s")],
    clears=[({"present": "8x8 7x20 8x30"}, "+6m -8m"), ({"up": "0x20 1x30"}, "+4m -8m", [ON_A])],
)  # fmt: skip

_REASON = "lockstep_gpu_clock_event_seconds_total"

THERMAL = Case(
    "GpuThermalViolation", {**ON_A, "reason": "sw_thermal"},
    f"{WHO}: too hot, slowed down 0.20 of the time",
    {
        "hot": (page(_REASON, **GPU, reason="sw_thermal"), "0x100"),
        "capped": (page(_REASON, **GPU, reason="sw_power_cap"), "0x100"),
        "next pod": (page(_REASON, **GPU, reason="sw_thermal", pod="c-2"), "_x100"),
    },
    fires=[({"hot": "0+3x60"}, "-5m +12m")],
    silent=[({"capped": "0+15x60"}, "-12m")],
    boundary=[({"hot": "0+1.5x60"}, "-12m"), ({"hot": "0+1.515x60"}, "+12m")],
    clears=[({"hot": "0+3x60 180x40"}, "+14m -21m")],
    more={
        "two replicas are not twice the time": (
            {"hot": "0+1.2x60", "next pod": "0+1.2x60"}, "-12m",
        ),
    },
)  # fmt: skip

SLOWDOWN = Case(
    "GpuHwSlowdownSustained", {**ON_A, "reason": "hw_thermal"},
    f"{WHO}: the hardware slowed it down in 7 of the last 10 minutes",
    {
        "hot": (page(_REASON, **GPU, reason="hw_thermal"), "0x100"),
        "soft": (page(_REASON, **GPU, reason="sw_thermal"), "0x100"),
    },
    fires=[({"hot": "0x12 0+0.25x40"}, "+10m")],
    silent=[({"soft": "0+15x60"}, "-12m"), ({"hot": "0+0.25x8 2x40"}, "-10m")],
    boundary=[({"hot": "0x20 0+0.25x40"}, "-10m"), ({"hot": "0x16 0+0.25x40"}, "+10m")],
    clears=[({"hot": "0+0.25x40 10x60"}, "+10m -20m")],
)  # fmt: skip

BRAKE = Case(
    "GpuPowerBrake", ON_A, f"{WHO}: its power brake is active",
    {"brake": (page(_REASON, **GPU, reason="hw_power_brake"), "0x100"),
     "capped": (page(_REASON, **GPU, reason="sw_power_cap"), "0x100")},
    fires=[({"brake": "0+0.1x60"}, "+5m")],
    silent=[({"capped": "0+1x60"}, "-8m"), ({"brake": "7x60"}, "-8m")],
    boundary=[({"brake": "0x12 0.001x60"}, "-4m +4m30s")],
    clears=[({"brake": "0x12 0.1x60"}, "+6m -10m")],
)  # fmt: skip

MARGIN = Case(
    "GpuTempMarginLow", ON_A, f"{WHO}: -2 °C from its slowdown temperature",
    {"margin": (page("lockstep_gpu_temperature_margin_celsius", **GPU), "20x40")},
    fires=[({"margin": "-2x40"}, "+2m")],
    silent=[({}, "-5m"), ({"margin": "5x8 0x3 5x20"}, "-3m -4m")],
    boundary=[({"margin": "1x40"}, "-5m"), ({"margin": "0x40"}, "-45s +1m")],
    clears=[({"margin": "0x16 3x20"}, "+3m -5m")],
)  # fmt: skip

CLOCK = Case(
    "GpuClockBelowPeers", ON_A, f"{WHO}: its clock is 0.80 of its peers'",
    {
        "ratio": (watch("lockstep_gpu_sm_clock_peer_ratio", run="r", **ON_A), "1x200"),
        "busy": (page("lockstep_gpu_utilization_ratio", **GPU), "0.95x200"),
    },
    fires=[({"ratio": "0.8x100"}, "+12m")],
    silent=[({}, "-20m"), ({"ratio": "0.8x100", "busy": "0.1x100"}, "-20m")],
    boundary=[
        ({"ratio": "0.9x100"}, "-20m"), ({"ratio": "0.89x100"}, "-9m45s +10m"),
        ({"ratio": "0.5x100", "busy": "0.8x100"}, "-20m"),
        ({"ratio": "0.5x100", "busy": "0.81x100"}, "+12m"),
    ],
    clears=[({"ratio": "0.8x60 1x80"}, "+14m -30m")],
)  # fmt: skip

_ECC = "lockstep_gpu_ecc_errors_total"

ECC = Case(
    "GpuEccUncorrectable", ON_A, f"{WHO}: uncorrectable memory error",
    {
        "count": (page(_ECC, **GPU, type="uncorrected", counter="volatile"), "0x200"),
        "corrected": (page(_ECC, **GPU, type="corrected", counter="volatile"), "0x200"),
        "ever": (page(_ECC, **GPU, type="uncorrected", counter="aggregate"), "9x200"),
        "next pod": (
            page(_ECC, **GPU, type="uncorrected", counter="volatile", pod="c-2"), "_x200",
        ),
    },
    fires=[({"count": "0x20 1x80"}, "-5m +5m15s")],
    silent=[({"corrected": "0x20 9x80", "ever": "9x20 10x80"}, "-6m")],
    boundary=[({"count": "2x100"}, "-15m"), ({"count": "2x60 3x40"}, "-15m +15m15s")],
    clears=[({"count": "0x20 1x120"}, "+14m -16m")],
    more={
        "a series born at 1 fires once": ({"count": "_x20 1x120"}, "-4m45s +5m30s -16m"),
        "an old count after 20 minutes without scrapes is no new error": (
            {"count": "3x60 _x80 3x60"}, "-36m",
        ),
        "an error in 20 minutes without scrapes is one": (
            {"count": "3x60 _x80 4x80"}, "-15m +36m -47m",
        ),
        "a count that began anew and is not 0 is an error": (
            {"count": "3x60 _x80 1x80"}, "-15m +36m -47m",
        ),
        "an old count with another pod after a roll-out is no new error, a later one is": (
            {"count": "3x60 stale", "next pod": "_x64 3x60 4x40"}, "-20m -30m +32m",
        ),
        "two replicas are one alert": (
            {"count": "0x20 1x80", "next pod": "0x20 1x80"}, "+5m15s",
        ),
        "a count that began anew and came back the same at once is an error": (
            {"count": "1x60 0x4 1x60"}, "-15m +17m",
        ),
    },
)  # fmt: skip


def _flag(alert: str, metric: str, summary: str, wait: str) -> Case:
    """A flag that is 0 or 1, and holds for `wait` until it is told."""
    held = (
        [({"flag": "0x8 1x20"}, "-2m15s +8m")] if wait else [({"flag": "0x8 1x20"}, "-2m +2m15s")]
    )
    return Case(
        alert, ON_A, f"{WHO}: {summary}", {"flag": (page(metric, **GPU), "0x60")},
        fires=[({"flag": "1x60"}, "+6m")], silent=[({}, "-10m"), ({"flag": "_x60"}, "-10m")],
        boundary=[({"flag": "0x40"}, "-8m"), ({"flag": "0x8 1x40"}, held[0][1])],
        clears=[({"flag": "1x30 0x20"}, "+7m -8m")],
    )  # fmt: skip


REMAP_FAILED = _flag(
    "GpuRowRemapFailed", "lockstep_gpu_row_remap_failed",
    "a bad memory row could not be replaced", "",
)  # fmt: skip
REMAP_PENDING = _flag(
    "GpuRowRemapPending", "lockstep_gpu_row_remap_pending",
    "a bad memory row waits for a reset", "5m",
)  # fmt: skip

_ROWS = "lockstep_gpu_remapped_rows"

REMAP_HIGH = Case(
    "GpuRowRemapUncorrectableHigh", ON_A,
    f"{WHO}: 600 memory rows replaced after uncorrectable errors",
    {"rows": (page(_ROWS, **GPU, cause="uncorrectable"), "0x40"),
     "correctable": (page(_ROWS, **GPU, cause="correctable"), "0x40")},
    fires=[({"rows": "600x40"}, "+1m")],
    silent=[({"correctable": "900x40"}, "-5m")],
    boundary=[({"rows": "511x40"}, "-5m"), ({"rows": "511x20 512x20"}, "-5m +5m15s")],
    clears=[({"rows": "512x20 0x20"}, "+5m -6m")],
)  # fmt: skip

SRAM = _flag(
    "GpuSramThresholdExceeded", "lockstep_gpu_sram_threshold_exceeded",
    "more uncorrectable SRAM errors than its threshold allows", "",
)  # fmt: skip

FABRIC = Case(
    "GpuFabricUnhealthy", ON_A, f"{WHO}: its NVLink fabric is not healthy",
    {"healthy": (page("lockstep_gpu_fabric_healthy", **GPU), "1x80")},
    fires=[({"healthy": "1x8 0x70"}, "-7m +8m")],
    silent=[({}, "-15m"), ({"healthy": "_x80"}, "-15m"), ({"healthy": "0x16 1x60"}, "-4m -15m")],
    boundary=[({"healthy": "1x8 0x19 1x40"}, "-7m -7m15s"), ({"healthy": "1x8 0x70"}, "+7m15s")],
    clears=[({"healthy": "0x40 1x40"}, "+8m -11m")],
)  # fmt: skip

_SXID = "lockstep_nvswitch_sxid_errors_total"
_OF_SXID = {"nvswitch": "0000:c3:00.0", "sxid": "12028"}

SXID = Case(
    "NvswitchSxidFatal", {"node": "a", **_OF_SXID},
    "NVSwitch 0000:c3:00.0 on a: fatal SXID 12028",
    {
        "count": (page(_SXID, **_OF_SXID, severity="fatal"), "_x120"),
        "next pod": (page(_SXID, **_OF_SXID, severity="fatal", pod="c-2"), "_x120"),
        "nonfatal": (page(_SXID, **_OF_SXID, severity="nonfatal"), "_x120"),
        "page": (page("lockstep_build_info", version="1", python="3"), "1x120"),
    },
    fires=[({"count": "_x40 1x80"}, "-9m45s +10m")],
    silent=[({}, "-20m"), ({"nonfatal": "_x40 1x20 5x60"}, "-10m -15m -20m"),
            ({"count": "2x120"}, "-0s -4m -10m")],
    boundary=[({"count": "2x60"}, "-12m"), ({"count": "2x40 3x60"}, "-10m +10m15s")],
    clears=[({"count": "_x40 1x80"}, "+11m -16m")],
    more={
        "an old count of a node that is scraped for the first time is no new event": (
            {"count": "_x40 1x80", "page": "_x40 1x80"}, "-10m -12m -16m",
        ),
        "an old count with another pod after a roll-out is no new event": (
            {"count": "1x40 stale", "next pod": "_x44 1x70"}, "-8m -11m -12m -20m",
        ),
    },
)  # fmt: skip

CASES = (
    SRAM, FABRIC, SXID,
    XID_FATAL, XID_CONTAINED, XID_APPLICATION, RECOVERY, LOST, THERMAL, SLOWDOWN, BRAKE, MARGIN,
    CLOCK, ECC,
    REMAP_FAILED, REMAP_PENDING, REMAP_HIGH,
)  # fmt: skip
