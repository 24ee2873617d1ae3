"""Dataclasses as groups of options: what typer sees, and what the command gets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pytest
import typer

from lockstep import app as cli
from lockstep.cli.option_groups import grouped


@dataclass(frozen=True, slots=True)
class Sizes:
    PANEL: ClassVar = "How much"

    nodes: Annotated[int, typer.Option(help="How many.")] = 4
    names: Annotated[list[str] | None, typer.Option("--name", help="Who.")] = None


@grouped
def paint(
    context: typer.Context,
    sizes: Sizes,
    wall: Annotated[str | None, typer.Argument(help="Which.")] = None,
) -> int:
    """Paint a wall."""
    typer.echo((context.info_name, sizes, wall))
    return 0


@pytest.fixture
def called(lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr(cli, "COMMANDS", (paint,))
    return lockstep


def test_a_group_comes_as_it_was_given(called: Callable[..., Any]) -> None:
    defaults = called("paint")
    given = called("paint", "north", "--nodes", "2", "--name", "a", "--name", "b")

    assert defaults.out == "('paint', Sizes(nodes=4, names=None), None)\n"
    assert given.out == "('paint', Sizes(nodes=2, names=['a', 'b']), 'north')\n"


def test_a_group_is_one_heading_of_the_help(called: Callable[..., Any]) -> None:
    text = called("paint", "--help").out

    assert "Paint a wall." in text
    assert "How much:\n  --nodes N    How many.  [default: 4]\n  --name TEXT  Who.\n" in text
    assert text.index("Arguments:") < text.index("How much:") < text.index("Options:")


def test_a_field_without_a_default_is_a_mistake_of_ours() -> None:
    @dataclass(frozen=True, slots=True)
    class Needed:
        PANEL: ClassVar = "Needed"

        nodes: Annotated[int, typer.Option()]

    def command(needed: Needed) -> int:
        return needed.nodes

    command.__annotations__["needed"] = Needed
    with pytest.raises(AssertionError, match=r"Needed\.nodes has no default"):
        grouped(command)
