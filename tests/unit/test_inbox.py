"""What an Inbox is: read from a class or by hand, and what is refused when it is declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar

import pytest

from rqfast import ConfigError, InvalidMessage, connect
from rqfast.address.inbox import Inbox
from rqfast.address.roles import (
    Attempt,
    Column,
    Group,
    Header,
    Headers,
    Id,
    LockedUntil,
    Payload,
    Priority,
    ProcessedAt,
    RetryAt,
    Token,
)


@dataclass
class Base:
    id: Annotated[int, Id(generated=True)]
    locked_until: Annotated[float | None, LockedUntil]


@dataclass
class Change(Base):
    kind: ClassVar[str] = "change"

    target: Annotated[str, Group(fifo=True)] = ""
    attempt: Annotated[int, Attempt(generated=True)] = 0
    payload: Annotated[bytes, Payload(column="body")] = b""
    note: str = "none"


BY_HAND: dict[str, Any] = {
    "id": Column("id", generated=True),
    "fifo_group": "target",
    "attempt": Column("attempt", generated=True),
    "locked_until": "locked_until",
    "payload": "body",
}


def test_both_forms_are_equal() -> None:
    by_class, by_hand = Inbox(Change, table="jobs"), Inbox.describe("jobs", **BY_HAND)
    assert by_class == by_hand
    assert hash(by_class) == hash(by_hand)
    assert by_class != Inbox.describe("other", **BY_HAND)
    assert dict(by_class.roles) == dict(by_hand.roles)
    assert by_class.roles["payload"] == "body"
    assert by_class.fifo
    assert not by_class.exclusive
    assert by_class.has("attempt")
    assert not by_class.has("token")


def test_a_plain_class_serves_as_a_dataclass_does() -> None:
    class Plain:
        id: Annotated[str, Id]
        key: Annotated[str, Group(exclusive=True)]
        prio: Annotated[int, Priority]
        due: Annotated[datetime | None, RetryAt]
        held: Annotated[datetime | None, LockedUntil]
        token: Annotated[str | None, Token]
        payload: Annotated[str, Payload]
        trace: Annotated[str, Header("trace-id")]
        headers: Annotated[str | None, Headers]
        done: Annotated[datetime | None, ProcessedAt]
        made: Annotated[str, Column("made_at", generated=True)]

    box = Inbox(Plain, table="jobs")
    by_hand = Inbox.describe(
        "jobs",
        id="id",
        exclusive_group="key",
        priority="prio",
        retry_at=Column("due", iso_text=True),
        locked_until=Column("held", iso_text=True),
        token="token",
        payload="payload",
        header={"trace-id": "trace"},
        headers="headers",
        processed_at=Column("done", iso_text=True),
    )
    assert box == by_hand
    assert box.exclusive
    assert box.roles["header:trace-id"] == "trace"
    assert box.attributes["made"] == "made_at"


def test_addresses_are_values() -> None:
    box = Inbox(Change, table="jobs")
    assert box.group("crm") == Inbox.describe("jobs", **BY_HAND).group("crm")
    assert box.group("crm") != box.group("erp")
    assert box.groups(["a", "b"]).selection.groups == ("a", "b")
    assert box.prefix("crm/").inbox == box
    assert len({box.group("crm"), box.group("crm"), box.prefix("crm")}) == 2


def by_hand(**changes: Any) -> Callable[[], Inbox]:
    return lambda: Inbox.describe("jobs", **{name: value for name, value in (BY_HAND | changes).items() if value})


def by_class(**annotations: Any) -> Callable[[], Inbox]:
    given = {
        "id": Annotated[int, Id(generated=True)],
        "locked_until": Annotated[float, LockedUntil],
        "payload": Annotated[str, Payload],
    }
    return lambda: Inbox(type("Job", (), {"__annotations__": given | annotations}), table="jobs")


REFUSED = {
    "no id": (by_hand(id=None), r"jobs .* no column with the role id"),
    "no lock": (by_hand(locked_until=None), r"jobs .* no column with the role locked_until"),
    "no payload": (by_hand(payload=None), r"jobs .* no column with the role payload"),
    "a role twice": (
        by_class(other=Annotated[str, Payload]),
        r"Job: the columns payload and other both have the role payload",
    ),
    "two roles on a column": (by_hand(token="attempt"), r"column attempt has two roles, attempt and token"),
    "two roles on an attribute": (by_class(x=Annotated[int, Attempt, Priority]), r"Job\.x has two roles"),
    "the group is the id": (by_hand(fifo_group="id"), r"column id is both id and group"),
    "fifo with exclusive": (by_class(g=Annotated[str, Group(fifo=True, exclusive=True)]), r"Job\.g: fifo=True beside"),
    "fifo with exclusive by hand": (by_hand(exclusive_group="key"), r"fifo group target beside exclusive group key"),
    "a role that is none": (by_hand(lock="x"), r"lock= is no role"),
    "no identifier": (by_hand(payload="a b"), r"payload= 'a b' is no name"),
    "fifo without a value": (by_hand(fifo_group=1), r"fifo_group= is the name of a column"),
    "a time that is none": (by_class(due=Annotated[str, RetryAt]), r"Job\.due \(retry_at\) is annotated str"),
    "a column without a value": (by_class(note=str), r"Job\.note has no role, no default"),
    "two kinds of time": (by_class(due=Annotated[datetime, RetryAt]), r"locked_until and due are compared"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_is_refused_when_declared(name: str) -> None:
    declare, told = REFUSED[name]
    with pytest.raises(ConfigError, match=told):
        declare()


def test_each_refusal_has_its_own_message() -> None:
    told = set()
    for declare, _ in REFUSED.values():
        with pytest.raises(ConfigError) as error:
            declare()
        told.add(str(error.value))
    assert len(told) == len(REFUSED)


def test_a_table_without_groups_has_no_addresses() -> None:
    with pytest.raises(ConfigError, match="no column with the role group"):
        by_hand(fifo_group=None)().group("crm")


def test_publishing_is_refused_where_a_row_would_lack_something() -> None:
    box = Inbox.describe("jobs", **BY_HAND)
    with connect("sqlite://:memory:") as queue:
        with pytest.raises(ConfigError, match="publishing needs one group"):
            queue.publish_to(box, {})
        with pytest.raises(ConfigError, match=r"column id \(id\) is not marked generated"):
            queue.publish_to(Inbox.describe("jobs", **BY_HAND | {"id": "id"}).group("crm"), {})
        with pytest.raises(InvalidMessage, match="header 'trace'"):
            queue.publish_to(box.group("crm"), {}, headers={"trace": 1})
        with pytest.raises(InvalidMessage, match="priority="):
            queue.publish_to(box.group("crm"), {}, priority=1)
        with pytest.raises(InvalidMessage, match="retry_after="):
            queue.publish_to(box.group("crm"), {}, retry_after=1)
