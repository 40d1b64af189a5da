"""The text of an exception, as it stands beside a dead letter."""

from __future__ import annotations

MOST = 2000


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
