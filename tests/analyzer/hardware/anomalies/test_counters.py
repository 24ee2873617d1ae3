"""Counters that run, and events that no healthy part has."""

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.hardware.anomalies.judge import judge
from tests.analyzer.hardware.anomalies.conftest import (
    CAPPED,
    CLOCK,
    CORRECTED,
    EPOCH,
    REPLAY,
    SECONDS,
    THROTTLED,
    UNCORRECTED,
)


def told(fleet):
    return [(each.subject, each.node, each.gpu) for each in judge(fleet.samples()).deviations]


def rising(fleet, rate, since=30):
    return rate * SECONDS * np.arange(fleet.bins - since)


@pytest.mark.parametrize(("key", "rate", "subject"), [
    (REPLAY, 20.0, "pcie"), (CORRECTED, 40.0, "memory"),
])  # fmt: skip
def test_errors_that_only_one_gpu_counts_deviate(hardware, key, rate, subject):
    fleet = hardware()
    fleet.gpus[key][30:, 6] = rising(fleet, rate)

    assert [(subject, "node-1", 2)] == told(fleet)


def test_a_few_errors_a_day_are_silent(hardware):
    fleet = hardware()
    fleet.gpus[CORRECTED][30:, 6] = 5.0
    fleet.gpus[REPLAY][10:, 1] = 3.0

    assert [] == told(fleet)


def test_a_counter_that_began_anew_is_no_error(hardware):
    fleet = hardware()
    fleet.gpus[REPLAY][:, 3] = 9000.0
    fleet.gpus[REPLAY][25:, 3] = 0.0

    assert [] == told(fleet)


def test_a_lone_gpu_with_errors_deviates_without_peers(hardware):
    fleet = hardware(nodes=1, width=1)
    fleet.gpus[REPLAY][30:, 0] = rising(fleet, 20.0)

    assert [("pcie", "node-0", 0)] == told(fleet)


def test_a_power_cap_that_all_touch_is_silent(hardware):
    fleet = hardware()
    fleet.gpus[CAPPED][:] = 0.9 * fleet.seconds

    assert [] == told(fleet)


def test_a_contradiction_about_one_reason_hides_no_other(hardware):
    fleet = hardware()
    braked, warm = np.zeros((60, 8)), np.zeros((60, 8))
    warm[:, 6] = np.cumsum(np.where(np.arange(60) < 25, 0.3 * SECONDS, 0.0))
    braked[30:, 6] = 0.9 * SECONDS * np.arange(30)
    fleet.gpus[CLOCK][30:, 6] *= 0.5
    fleet.gpus[THROTTLED[0], 'reason="sw_thermal"'] = warm
    fleet.gpus[THROTTLED[0], 'reason="hw_power_brake"'] = braked

    judged = judge(fleet.samples())

    assert ["clock", "power"] == [each.subject for each in judged.deviations]
    words = "that it is in the driver's thermal slowdown, but its clock is its peers'"
    assert (f"GPU 2 of node-1 reports {words}",) == judged.missing


def test_throttling_without_a_lower_clock_contradicts_itself(hardware):
    fleet = hardware()
    fleet.gpus[THROTTLED][30:, 6] = rising(fleet, 0.8)

    judged = judge(fleet.samples())

    assert () == judged.deviations
    assert judged.missing == (
        "GPU 2 of node-1 reports that it is in thermal slowdown, but its clock is its peers'",
    )


BRAKED = ("lockstep_gpu_clock_event_seconds_total", 'reason="hw_power_brake"')


@pytest.mark.parametrize(("every", "node"), [(3, [6]), (4, [4, 5, 6, 7])])
def test_a_brake_in_bursts_needs_its_lower_clock_in_some_scrapes_only(hardware, every, node):
    fleet = hardware()
    bins = np.arange(fleet.bins)
    share = np.where(bins >= 30, 0.5, 0.0)
    fleet.gpus[BRAKED] = np.zeros((fleet.bins, 8))
    fleet.gpus[BRAKED][:, node] = SECONDS * np.cumsum(share)[:, None]
    low = (bins >= 30) & (bins % every == 0)
    fleet.gpus[CLOCK][np.ix_(low, node)] *= 0.6

    judged = judge(fleet.samples())

    assert () == judged.missing
    words = "braked by the power supply"
    assert len(node) == len([each for each in judged.deviations if words in each.text])


def test_a_brake_at_the_peers_clock_is_doubted_though_one_scrape_strayed(hardware):
    fleet = hardware()
    fleet.gpus[BRAKED] = np.zeros((fleet.bins, 8))
    fleet.gpus[BRAKED][30:, 6] = rising(fleet, 0.9)
    fleet.gpus[CLOCK][40, 6] *= 0.6

    judged = judge(fleet.samples())

    assert () == judged.deviations
    words = "reports that it is braked by the power supply, but its clock is its peers'"
    assert judged.missing == (f"GPU 2 of node-1 {words}",)


