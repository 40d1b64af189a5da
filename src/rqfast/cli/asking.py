"""Questions before what cannot be undone."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from .console import make_console, one_line, say
from .exits import FAILED, Misused


def must_agree(question: Callable[[], str], yes: bool) -> bool:
    """Go on only if `yes`, or the person at the terminal says so; else the command ends with 1.

    Returns whether there is anything to do.

    Args:
        question: gives it, where it is to be asked; "": there is nothing to agree to.

    Raises:
        Misused: there is nobody to be asked.
        typer.Exit: the answer was no.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise Misused("there is no terminal on which to ask: say --yes")
    asked = question()
    if not asked:
        return False
    console = make_console(stderr=True)
    console.print(f"{one_line(asked)} [y/N] ", end="")
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        console.print()
    if answer.strip().lower() not in ("y", "yes"):
        say(console, "Nothing was done.")
        raise typer.Exit(FAILED)
    return True
