"""The options and arguments that several commands have, once."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from ..connect import URL_VARIABLE


class Shown:
    """Whether errors are shown with their tracebacks."""

    debug = False


def _remember(value: bool) -> bool:
    Shown.debug = Shown.debug or value
    return value


Debug: TypeAlias = Annotated[
    bool, typer.Option("--debug", callback=_remember, help="Show an error with its traceback.")
]
Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--url", "-u", envvar=URL_VARIABLE, help="Database: http://host:4001 for rqlite, or a file.", metavar="URL"
    ),
]
UrlFirst: TypeAlias = Annotated[
    str | None, typer.Argument(help="The same as --url, which it goes before.", metavar="URL", show_default=False)
]
Queue: TypeAlias = Annotated[
    str | None,
    typer.Option("--queue", "-q", help="The queue; without it, or as '', the one without a name.", metavar="NAME"),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="For programs: JSON, one object a line.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Payload: TypeAlias = Annotated[bool, typer.Option("--payload", help="Show what the messages hold.")]
Group: TypeAlias = Annotated[str, typer.Argument(help="The group.", metavar="GROUP", show_default=False)]
GroupOrAll: TypeAlias = Annotated[
    str | None, typer.Argument(help="The group; without it the whole queue.", metavar="GROUP", show_default=False)
]
