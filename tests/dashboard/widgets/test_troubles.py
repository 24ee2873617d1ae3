"""Next steps as words and commands; choices as links."""

import pytest

from lockstep.dashboard.trouble import Kind
from lockstep.dashboard.widgets import banners


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lockstep analyze runs/a", ("", ("lockstep analyze runs/a",))),
        ("Wait for the next scrape.", ("Wait for the next scrape.", ())),
        (
            "Run `lockstep analyze D`, then look again.",
            ("Run lockstep analyze D, then look again.", ("lockstep analyze D",)),
        ),
    ],
)
def test_commands_of_a_next_step_can_be_copied(text: str, expected: object) -> None:
    assert expected == banners.next_step(text)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [("node-1", ("node", "node-1")), ("gpt-1", ("run", "gpt-1")),
     ("temperature", ("metric", "temperature"))],
)  # fmt: skip
def test_a_choice_is_a_word_of_the_address(choice: str, expected: object) -> None:
    assert expected == banners.chosen_word(choice, ("node-0", "node-1"))


def test_every_kind_of_trouble_has_its_severity() -> None:
    assert set(Kind) == set(banners.SEVERITIES)
