"""What `nvidia-smi -q` says of each GPU."""

import pytest

from lockstep.doctor.raw.parsers import gpus, sentence
from tests.wild import wild

TEXT = """\
==============NVSMI LOG==============

Driver Version                                         : 590.48.01

Attached GPUs                                          : 2
GPU 00000000:00:09.0
    Product Name                                       : NVIDIA H100 80GB HBM3
    Clocks Event Reasons
        Idle                                           : Not Active
        HW Slowdown                                    : Active
            HW Thermal Slowdown                        : Active
    ECC Mode
        Current                                        : Enabled
    ECC Errors
        Volatile
            DRAM Correctable                           : 3
            DRAM Uncorrectable                         : 0
    Retired Pages
        Single Bit ECC                                 : N/A
    Remapped Rows
        Pending                                        : Yes
        Bank Remap Availability Histogram
            Max                                        : 2560 bank(s)

GPU 00000000:00:0A.0
    Product Name                                       : NVIDIA A10G
"""


def test_each_gpu_is_a_sentence_and_what_it_does_not_tell_is_not_said():
    one, other = [sentence(place, fields) for place, fields in gpus(TEXT).items()]

    assert (
        "GPU 00000000:00:09.0: NVIDIA H100 80GB HBM3; driver 590.48.01; ECC enabled; ecc errors:"
        " Volatile DRAM Correctable 3; retired pages not told; remapped rows: Pending Yes;"
        " clock event reasons: HW Slowdown, HW Thermal Slowdown"
    ) == one
    assert (
        "GPU 00000000:00:0A.0: NVIDIA A10G; driver 590.48.01; ECC not told; ecc errors not told;"
        " retired pages not told; remapped rows not told; clock event reasons not told"
    ) == other


@pytest.mark.parametrize("name", ["nvidia-h100-80gb-hbm3__590.48.01", "nvidia-l40s__595.80"])
def test_real_ones_are_read(name):
    told = gpus(wild(f"nvidia_smi/linux-x86_64__{name}.txt").read_text())

    assert told
    for place, fields in told.items():
        assert "driver 59" in sentence(place, fields)
        assert "remapped rows: none" in sentence(place, fields)
        assert "clock event reasons not told" not in sentence(place, fields)


@pytest.mark.parametrize("text", ["", "nothing", "GPU 00000000:00:09.0\n"])
def test_a_text_that_says_less_is_no_error(text):
    assert all(sentence(place, fields) for place, fields in gpus(text).items())
