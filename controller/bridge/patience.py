"""What a switch was asked and has not answered: one that answers echoes alone would be waited for for ever."""

from __future__ import annotations

from enum import StrEnum

ANSWERS_WITHIN_S = 10.0


class Question(StrEnum):
    READ = "what it holds"
    APPLY = "that it has done what was sent"


class Patience:
    def __init__(self) -> None:
        self._since: dict[Question, float] = {}

    def asked(self, question: Question, now: float) -> None:
        """Asked once more before it is answered does not begin anew."""
        self._since.setdefault(question, now)

    def heard(self, question: Question, now: float) -> None:
        """Not the last answer, but one: it is at it."""
        if question in self._since:
            self._since[question] = now

    def answered(self, question: Question) -> None:
        self._since.pop(question, None)

    def ended(self, now: float) -> str | None:
        """Why it is waited for no more."""
        late = (question for question, since in self._since.items() if now - since >= ANSWERS_WITHIN_S)
        return next(
            (f"has not said {question} for {ANSWERS_WITHIN_S:g} s, and answers echoes" for question in late), None
        )
