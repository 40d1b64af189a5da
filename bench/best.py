"""Each other side is taken at its best: every setting is tried once, in short, and the fastest is what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .measure import Cost

S = TypeVar("S")


class Best:
    """Remembers, for each question, which setting was fastest, and what the others did."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Any, dict[Any, Cost]]] = {}

    def of(self, question: str, settings: Iterable[S], try_one: Callable[[S], Cost]) -> tuple[S, dict[S, Cost]]:
        """The best setting, and the trial of each."""
        if question not in self._found:
            trials = {setting: try_one(setting) for setting in settings}
            self._found[question] = max(trials, key=lambda setting: trials[setting].rate), trials
        return self._found[question]
