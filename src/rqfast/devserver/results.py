"""What statements and requests come to, before it is JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(slots=True)
class Counts:
    """A statement that was executed."""

    last_insert_id: int
    rows_affected: int
    seconds: float


@dataclass(slots=True)
class Rows:
    """A statement that was queried; each type is the declared one, else that of the first row's value, else ''."""

    columns: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    seconds: float = 0.0
    error: str = ""


@dataclass(slots=True)
class Failed:
    """A statement that was to be executed, and failed."""

    error: str


Result: TypeAlias = Counts | Rows | Failed


@dataclass(slots=True)
class Answer:
    """A whole request: a result for each statement that was run, or an error; `index` of its entry, 0 for none."""

    results: list[Result] = field(default_factory=list)
    error: str = ""
    index: int = 0
    sequence: int = 0
    seconds: float = 0.0
