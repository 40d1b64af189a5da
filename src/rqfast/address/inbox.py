"""A table of the user's own as a source of messages: what its columns are for.  Only described here, never opened."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import datetime
from types import MappingProxyType, NoneType
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin, get_type_hints

from ..errors import ConfigError
from .roles import HEADER, ROLES, Column, Group, Header, Role
from .selection import Selection

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
MAX_NAME = 128

# What a group is for, as an argument of `describe`.
_GROUPS = {"fifo_group": (True, False), "exclusive_group": (False, True), "group": (False, False)}
_TIMES = ("retry_at", "locked_until", "processed_at")


@dataclass(frozen=True, slots=True)
class _Found:
    """A column of a declaration.

    `what` names it in errors; `key` is its role, None for a plain column.
    """

    what: str
    column: str
    key: str | None = None
    generated: bool = False
    iso_text: bool = False
    fifo: bool = False
    exclusive: bool = False
    attribute: str = ""
    default: Any = None
    takes_null: bool = True


class Inbox:
    """A table of the user's own that messages come from, made and filled by any program.

    Nothing connects here.  The Inbox itself means all its groups; `group`, `groups` and `prefix` some of them.

    Args:
        cls: a class whose annotations say what the columns are for; its attributes without a role are columns too.
        table: the table.

    Attributes:
        table: its name.
        roles: from each role (`id`, `group`, `priority`, ..., and `header:NAME`) to the column.
        fifo: whether one row of a group is in work at a time, in claim order.
        exclusive: the same in no order.
        generated: the columns that the database fills when a row is published.
        iso_text: the columns that hold times as ISO 8601 UTC text.
        not_null: the columns with a role whose annotation has no None.
        row_class: the class, None when described by hand.
        attributes: of the class, from each to its column.
        defaults: of the columns without a role, what a published row has there.

    Raises:
        ConfigError: what cannot work, with the class or table and the column.

    Example:
        >>> crm = Inbox(SyncChange, table="sync_jobs").group("crm")
    """

    table: str
    roles: Mapping[str, str]
    fifo: bool
    exclusive: bool
    generated: frozenset[str]
    iso_text: frozenset[str]
    row_class: type[Any] | None
    attributes: Mapping[str, str]
    defaults: Mapping[str, Any]

    def __init__(self, cls: type[Any], table: str) -> None:
        if not isinstance(cls, type):
            raise ConfigError(
                f"Inbox(cls, table=): cls is a class with annotations, not {type(cls).__name__}; without one there is "
                "Inbox.describe(table, id=.., locked_until=.., payload=..)"
            )
        self._fill(table, cls.__name__, _columns_of(cls))
        self.row_class = cls

    @classmethod
    def describe(
        cls,
        table: str,
        *,
        id: str | Column | None = None,
        fifo_group: str | Column | None = None,
        exclusive_group: str | Column | None = None,
        group: str | Column | None = None,
        priority: str | Column | None = None,
        retry_at: str | Column | None = None,
        attempt: str | Column | None = None,
        locked_until: str | Column | None = None,
        token: str | Column | None = None,
        payload: str | Column | None = None,
        header: Mapping[str, str | Column] | None = None,
        headers: str | Column | None = None,
        processed_at: str | Column | None = None,
        **unknown: Any,
    ) -> Self:
        """The same without a class: the column of each role, by its name or as a `Column`.

        Raises:
            ConfigError: what cannot work, with the table and the column.

        Example:
            >>> Inbox.describe("sync_jobs", id=Column("id", generated=True), fifo_group="target",
            ...                locked_until="locked_until", payload="payload")
        """
        if unknown:
            known = (*_GROUPS, *(role for role in ROLES if role != "group"), "header")
            raise ConfigError(f"{table}: {', '.join(sorted(unknown))}= is no role; roles are {', '.join(known)}")
        given = {
            "id": id, "fifo_group": fifo_group, "exclusive_group": exclusive_group, "group": group,
            "priority": priority, "retry_at": retry_at, "attempt": attempt, "locked_until": locked_until,
            "token": token, "payload": payload, "headers": headers, "processed_at": processed_at,
        }  # fmt: skip
        found = [_by_hand(table, name, value) for name, value in given.items() if value is not None]
        if header is not None and not isinstance(header, Mapping):
            raise ConfigError(f"{table}: header= is a dict from a header's name to its column")
        for name, value in (header or {}).items():
            found.append(_by_hand(table, f"header[{name!r}]", value, f"{HEADER}{_header_name(table, name)}"))
        self = cls.__new__(cls)
        self._fill(table, table, found)
        self.row_class = None
        return self

    def _fill(self, table: Any, owner: str, found: list[_Found]) -> None:
        _check_name(table, f"{owner}: table=")
        _check_columns(owner, found)
        roles = {one.key: one.column for one in found if one.key is not None}
        for needed, why in (
            ("id", "what tells its rows apart"),
            ("locked_until", "where the end of a lease is written"),
            ("payload", "what a handler gets"),
        ):
            if needed not in roles:
                raise ConfigError(f"{owner} (table {table}) has no column with the role {needed}: {why}")
        times = {one.key: one.iso_text for one in found if one.key in ("locked_until", "retry_at")}
        if len(set(times.values())) > 1:
            raise ConfigError(
                f"{owner} (table {table}): {roles['locked_until']} and {roles['retry_at']} are compared with one time; "
                "both hold seconds, or both ISO 8601 text"
            )
        self.table = table
        self.roles = MappingProxyType(roles)
        self.fifo = any(one.fifo for one in found)
        self.exclusive = any(one.exclusive for one in found)
        self.generated = frozenset(one.column for one in found if one.generated)
        self.iso_text = frozenset(one.column for one in found if one.iso_text)
        self.not_null: frozenset[str] = frozenset(one.column for one in found if not one.takes_null)
        self.attributes = MappingProxyType({one.attribute: one.column for one in found if one.attribute})
        self.defaults = MappingProxyType(
            {one.column: one.default for one in found if one.key is None and not one.generated}
        )

    def has(self, role: str) -> bool:
        """Whether a column has this role."""
        return role in self.roles

    @property
    def header_columns(self) -> dict[str, str]:
        """From the name of each header that has a column of its own to that column."""
        return {key[len(HEADER) :]: column for key, column in self.roles.items() if key.startswith(HEADER)}

    def group(self, group: str) -> Address:
        """One of its groups."""
        return self._address(Selection.of(group, None, None))

    def groups(self, groups: Iterable[str]) -> Address:
        """Some of its groups."""
        return self._address(Selection.of(None, groups, None))

    def prefix(self, prefix: str) -> Address:
        """Its groups that begin so."""
        return self._address(Selection.of(None, None, prefix))

    def _address(self, selection: Selection) -> Address:
        if not self.has("group"):
            raise ConfigError(f"table {self.table} has no column with the role group, so it has no {selection}")
        return Address(self, selection)

    def _key(self) -> tuple[Any, ...]:
        return (
            self.table, tuple(sorted(self.roles.items())), self.fifo, self.exclusive,
            self.generated & frozenset(self.roles.values()), self.iso_text,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Inbox) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        kind = "fifo " if self.fifo else "exclusive " if self.exclusive else ""
        return f"<Inbox {self.table} {kind}{dict(self.roles)}>"


@dataclass(frozen=True, slots=True)
class Address:
    """Groups of an Inbox: where messages come from, and, of one group, where they are published to.

    Attributes:
        inbox: the Inbox.
        selection: which of its groups.
    """

    inbox: Inbox
    selection: Selection = field(default_factory=Selection)

    def __str__(self) -> str:
        return f"{self.selection} of table {self.inbox.table}"


def as_address(source: Any) -> Address:
    """An Inbox as the address of all its groups; an address as it is.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(source, Inbox):
        return Address(source)
    if isinstance(source, Address):
        return source
    raise TypeError(f"an Inbox or one of its groups, not {type(source).__name__}")


