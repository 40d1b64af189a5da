"""Options that are the same before and after the command."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer


class Shown:
    """Whether errors are shown with their tracebacks."""

    debug = False


def _remember(value: bool) -> bool:
    Shown.debug = Shown.debug or value
    return value


Debug: TypeAlias = Annotated[
    bool, typer.Option("--debug", callback=_remember, help="Show an error with its traceback.")
]
