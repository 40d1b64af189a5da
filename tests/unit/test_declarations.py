"""Declarations: what is refused and how, what signatures say, and to what payloads are decoded.  Nothing connects."""

from __future__ import annotations

import asyncio
import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import pytest

import rqfast
from rqfast import Ack, ConfigError, Context, Dead, Exponential, Retry, Subscription, Worker
from rqfast.worker.decode import decoder_of

NOWHERE = "http://127.0.0.1:1"


def handle(payload: dict[str, int], ctx: Context) -> None:
    pass


def handle_many(payloads: list[dict[str, int]], contexts: list[Context]) -> None:
    pass


def refusal(make: Callable[[], Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        make()
    return str(caught.value)


def refused(handler: Any, source: Any = None, **options: Any) -> str:
    """What both forms say, which is the same."""
    by_hand = refusal(lambda: Subscription(source, handler, **options))
    worker = Worker(NOWHERE)
    decorated = refusal(lambda: worker.subscriber(source, **options)(handler))
    assert by_hand == decorated
    assert worker.subscriptions == []
    return by_hand


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": "a", "groups": ["b"]}, "group= and groups=: a subscription has one of them"),
        ({"group": "a", "prefix": "b"}, "group= and prefix=: a subscription has one of them"),
        ({"group": ""}, "group"),
        ({"group": 7}, "group is a str, not int"),
        ({"groups": []}, "groups=[]: a subscription of no group would never get a message"),
        ({"groups": "crm"}, "groups= is a list of groups, not str"),
        ({"groups": ["a", 7]}, "an item of groups is a str, not int"),
        ({"prefix": ""}, "prefix"),
        ({"min_priority": 5}, "min_priority=5: 0 to 4"),
        ({"min_priority": "high"}, "min_priority is an int, not str"),
        ({"concurrency": 0}, "concurrency=0: a whole number, 1 or more"),
        ({"concurrency": True}, "concurrency=True: a whole number, 1 or more"),
        ({"visibility": 0}, "visibility=0: above 0 and finite"),
        ({"visibility": -1}, "visibility=-1: above 0 and finite"),
        ({"visibility": float("inf")}, "visibility=inf: above 0 and finite"),
        ({"visibility": "30"}, "visibility is seconds (int, float) or a timedelta, not str"),
        ({"batch": 0}, "batch=0: a whole number, 1 or more"),
        ({"batch": 10}, "batch=10: then its first parameter is a list[...]"),
        ({"max_attempts": 0, "dead_letter": True}, "max_attempts=0: a whole number, 1 or more"),
        ({"max_attempts": 3}, "max_attempts=3 without dead_letter="),
        ({"max_attempts": 3, "dead_letter": False}, "max_attempts=3 without dead_letter="),
        ({"dead_letter": True}, "dead_letter= without max_attempts="),
        ({"dead_letter": "graves"}, "dead_letter= without max_attempts="),
        ({"max_attempts": 3, "dead_letter": 7}, "dead_letter= of a subscription on the queue is True"),
        ({"max_attempts": 3, "dead_letter": ""}, "dead_letter"),
        ({"group": "a", "max_attempts": 3, "dead_letter": "a"}, "the subscription itself serves"),
        ({"groups": ["a", "b"], "max_attempts": 3, "dead_letter": "b"}, "the subscription itself serves"),
        ({"prefix": "a/", "max_attempts": 3, "dead_letter": "a/dead"}, "the subscription itself serves"),
        ({"max_attempts": 3, "dead_letter": "anywhere"}, "the subscription itself serves"),
        ({"backoff": -1}, "backoff=-1: 0 or more and finite"),
        ({"backoff": "slow"}, "backoff is seconds (int, float) or a timedelta, not str"),
        ({"on_error": "log"}, "on_error is a callable or None, not str"),
        ({"on_undecodable": "drop"}, "on_undecodable= is an Outcome, not str"),
        ({"decode": "json"}, "decode is a callable or None, not str"),
        ({"name": ""}, "name"),
        ({"name": 7}, "name is a str, not int"),
        ({"source": "crm"}, "its source is an Inbox or one of its groups, not str"),
        ({"source": 7, "group": "a"}, "its source is an Inbox or one of its groups, not int"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_what_is_refused(options: dict[str, Any], message: str) -> None:
    assert message in refused(handle, **options)


def test_a_list_says_how_many_and_how_many_needs_a_list() -> None:
    assert "its first parameter is a list: say batch=" in refused(handle_many)
    assert "a batch with a transactional handler" in refused(handle_many, batch=2, transactional=True)


def test_an_unknown_option_is_no_option() -> None:
    with pytest.raises(TypeError, match="max_attempt"):
        Subscription(None, handle, max_attempt=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"visibility": 0}, "visibility=0: above 0"),
        ({"visibility": None}, "visibility is seconds"),
        ({"grace": -1}, "grace=-1: 0 or more"),
        ({"concurrency": 0}, "concurrency=0: a whole number"),
        ({"concurrency": 2.5}, "concurrency=2.5: a whole number"),
        ({"name": ""}, "name"),
        ({"queue": "Orders"}, "queue='Orders'"),
        ({"queue": 7}, "queue= is a name or None, not int"),
    ],
    ids=repr,
)
def test_a_worker_that_cannot_be(options: dict[str, Any], message: str) -> None:
    assert message in refusal(lambda: Worker(NOWHERE, **options))


