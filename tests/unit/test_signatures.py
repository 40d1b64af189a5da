"""The four transports have the methods, names and parameters of the two Protocols, and no others."""

import inspect
from typing import Any

import pytest

import rqfast
from rqfast import api

KINDS = {
    "RqliteTransport": api.Transport,
    "SqliteTransport": api.Transport,
    "AsyncRqliteTransport": api.AsyncTransport,
    "AsyncSqliteTransport": api.AsyncTransport,
}
# Ways to open one are the classes' own.
OPENING = {"from_url", "open"}


def methods(kind: type[Any]) -> dict[str, inspect.Signature]:
    """Public methods, own and inherited, with their signatures."""
    found = {}
    for name in dir(kind):
        if not name.startswith("_") and name not in OPENING and callable(getattr(kind, name)):
            found[name] = inspect.signature(getattr(kind, name))
    return found


def shape(signature: inspect.Signature) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults of the parameters."""
    return [(one.name, one.kind, one.default) for one in signature.parameters.values()]


def test_the_twins_have_the_same_methods_and_parameters() -> None:
    sync, twin = methods(api.Transport), methods(api.AsyncTransport)
    assert sync.keys() == twin.keys()
    assert {name: shape(one) for name, one in sync.items()} == {name: shape(one) for name, one in twin.items()}


@pytest.mark.parametrize("name", KINDS)
def test_a_transport_has_the_methods_and_parameters_of_its_protocol(name: str) -> None:
    wanted, found = methods(KINDS[name]), methods(getattr(rqfast, name))
    assert found.keys() == wanted.keys()
    for method, signature in wanted.items():
        assert shape(found[method]) == shape(signature), method


@pytest.mark.parametrize("name", KINDS)
def test_each_method_has_its_docstring_once(name: str) -> None:
    for method in methods(KINDS[name]):
        assert getattr(KINDS[name], method).__doc__, method


def test_the_sync_transport_satisfies_its_protocol() -> None:
    with rqfast.connect("sqlite://:memory:") as transport:
        assert isinstance(transport, rqfast.Transport)


def test_the_async_transport_satisfies_its_protocol() -> None:
    transport: Any = rqfast.AsyncSqliteTransport(":memory:")
    assert isinstance(transport, rqfast.AsyncTransport)
    unopened: Any = rqfast.AsyncRqliteTransport("http://127.0.0.1:1")
    assert isinstance(unopened, rqfast.AsyncTransport)


def test_the_signatures_are_those_that_were_promised() -> None:
    promised = {
        "publish": (
            "group_id, event, priority=0, *, delay=0, rank=0, headers=None, dedup_id=None, with_statements=(), "
            "connection=None"
        ),
        "ack": "lease, *, publish=(), with_statements=()",
        "publish_many": "iterable, *, atomic=False",
        "claim": "worker_id=None, visibility=30.0, min_priority=0, *, wait=0, ack=None",
        "nack": "lease, delay=0",
        "defer": "lease, delay",
        "extend": "lease, visibility",
        "dead_letter": "lease, reason",
    }
    names = list(inspect.signature(api.Transport.claim_many).parameters)
    assert names == ["self", "worker_id", "visibility", "limit", "min_priority", "wait", "ack"]
    for name, parameters in promised.items():
        bare = [
            one.replace(annotation=inspect.Parameter.empty)
            for one in inspect.signature(getattr(api.Transport, name)).parameters.values()
        ]
        assert str(inspect.Signature(bare)) == f"(self, {parameters})", name
