"""A Lease has the manners of the dataclass it replaces: equality, copy, pickle, repr; and is made by hand."""

import copy
import pickle

import pytest

from rqfast import Lease, LeaseLost
from tests.contract.views import Clock, Queue, View


def take(view: View, visibility: float = 30.0) -> Lease:
    """Claim what must be there."""
    lease = view.claim("w", visibility)
    assert lease is not None
    return lease


def claimed(q: Queue) -> tuple[View, Lease]:
    """A lease with something in every field."""
    view = q.open()
    view.publish("g", {"secret": "payload"}, 2, rank=3, headers={"h": "1"})
    return view, take(view)


FIELDS = ["seq", "group_id", "token", "attempts", "priority", "rank", "headers", "published_at", "expires_at"]
FIELDS += ["worker_id", "raw", "fence", "event"]


def test_a_lease_made_by_hand() -> None:
    lease: Lease = Lease(7, "g", {"a": 1})
    assert (lease.seq, lease.group_id, lease.event, lease.token) == (7, "g", {"a": 1}, "")
    named: Lease = Lease(seq=7, group_id="g", event={"a": 1}, token="t")
    assert named == Lease(7, "g", {"a": 1}, "t")


def test_equality_is_that_of_the_four_fields() -> None:
    lease: Lease = Lease(1, "g", {"a": [1]}, "t")
    assert lease == Lease(1, "g", {"a": [1]}, "t")
    assert lease != Lease(2, "g", {"a": [1]}, "t")
    assert lease != Lease(1, "h", {"a": [1]}, "t")
    assert lease != Lease(1, "g", {"a": [2]}, "t")
    assert lease != Lease(1, "g", {"a": [1]}, "u")
    assert lease != (1, "g", {"a": [1]}, "t")
    assert lease != None  # noqa: E711


def test_a_claimed_lease_equals_one_made_of_its_fields(q: Queue) -> None:
    _, lease = claimed(q)
    assert lease == Lease(lease.seq, "g", {"secret": "payload"}, lease.token)
    assert Lease(lease.seq, "g", {"secret": "payload"}, lease.token) == lease
    assert lease != Lease(lease.seq, "g", {"secret": "payload"})


@pytest.mark.parametrize("way", ["copy", "deepcopy", "pickle"])
def test_a_copy_is_the_same(q: Queue, way: str) -> None:
    view, lease = claimed(q)
    ways = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda it: pickle.loads(pickle.dumps(it))}
    twin = ways[way](lease)
    assert twin is not lease
    assert twin == lease
    for field in FIELDS:
        assert getattr(twin, field) == getattr(lease, field), field
    assert 0 < twin.remaining() <= 30
    view.ack(twin)
    with pytest.raises(LeaseLost):
        view.ack(lease)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_lease_pickles_in_every_protocol(protocol: int) -> None:
    lease: Lease = Lease(1, "g", {"a": [1, None]}, "t")
    assert pickle.loads(pickle.dumps(lease, protocol)) == lease


def test_a_lease_prints_without_its_payload(q: Queue) -> None:
    _, lease = claimed(q)
    for text in (repr(lease), str(lease), f"{lease}"):
        assert "payload" not in text
        assert "secret" not in text
        assert str(lease.seq) in text
        assert "'g'" in text
    assert lease.event == {"secret": "payload"}
    assert "payload" not in repr(lease), "neither after it was looked at"


def test_a_lease_matches_by_position() -> None:
    match Lease(1, "g", "e", "t"):
        case Lease(seq, group_id, event, token):
            assert (seq, group_id, event, token) == (1, "g", "e", "t")
        case _:
            pytest.fail("did not match")


def test_a_lease_may_be_annotated_with_what_it_holds() -> None:
    assert Lease[int] is not None


@pytest.mark.parametrize("arguments", [(), (1,), (1, "g"), (1, "g", 1, "t", 5)])
def test_a_lease_takes_three_or_four_arguments(arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        Lease(*arguments)  # type: ignore[arg-type,call-arg]


def test_a_lease_made_by_hand_settles(q: Queue) -> None:
    """As another process does from a stored seq, group and token: the event plays no part."""
    view, lease = claimed(q)
    stored = (lease.seq, lease.group_id, lease.token)
    other = q.open()
    made: Lease = Lease(stored[0], stored[1], None, stored[2])
    end = other.extend(made, 100)
    assert end == made.expires_at
    other.ack(made)
    with pytest.raises(LeaseLost):
        view.ack(lease)


def test_a_copy_made_before_an_extension_still_owns(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", 1)
    lease = take(view, 10)
    twin = copy.copy(lease)
    view.extend(lease, 100)
    clock.advance(50)
    view.ack(twin)
    assert view.claim("w") is None


def test_a_decoded_event_goes_along(q: Queue) -> None:
    view = q.open(decode=bytes_length)
    view.publish("g", "x" * 10)
    lease = take(view)
    twin = pickle.loads(pickle.dumps(lease))
    assert twin.event == lease.event == 12
    assert twin.raw == lease.raw


def bytes_length(text: str | bytes) -> int:
    """A decoder that a pickle can name."""
    return len(text)
