"""Values on their way out: from SQLite to JSON, in the forms of the server and its driver."""

from __future__ import annotations

import base64
import codecs
import math
import re
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import orjson

_ERRORS = "rqfast-each-byte"
_TEXT = ("varchar", "varying character", "nchar", "native character", "nvarchar", "clob")
_TIMES = ("timestamp", "datetime", "date")
_MILLISECONDS = 10**12
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?([+-]\d\d:\d\d)?)?Z?", re.ASCII
)
_NO_TIME = "0001-01-01T00:00:00Z"
_EPOCH = datetime(1970, 1, 1)


class NotJson(Exception):
    """A value that JSON cannot hold; the whole reply becomes a 500 with this text."""


def _each_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd", error.start + 1


codecs.register_error(_ERRORS, _each_byte)


def text(raw: bytes) -> str:
    """Bytes as text; each byte that is not UTF-8 becomes U+FFFD."""
    return raw.decode("utf-8", _ERRORS)


def fill(types: list[str], row: tuple[Any, ...]) -> None:
    """Give each column without a declared type that of its first value."""
    for at, value in enumerate(row):
        if types[at] == "" and value is not None:
            types[at] = "integer" if isinstance(value, int) else "real" if isinstance(value, float) else "text"


def encoded(value: Any, kind: str, blob_array: bool) -> Any:
    """One value of a column with this declared type, as orjson takes it.

    Raises:
        NotJson: an infinity.
    """
    if value is None:
        return None
    if isinstance(value, bytes):
        return _blob(value, kind, blob_array)
    if isinstance(value, float):
        return orjson.Fragment(number(value))
    if kind in _TIMES:
        return _instant(value) if isinstance(value, int) else _parsed(value)
    return value > 0 if kind == "boolean" and isinstance(value, int) else value


def _blob(value: bytes, kind: str, blob_array: bool) -> Any:
    if kind in ("", "text", "json") or kind.startswith(_TEXT):
        return text(value)
    return list(value) if blob_array else base64.b64encode(value).decode("ascii")


def number(value: float) -> str:
    """A float as the server writes it: shortest digits, and no fraction where there is none.

    Raises:
        NotJson: an infinity.
    """
    if math.isinf(value):
        sign = "-" if value < 0 else "+"
        raise NotJson(f"json: error calling MarshalJSON for type *http.DBResults: json: unsupported value: {sign}Inf")
    if value == 0:
        return "-0" if math.copysign(1.0, value) < 0 else "0"
    if 1e-6 <= abs(value) < 1e21:
        plain = format(Decimal(repr(value)), "f")
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    digits, _, exponent = repr(value).partition("e")
    return f"{digits.removesuffix('.0')}e{int(exponent):+d}"


def _instant(value: int) -> str:
    milliseconds = value if abs(value) > _MILLISECONDS else value * 1000
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return _NO_TIME
    return _rfc3339(moment, f"{moment.microsecond:06d}", "Z")


def _parsed(value: str) -> str:
    found = _TIME.fullmatch(value)
    if found is None:
        return _NO_TIME
    *parts, fraction, offset = found.groups()
    try:
        year, month, day, hour, minute, second = (int(part or 0) for part in parts)
        moment = datetime(year, month, day, hour, minute, second)
    except ValueError:
        return _NO_TIME
    return _rfc3339(moment, fraction or "", "Z" if offset in (None, "+00:00", "-00:00") else offset)


def _rfc3339(moment: datetime, fraction: str, zone: str) -> str:
    fraction = fraction.rstrip("0")
    return f"{moment.replace(microsecond=0).isoformat()}{'.' if fraction else ''}{fraction}{zone}"