def test_a_worker_of_something_else() -> None:
    assert "not int" in refusal(lambda: Worker(7))  # type: ignore[arg-type]
    transport = rqfast.connect(":memory:")
    with transport:
        assert "for a blocking transport pass its URL" in refusal(lambda: Worker(transport))  # type: ignore[arg-type]


def test_two_of_one_name() -> None:
    worker = Worker(NOWHERE)
    worker.subscriber(group="a")(handle)
    message = refusal(lambda: worker.subscriber(group="b")(handle))
    assert message == refusal(lambda: worker.add(Subscription(None, handle, group="b")))
    assert "two subscriptions are called 'handle'" in message
    worker.subscriber(group="b", name="another")(handle)
    assert [one.name for one in worker.subscriptions] == ["handle", "another"]


def test_what_is_no_subscription() -> None:
    assert "not function" in refusal(lambda: Worker(NOWHERE).add(handle))  # type: ignore[arg-type]


def test_both_forms_make_the_same_object() -> None:
    worker = Worker(NOWHERE)
    options: dict[str, Any] = {
        "group": "crm",
        "max_attempts": 3,
        "dead_letter": "graves",
        "backoff": timedelta(seconds=2),
    }
    assert worker.subscriber(**options)(handle) is handle
    (declared,) = worker.subscriptions
    by_hand = Subscription(None, handle, **options)
    assert type(declared) is type(by_hand)
    told = [name for name in vars(declared) if name not in ("decoder", "pause_after")]
    assert {name: getattr(declared, name) for name in told} == {name: getattr(by_hand, name) for name in told}
    assert repr(declared) == repr(by_hand) == "<Subscription 'handle' on group 'crm'>"
    assert declared.fifo and declared.roles == {} and declared.pause_after(1) == by_hand.pause_after(1) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Exponential(jitter=2), "jitter=2"),
        (lambda: Exponential(factor=0.5), "factor=0.5"),
        (lambda: Exponential(first=10, most=1), "first=10, most=1"),
        (lambda: Exponential(first=-1), "first=-1"),
    ],
)
def test_a_backoff_that_cannot_be(make: Callable[[], Any], message: str) -> None:
    assert message in refusal(make)


def test_backoffs() -> None:
    grows = Exponential(first=1, factor=3, most=10, jitter=0)
    assert [Subscription(None, handle, backoff=grows).pause_after(n) for n in (1, 2, 3, 4, 100_000)] == [
        1,
        3,
        9,
        10,
        10,
    ]
    assert Subscription(None, handle).pause_after(7) == 0
    assert Subscription(None, handle, backoff=lambda attempt: attempt * 2).pause_after(7) == 14
    for _ in range(100):
        assert 0.5 <= Exponential(first=1, jitter=0.5).delay(1) <= 1


def test_outcomes_are_values() -> None:
    assert Ack() == Ack() and Retry(1) == Retry(timedelta(seconds=1)) != Retry(2) != Dead("no")
    assert Ack(publish=[("a", 1)]) == Ack(publish=[("a", 1)]) != Ack()
    assert repr(Retry(2)) == "Retry(2.0)" and repr(Dead("no")) == "Dead('no')" and repr(Ack()) == "Ack()"
    assert len({Ack(), Ack(), Retry(1), Retry(1.0)}) == 2
    with pytest.raises(ValueError, match="delay=-1"):
        Retry(-1)
    with pytest.raises(TypeError, match="reason is a str"):
        Dead(7)  # type: ignore[arg-type]


# -- signatures -------------------------------------------------------------------------------------------


class Stateful:
    """A handler with state."""

    def __call__(self, payload: bytes, ctx: Context) -> None:
        pass

    def method(self, payload: bytes) -> None:
        pass

    async def waits(self, payload: bytes, ctx: Context) -> None:
        pass

    @classmethod
    def of_class(cls, payload: bytes) -> None:
        pass

    @staticmethod
    def of_nothing(payload: bytes, ctx: Context) -> None:
        pass


class Waits:
    async def __call__(self, payload: bytes) -> None:
        pass


def with_default(payload: bytes, table: str = "orders") -> None:
    pass


def with_context_by_default(payload: bytes, ctx: Context | None = None) -> None:
    pass


