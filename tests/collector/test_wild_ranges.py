"""What nvidia-smi told of real GPUs lies in the ranges of the metrics that tell the same."""

import re

import pytest

from lockstep.collector.contract import metrics as m
from tests.wild import wild

PLAIN = [
    "linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt",
    "linux-x86_64__nvidia-h100-mig__590.48.01.txt", "linux-x86_64__nvidia-h200__590.48.01.txt",
    "linux-x86_64__nvidia-l40s__595.80.txt", "a100-sxm4-v12.xml", "a10g.xml",
]  # fmt: skip
_VALUE = re.compile(
    r"(?:^\s*(?P<name>[A-Za-z.() ]+?)\s+: |<(?P<tag>[a-z_]+)>)"
    r"(?P<value>-?[0-9.]+) (?P<unit>C|W|MHz|MiB|%)\s*(?:$|<)",
    re.MULTILINE,
)
_BASE = {"C": 1, "W": 1, "MHz": 1e6, "MiB": 1 << 20, "%": 0.01}


def metric(name: str, unit: str) -> m.Metric:
    """Which of ours tells what a line of nvidia-smi does."""
    if unit == "C":
        margin = "T.Limit" in name or "tlimit" in name
        return m.GPU_TEMPERATURE_LIMIT_MARGIN if margin else m.GPU_TEMPERATURE
    return {"W": m.GPU_POWER, "MHz": m.GPU_CLOCK, "MiB": m.GPU_MEMORY_TOTAL,
            "%": m.GPU_UTILIZATION}[unit]  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_what_a_real_gpu_tells_is_plausible(name):
    found = list(_VALUE.finditer(wild(f"nvidia_smi/{name}").read_text()))
    outside = [
        each[0].strip() for each in found
        if not metric(each["name"] or each["tag"], each["unit"]).within.holds(
            float(each["value"]) * _BASE[each["unit"]]
        )
    ]  # fmt: skip

    assert [] == outside
    assert {"C", "W", "MHz", "MiB"} <= {each["unit"] for each in found}
