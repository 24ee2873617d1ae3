"""What NVIDIA's buckets (immediate actions) mean: for machinery, and in words."""

from collections.abc import Mapping

from lockstep.collector.contract.xid.shape import Action, Bucket

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
        "Drain the node and reset its GPUs. The seven registers in the message tell a damaged link"
        " from one whose peer failed; on a repeat on the same link check its seating."
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
    171: "Follow XID 48; the error is in DRAM: XID 63 or 64 tells of its remapping.",
    172: "Follow XID 48; the error is in SRAM: look whether its error threshold is exceeded.",
    173: "Drain the node and restart it; if it comes again, have the board inspected.",
    174: "Look at the XIDs before it.",
    175: "As for XID 119: drain the GPU and reset it; reboot the node if that fails.",
    176: "Look at the PCIe errors of the GPU and its slot: LockstepPcieReplayRateHigh.",
}
"""Where more is known of one XID than its bucket says."""