def bound_first(table: str, payload: bytes, ctx: Context) -> None:
    pass


async def bound_by_name(payload: bytes, ctx: Context, *, table: str) -> None:
    pass


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any, **options: Any) -> Any:
        return function(*args, **options)

    return inner


@pytest.mark.parametrize(
    ("handler", "name", "takes_context", "is_async"),
    [
        (lambda payload: None, "<lambda>", False, False),
        (Stateful(), "Stateful", True, False),
        (Stateful().method, "Stateful.method", False, False),
        (Stateful().waits, "Stateful.waits", True, True),
        (Stateful.of_class, "Stateful.of_class", False, False),
        (Stateful.of_nothing, "Stateful.of_nothing", True, False),
        (Waits(), "Waits", False, True),
        (with_default, "with_default", False, False),
        (with_context_by_default, "with_context_by_default", True, False),
        (functools.partial(bound_first, "orders"), "bound_first", True, False),
        (functools.partial(bound_by_name, table="orders"), "bound_by_name", True, True),
        (functools.partial(Stateful().waits), "Stateful.waits", True, True),
        (wrapped(with_default), "with_default", False, False),
    ],
    ids=lambda value: getattr(value, "__qualname__", None) or type(value).__name__,
)
def test_signatures(handler: Any, name: str, takes_context: bool, is_async: bool) -> None:
    subscription = Subscription(None, handler)
    assert subscription.name == name
    assert (subscription.signature.takes_context, subscription.signature.is_async) == (takes_context, is_async)
    assert not subscription.signature.takes_list
    if name != "<lambda>":
        assert subscription.signature.payload is bytes


def test_a_batch_says_what_an_item_is() -> None:
    subscription = Subscription(None, handle_many, batch=3)
    assert subscription.signature.takes_list and subscription.signature.payload == dict[str, int]
    assert Subscription(None, _bare_list, batch=3).signature.payload is None


def _bare_list(payloads: list) -> None:  # type: ignore[type-arg]
    pass


@pytest.mark.parametrize(
    "handler",
    [
        lambda: None,
        lambda one, two, three: None,
        lambda payload, *, table: None,
        functools.partial(bound_by_name, b"", None, table="orders"),  # type: ignore[arg-type]
    ],
)
def test_signatures_that_no_message_can_be_given_to(handler: Any) -> None:
    assert "a handler takes the payload, and a Context if it wants one" in refused(handler)


@pytest.mark.parametrize("handler", [7, "handle", None, [handle]])
def test_what_is_no_handler(handler: Any) -> None:
    assert f"a handler is a function or a callable object, not {type(handler).__name__}" in refused(handler)


def test_an_annotation_that_names_nothing() -> None:
    def handler(payload: Unheard) -> None:  # type: ignore[name-defined]  # noqa: F821
        pass

    assert "Unheard" in refused(handler)


# -- decoding ---------------------------------------------------------------------------------------------


class Kind(enum.Enum):
    NEW = "new"
    OLD = "old"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Line:
    article: str
    count: int = 1


@dataclass
class Order:
    number: int
    lines: list[Line]
    kind: Kind | None = None
    made: datetime | None = None
    by_name: dict[str, Line] = field(default_factory=dict)
    computed: int = field(init=False, default=7)


class Change(TypedDict):
    customer: int
    line: Line
    note: NotRequired[str]


ORDER = (
    '{"number":3,"lines":[{"article":"a"},{"article":"b","count":2}],"kind":"new","made":"2026-01-02T03:04:05+00:00",'
    '"by_name":{"x":{"article":"c"}},"added_later":true}'
)


