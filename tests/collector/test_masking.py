"""What is secret in a command is masked wherever it is shown, and nothing else is."""

import shlex
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.contract.visible import masked, masked_words

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
