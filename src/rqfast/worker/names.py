"""Keyword arguments that nobody knows, refused with the one that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ..errors import ConfigError


def check_names(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise ConfigError for the first of `given` that is not `known`."""
    names = sorted(known)
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            meant = f"did you mean {near[0]}=? " if near else ""
            raise ConfigError(f"{what} has no option {name}=; {meant}it has {', '.join(names)}")
