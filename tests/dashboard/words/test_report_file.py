"""The files of a post-mortem, and its page sealed."""

import base64
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lockstep.dashboard.shapes import Matrix
from lockstep.dashboard.words.report_file import (
    MAX_BYTES,
    SEAL,
    beside,
    content,
    files,
    sealed,
    sentence,
    windows,
)

OURS = b"<!doctype html><html><head><title>r</title><style>a{}</style></head><body><svg/></body>"


def test_a_report_is_shown_behind_a_policy_that_comes_first() -> None:
    head, _, body = sealed(OURS).partition(",")

    assert "data:text/html;charset=utf-8;base64" == head
    assert SEAL + OURS == base64.b64decode(body)
    assert b"default-src 'none'" in SEAL


@pytest.mark.parametrize(
    "evil",
    [
        b"<script>alert(1)</script>", b"< SCRIPT src=//x>", b"<iframe src=//x>", b"<form action=x>",
        b'<meta http-equiv="refresh" content="0;url=//x">', b"<META HTTP-EQUIV = Refresh>",
        b"<base href=//x>", b"<object data=x>", b"<link rel=stylesheet href=//x>",
    ],
)  # fmt: skip
def test_what_no_report_of_ours_holds_is_not_shown(evil: bytes) -> None:
    assert "" == sealed(OURS + evil)


def test_a_page_that_is_too_large_is_not_shown() -> None:
    assert "" == sealed(b"a" * (MAX_BYTES + 1))


def test_links_count_as_absent(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "report.html").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "report.md")

    assert {} == files(tmp_path).sizes
    with pytest.raises(OSError, match="symbolic"):
        content(tmp_path / "report.html")


def test_the_sentence_says_whether_there_is_a_report(tmp_path: Path) -> None:
    assert (
        "There is no report of r yet. It was not analyzed." == (sentence("r", files(tmp_path))[0])
    )
    (tmp_path / "report.html").write_bytes(OURS)
    os.utime(tmp_path / "report.html", (1_795_000_000, 1_795_000_000))
    assert (
        "The report of r was written at 2026-11-18 11:06:40 UTC."
        == (sentence("r", files(tmp_path))[0])
    )
    (tmp_path / "verdict.json").write_text("{}")
    os.utime(tmp_path / "verdict.json", (1_795_000_100, 1_795_000_100))
    assert "before its newest analysis" in sentence("r", files(tmp_path))[0]


@pytest.mark.parametrize(
    "finding", ["../secret", "/etc", "..", "", "a//b", "./a", "a/../../secret", "x" * 5000, "a\0b"]
)
def test_a_finding_cannot_name_a_folder_elsewhere(finding: str, tmp_path: Path) -> None:
    for folder in (tmp_path / "secret", tmp_path / "runs" / "gpt" / "newest"):
        folder.mkdir(parents=True)
        (folder / "report.html").write_bytes(OURS)

    assert beside(tmp_path / "runs" / "gpt" / "newest", finding) is None


# The windows of a run as rows of a file.


def test_each_rank_and_window_is_a_row_and_what_is_not_known_is_none() -> None:
    values = np.array([[1.0, 1.5], [np.nan, 0.9]])
    found = windows(
        Matrix("Own time", "ratio", ("rank 0", "rank 1"), np.array([10.0, 20.0]),
               np.array([0.0, 40.0]), values)
    )  # fmt: skip

    assert ["rank 0,10.0,0,1.0", "rank 0,20.0,40,1.5", "rank 1,20.0,40,0.9"] == (
        found.to_csv(index=False).splitlines()[1:]
    )
    assert "Own time (ratio)" == found.columns[-1]


def test_a_run_that_tells_no_steps_has_windows_too() -> None:
    found = windows(Matrix("Own", "s", ("rank 0",), np.array([1.0]), None, np.array([[2.0]])))

    assert pd.isna(found["first_step"].iloc[0])
    assert 1 == len(found)
