"""dedup_id: one message for each id within its window, acknowledged or not; the first wins whole."""

from rqfast import Message
from tests.contract.views import Clock, Lease, Queue, View


def take(view: View) -> Lease:
    """Claim what must be there."""
    lease = view.claim("w")
    assert lease is not None
    return lease


def test_the_same_id_is_published_once(q: Queue) -> None:
    view, other = q.open(), q.open()
    seq = view.publish("g", 1, dedup_id="a")
    assert view.publish("g", 1, dedup_id="a") == seq
    assert other.publish("g", 1, dedup_id="a") == seq
    view.ack(take(view))
    assert other.publish("g", 1, dedup_id="a") == seq
    assert view.claim("w") is None


def test_the_first_wins_whole(q: Queue) -> None:
    view = q.open()
    seq = view.publish("g", "first", 1, rank=5, headers={"n": "1"}, dedup_id="a")
    assert view.publish("other", "second", 4, rank=-5, headers={"n": "2"}, delay=60, dedup_id="a") == seq
    lease = take(view)
    assert (lease.group_id, lease.event, lease.priority, lease.rank) == ("g", "first", 1, 5)
    assert lease.headers == {"n": "1"}
    assert view.claim("w") is None


def test_a_publish_that_was_not_leaves_no_group_behind(q: Queue) -> None:
    """An empty group row in front of the others would stop the queue for good."""
    view = q.open()
    view.publish("g", 1, dedup_id="a")
    view.ack(take(view))
    view.publish("empty", 2, dedup_id="a")
    view.publish("full", 3)
    assert take(view).group_id == "full"
    assert view.claim("w") is None


def test_the_same_id_within_one_batch(q: Queue) -> None:
    view = q.open()
    seqs = view.publish_many(
        [
            Message("g", 1, dedup_id="a"),
            Message("g", 2),
            Message("h", 3, dedup_id="a"),
            Message("g", 4, dedup_id="b"),
            Message("g", 5, dedup_id="a"),
        ]
    )
    assert seqs[0] == seqs[2] == seqs[4]
    assert len(set(seqs)) == 3
    events = []
    while (lease := view.claim("w")) is not None:
        events.append(lease.event)
        view.ack(lease)
    assert events == [1, 2, 4]


def test_of_the_same_ids_in_many_groups_the_first_wins(q: Queue) -> None:
    """Whatever requests they travel in, items of one call keep their order where they meet in an id."""
    view = q.open()
    pairs = [[Message(f"a{n}", 1, dedup_id=f"{n}"), Message(f"b{n}", 2, dedup_id=f"{n}")] for n in range(100)]
    seqs = view.publish_many(item for pair in pairs for item in pair)
    assert list(seqs[::2]) == list(seqs[1::2])
    leases = view.claim_many("w", 600, 1000)
    assert sorted(lease.group_id for lease in leases) == sorted(f"a{n}" for n in range(100))


def test_an_id_is_free_again_after_its_window(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock, dedup_window=100)
    first = view.publish("g", 1, dedup_id="a")
    clock.advance(99)
    assert view.publish("g", 2, dedup_id="a") == first
    clock.advance(2)
    second = view.publish("g", 3, dedup_id="a")
    assert second > first
    assert view.publish("g", 4, dedup_id="a") == second


def test_the_window_is_that_of_the_first_publish(q: Queue, clock: Clock) -> None:
    long, short = q.open(clock=clock, dedup_window=1000), q.open(clock=clock, dedup_window=10)
    first = long.publish("g", 1, dedup_id="a")
    other = short.publish("g", 1, dedup_id="b")
    clock.advance(11)
    assert short.publish("g", 2, dedup_id="a") == first
    assert long.publish("g", 2, dedup_id="b") > other
