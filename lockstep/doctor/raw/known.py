"""Lines of kernel logs and labels of nodes that are known and of no use: nothing is to be told."""

import re

_SWITCH = r"nvidia-nvswitch\d*: "
LINES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (what, re.compile(form, re.ASCII))
    for what, form in (
        (
            "a module is loaded or unloaded",
            (
                r"NVRM: (?:un)?loading NVIDIA UNIX"
                r"|nvidia[\w-]*: (?:[Ll]oad(?:ing|ed)|[Uu]nload(?:ing|ed)) "
                r"|nvidia-nvlink: (?:Nvlink Core is being initialized|Unregistered Nvlink Core)"
            ),
        ),
        (
            "a module taints the kernel",
            r"nvidia[\w-]*: module (?:license|verification|uses symbols)\b.*taint",
        ),
        (
            "a device is enabled",
            (
                r"nvidia [0-9a-f:.]{7,16}: (?:enabling device|vgaarb: )"
                rf"|{_SWITCH}(?:Probing device|using MSI)"
            ),
        ),
        (
            "an interrupt that the driver clears at its start",
            r"NVRM: gpuClearFbhubPoisonIntrForBug\d{1,10}_\w{1,10}: ",
        ),
        ("a setting that drivers will not have", r"NVRM: Persistence mode is deprecated\b"),
        (
            "more of an SXid",  # its first line is the event: collector/formats/kernel_log.py
            _SWITCH + r"SXid \([^()]{5,32}\): \d{1,6}, (?:Severity \d|Data \{)",
        ),
        (
            # Bits of the status and the header: its line with the severity is the event, once,
            # however many bits are set (Linux drivers/pci/pcie/aer.c, aer_print_error).
            "more of a PCIe error",
            (
                r"[\w.-]{1,32} [0-9a-fA-F:.]{7,16}: (?:AER: )? *(?:"
                r"device \[[0-9a-f]{4}:[0-9a-f]{4}\] error status/mask=|\[ ?\d{1,2}\] +\w"
                r"|TLP Header: |aer_(?:status|layer|agent|uncor_severity)[:=]"
                r"|Error of this Agent is reported first"
                r"|(?:Multiple )?(?:Uncorrect|Correct)(?:ed|able)\b"
                r"|[Dd]evice recovery successful|broadcast \w{1,32} message)"
            ),
        ),
        (
            # drivers/firmware/efi/cper.c: the one with its severity is the event.
            "more of a hardware error",
            (
                r"(?:\{\d{1,10}\})?\[Hardware Error\]: +(?:Error \d|section_type: |port_type: "
                r"|aer_(?:un)?cor_|TLP Header: |It has been corrected by h/w"
                r"|Hardware error from APEI Generic Hardware Error Source)"
            ),
        ),
        (
            "which GPU an Xid is about",
            r"NVRM: GPU (?:at PCI:[0-9A-Fa-f:.]{5,20}: GPU-|Board Serial Number: )",
        ),
        (
            "the last messages before an Xid of the GSP",
            (
                r"NVRM: GPU\d+ (?:GSP RPC buffer contains|RPC (?:event )?history)"
                r"|NVRM: +(?:entry +function +data0|-?\d+ +\d+ +[A-Z]\w+ +0x)"
            ),
        ),
    )
)
"""What it is, and how it begins; of NVIDIA's open kernel modules 570 to 595 and of Linux 5 and 6
(kernel/module). Their level tells nothing: drivers print them as warnings and errors, too."""

LABELS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(form, re.ASCII)
    for form in (
        r"(?:topology|failure-domain\.beta)\.kubernetes\.io/(?:region|zone)",
        r"topology\.k8s\.aws/(?:network-node-layer-\d|zone-id|capacity-block-id)",
        r"topology\.[\w.-]+/(?:zone|region)",  # of storage: topology.ebs.csi.aws.com/zone
        r"feature\.node\.kubernetes\.io/.+",
        r"nvidia\.com/(?:gpu-driver-upgrade|mig|gpu\.deploy|rdma)[\w.-]*",
        r"cloud\.google\.com/gce-topology-host",
        r"oci\.oraclecloud\.com/(?:host\.id|rdma\.(?:hpc_island|network_block)_id)",
        r"(?:backend|ib)\.coreweave\.cloud/(?:fabric|superpod)",
        r"network\.topology\.nvidia\.com/(?:spine|core|datacenter|block)",
        r"fabric\.topograph\.run/tier-[1-9]",
        r"network\.topology\.kubernetes\.io/(?:zone|datacenter)",
    )
)
"""Labels that say of more than a leaf or a rack where a node stands, or that it has a device."""


def line(text: str) -> str:
    """What a line of the kernel log is, without its priority and time; empty: none of LINES."""
    return next((what for what, form in LINES if form.match(text)), "")


def label(name: str) -> bool:
    """Whether a node's label is one of LABELS."""
    return any(form.fullmatch(name) for form in LABELS)
