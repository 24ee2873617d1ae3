""""""

import dataclasses
import re
from dataclasses import fields
from pathlib import Path

import pytest

from lockstep.collector.__main__ import main
from lockstep.collector.clock import SystemClock
from lockstep.collector.config import SETTINGS, Address, Config, ConfigError, load
from lockstep.collector.flags import FLAGS
from lockstep.collector.registry import NAMES, SOURCES, feeds


@pytest.fixture
def toml(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "collector.toml"
        path.write_text(text)
        return path

    return write


def test_nothing_given_is_the_default():
    assert load(None, {}, {}) == Config()


def test_flags_win_over_environment_over_file(toml):
    file = toml('[collector]\nlisten = "0.0.0.0:1"\nttl = "10s"\nseries_cap = 7\n')
    environment = {"LOCKSTEP_COLLECTOR_LISTEN": "0.0.0.0:2", "LOCKSTEP_COLLECTOR_TTL": "1m"}

    config = load(file, environment, {"listen": "0.0.0.0:3", "node": None})

    assert (config.listen.port, config.ttl, config.series_cap) == (3, 60.0, 7)


def test_the_ranks_folder_is_the_collectors_folder():
    assert load(None, {"LOCKSTEP_DIR": "/x"}, {}).lockstep_dir == Path("/x")
    both = {"LOCKSTEP_DIR": "/x", "LOCKSTEP_PATHS_LOCKSTEP_DIR": "/y"}
    assert load(None, both, {}).lockstep_dir == Path("/y")


@pytest.mark.parametrize(
    ("text", "seconds"), [("0.5", 0.5), ("500ms", 0.5), ("2s", 2.0), ("1m", 60.0)]
)
def test_durations_have_units(text, seconds):
    environment = {"LOCKSTEP_COLLECTOR_FAST_PERIOD": text, "LOCKSTEP_COLLECTOR_TTL": "1h"}

    assert load(None, environment, {}).fast_period == seconds


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("localhost:9410", Address("localhost", 9410)),
        ("[::1]:9410", Address("::1", 9410)),
    ],
)
def test_addresses_are_host_and_port(text, address):
    assert load(None, {}, {"listen": text}).listen == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "9410", ":9410", "::1:9410", "host:", "host:http", "host:65536", "host:-1"]
)
def test_a_bad_address_is_named(text):
    with pytest.raises(ConfigError, match="--listen is"):
        load(None, {}, {"listen": text})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[collector]\nlissten = 1\n",
            "unknown key lissten in \\[collector\\]; did you mean listen",
        ),
        ("[colector]\n", "unknown section colector; did you mean collector"),
        (
            "[web]\nconfig_fil = 1\n",
            "unknown key config_fil in \\[web\\]; did you mean config_file",
        ),
        ("[web]\nlegacy_dcgm = 1\n", "web.legacy_dcgm is 1; it must be true or false"),
        ("collector = 1\n", "unknown section collector"),
        ("[collector]\nttl = 'soon'\n", "collector.ttl is 'soon'; it must be seconds"),
        ("[collector]\nttl = -1\n", "ttl is -1 s; it must be between"),
        ("[collector]\nttl = nan\n", "it must be seconds"),
        ("[collector]\nttl = true\n", "it must be seconds"),
        (f"[collector]\nttl = 1{'0' * 400}\n", "it must be seconds"),
        ("[collector]\nfast_period = 5\n", "ttl is 5 s; it must be at least twice fast_period"),
        ("[collector]\nseries_cap = 1.5\n", "must be a whole number"),
        ("[collector]\nseries_cap = 0\n", "series_cap is 0; it must be at least 1"),
        ("[collector]\nsources = 1\n", "it must be a list, as"),
        ("[collector]\nsources = []\n", "sources is empty; name at least one"),
        ("[paths]\nproc = 1\n", "paths.proc is 1; it must be a path"),
        ('[paths]\nproc = "/a\\u0000"\n', "it must be a path"),
        ("[collector\n", "is not TOML"),
    ],
)
def test_a_bad_file_is_one_sentence(toml, text, sentence):
    with pytest.raises(ConfigError, match=sentence):
        load(toml(text), {}, {})


