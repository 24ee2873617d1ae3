"""Every XID that NVIDIA's catalogue lists: what it is, and its bucket (immediate action).

Source: NVIDIA, "Analyzing Xid Errors with the Xid Catalog", the table of XIDs for A100 and later,
as NVSentinel embeds it. A code that it calls unused is from older GPUs; it sends those to support.
"""

from collections.abc import Mapping

from collector.contract.xid.shape import Action, Bucket

SOURCE = "NVIDIA Xid catalogue"
UNUSED = "unused since A100"

TEXTS: dict[int, str] = {
    8: "GPU stopped processing",
    11: "invalid or corrupted push buffer stream",
    13: "graphics engine exception",
    14: "fake error, injected from user space",
    25: "invalid or illegal push buffer stream",
    31: "GPU memory page fault",
    32: "invalid or corrupted push buffer stream",
    37: "driver firmware error",
    38: "driver firmware error: watchdog timeout",
    **{39 + n: f"copy engine {n} error" for n in range(3)},
    43: "GPU stopped processing: a user application's fault",
    44: "graphics engine fault during context switch",
    45: "preemptive cleanup, because of an earlier error or the end of the application",
    46: "GPU stopped processing",
    48: "double-bit ECC error",
    54: "auxiliary power is not connected to the GPU board",
    60: "video processor exception",
    62: "internal micro-controller halt",
    63: "GPU memory remapping event",
    64: "GPU memory remapping failure",
    66: "illegal access by driver",
    67: "illegal access by driver",
    69: "graphics engine class error",
    **{70 + n: f"copy engine {3 + n} error" for n in range(3)},
    74: "NVLink error",
    **{75 + n: f"copy engine {6 + n} error" for n in range(3)},
    78: "vGPU start error",
    79: "GPU has fallen off the bus",
    80: "corrupted data sent to GPU",
    85: "copy engine 9 error",
    86: "optical flow engine 0 error",
    **{xid: f"video decoder {n} error" for n, xid in enumerate((68, 83, 84, 88, 89, 96, 97, 98))},
    **{xid: f"JPEG engine {n} error" for n, xid in enumerate((82, *range(99, 106)))},
    92: "high single-bit ECC error rate",
    93: "InfoROM wear limit reached",
    94: "contained memory error",
    95: "uncontained memory error",
    106: "SMBPBI test message",
    107: "SMBPBI test message, silent",
    108: "NVLink remote translation error",
    109: "context switch timeout",
    110: "security fault",
    119: "GSP RPC timeout",
    120: "GSP error",
    121: "corrected error on the C2C link",
    **{126 + n: f"copy engine {10 + n} error" for n in range(10)},
    136: "link training failed",
    137: "NVLink privilege error: illegal peer-to-peer access",
    139: "optical flow engine 1 error",
    140: "unrecovered ECC error",
    141: "CUDA fast path error",
    142: "video encoder 3 error",
    143: "GPU initialization error",
    144: "NVLink SAW error",
    145: "NVLink RLW error",
    146: "NVLink TLW error",
    147: "NVLink TREX error",
    148: "NVLink NVLPW_CTRL error",
    149: "NVLink NETIR error",
    150: "NVLink MSE error",
    151: "key rotation error",
    152: "DLA SMMU error",
    153: "DLA timeout",
    154: "GPU recovery action changed",
    155: "NVLink error defined by software, as a link taken down on purpose",
    156: "resource retirement",
    157: "resource retirement failed",
    158: "GPU fatal timeout",
    159: "CHI non-data error on the C2C link",
    160: "channel retirement",
    161: "channel retirement failed",
    162: "power smoothing engaged again",
    163: "power smoothing disengaged",
    164: "power smoothing near the end of its lifetime",
    165: "power smoothing at the end of its lifetime",
    166: "traffic before the link was set up for encryption",
    167: "PCIe fatal timeout",
    168: "reduced GPU memory: errors in the write-protected region",
    169: "internal micro-controller halt (SEC2)",
    170: "NVLink interrupt in confidential-computing mode",
    171: "uncorrectable DRAM error (detail of XID 48)",
    172: "uncorrectable SRAM error (detail of XID 48)",
}
"""What each XID is; those between 1 and 172 that are not here are UNUSED."""
LAST = 172

BUCKETS: Mapping[Bucket, tuple[int, ...]] = {
    Bucket.RESTART_APP: (
        8, 11, 13, 25, 31, 32, 39, 40, 41, 60, *range(68, 73), 75, 76, 77, 80, *range(82, 87), 88,
        89, 94, *range(96, 106), *range(126, 136), 139,
    ),
    Bucket.IGNORE: (
        14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141, 152, 153, 157, 160,
        161,
    ),
    Bucket.RESET_GPU: (46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    Bucket.WORKFLOW_XID_48: (48,),
    Bucket.WORKFLOW_XID_45: (45,),
    Bucket.CHECK_MECHANICALS: (54,),
    Bucket.UPDATE_SWFW: (78,),
    Bucket.CHECK_UVM: (159,),
    Bucket.WORKFLOW_NVLINK: (74,),
    Bucket.WORKFLOW_NVLINK5: tuple(range(144, 151)),
    Bucket.RESTART_BM: (79,),
    Bucket.RESTART_VM: (151,),
    Bucket.XID_154: (154,),
    Bucket.CONTACT_SUPPORT: (142,),
    Bucket.UNRATED: tuple(range(162, 173)),
}  # fmt: skip
"""XIDs by bucket; all others are CONTACT_SUPPORT."""

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
    171: "Follow XID 48; the error is in DRAM: XID 63 or 64 tells of its remapping.",
    172: "Follow XID 48; the error is in SRAM: look whether its error threshold is exceeded.",
}
"""Where the catalogue says more of one XID than its bucket does."""
