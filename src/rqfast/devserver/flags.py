"""The query string of a request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

from .parameters import BadRequest

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_DURATIONS = ("timeout", "freshness", "db_timeout", "linearizable_timeout")


@dataclass(frozen=True)
class Flags:
    """What the query string asks for.  The presence of a name is enough, as on the server: `timings=false` is true."""

    given: dict[str, str]

    def __contains__(self, name: object) -> bool:
        return name in self.given

    @property
    def transaction(self) -> bool:
        """Whether the statements are one transaction."""
        return "transaction" in self

    @property
    def parse(self) -> bool:
        """Whether RETURNING is looked for."""
        return "noparse" not in self

    @property
    def strong(self) -> bool:
        """Whether a read goes through the log; every other level, known or not, is a plain read here."""
        return self.given.get("level", "").lower() == "strong"

    @property
    def db_timeout(self) -> float:
        """Seconds that the statements may take; 0 for no end."""
        return duration(self.given.get("db_timeout", "0")) or 0.0


def parse(query: str) -> Flags:
    """Read a query string.

    Raises:
        BadRequest: in the server's words.
    """
    if ";" in query:
        raise BadRequest("invalid semicolon separator in query")
    given: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        given.setdefault(name, value)
    if "freshness_strict" in given and "freshness" not in given:
        raise BadRequest("freshness_strict requires freshness")
    for name in _DURATIONS:
        if name in given and duration(given[name]) is None:
            raise BadRequest(f"{name} is not a valid duration")
    if "retries" in given and not re.fullmatch(r"[+-]?[0-9]+", given["retries"]):
        raise BadRequest("retries is not a valid integer")
    if given.get("q") == "":
        raise BadRequest("query parameter not set")
    if "qualify_columns" in given:
        raise BadRequest("qualify_columns is not supported by the dev server")
    return Flags(given)


def duration(text: str) -> float | None:
    """Seconds of a duration with units such as `1m30s`; None where it is none."""
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text.lstrip("+-") if text[:1] in "+-" else text
    if rest == "0":
        return 0.0
    parts = list(_PART.finditer(rest))
    if not parts or "".join(part.group() for part in parts) != rest:
        return None
    return sign * sum(float(part[1]) * _UNITS[part[2]] for part in parts)
