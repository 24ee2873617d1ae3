import pytest

from lockstep.dashboard.figures.units import said, titled


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0.0452, "s", "45.2 ms"), (0.873, "ratio", "87.3 %"), (1.98e9, "Hz", "1.98 GHz"),
        (10532.0, "tokens/s", "10,532 tokens/s"), (2.5, "nats", "2.500 nats"),
        (float("nan"), "s", "–"), (float("inf"), "W", "–"), (7.0, "", "7"),
    ],
)  # fmt: skip
def test_values_have_their_unit(value: float, unit: str, words: str) -> None:
    assert words == said(value, unit)


def test_titles_have_their_unit() -> None:
    assert ["Loss (nats)", "Share (%)", "Errors"] == [
        titled("Loss", "nats"), titled("Share", "ratio"), titled("Errors", ""),
    ]  # fmt: skip
