"""What is refused before anything is sent; the same on every engine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import orjson

from .. import _core
from ..errors import ConfigError, InvalidMessage

INT64 = 1 << 63
MAX_HEADERS = 64 * 1024
MAX_EVENT = _core.MOST_EVENT
MAX_CLAIM = 100_000
MAX_PAGE = 10_000
PRIORITIES = range(5)


def integer(value: Any, argument: str) -> int:
    """An int that is no bool and fits in 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{argument} is an int, not {type(value).__name__}")
    if not -INT64 <= value < INT64:
        raise InvalidMessage(f"{argument}={value} does not fit in 64 bits", argument)
    return value


def seconds(value: Any, argument: str, *, positive: bool = False) -> float:
    """A duration in seconds: finite, not negative, and above 0 where `positive`."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{argument} is seconds (int, float) or a timedelta, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise InvalidMessage(f"{argument}={value} is too large", argument) from None
    if not math.isfinite(number) or number < 0 or (positive and number == 0):
        raise InvalidMessage(f"{argument}={value!r}: {'above 0' if positive else '0 or more'} and finite", argument)
    return number


def priority(value: Any, argument: str = "priority") -> int:
    """A group's priority, 0 to 4."""
    if integer(value, argument) not in PRIORITIES:
        raise InvalidMessage(f"{argument}={value}: 0 to 4", argument)
    return int(value)


def headers(value: Any) -> str | None:
    """Headers as JSON text: a dict of str to str, int, float, bool or None, 64 KiB at most; None when empty."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise TypeError(f"headers is a dict, not {type(value).__name__}")
    for name, item in value.items():
        _header(name, item)
    if not value:
        return None
    try:
        text = orjson.dumps(dict(value), option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    except TypeError as error:
        raise InvalidMessage(f"headers cannot be stored: {error}", "headers") from None
    if len(text) > MAX_HEADERS:
        raise InvalidMessage(f"headers have {len(text)} bytes: 64 KiB at most", "headers")
    return text.decode()


def _header(name: Any, item: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"a header's name is a str, not {type(name).__name__}")
    if item is not None and not isinstance(item, str | int | float | bool):
        raise TypeError(f"header {name!r} is str, int, float, bool or None, not {type(item).__name__}")
    if isinstance(item, float) and not math.isfinite(item):
        raise InvalidMessage(f"header {name!r} is {item}: finite numbers only", "headers")
    if isinstance(item, int) and not -INT64 <= item < INT64:
        raise InvalidMessage(f"header {name!r} does not fit in 64 bits", "headers")


def limit(value: Any) -> int:
    """How many groups a `claim_many`, or messages a `claim_run`, may take."""
    if not 1 <= integer(value, "limit") <= MAX_CLAIM:
        raise InvalidMessage(f"limit={value}: 1 to {MAX_CLAIM:,}", "limit")
    return int(value)


def page(value: Any) -> int:
    """How many rows an operating call may show at once."""
    if not 1 <= integer(value, "limit") <= MAX_PAGE:
        raise InvalidMessage(f"limit={value}: 1 to {MAX_PAGE:,}", "limit")
    return int(value)


def at_least_one(value: Any, argument: str) -> int:
    """A count of 1 or more."""
    if integer(value, argument) < 1:
        raise InvalidMessage(f"{argument}={value}: 1 or more", argument)
    return int(value)


def one_of(value: Any, known: tuple[str, ...], argument: str) -> None:
    """One of a few words."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} is a str, not {type(value).__name__}")
    if value not in known:
        raise InvalidMessage(f"{argument}={value!r}: one of {', '.join(known)}", argument)


def seqs(value: Any) -> list[int]:
    """Seqs, each once, in their order."""
    if isinstance(value, str | bytes | dict) or not isinstance(value, Iterable):
        raise TypeError(f"seqs is a list of int, not {type(value).__name__}")
    return sorted({integer(seq, "an item of seqs") for seq in value})


def wait(value: Any) -> float:
    """How long a claim waits, in seconds; infinity for None."""
    return math.inf if value is None else seconds(value, "wait")


def lease(value: Any, argument: str = "lease") -> _core.Lease[Any]:
    """A lease."""
    if not isinstance(value, _core.Lease):
        raise TypeError(f"{argument} is a Lease, not {type(value).__name__}")
    return value


def reason(value: Any) -> str:
    """Why a message became a dead letter: any text that a database can store."""
    if not isinstance(value, str):
        raise TypeError(f"reason is a str, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidMessage("reason holds a lone surrogate, which no database can store as text", "reason") from None
    return value


def no_statements_beside(statements: Any) -> None:
    """`connection=` and `with_statements=` exclude each other."""
    if statements:
        raise InvalidMessage(
            "with_statements= beside connection=: run them on the connection itself", "with_statements"
        )


def option_seconds(value: Any, option: str, *, positive: bool = True) -> float:
    """A duration given as an option."""
    try:
        return seconds(value, option, positive=positive)
    except (TypeError, InvalidMessage) as error:
        raise ConfigError(str(error)) from None


def option_count(value: Any, option: str) -> int:
    """A count given as an option: 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{option}={value!r}: a whole number, 1 or more")
    return value


def option_name(value: Any, option: str) -> str:
    """A name given as an option: a text that can be stored."""
    try:
        return _core.check_id(value, option)
    except (TypeError, InvalidMessage) as error:
        raise ConfigError(str(error)) from None


def option_callable(value: Any, option: str) -> None:
    """A function given as an option, or None."""
    if value is not None and not callable(value):
        raise ConfigError(f"{option} is a callable or None, not {type(value).__name__}")