# -- from a class ---------------------------------------------------------------------------------------------


def _columns_of(cls: type[Any]) -> list[_Found]:
    try:
        hints = get_type_hints(cls, include_extras=True)
    except (NameError, TypeError) as error:
        raise ConfigError(f"the annotations of {cls.__name__} cannot be read: {error}") from error
    defaults = _defaults_of(cls)
    found = []
    for attribute, hint in hints.items():
        if get_origin(hint) is ClassVar or hint is ClassVar:
            continue
        found.append(_column_of(cls, attribute, hint, defaults.get(attribute, MISSING)))
    return found


def _defaults_of(cls: type[Any]) -> dict[str, Any]:
    if not is_dataclass(cls):
        return {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    return {one.name: _default_of(one) for one in fields(cls)}


def _default_of(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def _column_of(cls: type[Any], attribute: str, hint: Any, default: Any) -> _Found:
    what = f"{cls.__name__}.{attribute}"
    kind: Any = hint
    extras: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        kind, *rest = get_args(hint)
        extras = tuple(_instance(one) for one in rest)
    roles = [one for one in extras if isinstance(one, Role)]
    if len(roles) > 1:
        names = " and ".join(one.role for one in roles)
        raise ConfigError(f"{what} has two roles, {names}: a column has one")
    plain = [one for one in extras if isinstance(one, Column)]
    if roles:
        return _with_role(what, attribute, kind, roles[0])
    column = plain[0] if plain else Column()
    if default is MISSING and not column.generated:
        raise ConfigError(
            f"{what} has no role, no default and is not generated: a published row would have no value there; give it "
            "a default, or Annotated[.., Column(generated=True)]"
        )
    return _Found(
        what, _check_name(column.name or attribute, what), None, column.generated, False, False, False,
        attribute, default,
    )  # fmt: skip


def _instance(extra: Any) -> Any:
    return extra() if isinstance(extra, type) and issubclass(extra, Role | Column) else extra


def _with_role(what: str, attribute: str, kind: Any, role: Role) -> _Found:
    if not role.role:
        raise ConfigError(f"{what}: Role is no role of its own; use Id, Group, Payload, ..")
    iso_text = role.role in _TIMES and _is_iso(what, role.role, kind)
    key = f"{HEADER}{role.name or attribute}" if isinstance(role, Header) else role.key
    group = role if isinstance(role, Group) else None
    if group is not None and group.fifo and group.exclusive:
        raise ConfigError(f"{what}: fifo=True beside exclusive=True; a group is in order, or it is not")
    return _Found(
        what,
        _check_name(role.column or attribute, what),
        key,
        role.generated,
        iso_text,
        group is not None and group.fifo,
        group is not None and group.exclusive,
        attribute,
        takes_null=NoneType in get_args(kind),
    )


def _is_iso(what: str, role: str, kind: Any) -> bool:
    kinds = set(get_args(kind) or (kind,)) - {NoneType}
    if kinds == {datetime}:
        return True
    if not kinds or not kinds <= {int, float}:
        name = getattr(kind, "__name__", None) or str(kind)
        raise ConfigError(
            f"{what} ({role}) is annotated {name}: times are float or int (seconds since 1970) or datetime "
            "(ISO 8601 UTC text), each with or without None"
        )
    return False


# -- by hand --------------------------------------------------------------------------------------------------


def _by_hand(table: Any, name: str, value: Any, key: str | None = None) -> _Found:
    what = f"{table}: {name}="
    column = Column(value) if isinstance(value, str) else value
    if not isinstance(column, Column) or column.name is None:
        raise ConfigError(f"{what} is the name of a column, or Column(name), not {type(value).__name__}")
    fifo, exclusive = _GROUPS.get(name, (False, False))
    role = key or ("group" if name in _GROUPS else name)
    if column.iso_text and role not in _TIMES:
        raise ConfigError(f"{what}: iso_text= is for times ({', '.join(_TIMES)})")
    return _Found(what, _check_name(column.name, what), role, column.generated, column.iso_text, fifo, exclusive)


def _header_name(table: Any, name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{table}: header= is a dict from a header's name to its column; {name!r} is no name")
    return name


# -- for both -------------------------------------------------------------------------------------------------


def _check_name(name: Any, what: str) -> str:
    if not isinstance(name, str):
        raise ConfigError(f"{what} is a name (str), not {type(name).__name__}")
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise ConfigError(f"{what} {name!r} is no name of a column or table: letters, digits and underscores")
    return name


def _check_columns(owner: str, found: list[_Found]) -> None:
    by_role: dict[str, _Found] = {}
    by_column: dict[str, _Found] = {}
    for one in found:
        before = by_role.get(one.key or "")
        if one.key is not None and before is not None:
            _refuse_twice(owner, before, one)
        other = by_column.get(one.column.lower())
        if other is not None:
            _refuse_shared(owner, other, one)
        by_column[one.column.lower()] = one
        if one.key is not None:
            by_role[one.key] = one


def _refuse_twice(owner: str, before: _Found, one: _Found) -> None:
    if one.key == "group" and (before.fifo or one.fifo) and (before.exclusive or one.exclusive):
        raise ConfigError(
            f"{owner}: fifo group {before.column if before.fifo else one.column} beside exclusive group "
            f"{one.column if one.exclusive else before.column}; a group is in order, or it is not"
        )
    raise ConfigError(f"{owner}: the columns {before.column} and {one.column} both have the role {one.key}")


def _refuse_shared(owner: str, other: _Found, one: _Found) -> None:
    roles = {other.key, one.key}
    if roles == {"id", "group"}:
        raise ConfigError(
            f"{owner}: column {one.column} is both id and group: each row would be a group of its own; leave it out"
        )
    names = " and ".join(str(key) for key in (other.key or "none", one.key or "none"))
    raise ConfigError(f"{owner}: column {one.column} has two roles, {names}: a column has one")
