"""What calls on a table of the user's own share: what they tell, and how the table is called within a process."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from .._core import Verdict
from ..sql import Statements


def done_only(statements: Statements) -> Verdict:
    """Of a call on a table that tells no more than that it took effect."""
    parts = statements.table
    return Verdict(f"{parts['outcome']},''", f"{parts['outcome_again']},'' {parts['this_lane']}", [], _nothing)


def _nothing(text: Any) -> None:
    return None


def table_key(key: Any, table: str) -> Hashable:
    """What tells a table apart within a process, by the key of a queue in its database."""
    return ("table", *key[:2], table.lower())
