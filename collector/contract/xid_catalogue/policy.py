"""How bad an XID is, by whom you ask: NVIDIA's catalogue (the default), DCGM or gpud.

Sources: the catalogue's bucket (rows.py); DCGM 4.6's health watches; gpud's event types. They
disagree, so the choice is data with a name.
"""

from collections.abc import Callable, Mapping

from lockstep.collector.contract.xid_catalogue.shape import Action, Bucket, Severity

DEFAULT = "nvidia"

DCGM: Mapping[int, str] = {
    **dict.fromkeys((48, 64, 74, 79, 95, 119, 120, 140), "FAIL"),
    **dict.fromkeys(
        (31, 32, 38, 39, 42, 43, 54, 56, 57, 58, 60, 61, 62, 63, 67, 73, 78, 93, 94, 121, 137),
        "WARN",
    ),
}
"""DCGM's verdict (memory, PCIe, thermal, power, NVLink and InfoROM watches; 93 on Volta only)."""

_GPUD_FATAL = (
    9, 12, 16, 18, 19, *range(26, 31), *range(32, 37), 38, 42, 44, 46, 47, 48, *range(59, 65), 68,
    69, 74, 78, 79, 81, 95, 110, 119, 120, 121, 123, 140, 143,
)  # fmt: skip
GPUD: Mapping[int, str] = {
    **dict.fromkeys((*range(1, 133), *range(134, 174)), "Warning"),
    **dict.fromkeys(_GPUD_FATAL, "Fatal"),
    **dict.fromkeys((65, 94), "Critical"),
    **dict.fromkeys((152, 153, 157, 161, 162, 164, 165), "Info"),
}
"""gpud's event type; NVLink's 144 to 150 it rates by what the message says."""

_DCGM_WORDS = {"FAIL": Severity.FATAL, "WARN": Severity.WARNING}
_GPUD_WORDS = {
    "Fatal": Severity.FATAL,
    "Critical": Severity.WARNING,  # "degraded": work goes on
    "Warning": Severity.WARNING,
    "Info": Severity.INFO,
}
_BY_BUCKET = {
    Bucket.IGNORE: Severity.INFO,
    Bucket.RESET_GPU: Severity.FATAL,
    Bucket.RESTART_BM: Severity.FATAL,
    Bucket.RESTART_VM: Severity.FATAL,
    Bucket.WORKFLOW_XID_48: Severity.FATAL,
    Bucket.WORKFLOW_NVLINK: Severity.FATAL,
    Bucket.WORKFLOW_NVLINK5: Severity.FATAL,
}
UNRATED_FATAL = frozenset({167, 169, 173, 175})
"""XIDs without an action of NVIDIA's that the driver itself calls fatal (167, 173), or that are
another form of one that needs a reset: 169 of 62, 175 of 119."""


def rated(number: int, bucket: Bucket) -> Severity:
    """The default policy: what needs a reset or a restart is fatal."""
    if number in UNRATED_FATAL:
        return Severity.FATAL
    return _BY_BUCKET.get(bucket, Severity.WARNING)


POLICIES: Mapping[str, Callable[[int, Bucket], Severity | None]] = {
    DEFAULT: rated,
    "dcgm": lambda number, _bucket: _DCGM_WORDS.get(DCGM.get(number, "")),
    "gpud": lambda number, _bucket: _GPUD_WORDS.get(GPUD.get(number, "")),
}
"""Severity of (number, bucket) by name of the policy; None = it has no opinion."""


# NVIDIA's buckets (immediate actions) as actions and in words.

