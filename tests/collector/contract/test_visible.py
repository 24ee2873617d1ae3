"""Text from outside on a terminal: shown, never obeyed."""

import io
import json
import logging
import shlex
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.contract.visible import (
    HIDDEN,
    VisibleFormatter,
    masked,
    masked_words,
    visible,
    visible_line,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("node-1", "node-1"),
        ("\x1b[2Jnode", "\\u001b[2Jnode"),
        ("\x9b2Jnode", "\\u009b2Jnode"),
        ("a\rb", "a\\u000db"),
        ("a\x08b\x7f", "a\\u0008b\\u007f"),
        ("edon\u202e", "edon\\u202e"),
        ("a\u2066b\u2069", "a\\u2066b\\u2069"),
        ("no\u200bde", "no\\u200bde"),
        ("half \ud83d", "half \\ud83d"),
        ("naïve 節点 \U0001f600 × ✓", "naïve 節点 \U0001f600 × ✓"),
        ("two\nlines\tof", "two\nlines\tof"),
    ],
)
def test_what_steers_a_terminal_is_spelled_out(text: str, shown: str) -> None:
    assert shown == visible(text)


def test_on_one_line_it_has_no_other() -> None:
    assert "a\\nlockstep: healthy\\tb" == visible_line("a\nlockstep: healthy\tb")


@given(st.text(st.characters()))
def test_nothing_hidden_is_left_and_it_can_be_sent(text: str) -> None:
    shown = visible(text)

    assert not HIDDEN.search(shown)
    shown.encode()
    assert shown == visible(shown)


@given(st.dictionaries(st.text(), st.text() | st.lists(st.text())))
def test_a_json_document_stays_the_same(tree: dict[str, object]) -> None:
    assert tree == json.loads(visible(json.dumps(tree, ensure_ascii=False)))


def test_a_log_record_is_one_line() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(VisibleFormatter("%(levelname)s %(message)s"))
    logger = logging.getLogger("of this test")
    logger.propagate = False
    logger.addHandler(handler)
    logger.warning("node %s is slow", "a\x1b]0;owned\x07\nERROR all is well")

    assert "WARNING node a\\u001b]0;owned\\u0007\\nERROR all is well is slow\n" == stream.getvalue()


# What is secret in a command is masked wherever it is shown, and nothing else is.

SECRET = "Zq7-hunter2"


@pytest.mark.parametrize(
    "word",
    [
        "--password {}", "--password={}", "--token={}", "--hf-token {}", "--api_key '{}'",
        "-token {}",
        "WANDB_API_KEY={} python train.py", "export AWS_SECRET_ACCESS_KEY={}; python t.py",
        "KEY={}", "DB_PASS={}", "wandb.api_key={}", "+logger.apiKey={}", "--accessToken={}",
        "https://user:{}@host/repo.git", "postgres://{}@db:5432/x", "s3://b/k?X-Amz-Signature={}&a=1",
        "curl -H 'Authorization: Bearer {}' x", "Authorization: Basic {}", "bearer {}",
        '{{"password": "{}", "lr": 1}}', "{{'secret': '{}'}}", "--auth {}", "https://h/x?token={}&y=2",
    ],
)  # fmt: skip
def test_a_secret_is_masked_in_a_line_and_in_words(word):
    line = f"python train.py {word.format(SECRET)} --lr 0.1"
    nested = f"bash -c {shlex.quote(line)}"
    for shown in (
        masked(line), masked(nested), " ".join(masked_words([line])),
        " ".join(masked_words(shlex.split(nested))),
    ):  # fmt: skip
        assert SECRET not in shown
        assert "***" in shown
        assert "--lr 0.1" in shown


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--password=a b c", "--lr"], ["--password=***", "--lr"]),
        (["--secret-key=a,b;c&d"], ["--secret-key=***"]),
        (["--password", "-starts", "--lr"], ["--password", "***", "--lr"]),
        (["curl", "-u", "bob:p:w"], ["curl", "-u", "bob:***"]),
        (["postgres://u:p@ss@db/x"], ["postgres://***@db/x"]),
    ],
)
def test_all_of_a_value_is_masked_whatever_is_in_it(words, shown):
    assert shown == masked_words(words)


@pytest.mark.parametrize(
    "token", [f"{front}{'a1B2' * 6}" for front in ("hf_", "ghp_", "github_pat_", "glpat-", "sk-")]
)
def test_a_token_shows_itself_by_its_form(token):
    assert "x ***" == masked(f"x {token}")


@pytest.mark.parametrize(
    "line",
    [
        "python train.py --num-tokens 1000 --token-limit 5 --tokenizer /data/tok --lr 0.1",
        "torchrun --nproc-per-node 8 train.py --keyboard us --monkey=3 --authors me",
        "python -m pkg.module --data s3://bucket/key/part --passes 3 --compass north",
        "bash -c 'for i in 1 2; do echo step $i; done'",
        "wget https://host/a@b/c", "", "--", "=", "--x=", "key",
    ],
)  # fmt: skip
def test_what_is_no_secret_is_shown_as_it_is(line):
    assert line == masked(line)
    assert line.split() == masked_words(line.split())


@given(st.text(max_size=300), st.lists(st.text(max_size=40), max_size=8))
def test_any_text_is_taken_and_masking_twice_changes_nothing(text, words):
    assert masked(masked(text)) == masked(text)
    assert len(masked_words(words)) == len(words)


def test_a_long_hostile_line_takes_no_time():
    began = time.process_time()
    for text in ("a" * 200_000, "--a " * 50_000, "a://" * 50_000, "key " * 50_000, "-" * 200_000):
        masked(text)

    assert time.process_time() - began < 5.0
