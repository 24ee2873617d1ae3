"""What names and secrets look like in the outputs of machines, and pseudonyms of the same form."""

import ipaddress
import re
from collections.abc import Callable
from itertools import cycle

REMOVED = "removed"
"""In place of a secret: not even that two are equal is told."""
COMMON = frozenset(
    (
        "root", "admin", "user", "host", "node", "localhost", "localdomain", "nobody", "daemon",
        "gpu", "rank", "test", "train", "data", "home", "nvidia", "cuda", "nccl", "torch",
        "python", "linux", "kernel", "ubuntu", "debian", "rocky", "centos", "none", "null", "true",
        "false", "unknown", "error", "name", "path", "serial", "mail", "mlx5", "eth", "system",
        "default", "local", "internal", "cluster", "driver", "memory", "device",
    )
)  # fmt: skip
"""Words of the formats themselves: as somebody's name they would tell nothing."""
NUMBERED = frozenset(
    (
        "sm", "cu", "fp", "tf", "bf", "mxfp", "nvfp", "int", "uint", "float", "bfloat", "gfx", "cc",
        "amd", "ia", "arm", "aarch", "armv", "cpu", "cpus", "gpus", "ranks", "core", "cores",
        "numa", "socket", "eth", "ens", "eno", "enps", "ib", "ibs", "ibps", "ibp", "bond", "veth",
        "mlx", "hca", "roce", "efa", "rdmap", "rdmaps", "nvme", "nvmen", "nic", "pci", "pcie",
        "usb", "nvswitch", "nvlink", "link", "port", "lane", "ring", "tree", "channel", "sha", "md",
        "utf", "ipv", "tcp", "step", "epoch", "iter", "layer", "layers", "stage", "block", "blocks",
        "dp", "tp", "pp", "ep", "cp", "xid", "sxid", "ch", "gpc", "tpc", "mc", "dimm", "irq", "py",
        "cp", "rc", "zstd", "lz", "ext", "sd", "vd", "xvd", "tty", "ttys", "hwmon", "kworker",
    )
)  # fmt: skip
"""Words of the formats that a number follows (sm90, cu12, fp16, eth0, mlx5_0): no row of hosts."""

_HEX = "[0-9A-Fa-f]"
_UUID = "-".join(f"{_HEX}{{{count}}}" for count in (8, 4, 4, 4, 12))
# Each looks at a long word once, from its begin, and goes back over nothing: what began anew at
# every letter would take time with the square of the word's length.
_SENSITIVE = (
    r"(?<![\w.-])(?=[\w.-]*?"
    r"(?:token|passw(?:or)?d|passphrase|secret|credential|api[_-]?key|access[_-]?key"
    r"|private[_-]?key|authorization|cookie|session[_-]?id|\bauth))[\w.-]++"
)
_SCHEME = r"(?:bearer\s+|basic\s+)?"


