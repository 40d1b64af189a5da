"""Making an index, a view or a trigger of a queue anew, whatever stands under its name."""

from __future__ import annotations

from .names import INDEXES, TRIGGERS, VIEWS, quote
from .statements import Statements

_KINDS = dict.fromkeys(INDEXES, "INDEX") | dict.fromkeys(VIEWS, "VIEW") | dict.fromkeys(TRIGGERS, "TRIGGER")


def derived(statements: Statements) -> dict[str, str]:
    """The indexes, views and (default queue) triggers of a queue: name as in names.py -> the text that makes it."""
    return {name: (statements.schema | statements.compat)[name] for name in (*INDEXES, *VIEWS, *statements.compat)}


def remake(statements: Statements, name: str) -> list[str]:
    """The statements, for one transaction; running them twice does no harm."""
    return [f"DROP {_KINDS[name]} IF EXISTS {quote(statements.names[name])}", derived(statements)[name]]
