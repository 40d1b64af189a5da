"""The contract of the core: no I/O, leases with the manners of a value, replies that cannot hurt, calls in order."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rqfast import Lease, LeaseLost, RqfastError
from rqfast._core import (
    ACK,
    DEAD,
    DEFER,
    EXTEND,
    GIVE_BACK,
    MAX_BLOCKS,
    NACK,
    Batch,
    Batcher,
    Call,
    Claim,
    Publish,
    Settle,
    Texts,
    decode_reply,
    encode_program,
    make_publish,
    slot_errors,
    slot_rows,
)
from rqfast.engine.outcome import RETURNING
from rqfast.sql import Statements

TEXTS = Texts(Statements(None).queue, False)
FORBIDDEN = {
    "asyncio", "aiohttp", "time", "datetime", "socket", "ssl", "select", "threading", "concurrent", "multiprocessing",
    "subprocess", "os", "pathlib", "io", "sqlite3", "random", "uuid", "logging",
}  # fmt: skip
LIMITED = settings(
    max_examples=300, database=None, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)


class Answer:
    """What the core calls a future."""

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_done = False

    def done(self) -> bool:
        return self.is_done

    def set_result(self, value: Any) -> None:
        self.value, self.is_done = value, True

    def set_exception(self, error: BaseException) -> None:
        self.error, self.is_done = error, True


def waited_for(call: Call) -> None:
    call.future, call.deadline = Answer(), math.inf


def publish(group: str, size: int = 1, *, priority: int = 0, dedup: str | None = None) -> Publish:
    """A publish whose event has `size` letters."""
    call = make_publish(group, "x" * size, priority, 0.0, 0, None, dedup, None)
    waited_for(call)
    return call


def settle(group: str, seq: int, op: int = ACK, argument: float | str = 0.0) -> Settle:
    """A settlement of a lease made by hand."""
    call = Settle(Lease(seq, group, None, "~w:t"), op, argument)
    waited_for(call)
    return call


def claim(limit: int = 1, visibility: float = 30.0, min_priority: int = 0, worker: str = "w") -> Claim:
    """A claim that wants a list."""
    call = Claim(worker, visibility, min_priority, limit, True)
    waited_for(call)
    return call


def tied(group: str, seq: int) -> Claim:
    """A claim with `ack=`."""
    call = claim()
    ack = Settle(Lease(seq, group, None, "~w:t"), ACK)
    ack.deadline = math.inf
    ack.tie(call)
    return call


# -- no I/O ----------------------------------------------------------------------------------------


def test_the_core_imports_nothing_that_does_io_or_tells_the_time() -> None:
    source = Path(__file__).parents[2] / "src"
    files = [source / "_core.pyx", *sorted((source / "core").glob("*.pxi"))]
    assert len(files) > 3
    found = set()
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            match = re.match(r"\s*(?:from\s+([\w.]+)\s+c?import\b|c?import\s+(.+))", line)
            if match is not None:
                found |= {name.split()[0].split(".")[0] for name in (match[1] or match[2]).split(",")}
    assert found & {"orjson", "rqfast"}, "imports are found"
    assert not found & FORBIDDEN


# -- leases ----------------------------------------------------------------------------------------

ROW = [7, "g", '{"secret": [1]}', 2, -1, '{"h":"1"}', 1000.5, 1030.5, 3, 41]


def no_clock() -> float:
    return 1010.5


def claimed(decode: Callable[[str], Any] = orjson.loads) -> Lease[Any]:
    """A lease as a claim makes it, with something in every field."""
    batcher = Batcher(1, 10, 1 << 20)
    call = claim()
    batcher.add(call)
    batch = batcher.take(0)
    assert batch is not None
    batch.program(TEXTS, "lane", 5, 1000.5, 300.0, "holder")
    slots = empty_slots(batch)
    slots[batch.statement_names.index("claim_heads")] = [list(ROW)]
    slots[-1] = [["[5,null,null,null]", 1000.5, -1]]
    assert batch.check(slots, 5)
    batch.resolve(slots, 1000.5, decode, no_clock)
    lease: Lease[Any] = call.future.value[0]
    return lease


def empty_slots(batch: Batch) -> list[list[Any]]:
    return [[] for _ in batch.statement_names]


FIELDS = (
    "seq", "group_id", "token", "attempts", "priority", "rank", "fence", "expires_at", "published_at", "raw", "headers",
    "event", "worker_id",
)  # fmt: skip


def same(one: Lease[Any], other: Lease[Any]) -> None:
    assert other is not one
    assert other == one and hash(other) == hash(one) and repr(other) == repr(one)
    assert {name: getattr(other, name) for name in FIELDS} == {name: getattr(one, name) for name in FIELDS}


def test_a_claimed_lease_has_what_the_row_says() -> None:
    lease = claimed()
    values = (7, "g", "~w:lane.5.0", 2, 3, -1, 41, 1030.5, 1000.5, '{"secret": [1]}', {"h": "1"}, {"secret": [1]}, "w")
    assert tuple(getattr(lease, name) for name in FIELDS) == values
    assert lease.remaining() == 20.0


def test_leases_are_equal_when_seq_group_event_and_token_are() -> None:
    lease = claimed()
    by_hand: Lease[Any] = Lease(7, "g", {"secret": [1]}, "~w:lane.5.0")
    assert lease == by_hand and by_hand == lease and hash(lease) == hash(by_hand)
    for other in (
        Lease(8, "g", {"secret": [1]}, "~w:lane.5.0"),
        Lease(7, "h", {"secret": [1]}, "~w:lane.5.0"),
        Lease(7, "g", {"secret": [2]}, "~w:lane.5.0"),
        Lease(7, "g", {"secret": [1]}, ""),
        7,
        None,
    ):
        assert lease != other and other != lease
    assert len({lease, by_hand, claimed()}) == 1


def test_a_lease_prints_without_its_payload() -> None:
    lease = claimed()
    for text in (repr(lease), str(lease), f"{lease}"):
        assert "secret" not in text and "'h'" not in text
        assert "seq=7" in text and "'g'" in text


@pytest.mark.parametrize("looked_at", [False, True])
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, *range(pickle.HIGHEST_PROTOCOL + 1)])
def test_a_copy_is_the_same_lease(way: Callable[[Any], Any] | int, looked_at: bool) -> None:
    for lease in (claimed(), Lease(7, "g", {"secret": [1]}, "~w:t")):
        if looked_at:
            assert lease.event and lease.raw and lease.headers is not None
        made = pickle.loads(pickle.dumps(lease, way)) if isinstance(way, int) else way(lease)
        same(lease, made)


def test_a_pickled_lease_was_decoded_by_its_own_decoder() -> None:
    lease = claimed(lambda text: ("decoded", text))
    assert pickle.loads(pickle.dumps(lease)).event == ("decoded", '{"secret": [1]}')


def test_a_deep_copy_shares_no_event() -> None:
    lease = claimed()
    assert lease.event
    made = copy.deepcopy(lease)
    made.event["secret"].append(2)
    assert lease.event == {"secret": [1]}


def test_a_deep_copy_shares_no_headers() -> None:
    lease = claimed()
    assert lease.headers
    copy.deepcopy(lease).headers["more"] = 2
    assert lease.headers == {"h": "1"}


def test_a_decoder_that_fails_leaves_the_lease_as_it_was() -> None:
    lease = claimed(lambda text: orjson.loads(text[1:]))
    for _ in range(2):
        with pytest.raises(orjson.JSONDecodeError):
            _ = lease.event
    assert lease.raw == '{"secret": [1]}'
    assert hash(lease) == hash(claimed())


def test_a_lease_is_a_dataclass_as_far_as_anyone_can_tell() -> None:
    lease: Any = claimed()
    assert dataclasses.is_dataclass(type(lease))
    assert [field.name for field in dataclasses.fields(lease)] == ["seq", "group_id", "event", "token"]
    assert dataclasses.asdict(lease) == {
        "seq": 7,
        "group_id": "g",
        "event": {"secret": [1]},
        "token": "~w:lane.5.0",
    }
    assert dataclasses.astuple(lease) == (7, "g", {"secret": [1]}, "~w:lane.5.0")
    changed = dataclasses.replace(lease, token="other")
    assert changed == Lease(7, "g", {"secret": [1]}, "other")
    with pytest.raises(TypeError):
        dataclasses.replace(lease, nothing=1)
    assert Lease.__match_args__ == ("seq", "group_id", "event", "token")


def test_copy_replace() -> None:
    lease = claimed()
    if sys.version_info >= (3, 13):
        assert copy.replace(lease, seq=8) == Lease(8, "g", {"secret": [1]}, "~w:lane.5.0")
    assert lease.__replace__(seq=8) == Lease(8, "g", {"secret": [1]}, "~w:lane.5.0")
    assert lease.__replace__(event=1).event == 1


# -- replies ---------------------------------------------------------------------------------------


def full_batch() -> Batch:
    """A batch with something of everything; its program is made."""
    batcher = Batcher(1, 100, 1 << 20)
    calls: list[Call] = [settle("a", 1), settle("b", 2), settle("c", 3, NACK), settle("d", 4, DEAD, "why")]
    calls += [settle("e", 5, EXTEND, 9.0), settle("f", 6, DEFER, 9.0), settle("g", 7, GIVE_BACK)]
    calls += [publish("h"), publish("i", dedup="one"), publish("j"), claim(3), claim(1, 5.0), tied("k", 8)]
    for call in calls:
        batcher.add(call)
    batch = batcher.take(0)
    assert batch is not None and len(batch.calls()) == len(calls) and not batcher.waiting()
    batch.program(TEXTS, "lane", 5, 1000.5, 300.0, "holder")
    return batch


def good_slots(batch: Batch) -> list[list[Any]]:
    """What a server says to it."""
    slots = empty_slots(batch)
    names = batch.statement_names
    read = names.index("claim_heads")
    slots[read] = [[seq, f"q{seq}", "1", 1, 0, None, 1000.5, 1030.5, 0, 4] for seq in (20, 21)]
    slots[names.index("claim_heads", read + 1)] = [list(ROW)]
    slots[names.index("dedup_seqs")] = [['{"1":12}']]
    slots[-1] = [["[5,30,[1],[]]", 1000.5, 0]]
    return slots


def body_of(slots: list[list[Any]]) -> bytes:
    return orjson.dumps({"results": [{"columns": ["c"], "values": rows} if rows else {} for rows in slots]})


def take_in(body: bytes, batch: Batch) -> bool:
    """A reply on its way through the core; returns whether it was taken for an answer."""
    results, error = decode_reply(body)
    assert error is None or not results
    for at, text in slot_errors(results):
        assert 0 <= at < len(results) and isinstance(text, str)
    return batch.check(slot_rows(results), 5)


def answer(slots: list[list[Any]], batch: Batch) -> None:
    batch.resolve(slots, 1000.5, orjson.loads, no_clock)
    for call in batch.calls():
        future = call.future
        assert future is None or future.error is None or isinstance(future.error, RqfastError)


def test_a_good_reply_is_taken() -> None:
    batch = full_batch()
    slots = good_slots(batch)
    assert take_in(body_of(slots), batch)
    answer(slots, batch)
    calls = batch.calls()
    assert [call.future.value for call in calls if isinstance(call, Publish)] == [31, 12, 33]
    assert [type(call.future.error) for call in calls if isinstance(call, Settle)][:2] == [type(None), LeaseLost]


@LIMITED
@given(st.binary(max_size=200))
@example(b"")
@example(b"{}")
@example(b'{"results":[]}')
@example(b'{"results":null,"error":7}')
@example(b'{"results":[{"values":[1]}]}')
@example(b'{"results":[{"error":{"a":[1]}}]}')
@example(b"[" * 5000)
@example(b'{"results":' * 2000)
def test_random_bytes_are_garbled_and_nothing_else(body: bytes) -> None:
    with suppress(RqfastError):
        assert not take_in(body, full_batch())


@LIMITED
@given(st.data())
def test_a_damaged_reply_is_garbled_or_an_answer(data: st.DataObject) -> None:
    batch = full_batch()
    body = bytearray(body_of(good_slots(batch)))
    for _ in range(data.draw(st.integers(1, 4))):
        at, upto = sorted(data.draw(st.tuples(st.integers(0, len(body)), st.integers(0, len(body)))))
        upto = min(upto, at + data.draw(st.integers(0, 8)))
        body[at:upto] = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"[", b"]", b"null", b"-1", b'"', b",", b"1e9"])
        )
    resolve_if_taken(bytes(body), batch)


def resolve_if_taken(body: bytes, batch: Batch) -> None:
    try:
        is_taken = take_in(body, batch)
    except RqfastError:
        return
    if is_taken:
        answer(slot_rows(decode_reply(body)[0]), batch)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 62), (1 << 62) - 1)
    | st.integers(-3, 50)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | st.sampled_from(["[]", "[1]", "[0,1]", "[99]", "[[1]]", '{"a":1}', "[true]", "null", "["]),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=8,
)
rows = st.lists(st.lists(values, max_size=11), max_size=4)


@LIMITED
@given(st.data())
def test_rows_of_any_shape_are_garbled_or_an_answer(data: st.DataObject) -> None:
    batch = full_batch()
    slots = good_slots(batch)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(-1, len(slots) - 1))
        cells = [(row, place) for row in slots[at] for place in range(len(row))]
        if cells and at % 2:
            row, place = data.draw(st.sampled_from(cells))
            row[place] = data.draw(values)
        else:
            slots[at] = data.draw(rows)
    resolve_if_taken(orjson.dumps({"results": [{"values": one} for one in slots]}), batch)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        pytest.param(0, f"[5,{1 << 63},[1],[]]", id="base"),
        (0, "[5,30,[7],[]]"),
        (0, "[5,30,null,[]]"),
        (0, "[5,30,3,[]]"),
        (0, '[5,30,[1],["0"]]'),
        (0, "[5,30,[1],[-1]]"),
        (0, "[5,30,[1],[true]]"),
        (0, "[5,30,[1],[[]]]"),
        (0, "[5,30,[1],[]"),
        (0, "[5,30,[1]]"),
        (0, '{"n":5}'),
        (0, '["5",30,[1],[]]'),
        (0, None),
        (0, 5),
        (1, "1000.5"),
        (1, None),
        (2, "0"),
        (2, 1000),
    ],
)
def test_a_bad_cell_of_the_outcome_is_garbled(place: int, value: Any) -> None:
    batch = full_batch()
    slots = good_slots(batch)
    slots[-1][0][place] = value
    with pytest.raises(RqfastError, match=r"."):
        take_in(body_of(slots), batch)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, 1 << 63),
        (0, "7"),
        (0, True),
        (1, None),
        (2, 5),
        (3, 1 << 40),
        (4, 0.5),
        (5, {}),
        (6, "x"),
        (7, None),
        (8, -1),
        (8, "3"),
        (9, 1 << 63),
    ],
)
def test_a_bad_cell_of_a_lease_is_garbled(place: int, value: Any) -> None:
    batch = full_batch()
    slots = good_slots(batch)
    slots[batch.statement_names.index("claim_heads")][0][place] = value
    with pytest.raises(RqfastError, match="claimed row"):
        take_in(body_of(slots), batch)


@pytest.mark.parametrize(
    "value",
    [None, 5, "[1,12]", "{", '{"x":12}', '{"3":12}', '{"-1":12}', '{"1":"12"}', '{"1":1.5}', f'{{"1":{2**63}}}'],
)
def test_a_bad_cell_of_the_seqs_of_dedup_ids_is_garbled(value: Any) -> None:
    batch = full_batch()
    slots = good_slots(batch)
    slots[batch.statement_names.index("dedup_seqs")][0][0] = value
    with pytest.raises(RqfastError, match="dedup id"):
        take_in(body_of(slots), batch)


def test_another_number_or_no_row_means_that_it_was_never_applied() -> None:
    batch = full_batch()
    slots = good_slots(batch)
    assert not batch.check(slots, 6)
    slots[-1] = []
    assert not batch.check(slots, 5)


@pytest.mark.parametrize("name", sorted(RETURNING & set(full_batch().statement_names)))
def test_rows_that_the_server_kept_are_still_to_be_read(name: str) -> None:
    batch = full_batch()
    slots: list[Any] = good_slots(batch)
    for at, said in enumerate(batch.statement_names):
        if said == name:
            slots[at] = None
    assert not batch.check(slots, 5)


def test_a_claim_that_found_nothing_is_whole() -> None:
    batch = full_batch()
    slots = good_slots(batch)
    for at, said in enumerate(batch.statement_names):
        if said == "claim_heads":
            slots[at] = []
    assert batch.check(slots, 5)


def test_rows_that_come_in_any_order_are_sorted() -> None:
    batch = full_batch()
    slots = good_slots(batch)
    slots[batch.statement_names.index("claim_heads")].reverse()
    assert batch.check(slots, 5)
    answer(slots, batch)
    leases = [call.future.value for call in batch.calls() if isinstance(call, Claim)]
    assert [lease.seq for found in leases for lease in found or ()] == [20, 21, 7]


def test_what_is_read_again_are_plain_reads_in_the_slots_of_their_twins() -> None:
    batch = full_batch()
    statements = Statements(None).queue
    twins = {"claim_heads": "claim_read", "dedup_seqs": "dedup_seqs_again", "outcome": "outcome_again"}
    reads = {slot: statement[0] for slot, statement in batch.reread(TEXTS, "lane")}
    expected = {at: statements[twins[name]] for at, name in enumerate(batch.statement_names) if name in twins}
    assert reads == expected
    assert all(text.startswith("SELECT ") for text in reads.values())


def test_a_program_is_one_json_document_whose_texts_are_ready_made() -> None:
    batcher = Batcher(1, 10, 1 << 20)
    batcher.add(publish("g"))
    batch = batcher.take(0)
    assert batch is not None
    made = batch.program(Texts(Statements(None).queue, True), "lane", 1, 1.0, 300.0, "holder")
    plain = Batch.program(full_batch(), TEXTS, "lane", 5, 1.0, 300.0, "holder")
    assert orjson.loads(encode_program(made))[0][0] == plain[0][0]


# -- batches ---------------------------------------------------------------------------------------


def batches(batcher: Batcher, lane: int = 0) -> list[list[Call]]:
    """All batches of a lane, each finished before the next is taken."""
    found = []
    while (batch := batcher.take(lane)) is not None:
        found.append(batch.calls())
        batcher.finish(batch)
    return found


def added(batcher: Batcher, *calls: Call) -> Batcher:
    for call in calls:
        batcher.add(call)
    return batcher


def roomy(lanes: int = 1) -> Batcher:
    return Batcher(lanes, 100, 1 << 20)


def test_calls_that_a_batch_keeps_in_order_go_together() -> None:
    calls = [settle("g", 1), settle("g", 2, NACK), publish("g"), publish("g"), claim()]
    assert batches(added(roomy(), *calls)) == [calls]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (publish("g"), settle("g", 1)),
        (publish("g"), settle("g", 1, NACK)),
        (settle("g", 1, NACK), settle("g", 2)),
        (settle("g", 1, EXTEND, 5.0), settle("g", 2, NACK)),
        (settle("g", 1), settle("g", 1)),
        (settle("g", 1), settle("g", 1, NACK)),
        (settle("g", 1), settle("h", 1)),
    ],
)
def test_a_call_that_a_batch_would_invert_waits_for_the_next_one(first: Call, second: Call) -> None:
    other = publish("other")
    assert batches(added(roomy(), first, second, other)) in ([[first, other], [second]], [[first], [second, other]])


def test_with_a_call_that_waits_all_later_ones_of_its_group_wait() -> None:
    one, ack, two = publish("g"), settle("g", 1), publish("g")
    assert batches(added(roomy(), one, ack, two)) == [[one], [ack, two]]


def test_a_group_with_a_call_in_flight_stays_in_its_lane() -> None:
    one, ack, two, claims = publish("g"), settle("g", 1), publish("g"), claim()
    batcher = added(roomy(2), one)
    in_flight = batcher.take(1)
    assert in_flight is not None
    added(batcher, ack, two, claims)
    other = batcher.take(0)
    assert other is not None and other.calls() == [claims]
    batcher.finish(in_flight)
    later = batcher.take(1)
    assert later is not None and later.calls() == [ack, two]


def test_a_group_without_calls_may_move_to_another_lane() -> None:
    batcher = added(roomy(3), publish("g"))
    assert len(batches(batcher, 1)) == 1
    assert len(batches(added(batcher, publish("g")), 2)) == 1


def test_a_batch_has_bounded_rows() -> None:
    calls = [publish(f"g{number}") for number in range(10)]
    assert [len(batch) for batch in batches(added(Batcher(1, 4, 1 << 20), *calls))] == [4, 4, 2]
    claims = [claim(3) for _ in range(4)]
    assert [len(batch) for batch in batches(added(Batcher(1, 4, 1 << 20), *claims))] == [2, 2]


def test_a_batch_has_bounded_bytes_and_what_is_larger_goes_alone() -> None:
    sizes = [100, 100, 900, 5000, 100, 100]
    calls = [publish(f"g{number}", size) for number, size in enumerate(sizes)]
    assert batches(added(Batcher(1, 100, 1000), *calls)) == [calls[:2], calls[2:3], calls[3:4], calls[4:]]


def test_at_most_8_kinds_of_claims() -> None:
    calls = [claim(1, 1.0 + number) for number in range(MAX_BLOCKS + 2)]
    again = claim(1, 1.0)
    first, second = batches(added(roomy(), *calls, again))
    assert MAX_BLOCKS == 8
    assert set(map(id, first)) == set(map(id, [*calls[:8], again])) and second == calls[8:]


def test_a_claim_with_an_ack_waits_with_it() -> None:
    calls: list[Call] = [claim(1, 1.0 + number) for number in range(MAX_BLOCKS)]
    batcher = roomy()
    one = tied("g", 1)
    first, second = batches(added(batcher, publish("g"), one, *calls))
    assert one not in first and second == [one]
    assert one.tied is not None


def test_cancelled_calls_are_dropped() -> None:
    calls = [publish("g"), settle("h", 1), claim(), tied("i", 2), publish("j")]
    batcher = added(roomy(), *calls)
    for call in calls[:4]:
        call.future.set_result(None)
    assert batches(batcher) == [calls[4:]]
    assert batcher.waiting() == 0 and batcher.drain() == []


def test_a_dedup_id_is_in_flight_once() -> None:
    one, two, other = publish("a", dedup="id"), publish("b", dedup="id"), publish("c", dedup="other")
    assert batches(added(roomy(), one, two, other)) == [[one, other], [two]]
    batcher = added(roomy(3), publish("a", dedup="id"))
    first = batcher.take(1)
    assert first is not None
    added(batcher, two)
    assert batcher.take(2) is None
    batcher.finish(first)
    assert batches(batcher, 2) == [[two]]


def test_a_suppressed_publish_sets_no_priority_for_another() -> None:
    one, two = publish("g", dedup="id", priority=1), publish("g", priority=2)
    assert batches(added(roomy(), one, two)) == [[one], [two]]


def test_calls_that_expire_or_are_drained_come_out_once() -> None:
    calls = [publish("g"), settle("h", 1), tied("i", 2), publish("g")]
    batcher = added(roomy(), *calls)
    assert batcher.expire(1e9) == []
    for call in calls[:1]:
        call.deadline = 5.0
    assert batcher.expire(6.0) == calls[:1]
    assert len(batcher.drain()) == 3 and batcher.waiting() == 0
    assert batches(added(batcher, *calls)) == [[calls[0], calls[1], calls[3], calls[2]]] or batcher.waiting() == 0


def test_a_claim_has_waited_as_long_as_its_ack() -> None:
    call = tied("g", 1)
    assert call.tied is not None
    call.deadline = call.tied.deadline = 0.0
    batcher = added(roomy(), call)
    batcher.expire(100.0, 110.0)
    batch = batcher.take(0)
    assert batch is not None
    batch.stamp(120.0)
    assert call.deadline == 110.0


def test_a_publish_that_does_not_fit_is_not_overtaken() -> None:
    a1, a2, a3 = publish("a", dedup="d"), publish("a", dedup="e"), publish("a")
    x1, g1, g2 = publish("x", 600, dedup="d"), publish("g", 600, dedup="e"), publish("g")
    found = batches(added(Batcher(1, 3, 1000), a1, a2, x1, g1, a3, g2))
    order = [call for batch in found for call in batch]
    assert order.index(g1) < order.index(g2)


# (kind, group, number): number picks the size, seq, visibility, lane or call, by kind.
KINDS = ("publish", "publish", "dedup", "ack", "ack", "nack", "tied", "claim", "cancel", "take", "take", "finish")
steps = st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from("abc"), st.integers(0, 9)), max_size=60)


class Bench:
    """A batcher under random calls, lanes that take and finish, and what must hold for each batch."""

    def __init__(self, lanes: int, max_rows: int, max_size: int) -> None:
        self.batcher = Batcher(lanes, max_rows, max_size)
        self.flying: dict[int, Batch] = {}
        self.made: list[Call] = []
        self.groups: defaultdict[str, list[Call]] = defaultdict(list)
        self.done: defaultdict[str, list[Call]] = defaultdict(list)
        self.came: list[Call] = []

    def step(self, kind: str, group: str, number: int) -> None:
        if kind == "take":
            self.take(number % self.batcher.lanes)
        elif kind == "finish":
            self.finish(number % self.batcher.lanes)
        elif kind == "cancel":
            if number < len(self.made):
                self.made[-1 - number].future.set_result(None)
        else:
            self.add(self.call(kind, group, number))

    def call(self, kind: str, group: str, number: int) -> Call:
        if kind == "publish":
            return publish(group, number * 40, priority=number % 2)
        if kind == "dedup":
            return publish(group, number * 40, dedup=f"id-{number % 3}")
        if kind == "claim":
            return claim(1 + number % 3, 1.0 + number)
        if kind == "tied":
            return tied(group, number)
        return settle(group, number, ACK if kind == "ack" else NACK)

    def add(self, call: Call) -> None:
        self.made.append(call)
        for group, part in parts(call):
            self.groups[group].append(part)
        self.batcher.add(call)

    def take(self, lane: int) -> None:
        if lane in self.flying:
            return
        batch = self.batcher.take(lane)
        if batch is None:
            return
        calls = batch.calls()
        assert not any(call.gone for call in calls), "a cancelled call was sent"
        self.check_bounds(calls)
        for other in self.flying.values():
            assert not groups_of(calls) & groups_of(other.calls()), "one group in two lanes"
            assert not dedup_ids(calls) & dedup_ids(other.calls()), "one dedup id twice in flight"
        self.flying[lane] = batch
        self.came += calls

    def check_bounds(self, calls: list[Call]) -> None:
        settles = [call for call in calls if isinstance(call, Settle)]
        settles += [call.tied for call in calls if isinstance(call, Claim) and call.tied is not None]
        news = [call for call in calls if isinstance(call, Publish)]
        claims = [call for call in calls if isinstance(call, Claim)]
        assert len(settles) + len(news) <= self.batcher.max_rows
        assert len(news) <= 1 or sum(call.size for call in news) <= self.batcher.max_size
        assert len({(call.visibility, call.min_priority) for call in claims}) <= MAX_BLOCKS
        assert len({call.lease.seq for call in settles}) == len(settles)
        ids = [call.dedup_id for call in news if call.dedup_id is not None]
        assert len(set(ids)) == len(ids)

    def finish(self, lane: int) -> None:
        batch = self.flying.pop(lane, None)
        if batch is None:
            return
        self.batcher.finish(batch)
        taken = [part for call in batch.calls() for part in parts(call)]
        for _, part in sorted(taken, key=lambda one: kind_of(one[1])):
            self.done[group_of(part)].append(part)

    def settle_down(self) -> None:
        for _ in range(200):
            for lane in range(self.batcher.lanes):
                self.take(lane)
            for lane in range(self.batcher.lanes):
                self.finish(lane)
        assert self.batcher.waiting() == 0, "calls wait for ever"
        assert self.batcher.drain() == []
        came = set(map(id, self.came))
        assert len(came) == len(self.came), "a call was sent twice"
        assert all(id(call) in came or call.gone for call in self.made), "a call was lost"
        for group, done in self.done.items():
            sent = set(map(id, done))
            wanted = [call for call in self.groups[group] if id(call) in sent]
            assert [kind_of(call) for call in done] == [kind_of(call) for call in wanted]
            assert in_order(done, wanted), f"calls of {group!r} took effect in another order"


def parts(call: Call) -> list[tuple[str, Call]]:
    """The part of a call that has a place in the order of a group."""
    if isinstance(call, Claim):
        return [] if call.tied is None else [(call.tied.lease.group_id, call.tied)]
    return [(group_of(call), call)]


def group_of(call: Call) -> str:
    assert isinstance(call, Publish | Settle)
    return call.group if isinstance(call, Publish) else call.lease.group_id


def kind_of(call: Call) -> int:
    if isinstance(call, Publish):
        return 2
    assert isinstance(call, Settle)
    return 0 if call.op == ACK else 1


def groups_of(calls: Iterable[Call]) -> set[str]:
    return {group for call in calls for group, _ in parts(call)}


def dedup_ids(calls: Iterable[Call]) -> set[str]:
    return {call.dedup_id for call in calls if isinstance(call, Publish) and call.dedup_id is not None}


def in_order(done: list[Call], wanted: list[Call]) -> bool:
    """Equal but for acknowledgements that stand side by side: they are of different leases."""
    at = 0
    while at < len(wanted):
        upto = at + 1
        while upto < len(wanted) and kind_of(wanted[at]) == kind_of(wanted[upto]) == 0:
            upto += 1
        if set(map(id, done[at:upto])) != set(map(id, wanted[at:upto])):
            return False
        at = upto
    return True


def run_steps(bench: Bench, made: list[tuple[str, str, int]]) -> None:
    for kind, group, number in made:
        bench.step(kind, group, number)
    bench.settle_down()


@LIMITED
@given(steps, st.integers(1, 3), st.integers(1, 6))
def test_calls_of_a_group_take_effect_in_their_order(made: list[Any], lanes: int, max_rows: int) -> None:
    run_steps(Bench(lanes, max_rows, 1 << 20), made)


@settings(LIMITED, max_examples=1000)
@given(steps, st.integers(1, 3), st.integers(1, 6))
def test_so_they_do_when_batches_are_small(made: list[Any], lanes: int, max_rows: int) -> None:
    run_steps(Bench(lanes, max_rows, 500), made)