def test_throttling_with_a_lower_clock_deviates(hardware):
    fleet = hardware().hot(6, since=30)

    assert {("heat", "node-1", 2), ("clock", "node-1", 2)} == set(told(fleet))


def test_one_uncorrectable_memory_error_is_told(hardware):
    fleet = hardware()
    fleet.gpus[UNCORRECTED][40:, 0] = 1.0

    found = judge(fleet.samples()).deviations

    assert ["GPU 0 of node-0: 1 uncorrectable memory error"] == [each.text for each in found]
    assert [EPOCH + 40 * SECONDS] == pytest.approx([each.since for each in found], abs=1.0)


@pytest.mark.parametrize(("number", "expected"), [(79, 1), (95, 1), (119, 1), (31, 0), (13, 0)])
def test_an_xid_of_the_hardware_is_told_and_one_of_the_application_is_not(
    hardware, number, expected
):
    fleet = hardware()
    logged = np.full((fleet.bins, 8), np.nan)
    logged[20:, 3] = EPOCH + 300.0
    fleet.gpus["lockstep_gpu_xid_last_timestamp_seconds", f'xid="{number}"'] = logged

    assert expected == len(told(fleet))


@pytest.mark.parametrize(("number", "severity", "expected"), [
    (149, "fatal", 1), (145, "warning", 0), (154, "info", 0), (62, "fatal", 1), (143, "fatal", 1),
    (45, "info", 0), (94, "warning", 1), (63, "info", 1),
])  # fmt: skip
def test_an_xid_is_told_as_its_line_rates_it(hardware, number, severity, expected):
    fleet = hardware()
    logged = np.full((fleet.bins, 8), np.nan)
    logged[20:, 3] = EPOCH + 300.0
    labels = f'severity="{severity}",xid="{number}"'
    fleet.gpus["lockstep_gpu_xid_last_timestamp_seconds", labels] = logged

    assert expected == len(told(fleet))


def test_a_fatal_line_of_the_kernel_log_is_told_of_its_node_and_others_are_not(hardware):
    fleet = hardware()
    for severity in ("fatal", "warning", "info"):
        lines = np.zeros((fleet.bins, 2))
        lines[30:, 1] = 2.0
        labels = f'kind="nic_health",severity="{severity}"'
        fleet.of_nodes["lockstep_kernel_events_total", labels] = lines

    found = judge(fleet.samples()).deviations

    assert ["node-1: 2 times: the firmware of a NIC has failed"] == [one.text for one in found]


def test_an_xid_from_before_the_recording_is_not_told(hardware):
    fleet = hardware()
    logged = np.full((fleet.bins, 8), np.nan)
    logged[:, 3] = EPOCH - 3600.0
    fleet.gpus["lockstep_gpu_xid_last_timestamp_seconds", 'xid="79"'] = logged

    assert [] == told(fleet)


@pytest.mark.parametrize("odd", [float("inf"), -float("inf"), 1e308])
def test_a_value_that_no_hardware_has_is_not_told(hardware, odd):
    fleet = hardware()
    for key in (UNCORRECTED, CORRECTED, REPLAY):
        fleet.gpus[key][40:, 0] = odd
    fleet.gpus[CLOCK][40, 1] = odd
    fleet.gpus["lockstep_gpu_row_remap_pending", ""] = np.full((fleet.bins, 8), odd)

    assert [] == told(fleet)


@pytest.mark.parametrize("logged", [1.7e18, 1e308, float("inf"), EPOCH + 1e6])
def test_an_xid_from_after_the_recording_is_not_told(hardware, logged):
    fleet = hardware()
    times = np.full((fleet.bins, 8), np.nan)
    times[20:, 3] = logged
    fleet.gpus["lockstep_gpu_xid_last_timestamp_seconds", 'xid="79"'] = times

    assert [] == told(fleet)


@pytest.mark.parametrize("number", ["\u00b2", "\u0667\u0669", "9" * 5000, "", "-79"])
def test_an_xid_that_is_no_number_is_not_told(hardware, number):
    fleet = hardware()
    logged = np.full((fleet.bins, 8), np.nan)
    logged[20:, 3] = EPOCH + 300.0
    fleet.gpus["lockstep_gpu_xid_last_timestamp_seconds", f'xid="{number}"'] = logged

    assert [] == told(fleet)


@pytest.mark.parametrize("time", [1.7e18, -1e12])
def test_a_sample_from_a_time_that_no_clock_has_is_not_told(hardware, time):
    fleet = hardware()
    fleet.gpus[UNCORRECTED][40:, 0] = 1.0
    samples = fleet.samples()
    odd = samples.iloc[:1].assign(time=time)

    found = judge(pd.concat([samples, odd])).deviations

    assert [EPOCH + 40 * SECONDS] == pytest.approx([each.since for each in found], abs=1.0)


