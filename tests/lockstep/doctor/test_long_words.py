"""What takes time with the square of a word's length is not read in time: long words of all kinds.

Times are compared, not measured: four times the length may take four times as long, and not
sixteen times.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from time import process_time

import pytest

from lockstep.collector.formats.kernel_log import parse as kernel_line
from lockstep.collector.sources.gpu.dcgm_exporter import parse as dcgm_page
from lockstep.collector.sources.nccl.ras.text import parse as ras_report
from lockstep.doctor.pseudonyms import Pseudonyms
from lockstep.workloads.launch.external_program.patterns import known_forms, loss_alone

WORDS = (
    "a", "_", "-", ".", " ", "\n", "\t", "1", "0x", "[1]", "a.", "1.", "1:", "ab:", "a=", "a@",
    "://", "token", "--token", "a--", "n--token ", "token ", "auth-", "secret_", "bearer ", "'",
    '"', "\\", "/home/a/", "user=", "host", "serial", "NVRM: Xid (", "AER: ", "step ", "1/1 ",
    "Progress on:", "{'loss': ", "DCGM_FI_DEV_GPU_TEMP{", 'gpu="0",', "eyJa.", "ip-1-",
    "nvlink.domain",
)  # fmt: skip
LENGTH = 6_000
LINEAR, SQUARE = 4, 16
"""How much longer four times the text takes."""
TRIES = 4


def _anonymous(text: str) -> None:
    known = Pseudonyms(hosts=["gpu-node-01"], users=["somebody"])
    known.learn(text)
    known(text)


def _forms(text: str) -> None:
    for form in known_forms():
        form.find(text)
    loss_alone(text)


READERS: dict[str, Callable[[str], object]] = {
    "pseudonyms": _anonymous,
    "kernel log": lambda text: kernel_line(text, 0.0),
    "dcgm-exporter": lambda text: dcgm_page(f"DCGM_FI_DEV_GPU_TEMP{{{text}}} 1\n{text}\n"),
    "nccl ras": ras_report,
    "program logs": _forms,
}


def _seconds(read: Callable[[str], object], text: str) -> float:
    began = process_time()
    with suppress(Exception):  # a refusal is an answer, too
        read(text)
    return process_time() - began


def _growth(read: Callable[[str], object], word: str) -> float:
    """The least ratio of a few: what else the machine does makes one longer, not shorter."""
    short = (word * LENGTH)[:LENGTH]
    least = math.inf
    for _ in range(TRIES):
        brief = min(_seconds(read, short + "!") for _ in range(3))
        least = min(least, _seconds(read, (word * 4 * LENGTH)[: 4 * LENGTH] + "!") / brief)
        if least < math.sqrt(LINEAR * SQUARE):
            break
    return least


@pytest.mark.parametrize("reader", READERS)
def test_time_grows_with_the_length_of_a_text_and_not_with_its_square(reader):
    found = {word: growth for word in WORDS if (growth := _growth(READERS[reader], word)) >= 8}

    assert {} == found


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("HF_TOKEN_OF_MINE=abcdef x", "abcdef"),
        (f"token{'x' * 300}=abcdef", "abcdef"),
        (f"run --{'x' * 60}-token abcdef", "abcdef"),
        ('{"my.api_key" : "abcdef and so on"}', "abcdef"),
        (r'{"args":"train.py \\\n--hf-token S3CR3T"}', "S3CR3T"),
        (r"run\t--api-key S3CR3T", "S3CR3T"),
        ("\x1b[36m--password S3CR3T", "S3CR3T"),
        (f"{'x' * 300}://me:abcdef@there", "abcdef"),
        ("postgresql+psycopg2://me:abcdef@there", "abcdef"),
        (f"{'x' * 300}.abcdef@example.org", "abcdef"),
        ("a@bcd+abcdef@example.org", "abcdef"),
        ("\n\n  Hostname  : abcdef01\n abcdef01", "abcdef01"),
    ],
)
def test_what_stands_in_a_long_word_is_replaced_as_in_a_short_one(text, gone):
    known = Pseudonyms()
    known.learn(text)

    assert gone not in known(text)
