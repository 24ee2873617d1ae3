"""Which of the known forms tells the steps of a log."""

from dataclasses import dataclass

from workloads.exec.patterns import Form, Said, compiled, known_forms


@dataclass(frozen=True, slots=True)
class Heard:
    """A line about a step, and when it was read: CLOCK_MONOTONIC, nanoseconds."""

    said: Said
    when: int


class Choice:
    """Takes one form for the whole log, so that other numbers in it are not taken for steps.

    A form is taken once its number has risen. One that tells no loss (a progress bar may be of
    anything) gives way to one that does.

    Args:
        expression: The user's own, taken at once; None = the known forms.
    """

    def __init__(self, expression: str | None = None) -> None:
        own = None if expression is None else Form("", compiled(expression))
        self._forms = known_forms() if own is None else (own,)
        self._taken = own
        self._settled = own is not None
        self._before: dict[str, Heard] = {}

    def find(self, line: str, when: int) -> list[Heard]:
        """What the line adds to the count of steps: nothing, itself, or with the line before it.

        The line before it comes along where this one shows that it was about steps.
        """
        if self._settled and self._taken is not None:
            said = self._taken.find(line)
            return [] if said is None else [Heard(said, when)]
        found = [(form, said) for form in self._forms if (said := form.find(line))]
        risen = [(form, said) for form, said in found if self._rises(said)]
        before = dict(self._before)
        for form, said in found:
            if form.name not in before or before[form.name].said.step != said.step:
                self._before[form.name] = Heard(said, when)  # not where a bar is drawn again
        telling = next(((form, said) for form, said in risen if said.tells_loss), None)
        if telling is not None or (self._taken is None and risen):
            first = self._taken is None
            self._taken, said = telling or risen[0]
            self._settled = said.tells_loss
            # After another form the count begins here: its steps took the time before.
            return [*([before[said.form]] if first else []), Heard(said, when)]
        return [Heard(said, when) for form, said in found if form is self._taken]

    def _rises(self, said: Said) -> bool:
        before = self._before.get(said.form)
        return before is not None and said.step > before.said.step
