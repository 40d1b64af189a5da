"""What holds a password prints without it, also where a tool shows the local variables of a traceback."""

from __future__ import annotations

import re
from typing import Any

_USER = re.compile(r"//.*@", re.DOTALL)


class HiddenUrl(str):
    """A URL that prints without user and password."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(_USER.sub("//***@", str.__str__(self)))


class HiddenText(str):
    """A text that does not print at all."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def hidden_url(url: Any) -> Any:
    """The same URL; what is none is left for others to refuse."""
    return HiddenUrl(url) if type(url) is str else url


def place_text(queue: str | None, where: str) -> str:
    """For people: a queue and its database, without user and password."""
    where = _USER.sub("//***@", where)
    return f"the default queue of {where}" if queue is None else f"queue {queue} in {where}"


def hidden_options(options: dict[str, Any]) -> dict[str, Any]:
    """The same options, the password among them hidden."""
    auth = options.get("auth")
    if not isinstance(auth, tuple):
        return options
    return options | {"auth": tuple(HiddenText(part) if type(part) is str else part for part in auth)}
