"""Metrics that no dashboard of Grafana shows, and why.

They are kept for verdicts, alerts, reports and the pages of `lockstep dashboard`.
"""

from typing import NamedTuple


class Reason(NamedTuple):
    """Why these are left out."""

    why: str
    metrics: tuple[str, ...]


UNUSED = (
    Reason(
        "Identity of a thing, to join on; no value over time.",
        (
            "lockstep_node_info", "lockstep_boot_info", "lockstep_ib_info",
            "lockstep_gpu_mig_info", "lockstep_gpu_allocation_info", "lockstep_kubelet_devices",
        ),
    ),
    Reason(
        "A limit, a mode or a size that stands: the margin, the share or the alert says more.",
        (
            "lockstep_gpu_memory_total_bytes", "lockstep_gpu_memory_free_bytes",
            "lockstep_gpu_memory_reserved_bytes", "lockstep_gpu_temperature_limit_celsius",
            "lockstep_gpu_temperature_limit_margin_celsius", "lockstep_gpu_power_limit_watts",
            "lockstep_gpu_clock_max_hertz", "lockstep_gpu_ecc_mode",
            "lockstep_gpu_pcie_link_generation", "lockstep_gpu_pcie_link_generation_max",
            "lockstep_net_mtu_bytes", "lockstep_net_speed_bytes_per_second", "lockstep_net_up",
            "lockstep_nccl_communicator_size", "lockstep_gpu_sample_interval_seconds",
        ),
    ),
    Reason(
        "Detail of one GPU: the page of the GPU in `lockstep dashboard` has it.",
        (
            "lockstep_gpu_memory_copy_utilization_ratio",
            "lockstep_gpu_graphics_engine_active_ratio", "lockstep_gpu_sm_active_ratio",
            "lockstep_gpu_sm_occupancy_ratio", "lockstep_gpu_tensor_active_ratio",
            "lockstep_gpu_dram_active_ratio", "lockstep_gpu_fp64_active_ratio",
            "lockstep_gpu_fp32_active_ratio", "lockstep_gpu_fp16_active_ratio",
            "lockstep_gpu_power_average_watts", "lockstep_gpu_energy_joules_total",
            "lockstep_gpu_performance_state", "lockstep_gpu_processes",
            "lockstep_gpu_pcie_bytes_total",
        ),
    ),
    Reason(
        "Evidence that alerts and causes weigh: LockstepGpu…, LockstepNvlink… and LockstepPcie….",
        (
            "lockstep_gpu_up", "lockstep_gpu_stalled", "lockstep_gpu_ecc_location_errors_total",
            "lockstep_gpu_sram_threshold_exceeded", "lockstep_gpu_remapped_rows",
            "lockstep_gpu_row_remap_banks", "lockstep_gpu_retired_pages",
            "lockstep_gpu_retired_pages_pending", "lockstep_gpu_pcie_replay_rollover_total",
            "lockstep_gpu_pcie_l0_to_recovery_total", "lockstep_gpu_nvlink_bit_error_ratio",
            "lockstep_gpu_fabric_state", "lockstep_gpu_fabric_healthy",
            "lockstep_nvswitch_sxid_errors_total", "lockstep_gpu_nvlink_expected",
            "lockstep_ib_port_expected",
        ),
    ),
    Reason(
        "Detail of one host: pressure, share and traffic of the node say the same at a glance.",
        (
            "lockstep_load_average", "lockstep_memory_free_bytes", "lockstep_memory_cached_bytes",
            "lockstep_memory_writeback_bytes", "lockstep_memory_swap_bytes",
            "lockstep_memory_swap_free_bytes", "lockstep_numa_misses_total",
            "lockstep_cpu_thermal_throttles_total", "lockstep_cpu_thermal_throttled_seconds_total",
            "lockstep_host_temperature_celsius", "lockstep_disk_operations_total",
            "lockstep_disk_time_seconds_total", "lockstep_disk_busy_seconds_total",
            "lockstep_disk_operations_in_flight", "lockstep_softnet_processed_total",
            "lockstep_softnet_dropped_total", "lockstep_softnet_time_squeezed_total",
            "lockstep_tcp_syn_retransmits_total", "lockstep_tcp_timeouts_total",
            "lockstep_ib_port_packets_total", "lockstep_net_packets_total",
            "lockstep_net_pfc_pause_total", "lockstep_net_pci_stalled_ratio",
            "lockstep_clock_offset_seconds", "lockstep_train_cpu_seconds_total",
        ),
    ),
    Reason(
        "Parts of what is shown: lag, missing ranks and bus bandwidth are made of them.",
        (
            "lockstep_nccl_ras_collection_seconds", "lockstep_nccl_ras_timeouts",
            "lockstep_nccl_communicator_collectives_launched",
            "lockstep_nccl_rank_collectives_launched_total",
            "lockstep_nccl_fr_last_enqueued_collective",
            "lockstep_nccl_fr_last_started_collective", "lockstep_nccl_fr_dump_age_seconds",
            "lockstep_nccl_collective_algorithm_bandwidth_bytes_per_second",
        ),
    ),
    Reason(
        "The end of one rank: verdicts read it, and the finding says it in words.",
        ("lockstep_rank_last_state",),
    ),
    Reason(
        "Between watch, who acts on nodes, and its log: breaker and quarantines are shown.",
        (
            "lockstep_node_last_scrape_timestamp_seconds", "lockstep_node_faults",
            "lockstep_remediation_held", "lockstep_remediation_writes_total",
            "lockstep_remediation_cycles_total",
            "lockstep_remediation_last_success_timestamp_seconds",
        ),
    ),
)  # fmt: skip
