"""`lockstep collect` passes on every flag of the collector."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from lockstep.collector import __main__ as program
from lockstep.collector.flags import FLAGS


def test_its_help_names_the_flags_of_the_collector(lockstep: Callable[..., Any]) -> None:
    text = lockstep("collect", "--help").out

    named = re.findall(r"^  (?:-h, )?(--[a-z-]+)", text, re.MULTILINE)
    assert [*(flag.option for flag in FLAGS), "--help"] == named


def test_what_is_given_reaches_the_collector_and_nothing_else(
    lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[list[str]] = []
    monkeypatch.setattr(program, "main", lambda arguments: given.append(arguments) or 0)
    every = [f"{flag.option}=x" if flag.metavar else flag.option for flag in FLAGS]

    assert [0, 0] == [lockstep("collect").code, lockstep("collect", *every).code]
    assert [[], every] == given


def test_an_unknown_flag_is_misuse_that_names_the_nearest(lockstep: Callable[..., Any]) -> None:
    answer = lockstep("collect", "--kmsgs", "x")

    assert 64 == answer.code
    assert "--kmsg" in answer.err


def test_a_wrong_value_is_the_collectors_sentence(
    lockstep: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert 64 == lockstep("collect", "--ttl", "soon").code
    assert "--ttl is 'soon'" in caplog.text