def _form(*parts: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile("".join(parts), flags)


SECRETS: tuple[re.Pattern[str], ...] = (
    _form(
        r"-----BEGIN [A-Z ]*(?:KEY|CERTIFICATE)[A-Z ]*-----.*?(?:-----END [A-Z ]*-----|\Z)",
        flags=re.DOTALL,
    ),
    # "api_key": "x y" · Authorization: Bearer x · --password x
    _form(
        rf"(?P<keep>{_SENSITIVE}[\"']?\s*(?:[:=]\s*|\s){_SCHEME})",
        r"(?P<quote>[\"'])(?:\\.|(?!(?P=quote))[^\\])*(?P=quote)",
        flags=re.IGNORECASE,
    ),
    _form(
        rf"(?P<keep>{_SENSITIVE}[\"']?\s*[:=]\s*[\"']?{_SCHEME})[^\s\"',;]+", flags=re.IGNORECASE
    ),
    # Options are also glued to a letter: "\\n--token x" in JSON, "\x1b[36m--token x" in colours.
    _form(rf"(?P<keep>(?<![\w.-])(?=[\w.-]*?--){_SENSITIVE}\s+)[^\s\"',;]+", flags=re.IGNORECASE),
    _form(r"(?P<keep>\b(?:bearer|basic)\s+)[\w.~+/=-]{8,}", flags=re.IGNORECASE),
    _form(r"(?P<keep>(?<!\w)\w++://)[^\s/@:]+:[^\s/@]+(?=@)"),
    # Tokens by their own beginnings: Hugging Face, GitHub, GitLab, OpenAI, Slack, NVIDIA, AWS, JWT.
    _form(
        r"\b(?:hf_|gh[opsur]_|github_pat_|glpat-|sk-|xox[abeoprs]-|nvapi-)[\w-]{8,}",
        r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\beyJ[\w-]+\.[\w-]+\.[\w-]*",
    ),
    # Random characters of all three kinds: digits, small and capital letters.
    _form(
        r"(?<![\w+-])(?=[A-Za-z+]{0,80}\d)(?=[A-Z\d+]{0,80}[a-z])(?=[a-z\d+]{0,80}[A-Z])",
        r"[A-Za-z\d+]{24,}={0,2}(?![\w+])",
    ),
)
"""What goes altogether, but for the group `keep` before it."""
VARIABLE = _form(r"(?<![\w.{,-])(?!UUID=)([A-Z][A-Z0-9_]{2,})=(\"[^\"]*\"|'[^']*'|[^\s,;\"']+)")
OPEN_VARIABLE = _form(
    r"(?:NCCL|TORCH|CUDA|OMP|UCX|FI|GLOO|OMPI|PMI|PMIX|DCGM)_\w+",
    r"|(?:LOCAL_|NODE_)?RANK|WORLD_SIZE",
)
"""Variables of libraries that say how a run was set up; the values of all others go."""
COUNT = _form(r"[\d.,]+[kKMGBT]?")
NOTHING = _form(
    r"n/?a|none|null|true|false|unknown|removed|\[.*|\W*|-?\d{1,5}", flags=re.IGNORECASE
)
"""Stands where a name would, and is none."""

Made = Callable[[str, str], str | None]
"""Name and digest -> pseudonym, or None where it is no such name after all."""


def same_shape(name: str, digest: str) -> str:
    """Every hexadecimal digit by another one; what stands between stays."""
    digits = cycle(digest)
    return "".join(next(digits) if one in "0123456789abcdefABCDEF" else one for one in name)


def _mac(name: str, digest: str) -> str:
    """Locally administered, of one card (IEEE 802: second bit of the first byte)."""
    between = "" if len(name) == 12 else name[2]
    return between.join(("02", *(digest[at : at + 2] for at in range(0, 10, 2))))


def is_address(name: str) -> bool:
    """Whether it is an IP address, in brackets or with a zone perhaps."""
    try:
        ipaddress.ip_address(name.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True


def _ipv4(name: str, digest: str) -> str | None:
    if not is_address(name) or name.startswith("127.") or name == "0.0.0.0":  # noqa: S104
        return None
    return ".".join(("10", *(str(int(digest[at : at + 2], 16)) for at in range(0, 6, 2))))


def _ipv6(name: str, digest: str) -> str | None:
    if name.count(":") < 7 and "::" not in name:
        return None  # a time, or a PCI address
    if not is_address(name) or name.strip("0:") in {"", "1"}:
        return None
    return ":".join(("fd00", *(digest[at : at + 4] for at in range(0, 28, 4))))


def _lid(name: str, digest: str) -> str:
    value = int(digest[:8], 16) % 0xBFFF + 1  # of one port (InfiniBand architecture 4.1.3)
    return hex(value) if name.startswith("0x") else str(value)


HARDWARE: dict[str, Made] = {"uuid": same_shape, "mac": _mac, "guid": same_shape}
"""Addresses that devices are made with; they are also written without what stands between."""


def word_of(kind: str) -> Made:
    """Pseudonyms that say what they stand for."""
    return lambda _, digest: f"{kind}-{digest[:8]}"


_SERIAL = (
    r"(?:serial(?:[ _-]?(?:number|no))?|GPU PDI|\bS/?N)[\"']?\s*[:=]\s*[\"']?(?P<name>[\w./-]+)"
)
_SAYS = r"(?:[\"']\s*:\s*[\"']|=[\"']?)"
_VALUE = r"(?P<name>[\w.-]+)"
# Labels of clouds with an identity of a host or of the switches above it, as Kubernetes and as
# Prometheus write them; how they are called: analyzer/read/prometheus/kubernetes.py.
_PLACE = _form(
    r"(?:host[._-]id|topology[._-](?:host|(?:sub)?block)|network[._-]node[._-]layer[._-]\d",
    r"|ultraserver[._-]id|memory[._-]fabric[._-]id|rdma[._-]\w{1,40}[._-]id|leaf[._-]?group",
    rf"|nvlink[._-]domain|instance[._-]id|capacity[._-]block[._-]id){_SAYS}{_VALUE}",
    flags=re.IGNORECASE,
)
_TEAM = _form(r"\bwandb\.ai/(?P<name>[\w.-]+)")
_PROJECT = _form(r"\bwandb\.ai/[\w.-]+/(?P<name>[\w.-]+)")
_RUN = _form(r"\bwandb\.ai/[\w.-]+/[\w.-]+/(?:runs|sweeps|groups)/(?P<name>[\w.-]+)")
_DOMAINS = (
    "com|net|org|edu|gov|mil|int|io|ai|cloud|dev|internal|local|lan|corp|intra|intranet|home"
    "|private|de|uk|fr|ch|eu|us|cn|jp|kr|in|nl|se|fi|it|es|ca|au"
)
FORMS: tuple[tuple[str, re.Pattern[str], Made], ...] = (
    (
        "mail",
        _form(r"(?<![\w.+-])[\w.+-](?:[\w.+-]*+@[A-Za-z][\w-]{2,}(?:\.[\w-]+)*)+"),
        word_of("mail"),
    ),
    (
        "uuid",
        _form(rf"(?<![\w-])(?:GPU-|MIG-|pod)?(?P<name>{_UUID}|{_UUID.replace('-', '_')})(?![\w-])"),
        same_shape,
    ),
    ("serial", _form(_SERIAL, flags=re.IGNORECASE), word_of("serial")),
    (
        "mac",
        _form(
            rf"(?<![\w:.-]){_HEX}{{2}}(?P<between>[:-]){_HEX}{{2}}",
            rf"(?:(?P=between){_HEX}{{2}}){{4}}(?![\w:.-])",
        ),
        _mac,
    ),
    ("mac", _form(rf"(?<![A-Za-z0-9])enx(?P<name>{_HEX}{{12}})(?![A-Za-z0-9])"), _mac),
    # Hardware addresses of InfiniBand have 20 bytes, GUIDs 8: in pairs, in four groups, or as 0x.
    ("guid", _form(rf"(?<![\w:.-]){_HEX}{{2}}(?::{_HEX}{{2}}){{7,19}}(?![\w:.-])"), same_shape),
    ("guid", _form(rf"(?<![\w:]){_HEX}{{4}}(?::{_HEX}{{4}}){{3}}(?![\w:])"), same_shape),
    (
        "guid",
        _form(rf"guid\W{{0,4}}(?:0x)?(?P<name>{_HEX}{{16}})(?!\w)", flags=re.IGNORECASE),
        same_shape,
    ),
    (
        "lid",
        _form(
            r"\b(?:sm[ _]|base[ _])?lid\b[:= ]{1,3}(?P<name>0x[0-9a-f]+|\d+)\b",
            flags=re.IGNORECASE,
        ),
        _lid,
    ),
    (
        "ipv6",
        _form(r"(?<![\w:.])[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]*:[0-9A-Fa-f.:]*(?:%[\w.-]+)?(?![\w:])"),
        _ipv6,
    ),
    ("ipv4", _form(r"(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)"), _ipv4),
    # Resources of EC2 (user guide, "Resource IDs": 8 hexadecimal digits, or 17 since 2016).
    (
        "id",
        _form(
            r"(?<![A-Za-z0-9-])(?:i|mi|vpc|subnet|eni|sg|vol|snap|ami|rtb|igw|nat|acl|lt|pg|cr|us"
            rf"|eipalloc|eipassoc|fs)-(?P<name>{_HEX}{{17}}|{_HEX}{{8}})(?![\w-])"
        ),
        same_shape,
    ),
    ("place", _PLACE, word_of("place")),
    ("name", _TEAM, word_of("name")),
    ("name", _PROJECT, word_of("name")),
    ("name", _RUN, word_of("name")),
    # Of containers, images, commits and keys.
    ("id", _form(rf"(?<![0-9A-Za-z]){_HEX}{{32,}}(?![0-9A-Za-z])"), same_shape),
    (
        "host",
        _form(r"(?<![\w-])ip-\d{1,3}(?:-\d{1,3}){3}(?:\.[a-z][\w.-]*\w)?(?![\w-])"),
        word_of("host"),
    ),
    # Domains that people have; what labels call themselves (k8s.io/x) has a path behind it.
    (
        "host",
        _form(
            rf"(?<![\w./@-])(?:[A-Za-z0-9](?:[\w-]*[A-Za-z0-9])?\.)+(?:{_DOMAINS})",
            r"(?![\w/.-]*/)(?![\w-])",
        ),
        word_of("host"),
    ),
)
"""Kind, what it looks like (all of it, or its group `name`), and the pseudonym of the same form."""

HOME = _form(
    r"(?<![\w.])(?:(?P<root>/(?:home|Users|export/home))/(?P<user>[\w.-]+)",
    r"|(?P<other>/(?:root|data|scratch|mnt|lustre|fsx|nfs|gpfs|shared|work|workspace|projects?))",
    r"(?=/))(?P<rest>/[^\s\"',:;()\]\[]*)?",
)
"""Homes, and where people keep what is theirs otherwise."""

_RANGES = r"\[\d{1,6}(?:-\d{1,6})?(?:,\d{1,6}(?:-\d{1,6})?)*\]"
HOST_LIST = _form(rf"(?<![\w.-])(?=\D)(?:[\w-]+{_RANGES})+[\w-]*")
"""Hosts as Slurm writes them, dgx[001-004,007] (scontrol(1), "show hostlist")."""
MOST_LISTED = 1024
"""Hosts of one list that are taken for themselves."""


def listed(hosts: str) -> list[str]:
    """The hosts of a Slurm list, in order; empty where it is none, or has more than MOST_LISTED.

    What formats number themselves (gpu[0-7]) is none, unless its numbers begin with zeros.
    """
    words = re.split(r"\[([\d,-]+)\]", hosts)
    first, numbers = words[0].strip("-_").lower(), ",".join(words[1::2])
    plain = re.sub(r"\d+", "", first).strip("-_")
    padded = re.search(r"(?<!\d)0\d", numbers) is not None
    if not padded and (plain in COMMON | NUMBERED or len(plain) < 2 or "-" not in numbers):
        return []
    found = [""]
    for index, word in enumerate(words):
        each = [word] if index % 2 == 0 else _numbers(word)
        if len(found) * len(each) > MOST_LISTED:
            return []
        found = [before + one for before in found for one in each]
    return found


def _numbers(ranges: str) -> list[str]:
    found: list[str] = []
    for one in ranges.split(","):
        first, _, last = one.partition("-")
        end = min(int(last or first), int(first) + MOST_LISTED)
        found += [f"{number:0{len(first)}}" for number in range(int(first), end + 1)]
    return found


TOLD: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "host",
        _form(
            rf"(?:host(?:_?name)?|\bnode_?name|\bnode){_SAYS}{_VALUE}",
            flags=re.IGNORECASE,
        ),
    ),
    ("host", _form(rf"\b(?:on|of) (?:node|host) {_VALUE}")),
    ("host", _form(rf"^[^\S\n]*+Node {_VALUE} running processes", flags=re.MULTILINE)),
    (
        "host",
        _form(rf"^[^\S\n]*+host ?name[^\S\n]*: *{_VALUE}", flags=re.IGNORECASE | re.MULTILINE),
    ),
    # NCCL, src/debug.cc: HOST:PID:THREAD [DEVICE] (date, or file and line) NCCL INFO ...
    (
        "host",
        _form(
            rf"(?<![\w.-]){_VALUE}:\d{{1,10}}:\d{{1,10}} \[-?\d{{1,4}}\] (?:[^\n]{{0,80}} )?NCCL "
        ),
    ),
    ("host", _form(rf"\b(?:srun|slurmstepd): error: {_VALUE}: tasks? ")),
    ("place", _PLACE),
    ("name", _TEAM),
    ("name", _PROJECT),
    ("name", _RUN),
    (
        "user",
        _form(rf"\b(?:user(?:_?name)?|owner|login){_SAYS}{_VALUE}", flags=re.IGNORECASE),
    ),
    ("serial", _form(_SERIAL, flags=re.IGNORECASE)),
    (
        "name",
        _form(
            r"\b(?:exported_)?(?:pod|namespace|container|job_?name|project|experiment|run_?name",
            rf"|slurm_\w*)(?:_name)?{_SAYS}{_VALUE}",
            flags=re.IGNORECASE,
        ),
    ),
)
"""Where texts say that something is a name."""
