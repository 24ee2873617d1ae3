"""One list of flags: settings, the program's help and `lockstep collect` name the same ones."""

import dataclasses
import re

import pytest

from lockstep.collector.__main__ import main
from lockstep.collector.config import SETTINGS, Config
from lockstep.collector.flags import FLAGS

OPTION = re.compile(r"^\s+(?:-h, )?(--[a-z-]+)", re.MULTILINE)


def test_every_setting_has_a_flag_and_every_flag_of_a_setting_is_one():
    settings = {flag.name for flag in FLAGS if flag.setting}

    assert {field.name for field in dataclasses.fields(Config)} == settings
    assert set(SETTINGS) <= settings


def test_the_help_names_every_flag_once(capsys):
    assert 0 == main(["--help"])

    named = OPTION.findall(capsys.readouterr().out.partition("options:")[2])
    assert ["--help", *(flag.option for flag in FLAGS)] == named


def test_a_flag_is_stronger_than_the_environment_and_a_switch_that_is_not_given_is_not(
    monkeypatch, machine, caplog
):
    monkeypatch.setenv("LOCKSTEP_COLLECTOR_TTL", "1s")
    arguments = ["--fast-period", "10s", "--once", "--sources", "procfs", "--proc", machine.proc]
    words = [str(word) for word in arguments]

    assert (64, 0) == (main(words), main([*words, "--ttl", "60s"]))
    assert "ttl is 1 s" in caplog.text


@pytest.mark.parametrize("argument", ["--virtual-devices=maybe", "--series", "--kmsg", "--ras=x"])
def test_a_flag_that_is_wrong_is_misuse(argument, capfd):
    assert 64 == main([argument])
    assert "Traceback" not in capfd.readouterr().err