ACTIONS: Mapping[Bucket, Action | None] = {
    Bucket.RESTART_APP: Action.NONE,
    Bucket.IGNORE: Action.NONE,
    Bucket.RESET_GPU: Action.COMPONENT_RESET,
    Bucket.WORKFLOW_XID_48: Action.COMPONENT_RESET,
    Bucket.WORKFLOW_XID_45: Action.CONTACT_SUPPORT,
    Bucket.CHECK_MECHANICALS: Action.CONTACT_SUPPORT,
    Bucket.UPDATE_SWFW: Action.CONTACT_SUPPORT,
    Bucket.CHECK_UVM: Action.CONTACT_SUPPORT,
    Bucket.WORKFLOW_NVLINK: None,
    Bucket.WORKFLOW_NVLINK5: None,
    Bucket.RESTART_BM: Action.RESTART_BM,
    Bucket.RESTART_VM: Action.RESTART_VM,
    Bucket.XID_154: None,
    Bucket.CONTACT_SUPPORT: Action.CONTACT_SUPPORT,
    Bucket.UNRATED: None,
}
"""What NVSentinel makes of a bucket; None where the message decides (`detail`), or nobody."""


ADVICE: Mapping[Bucket, str] = {
    Bucket.RESTART_APP: (
        "Restart the application; the GPU needs nothing. If it repeats on the same GPU with"
        " applications known to be good, run diagnostics on it (dcgmi diag)."
    ),
    Bucket.IGNORE: "Nothing to do now.",
    Bucket.RESET_GPU: (
        "Drain the GPU and reset it (nvidia-smi --gpu-reset); reboot the node if that fails."
    ),
    Bucket.WORKFLOW_XID_48: (
        "Drain the node and reset the GPU. If it came without XID 63 or 64, look whether the SRAM"
        " error threshold is exceeded, and run field diagnostics."
    ),
    Bucket.WORKFLOW_XID_45: (
        "If another XID came with it, follow that one; if the application was not ended by hand"
        " either, restart the Fabric Manager."
    ),
    Bucket.CHECK_MECHANICALS: "Check the seating of the board and all its power connections.",
    Bucket.UPDATE_SWFW: "Update driver and firmware; guest and host driver must fit each other.",
    Bucket.CHECK_UVM: "Reset the GPU if unified memory or vGPU is in use; else nothing to do.",
    Bucket.WORKFLOW_NVLINK: (
        "Drain the node and reset its GPUs. The seven registers in the message distinguish a"
        " damaged link from one whose peer failed; on a repeat on the same link check its seating."
    ),
    Bucket.WORKFLOW_NVLINK5: (
        "Do what the XID 154 that comes with it says. Without one: reset the GPU if the message"
        " says Fatal, restart the application if it says Nonfatal."
    ),
    Bucket.RESTART_BM: "Drain the node and restart it; if it comes again, have the GPU inspected.",
    Bucket.RESTART_VM: "Restart the virtual machine that owns the GPU.",
    Bucket.XID_154: "Do what the last parenthesis of the message says; it sums up other XIDs.",
    Bucket.CONTACT_SUPPORT: "Take the GPU out of work and contact its vendor's support.",
    Bucket.UNRATED: "NVIDIA gives no immediate action; watch the GPU.",
}

ADVICE_OF: Mapping[int, str] = {
    163: (
        "No reset needed. If power smoothing is wanted, solve the thermal trouble; after a timeout"
        " reload the driver or reset the GPU."
    ),
    164: "Plan to replace the GPU if power smoothing is wanted.",
    165: "Replace the GPU if the building cannot bear power swings; smoothing is off.",
    166: "Concerns confidential computing only.",
    168: "Enable ECC, so that rows can be remapped, or boot again.",
    170: "Concerns confidential computing only.",
    167: "Drain the GPU and reset it; reboot the node if that fails.",
    169: "Drain the GPU and reset it, as for XID 62.",
    171: "Follow XID 48; the error is in DRAM: XID 63 or 64 reports its remapping.",
    172: "Follow XID 48; the error is in SRAM: look whether its error threshold is exceeded.",
    173: "Drain the node and restart it; if it comes again, have the board inspected.",
    174: "Look at the XIDs before it.",
    175: "As for XID 119: drain the GPU and reset it; reboot the node if that fails.",
    176: "Look at the PCIe errors of the GPU and its slot: LockstepPcieReplayRateHigh.",
}
"""Where more is known of one XID than its bucket says."""