@pytest.mark.parametrize(
    ("wanted", "raw", "expected"),
    [
        (bytes, '{"a": 1}', b'{"a": 1}'),
        (dict, '{"a": 1}', {"a": 1}),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (dict[str, Line], '{"a": {"article": "x"}}', {"a": Line("x")}),
        (list, "[1, 2]", [1, 2]),
        (list[Line], '[{"article": "x"}]', [Line("x")]),
        (tuple[Kind, ...], '["new", "old"]', (Kind.NEW, Kind.OLD)),
        (set[int], "[1, 1]", {1}),
        (str, '"text"', "text"),
        (int, "7", 7),
        (float, "1.5", 1.5),
        (bool, "true", True),
        (object, "[1]", [1]),
        (Literal["a", "b"], '"a"', "a"),
        (Line | None, "null", None),
        (Optional[Line], '{"article": "x"}', Line("x")),  # noqa: UP045 - the old way to write it
        (int | str, '"x"', "x"),
        (Annotated[Line, "note"], '{"article": "x"}', Line("x")),
        (Kind, '"old"', Kind.OLD),
        (Level, "1", Level.LOW),
        (datetime, '"2026-01-02T03:04:05Z"', datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (date, '"2026-01-02"', date(2026, 1, 2)),
        (
            Order,
            ORDER,
            Order(3, [Line("a"), Line("b", 2)], Kind.NEW, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), {"x": Line("c")}),
        ),
        (Order, '{"number": 3, "lines": [], "kind": null}', Order(3, [])),
        (Change, '{"customer": 1, "line": {"article": "x"}}', {"customer": 1, "line": Line("x")}),
        (
            Change,
            '{"customer": 1, "line": {"article": "x"}, "note": "n"}',
            {"customer": 1, "line": Line("x"), "note": "n"},
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_decoding(wanted: Any, raw: str, expected: Any) -> None:
    decode = decoder_of(wanted)
    assert decode is not None
    found = decode(raw)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("wanted", "raw", "message"),
    [
        (Order, "[]", "a Order is a JSON object, the payload is a list"),
        (Order, '{"lines": []}', "number"),
        (Order, '{"number": 3, "lines": [7]}', "a Line is a JSON object, the payload is a int"),
        (Change, '{"customer": 1}', "a Change has line: missing in the payload"),
        (Change, "null", "a Change is a JSON object"),
        (Kind, '"newer"', "newer"),
        (datetime, '"yesterday"', "yesterday"),
        (dict, "{", "unexpected end"),
    ],
)
def test_what_cannot_be_decoded(wanted: Any, raw: str, message: str) -> None:
    decode = decoder_of(wanted)
    assert decode is not None
    with pytest.raises((ValueError, TypeError), match=message):
        decode(raw)


@pytest.mark.parametrize("wanted", [Any, None])
def test_without_an_annotation_the_transport_decodes(wanted: Any) -> None:
    assert decoder_of(wanted) is None


class Unknown:
    pass


@dataclass
class HoldsUnknown:
    one: Unknown


@pytest.mark.parametrize("wanted", [Unknown, HoldsUnknown, list[Unknown], dict[str, Unknown], Unknown | None])
def test_a_type_that_nothing_is_known_of(wanted: Any) -> None:
    def handler(payload: Any) -> None:
        pass

    handler.__annotations__["payload"] = wanted
    batch = {"batch": 2} if wanted == list[Unknown] else {}
    message = refused(handler, **batch)
    assert "nothing is known that makes a Unknown of JSON: pass decode=" in message


def test_a_choice_of_types() -> None:
    def handler(payload: Line | Order) -> None:
        pass

    assert "of several types nothing says which one a payload is" in refused(handler)


def test_a_decoder_of_ones_own() -> None:
    class Held:
        raw = "7"

    def handler(payload: Unknown) -> None:
        pass

    subscription = Subscription(None, handler, decode=lambda raw: (raw, Unknown))
    assert subscription.decoder is not None
    assert subscription.decoder(Held()) == ("7", Unknown)


def test_pydantic() -> None:
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")

    class Customer(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        number: int
        since: date

    decode = decoder_of(Customer)
    assert decode is not None
    assert decode('{"number": "7", "since": "2026-01-02"}') == Customer(number=7, since=date(2026, 1, 2))
    with pytest.raises(ValueError, match="number"):
        decode('{"since": "2026-01-02"}')


def test_pydantic_inside() -> None:
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")

    class Customer(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        number: int

    decode = decoder_of(list[Customer])
    assert decode is not None
    assert decode('[{"number": 7}]') == [Customer(number=7)]


def test_msgspec() -> None:
    msgspec = pytest.importorskip("msgspec", reason="msgspec is not installed")

    class Customer(msgspec.Struct):  # type: ignore[name-defined, misc]
        number: int

    whole, inside = decoder_of(Customer), decoder_of(list[Customer])
    assert whole is not None and inside is not None
    assert whole('{"number": 7}') == Customer(7)
    assert inside('[{"number": 7}]') == [Customer(7)]
    with pytest.raises(ValueError, match="number"):
        whole("{}")


def test_a_decorator_without_parentheses_is_refused() -> None:
    worker = Worker("queue.db")
    with pytest.raises(ConfigError, match="parentheses"):

        @worker.subscriber
        def handle(number: int) -> None:
            pass


def test_options_that_nobody_knows_are_refused_with_what_was_meant() -> None:
    with pytest.raises(ConfigError, match="did you mean visibility="):
        Worker("queue.db", visibilty=3)
    with pytest.raises(ConfigError, match=r"no option retries=.*max_attempts"):
        Worker("queue.db").subscriber(retries=5)


def test_run_inside_a_running_loop_is_refused() -> None:
    worker = Worker("queue.db")
    worker.subscriber()(lambda payload: None)

    async def scenario() -> None:
        with pytest.raises(ConfigError, match="an event loop runs"):
            worker.run()

    asyncio.run(scenario())
