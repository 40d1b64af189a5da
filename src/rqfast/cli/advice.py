"""Commands that one command advises: on the same queue, and ready to be copied."""

from __future__ import annotations

import shlex

from .console import one_line


def advised(queue: str | None, *words: str, group: str | None = None) -> str:
    """The command `rqfast WORDS` on this queue, and this group where one is named, in backquotes (str)."""
    line = ["rqfast", *words, *(["--queue", queue] if queue else [])]
    if group is not None:
        line += ["--", group] if group.startswith("-") else [group]
    return f"`{one_line(shlex.join(line))}`"
