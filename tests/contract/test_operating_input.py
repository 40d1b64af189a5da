"""What the operating calls refuse, before anything is sent; and that a closed transport refuses them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rqfast
from tests.contract.views import Queue

Make = Callable[[Any], Any]
NAMES: list[Any] = ["", "x" * 1025, "a\0b", "\ud800", 7, b"g"]

REFUSED: list[tuple[str, Make]] = [
    *[
        (f"{method}({name!r:.12})", lambda view, method=method, name=name: getattr(view, method)(name))
        for method in ("peek", "release", "pause", "resume", "purge", "dead_letters", "redrive")
        for name in NAMES
    ],
    ("release(None)", lambda view: view.release(None)),
    ("peek(None)", lambda view: view.peek(None)),
    ("purge()", lambda view: view.purge()),
    ("purge(everything=1)", lambda view: view.purge(everything=1)),
    ("purge(g, everything)", lambda view: view.purge("g", everything=True)),
    *[
        (f"limit={limit!r} of {method}", lambda view, method=method, limit=limit: getattr(view, method)(limit=limit))
        for method in ("groups", "dead_letters", "redrive")
        for limit in (0, -1, 1.0, True, "1", 1 << 64)
    ],
    *[(f"peek limit={limit!r}", lambda view, limit=limit: view.peek("g", limit)) for limit in (0, 10_001, None, True)],
    *[(f"delete({seq!r})", lambda view, seq=seq: view.delete(seq)) for seq in (None, "1", 1.0, True, 1 << 63)],
    *[
        (f"{method}({seqs!r:.20})", lambda view, method=method, seqs=seqs: getattr(view, method)(seqs=seqs))
        for method in ("redrive", "drop_dead_letters")
        for seqs in (1, "12", b"12", {1: 2}, [None], [1.0], [True], ["1"], [1 << 63])
    ],
    ("drop_dead_letters(None)", lambda view: view.drop_dead_letters(None)),
    ("state=nonsense", lambda view: view.groups(state="nonsense")),
    ("state=1", lambda view: view.groups(state=1)),
    ("order=nonsense", lambda view: view.groups(order="nonsense")),
    ("order=None", lambda view: view.groups(order=None)),
    ("after=1", lambda view: view.groups(after=1)),
    ("after=''", lambda view: view.groups(after="")),
    ("dead after='1'", lambda view: view.dead_letters(after="1")),
    ("dead after=None", lambda view: view.dead_letters(after=None)),
]


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in REFUSED])
def test_what_is_refused(embedded_q: Queue, make: Make) -> None:
    view = embedded_q.open()
    view.publish("g", 1)
    entries = embedded_q.entries()
    with pytest.raises((TypeError, rqfast.InvalidMessage)):
        make(view)
    assert embedded_q.entries() == entries
    assert len(view.peek("g")) == 1


CALLS: dict[str, Make] = {
    "stats": lambda view: view.stats(),
    "groups": lambda view: view.groups(),
    "queues": lambda view: view.queues(),
    "peek": lambda view: view.peek("g"),
    "delete": lambda view: view.delete(1),
    "release": lambda view: view.release("g"),
    "pause": lambda view: view.pause("g"),
    "resume": lambda view: view.resume(),
    "purge": lambda view: view.purge("g"),
    "dead_letters": lambda view: view.dead_letters(),
    "redrive": lambda view: view.redrive(),
    "drop_dead_letters": lambda view: view.drop_dead_letters([1]),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_transport_refuses(q: Queue, call: str) -> None:
    view = q.open()
    CALLS[call](view)
    view.close()
    with pytest.raises(rqfast.Closed):
        CALLS[call](view)


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_queue_in_memory_has_them_too(colour: str) -> None:
    from tests.contract.views import Address, open_address

    with open_address(Address("sqlite://:memory:", {}, colour)) as view:
        for call in CALLS.values():
            call(view)
        view.publish("g", 1)
        assert view.stats().messages == 1
        view.pause()
        assert view.claim("w") is None
        view.resume()
        assert view.purge(everything=True) == 1
