"""What is told of an exception: its text beside a dead letter, and its traceback in the log."""

from __future__ import annotations

from types import TracebackType

MOST = 2000

# What calls handlers.
WORKER = __name__.rpartition(".")[0] + "."


def text_of(error: BaseException) -> str:
    """Type and text, shortened; whatever the exception does when it is asked.

    >>> text_of(ValueError("no such order"))
    'ValueError: no such order'
    """
    kind = type(error).__qualname__
    try:
        said = str(error)
    except Exception as worse:
        said = f"(its text cannot be told: {type(worse).__qualname__})"
    text = f"{kind}: {said}" if said else kind
    if len(text) > MOST:
        text = text[: MOST - 2] + ".."
    # A lone surrogate or a NUL can be stored by no database.
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def told(error: BaseException) -> str:
    r"""The same for a line of the log: no letter in it moves or colours a terminal, or ends the line (str).

    >>> told(ValueError("\x1b[31mred"))
    'ValueError: \\x1b[31mred'
    """
    return one_line(text_of(error))


def one_line(text: str) -> str:
    """The text with all that is no plain letter as escapes (str)."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def raised_by_handler(error: BaseException) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """For `exc_info=`: its traceback from the handler's own frame on; whole where the handler has none in it."""
    trace = error.__traceback__
    while trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).startswith(WORKER):
        trace = trace.tb_next
    return type(error), error, trace or error.__traceback__
