"""Which groups of the queue a subscription serves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from .._core import check_id
from ..errors import ConfigError, InvalidMessage

LAST = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class Selection:
    """A list of groups, or those with a prefix; neither: every group."""

    groups: tuple[str, ...] | None = None
    prefix: str | None = None

    @classmethod
    def of(cls, group: Any, groups: Any, prefix: Any) -> Selection:
        """From what a declaration says.

        Raises:
            ConfigError: more than one of them, or none that can be the name of a group.
        """
        given = [
            name for name, value in (("group", group), ("groups", groups), ("prefix", prefix)) if value is not None
        ]
        if len(given) > 1:
            raise ConfigError(f"{' and '.join(f'{name}=' for name in given)}: a subscription has one of them")
        if group is not None:
            return cls(groups=(_name(group, "group"),))
        if groups is not None:
            if isinstance(groups, str) or not isinstance(groups, Iterable):
                raise ConfigError(f"groups= is a list of groups, not {type(groups).__name__}")
            names = tuple(dict.fromkeys(_name(one, "an item of groups") for one in groups))
            if not names:
                raise ConfigError("groups=[]: a subscription of no group would never get a message")
            return cls(groups=names)
        if prefix is not None:
            return cls(prefix=_name(prefix, "prefix"))
        return cls()

    @property
    def only(self) -> tuple[str, str] | None:
        """As a claim of the core takes it."""
        if self.groups is not None:
            return "list", orjson.dumps(self.groups).decode()
        if self.prefix is not None:
            return "prefix", orjson.dumps([self.prefix, after_all(self.prefix)]).decode()
        return None

    def includes(self, group: str) -> bool:
        """Whether this group is one of them."""
        if self.groups is not None:
            return group in self.groups
        return group.startswith(self.prefix or "")

    def __str__(self) -> str:
        if self.groups is not None:
            shown = ", ".join(map(repr, self.groups[:3]))
            return f"{'group' if len(self.groups) == 1 else 'groups'} {shown}{', ..' if len(self.groups) > 3 else ''}"
        return "every group" if self.prefix is None else f"groups {self.prefix!r}.."


def after_all(prefix: str) -> str:
    """The smallest text (by code points, as SQLite compares) that comes after all that begin with `prefix`."""
    while prefix and ord(prefix[-1]) == LAST:
        prefix = prefix[:-1]
    if not prefix:
        return chr(LAST) * 2
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(SURROGATES.stop if following in SURROGATES else following)


def _name(value: Any, what: str) -> str:
    try:
        return check_id(value, what)
    except (TypeError, InvalidMessage) as error:
        raise ConfigError(str(error)) from None
