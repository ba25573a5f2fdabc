"""Texts that many rows have in common, each told once and then by its number."""

from __future__ import annotations

from collections.abc import Sequence


class Texts:
    """A table of texts; the first is the empty one, or what ``first`` says."""

    def __init__(self, first: Sequence[str] = ("",)) -> None:
        self.all: list[str] = list(first)
        self._numbers = {text: number for number, text in enumerate(self.all)}

    def number(self, text: str) -> int:
        """The number of ``text``, a new one if it was not there."""
        known = self._numbers.get(text)
        if known is None:
            known = self._numbers[text] = len(self.all)
            self.all.append(text)
        return known
