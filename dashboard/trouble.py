"""What a page says instead of numbers: a sentence and a next step, never a traceback."""

from enum import StrEnum


class Kind(StrEnum):
    """Why there are no numbers."""

    NO_SOURCE = "no source"
    EMPTY = "empty"
    UNKNOWN_ID = "unknown id"
    NOT_ANALYZED = "not analyzed"
    NOT_TOLD = "not told"
    UNREADABLE = "unreadable"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"


class TroubleError(Exception):
    """A source cannot answer; the page shows the sentence and the next step.

    Attributes:
        kind: Why.
        sentence: What is wrong, with which thing. Plain text, never with credentials.
        next_step: What would be right: a sentence, or a command to copy.
        choices: Ids that there are, where one was unknown.
    """

    def __init__(
        self, kind: Kind, sentence: str, next_step: str, choices: tuple[str, ...] = ()
    ) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence
        self.next_step = next_step
        self.choices = choices