def test_a_link_that_flapped_is_told_of_its_node(hardware):
    fleet = hardware()
    changes = np.zeros((fleet.bins, 2))
    changes[30:, 1] = 2.0
    fleet.of_nodes["lockstep_net_carrier_changes_total", 'device="eth0"'] = changes

    found = judge(fleet.samples()).deviations

    assert ["node-1: 2 times a link came or went"] == [each.text for each in found]


def test_a_virtual_device_that_comes_and_goes_is_no_flap(hardware):
    fleet = hardware()
    changes = np.full((fleet.bins, 2), np.nan)
    changes[10:20, 1], changes[40:, 1] = 900.0, 2.0
    steady = np.full((fleet.bins, 2), 3.0)
    fleet.of_nodes["lockstep_net_carrier_changes_total", 'device="veth7"'] = changes
    fleet.of_nodes["lockstep_net_carrier_changes_total", 'device="eth0"'] = steady

    assert [] == told(fleet)


def test_a_first_count_that_is_a_new_series_is_told(hardware):
    fleet = hardware()
    fallen = np.full((fleet.bins, 8), np.nan)
    fallen[30:, 2] = 1.0
    fleet.gpus["lockstep_gpu_fallen_off_bus_total", 'pci_bus_id="0"'] = fallen

    assert [("gone", "node-0", 2)] == told(fleet)


def test_errors_of_a_network_device_are_told_of_its_node(hardware):
    fleet = hardware()
    key = ("lockstep_net_errors_total", 'device="eth0",direction="receive"')
    fleet.of_nodes[key][30:, 0] = rising(fleet, 30.0)

    assert [("network", "node-0", None)] == told(fleet)


def test_an_infiniband_link_that_went_down_once_is_told_of_its_node(hardware):
    fleet = hardware()
    downs = np.zeros((fleet.bins, 2))
    downs[30:, 1] = 1.0
    labels = 'device="mlx5_0",kind="link_downed",port="1"'
    fleet.of_nodes["lockstep_ib_port_errors_total", labels] = downs

    found = judge(fleet.samples()).deviations

    assert ["node-1: 1 time the link of an RDMA port went down"] == [each.text for each in found]


def test_a_port_that_fell_to_half_its_rate_is_told_beside_the_peers(hardware):
    fleet = hardware(nodes=4)
    for device in ("mlx5_0", "mlx5_1"):
        rates = np.full((fleet.bins, 4), 5e10)
        rates[30:, 2] *= 0.5 if device == "mlx5_1" else 1.0
        labels = f'device="{device}",port="1"'
        fleet.of_nodes["lockstep_ib_port_rate_bytes_per_second", labels] = rates

    found = judge(fleet.samples()).deviations

    assert ["node-2: rate of all RDMA ports 600 Gbit/s where its peers have 800 Gbit/s"] == [
        each.text for each in found
    ]


def test_what_one_part_of_a_gpu_shows_in_many_series_is_told_once(hardware):
    fleet = hardware()
    fleet.gpus[UNCORRECTED][30:, 6] = 2.0
    fleet.gpus[CORRECTED][30:, 6] = rising(fleet, 40.0)
    fleet.gpus["lockstep_gpu_row_remap_pending", ""] = (np.arange(60)[:, None] >= 30) * (
        np.arange(8) == 6
    ).astype(float)

    found = judge(fleet.samples()).deviations

    assert 1 == len(found)
    for words in ("2 uncorrectable memory errors", "rows wait for a reset", "corrected memory"):
        assert words in found[0].text


def test_a_lower_clock_alone_is_told_with_both_clocks(hardware):
    fleet = hardware(noise=0.0)
    fleet.gpus[CLOCK][30:, 6] = 1.2e9

    assert ["GPU 2 of node-1: SM clock 1200 MHz where its peers have 1800 MHz"] == [
        each.text for each in judge(fleet.samples()).deviations
    ]


@pytest.mark.parametrize(("share", "told"), [(0.4, True), (0.03, False)])
def test_a_port_that_is_paused_for_a_share_of_the_time_deviates(hardware, share, told):
    """The worst of eight: together they would be paused for a quarter of it."""
    fleet = hardware()
    for port in range(8):
        paused = np.zeros((60, 2))
        paused[:, 1] = (share if port == 3 else min(share, 0.03)) * fleet.seconds[:, 0]
        labels = f'device="eth{port}",direction="receive",priority="3"'
        fleet.of_nodes["lockstep_net_pfc_pause_seconds_total", labels] = paused
    found = judge(fleet.samples()).deviations

    assert [("network", "node-1")] * told == [(each.subject, each.node) for each in found]
    assert all("network port told to pause 40% of the time" in each.text for each in found)