def test_every_key_of_every_section_has_its_field(toml):
    file = toml(
        "[collector]\nstate_dir = '/s'\nfast_period = '250ms'\nslow_period = '2m'\n"
        "[web]\nconfig_file = '/w.yml'\nlegacy_dcgm = true\n"
    )

    assert load(file, {}, {}) == Config(
        state_dir=Path("/s"), fast_period=0.25, slow_period=120.0,
        web_config_file=Path("/w.yml"), legacy_dcgm=True,
    )  # fmt: skip
    assert load(file, {"LOCKSTEP_WEB_LEGACY_DCGM": "false"}, {}).legacy_dcgm is False


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match="cannot read "):
        load(tmp_path / "none.toml", {}, {})


def test_a_misspelled_variable_is_named():
    with pytest.raises(ConfigError, match="did you mean LOCKSTEP_COLLECTOR_TTL"):
        load(None, {"LOCKSTEP_COLLECTOR_TLL": "1"}, {})


@pytest.mark.parametrize("name", ["SERVICE_HOST", "SERVICE_PORT_HTTP", "PORT", "PORT_9410_TCP"])
def test_what_kubernetes_adds_for_a_service_is_ignored(name):
    assert load(None, {f"LOCKSTEP_COLLECTOR_{name}": "tcp://10.0.0.1:1"}, {}) == Config()


def test_variables_of_other_parts_are_ignored():
    assert load(None, {"LOCKSTEP_DEBUG": "1", "LOCKSTEP_WATCH_LISTEN": "x"}, {}) == Config()


def test_only_the_sources_asked_for_are_read():
    config = load(None, {"LOCKSTEP_COLLECTOR_SOURCES": "procfs, rank_ring"}, {})

    assert [feed.source.name for feed in feeds(config, SystemClock())] == ["rank_ring", "procfs"]


def test_an_unknown_source_is_named():
    with pytest.raises(ConfigError, match="unknown source procf; did you mean procfs"):
        feeds(Config(sources=("procf",)), SystemClock())


def test_every_file_of_a_source_is_in_a_row_and_every_file_of_samples():
    from lockstep.collector import samples, sources

    def modules(package) -> set[str]:
        folder = Path(package.__file__).parent
        return {
            ".".join(path.relative_to(folder).with_suffix("").parts)
            for path in folder.rglob("*.py")
            if path.name != "__init__.py"
        }

    def listed(kinds) -> set[str]:
        return {kind.__module__.split(".", 3)[3] for kind in kinds}

    kinds = listed(spec.kind for spec in SOURCES)
    rooms = {kind.removesuffix(".source") for kind in kinds} | {"ranks"}
    unlisted = {
        name for name in modules(sources)
        if name not in kinds and not any(name.startswith(f"{room}") for room in rooms)
    }  # fmt: skip
    assert {
        "dcgm_fields", "dcgm_values", "pauses", "zero_series_folding", "gpu.precedence",
    } == unlisted  # fmt: skip
    assert modules(samples) - {"feed", "counters"} == listed(spec.collect for spec in SOURCES)


def test_a_name_is_one_source_and_every_source_says_what_it_reads():
    assert len(NAMES) == len(set(NAMES))


def test_what_the_libraries_read_themselves_counts_and_our_own_name_is_stronger() -> None:
    theirs = {
        "NCCL_RAS_ADDR": "10.0.0.1:28028",
        "NCCL_INSPECTOR_DUMP_DIR": "/dumps",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/old/trace_",
        "TORCH_FR_DUMP_TEMP_FILE": "/tmp/trace_",
    }
    config = load(None, theirs, {})

    assert (Address("10.0.0.1", 28028),) == config.ras
    assert Path("/dumps") == config.inspector_dir
    assert "/tmp/trace_" == config.flight_recorder

    config = load(None, theirs | {"LOCKSTEP_NCCL_RAS": "[::1]:1,b:2"}, {"inspector_dir": "/flag"})

    assert (Address("::1", 1), Address("b", 2)) == config.ras
    assert Path("/flag") == config.inspector_dir


def test_an_empty_variable_of_a_library_is_one_that_is_not_set() -> None:
    assert Config() == load(None, {"NCCL_RAS_ADDR": "", "LOCKSTEP_DIR": ""}, {})


def test_every_field_can_be_set_in_the_file_unless_it_names_an_emulated_node() -> None:
    assert {"node"} == {field.name for field in fields(Config)} - SETTINGS.keys()


# One list of flags: settings, the program's help and `lockstep collect` name the same ones.

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
