"""A queue of the project and the oracle side by side: whatever is done to one is done to the other.

The statements are the project's, their order and parameters are the core's: calls go into a `Batcher`, a `Batch`
becomes a program, the program runs on sqlite3 in memory, and its rows are resolved by the core as in a transport.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import orjson

from rqfast import LeaseLost, OutOfOrder
from rqfast._core import (
    ACK,
    DEAD,
    DEFER,
    EXTEND,
    GIVE_BACK,
    NACK,
    PARK,
    Batch,
    Batcher,
    Call,
    Claim,
    Lease,
    Many,
    Operate,
    Outcome,
    Publish,
    Settle,
    Texts,
    first_of_each,
    make_publish,
)
from rqfast.sql import Statements, upgrade

from .operations import Operation
from .oracle import ACCEPTED, EARLY, LOST, PARKED, Message, New, Oracle, Settlement
from .plain import PlainSide
from .plans import ANSWERED, GIVEN_UP, REPLY_LOST, Done, Op, Plan, Pub, Take

OPERATIONS = {
    "ack": ACK,
    "nack": NACK,
    "park": PARK,
    "defer": DEFER,
    "extend": EXTEND,
    "dead": DEAD,
    "give back": GIVE_BACK,
}
HOW = {operation: how for how, operation in OPERATIONS.items()}
READS = ("claim_heads", "run_claim")
TABLES = ("messages", "groups", "state", "lane", "dedup", "dead")
# How many leases the workers remember, and how many that they have settled.
IN_HAND = 10
SPENT = 4
# A reply that was lost is read again this many seconds later.
LATER = 12.0

Row = list[Any]


class Answer:
    """What the core calls a future."""

    def __init__(self) -> None:
        self._done = False
        self.value: Any = None
        self.error: BaseException | None = None

    def done(self) -> bool:
        """Whether the outcome is there."""
        return self._done

    def set_result(self, value: Any) -> None:
        """The call took effect."""
        assert not self._done
        self._done, self.value = True, value

    def set_exception(self, error: BaseException) -> None:
        """It did not."""
        assert not self._done
        self._done, self.error = True, error


class NotApplied(Exception):
    """What the callers of a request get that was given up."""


class Lane:
    """A lane of a client, and the program that went out last on it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.at = 0.0
        self.last: list[Row] | None = None

    def remember(self, program: list[Row]) -> None:
        """Keep a copy: this is what may still be on its way."""
        self.last = [list(statement) for statement in program]


class Client:
    """A process that uses the queue."""

    def __init__(self, name: str, lanes: int, max_rows: int, window: float) -> None:
        self.name = name
        self.window = window
        self.lanes = [Lane(f"{name}{number}") for number in range(lanes)]
        self.batcher = Batcher(lanes, max_rows, 1 << 20)
        # Calls of each group, in the order in which they were made.
        self.made: defaultdict[str, list[Call]] = defaultdict(list)
        # All calls that are not over, in that order too.
        self.pending: list[Call] = []
        self.begun: set[int] = set()

    def add(self, call: Call) -> None:
        """Make a call."""
        call.deadline = math.inf
        self.pending.append(call)
        for one in _ordered(call):
            self.made[_group(one)].append(one)
        self.batcher.add(call)

    def check_operates(self, batch: Batch) -> None:
        """An operating call goes when all before it is over; what was made after it goes when it has begun."""
        for call in self.pending:
            if call is batch.operate:
                self.begun.add(id(call))
                return
            assert batch.operate is None, "an operating call has overtaken another call"
            if isinstance(call, Operate) and id(call) not in self.begun:
                taken = set(map(id, batch.calls()))
                later = self.pending[self.pending.index(call) :]
                assert not [one for one in later if id(one) in taken], "an operating call was overtaken"
                return

    def check_order(self, calls: Iterable[Call]) -> None:
        """Rule 9: a batch takes the oldest calls of each group, and its fixed order inverts none of them."""
        taken: defaultdict[str, list[Call]] = defaultdict(list)
        for call in calls:
            for one in _ordered(call):
                taken[_group(one)].append(one)
        for group, found in taken.items():
            first, self.made[group] = self.made[group][: len(found)], self.made[group][len(found) :]
            assert set(map(id, first)) == set(map(id, found)), f"calls of {group!r} overtook one another"
            kinds = [_kind(call) for call in first]
            assert kinds == sorted(kinds), f"calls of {group!r} were inverted by their batch: {kinds}"


def _ordered(call: Call) -> list[Publish | Settle]:
    """The parts of a call that have a place in the order of a group."""
    if isinstance(call, Publish | Settle):
        return [call]
    if isinstance(call, Operate):
        return []
    assert isinstance(call, Claim)
    return [] if call.tied is None else [call.tied]


def _group(call: Publish | Settle) -> str:
    return call.group if isinstance(call, Publish) else call.lease.group_id


def _kind(call: Call) -> int:
    if isinstance(call, Publish):
        return 2
    assert isinstance(call, Settle)
    return 0 if call.op == ACK else 1


class Request:
    """The calls of one batch, sorted out."""

    def __init__(self, batch: Batch, made: Sequence[Call]) -> None:
        calls = batch.calls()
        place = {id(call): number for number, call in enumerate(made)}
        self.calls = calls
        self.claims = [call for call in calls if isinstance(call, Claim)]
        self.news = [call for call in calls if isinstance(call, Publish)]
        settles = [call for call in calls if isinstance(call, Settle)]
        self.acks = [call for call in settles if call.op == ACK]
        self.acks += [claim.tied for claim in self.claims if claim.tied is not None]
        # As they were made: the acks of a run have an order.
        self.acks.sort(key=lambda ack: place[id(ack if ack.then is None else ack.then)])
        self.others = [call for call in settles if call.op != ACK]
        self.blocks = [list(block) for _, block in groupby(self.claims, key=_block_of)]


def _block_of(claim: Claim) -> tuple[float, int, int]:
    """What claims of one block share; a run has one of its own."""
    return claim.visibility, claim.min_priority, id(claim) if claim.run else 0


class World:
    """One queue in a database, its oracle, two clients, and the leases in the hands of the workers."""

    def __init__(
        self,
        db: sqlite3.Connection,
        statements: Statements,
        queue: str | None = None,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.db = db
        self.statements = statements
        self.texts = Texts(statements.queue, False, statements.operate)
        self.names = statements.names
        self.oracle = Oracle()
        self.now = 1000.0
        self.tell = tell
        self.counts: Counter[str] = Counter()
        self.hand: list[Lease[Any]] = []
        self.spent: list[Lease[Any]] = []
        self.clients = {"A": Client("A", 1, 6, 40.0), "B": Client("B", 2, 100, 15.0)}
        self._events = 0
        self._operations: dict[int, Operation] = {}
        # Settlements that are parts of one call: of which, and where its answer will be.  Kept: so are ids.
        self._parts: dict[int, tuple[Many, int, Settle]] = {}
        self.plain = PlainSide(self)
        self.transaction(upgrade.making(statements, queue))
        lanes = [lane.name for client in self.clients.values() for lane in client.lanes]
        self.transaction([[statements.queue["lane_open"], orjson.dumps(lanes).decode(), 0.0]])

    # -- the database ------------------------------------------------------------------------------

    def transaction(self, program: Sequence[Row]) -> list[list[Row]]:
        """Apply some statements, all or none; returns the rows of each."""
        slots = []
        self.db.execute("BEGIN IMMEDIATE")
        try:
            for text, *parameters in program:
                slots.append([list(row) for row in self.db.execute(text, parameters)])
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")
        return slots

    def rows(self, columns: str, table: str, order: str) -> list[Row]:
        """Read a whole table of the queue."""
        text = f'SELECT {columns} FROM "{self.names[table]}" ORDER BY {order}'
        return [list(row) for row in self.db.execute(text)]

    def everything(self) -> list[list[Row]]:
        """All rows of all tables of the queue."""
        return [self.rows("*", table, "1") for table in TABLES]

    def hints(self) -> dict[str, float]:
        """The `ready_at` of each group."""
        return {row[0]: row[1] for row in self.rows("group_id,ready_at", "groups", "1")}

    # -- what clients do ---------------------------------------------------------------------------

    def request(
        self,
        client: str,
        plans: Sequence[Plan],
        *,
        behind: float = 0.0,
        fate: str = ANSWERED,
        tidy: int | None = None,
    ) -> list[Call]:
        """Make some calls on one client, whose clock is `behind`, and send whatever batches they become."""
        one = self.clients[client]
        calls = [call for plan in plans for call in self._calls(plan)]
        for call in calls:
            one.add(call)
        for _ in range(100):
            if not one.batcher.waiting():
                break
            self._round(one, self.now - behind, fate, tidy)
            tidy = None
        assert not one.batcher.waiting(), "calls wait for ever"
        assert all(call.future.done() for call in calls if isinstance(call, Operate))
        return calls

    def _round(self, client: Client, now: float, fate: str, tidy: int | None) -> None:
        """Let each lane take a batch, then run them in the other order: all of them are in flight together."""
        taken = [(lane, client.batcher.take(number)) for number, lane in enumerate(client.lanes)]
        for lane, batch in reversed(taken):
            if batch is None:
                continue
            batch.tidy = tidy
            client.check_operates(batch)
            client.check_order(batch.calls())
            self._send(client, lane, batch, now, fate)
            client.batcher.finish(batch)
            if batch.outcome is None or batch.outcome.goes_on is None:
                over = set(map(id, batch.calls()))
                client.begun -= over
                client.pending = [call for call in client.pending if id(call) not in over]

    def _send(self, client: Client, lane: Lane, batch: Batch, now: float, fate: str) -> None:
        lane.number += 1
        program = batch.program(self.texts, lane.name, lane.number, now, client.window, client.name)
        if fate == GIVEN_UP:
            self._give_up(lane, batch, program, now)
            return
        before = self.oracle.time
        slots = self.transaction(program)
        assert batch.check(slots, lane.number)
        lane.at = max(now, before)
        resolved_at = now
        if fate == REPLY_LOST:
            slots = self._send_again(client, lane, batch, slots, now)
            resolved_at = max(now, self.oracle.time) + LATER
        lane.remember(program)
        self._compare(client, lane, batch, slots, now, resolved_at)

    def _send_again(self, client: Client, lane: Lane, batch: Batch, first: list[list[Row]], now: float) -> list[Any]:
        """The reply was lost: sent again the request is refused and changes nothing; its results are read again."""
        self.counts["reply lost"] += 1
        n = lane.number
        again = batch.program(self.texts, lane.name, n, now + LATER, client.window, client.name)
        self._refused(lane, again)
        if lane.last is not None:
            self._refused(lane, lane.last)
        slots: list[list[Row]] = [[] for _ in batch.statement_names]
        for slot, read in batch.reread(self.texts, lane.name):
            slots[slot] = [list(row) for row in self.db.execute(read[0], read[1:])]
            end = slot == len(slots) - 1
            told = [row[:-1] for row in first[slot]] if end else sorted(first[slot])
            found = [row[:-1] for row in slots[slot]] if end else sorted(slots[slot])
            assert found == told, "read again, the results are others"
        assert batch.check(slots, n), "read again, the request was not applied"
        return slots

    def _give_up(self, lane: Lane, batch: Batch, program: list[Row], now: float) -> None:
        """An empty request spends the number; when the real one arrives after all, it is refused."""
        self.counts["given up"] += 1
        lane.at = max(now, self.oracle.time)
        self.transaction(batch.empty_program(self.texts, lane.name, lane.number, now))
        self.oracle.begin(now)
        self._refused(lane, program)
        lane.remember(program)
        batch.reject(NotApplied())
        self.tell(f"#   t={self.oracle.time:g} {lane.name}.{lane.number}: given up")

    def _refused(self, lane: Lane, program: list[Row]) -> None:
        before = self.everything()
        try:
            self.transaction(program)
            told = "nothing: it was applied a second time"
        except sqlite3.IntegrityError as error:
            told = str(error)
        refusal = f"NOT NULL constraint failed: {self.names['lane']}.n"
        assert told == refusal, f"a copy of a request on lane {lane.name} raised {told}"
        assert self.everything() == before, "a refused request changed something"

    def new_event(self) -> int:
        """A number that no other event has."""
        self._events += 1
        return self._events

    # -- plans become calls ------------------------------------------------------------------------

    def _calls(self, plan: Plan) -> list[Call]:
        """None where it names a lease that is not there."""
        if not isinstance(plan, Done) or plan.count == 1:
            return [call for call in (self._call(plan),) if call is not None]
        # What is extended stays in hand: then the next one is meant.
        step = int(plan.how == "extend" and plan.lease >= 0)
        found = [self._call(replace(plan, count=1, lease=plan.lease + n * step)) for n in range(plan.count)]
        # Twice the same message cannot be part of one call: which of the two is lost depends on what shares a request.
        calls = list({call.lease.seq: call for call in found if isinstance(call, Settle)}.values())
        many = Many(Answer(), len(calls))
        for place, call in enumerate(calls):
            call.future = None
            call.part_of(many, place)
            self._parts[id(call)] = many, place, call
        return list[Call](calls)

    def _answer(self, call: Settle) -> Answer:
        """What a settlement was told; of one that is a part of a call, its part."""
        if id(call) not in self._parts:
            return call.future
        many, place, _ = self._parts[id(call)]
        answer, result = Answer(), many.results[place]
        if isinstance(result, BaseException):
            answer.set_exception(result)
        elif call.gone:
            answer.set_result(result)
        return answer

    def _call(self, plan: Plan) -> Call | None:
        """None: it names a lease that is not there."""
        call: Call
        if isinstance(plan, Pub):
            event = self.new_event()
            call = make_publish(plan.group, event, plan.priority, plan.delay, plan.rank, plan.headers, plan.dedup, None)
        elif isinstance(plan, Done):
            lease = self._pick(plan.lease, keep=plan.how == "extend")
            if lease is None:
                return None
            call = Settle(lease, OPERATIONS[plan.how], plan.argument)
        elif isinstance(plan, Op):
            call = self._operate(plan)
        else:
            call = self._claim(plan)
        call.future = Answer()
        return call

    def _operate(self, plan: Op) -> Operate:
        group = plan.group if plan.kind in ("pause", "resume", "release", "purge", "redrive_group") else None
        seqs: list[int] | None = None
        if plan.kind == "delete":
            seqs = sorted(self.oracle.messages)[plan.pick :][:1] or [1]
        elif plan.kind in ("redrive_seqs", "drop"):
            # Of the last one there is no dead letter yet.
            seqs = [*sorted(self.oracle.dead)[plan.pick :: 2], self.oracle.last_seq + 1]
            group = plan.group if plan.limit else None
        call = Operate(plan.kind, int, group, seqs, plan.limit)
        call.step = plan.step
        self._operations[id(call)] = Operation(plan.kind, group, seqs, plan.limit, plan.step)
        return call

    def _claim(self, plan: Take) -> Claim:
        wants_list = plan.limit > 1 or plan.run
        claim = Claim(plan.worker, plan.visibility, plan.min_priority, plan.limit, wants_list, plan.run)
        lease = None if plan.ack is None else self._pick(plan.ack, keep=False)
        if lease is not None:
            settle = Settle(lease, ACK)
            settle.deadline = math.inf
            settle.tie(claim)
        return claim

    def _pick(self, which: int, *, keep: bool) -> Lease[Any] | None:
        """A lease in hand, the newest is 0; or one that is spent, the one spent last is -1."""
        if which < 0:
            return self.spent[which] if -which <= len(self.spent) else None
        if which >= len(self.hand):
            return None
        lease = self.hand[-1 - which]
        if not keep:
            self.hand.remove(lease)
            self.spent = [*self.spent, lease][-SPENT:]
        return lease

    # -- the same on the oracle --------------------------------------------------------------------

    def _compare(
        self, client: Client, lane: Lane, batch: Batch, slots: list[list[Row]], now: float, resolved_at: float
    ) -> None:
        """Apply the request to the oracle, and compare all that it told its callers."""
        if batch.operate is not None:
            self._compare_operate(lane, batch, batch.operate, slots, now)
            return
        request = Request(batch, client.pending)
        defers = any(call.op == DEFER for call in request.others)
        self.oracle.begin(now, claims=bool(request.claims), defers=defers)
        verdicts = self.oracle.settle([_settlement(call) for call in request.acks])
        verdicts += self.oracle.settle([_settlement(call) for call in request.others])
        last_seq = self.oracle.last_seq
        seqs = self.oracle.publish([_new(call) for call in request.news], client.window)
        self.counts["duplicate"] += sum(seq <= last_seq for seq in seqs)
        named = zip(batch.statement_names, slots, strict=True)
        reads = [sorted(rows, key=_place if name == "run_claim" else None) for name, rows in named if name in READS]
        for place, (block, rows) in enumerate(zip(request.blocks, reads, strict=True)):
            self._compare_block(block, rows, _token(client, lane, place, block))
        self._check_hint(request, batch, slots[-1][0][-1])
        outcome = batch.resolve(slots, resolved_at, orjson.loads, lambda: resolved_at)
        assert outcome.t == self.oracle.time
        self._check_settled(request, verdicts, outcome)
        assert [call.future.value for call in request.news] == seqs, f"seqs told: {seqs} are right"
        self._hand_over(client, request, reads, outcome)
        self._count(request, verdicts, seqs)
        answers = [self._answer(call if call.then is None else call.then) for call in (*request.acks, *request.others)]
        self.tell(f"#   t={self.oracle.time:g} {lane.name}.{lane.number}: {_story(request, answers, reads)}")

    def _compare_operate(self, lane: Lane, batch: Batch, call: Operate, slots: list[list[Row]], now: float) -> None:
        """A step of an operating call does the same to the oracle, and tells how many messages it was."""
        operation = self._operations[id(call)]
        self.oracle.begin(now)
        goes_on = operation.take_step(self.oracle)
        outcome = batch.resolve(slots, now, orjson.loads, lambda: now)
        assert outcome.t == self.oracle.time
        assert call.done == operation.done, f"{call.operation} says {call.done}, it is {operation.done}"
        assert (outcome.goes_on is call) == goes_on, f"{call.operation} goes on: {outcome.goes_on is call}"
        assert call.future.done() != goes_on
        # Groups whose time has come are marked by the next claim.
        hint, marked = slots[-1][0][-1], self.hints()
        seen = [self.oracle.groups[group].priority for group in self.oracle.claimable() if marked.get(group) == 0]
        assert max(seen, default=-1) <= hint and (hint == -1 or not self.oracle.paused)
        self.counts[call.operation] += 1
        self.counts["step"] += goes_on
        if not goes_on:
            assert call.future.value == operation.done
            del self._operations[id(call)]
        self.tell(f"#   t={self.oracle.time:g} {lane.name}.{lane.number}: {call.operation} {call.group}: {call.done}")
        self.check_tables()

    def _compare_block(self, block: list[Claim], rows: list[Row], token: str) -> None:
        """A claim hands out exactly min(k, claimable) groups, their heads, least turn first."""
        visibility, min_priority, is_run = _block_of(block[0])
        if is_run:
            self._compare_run(block[0], rows, token)
            return
        wanted = sum(claim.limit for claim in block)
        may = self.oracle.claimable(min_priority)
        got = [row[1] for row in rows]
        assert len(set(got)) == len(got), f"one group twice: {got}"
        assert set(got) <= set(may), f"handed out {got}, claimable are {may}"
        assert len(got) == min(wanted, len(may)), f"handed out {got} of {may}, {wanted} were wanted"
        turns = {group: self.oracle.groups[group].turn for group in may}
        left = [turns[group] for group in may if group not in got]
        assert not got or not left or max(turns[group] for group in got) <= min(left), f"{got} out of turn: {turns}"
        self.oracle.hand_out(token, visibility, got)
        taken = (message for message in self.oracle.messages.values() if message.holder == token)
        assert rows == self._claimed(sorted(taken, key=lambda message: message.seq))

    def _compare_run(self, claim: Claim, rows: list[Row], token: str) -> None:
        """A run is the beginning of the group that waited longest, in order."""
        may = self.oracle.claimable(claim.min_priority)
        if not may:
            assert rows == []
            return
        group = rows[0][1] if rows else min(may)
        turns = {name: self.oracle.groups[name].turn for name in may}
        assert turns[group] == min(turns.values()), f"{group!r} out of turn: {turns}"
        run = self.oracle.hand_out_run(f"{token}+{self.oracle.turn}", claim.visibility, group, claim.limit)
        assert rows == [[*row, message.due] for row, message in zip(self._claimed(run), run, strict=True)]
        self.counts["run"] += 1
        self.counts["long run"] += len(run) > 1

    def _claimed(self, messages: list[Message]) -> list[Row]:
        """What a claim says of these messages."""
        rows: list[Row] = []
        for message in messages:
            group = self.oracle.groups[message.group]
            row: Row = [message.seq, message.group, message.event, message.attempts, message.rank, message.headers]
            rows.append([*row, message.published_at, message.held_until, group.priority, group.turn])
        return rows

    def _check_hint(self, request: Request, batch: Batch, hint: int | None) -> None:
        """Never lower than the priority of a group that can be claimed; where no priority was asked for, 0 at most.

        A request that does not claim marks none of the groups whose time has come since the last one that did.
        """
        if hint is None:
            assert not (request.acks or request.others or request.claims)
            return
        marked = self.hints()
        assert marked.keys() == self.oracle.groups.keys()
        seen = [group for group in self.oracle.claimable() if request.claims or marked[group] == 0]
        highest = max((self.oracle.groups[group].priority for group in seen), default=-1)
        top = min(highest, 0) if batch.statement_names[-1] == "outcome" else highest
        tidy = batch.tidy
        assert hint >= top, f"the hint is {hint}, groups of priority {top} are claimable"
        if tidy is not None and request.claims:
            self._check_tidy(tidy, marked)
            # Read again after a lost reply, it is the highest in any case.
            assert tidy > 0 or hint in (top, highest), f"after a tidy the hint is {hint}, not {top}"

    def _check_tidy(self, tidy: int, marked: dict[str, float]) -> None:
        self.counts["tidy"] += 1
        for group, hint in marked.items():
            if hint == 0 and self.oracle.groups[group].priority >= tidy:
                assert self.oracle.is_claimable(group, self.oracle.time), f"{group!r} is still marked claimable"

    def _check_settled(self, request: Request, verdicts: list[str], outcome: Outcome) -> None:
        refused = set(map(id, outcome.refused))
        extended: dict[tuple[str, str], float] = {}
        for call, verdict in zip([*request.acks, *request.others], verdicts, strict=True):
            if call.then is not None:
                told = _told(call.lost() if id(call.then) in refused else None)
            else:
                answer = self._answer(call)
                assert answer.done()
                told = _told(answer.error)
            assert told == verdict, f"{HOW[call.op]} of {call.lease}: told {told}, it is {verdict}"
            if verdict == ACCEPTED and call.op == EXTEND:
                assert self._answer(call).value == outcome.t + float(call.argument)
                extended[call.lease.token, call.lease.group_id] = self._answer(call).value
        for call, verdict in zip(request.others, verdicts[len(request.acks) :], strict=True):
            if verdict == ACCEPTED and call.op == EXTEND:
                # Of a run that is extended twice, the last counts.
                assert call.lease.expires_at == extended[call.lease.token, call.lease.group_id]

    def _hand_over(self, client: Client, request: Request, reads: list[list[Row]], outcome: Outcome) -> None:
        """Who got which lease: in order, no more than wanted; what nobody gets is given back."""
        unasked = list(outcome.give_back)
        late = {id(call): leases for call, leases in outcome.late}
        for block, rows in zip(request.blocks, reads, strict=True):
            left = [row[0] for row in rows]
            for claim in block:
                if claim in outcome.refused:
                    assert claim.tied is not None and not claim.future.done()
                    claim.reject(claim.tied.lost())
                    continue
                got = late.get(id(claim)) or _leases(claim.future.value)
                share, left = left[: claim.limit], left[claim.limit :]
                assert [lease.seq for lease in got] == share, "a caller got other leases than its share"
                assert (claim in outcome.unfilled) == (not share)
                if id(claim) in late:
                    unasked += got
                else:
                    # The first of a run is the newest: that is the one to be settled first.
                    self.hand += reversed(got) if claim.run else got
                if not claim.future.done():
                    claim.resolve(claim.empty())
            given_back = [lease.seq for lease in outcome.give_back if lease.seq in left]
            assert given_back == left, "a lease that nobody got was not given back"
        self.hand = self.hand[-IN_HAND:]
        self.counts["late"] += len(late)
        for lease in first_of_each(unasked):
            self.counts["unasked"] += 1
            call = Settle(lease, GIVE_BACK)
            call.future = Answer()
            client.add(call)

    def _count(self, request: Request, verdicts: list[str], seqs: list[int]) -> None:
        self.counts["requests"] += 1
        self.counts["publish"] += len(seqs)
        for call, verdict in zip([*request.acks, *request.others], verdicts, strict=True):
            self.counts[HOW[call.op] if verdict == ACCEPTED else f"{HOW[call.op]} {verdict}"] += 1
            self.counts[f"{HOW[call.op]} in a run"] += verdict == ACCEPTED and "+" in call.lease.token
        for claim in request.claims:
            found = len(_leases(claim.future.value))
            self.counts["leases"] += found
            self.counts["empty claim"] += not found

    # -- what others do ----------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

    def pause_by_hand(self, group: str) -> None:
        """Pause a group as a tool would that knows nothing of `ready_at`."""
        if group in self.oracle.groups:
            self.db.execute(f'UPDATE "{self.names["groups"]}" SET paused=1 WHERE group_id=?', (group,))
            self.oracle.pause(group)

    # -- what holds after each step ----------------------------------------------------------------

    def look(self, min_priority: int, ahead: float = 0.0, hints: dict[str, float] | None = None) -> None:
        """A look says what a claim would find at that time, and never too late when to look again."""
        at = self.oracle.time + ahead
        hints = self.hints() if hints is None else hints
        name = "look_high" if min_priority else "look"
        row = self.db.execute(self.statements.queue[name], (at, min_priority)).fetchone()
        may = self.oracle.claimable(min_priority, at)
        assert bool(row[0]) == bool(may), f"{name} says {row[0]}, claimable are {may}"
        for group in self.oracle.groups:
            if self.oracle.groups[group].paused or hints[group] <= at or group in may:
                continue
            ready = self.oracle.ready_at(group)
            assert row[1] is not None and row[1] <= ready, f"{name} says {row[1]}, {group!r} is ready at {ready}"

    def check(self) -> None:
        """All that must hold between two requests."""
        self.check_tables()
        self.check_leases()
        hints = self.check_hints()
        for min_priority in range(5):
            self.look(min_priority, 0.0, hints)

    def check_tables(self) -> None:
        """The whole tables are the oracle's."""
        oracle = self.oracle
        columns = "seq,group_id,event,rank,due,headers,published_at,attempts,locked_by,coalesce(lock_expiry,0)"
        rows = [list(vars(message).values()) for _, message in sorted(oracle.messages.items())]
        assert self.rows(columns, "messages", "seq") == rows
        assert self.hints().keys() == oracle.groups.keys()
        groups = [[name, one.priority, one.turn, one.paused] for name, one in sorted(oracle.groups.items())]
        assert self.rows("group_id,priority,turn,paused", "groups", "group_id") == groups
        dedup = [[name, *known] for name, known in sorted(oracle.dedup.items())]
        assert self.rows("id,seq,until", "dedup", "id") == dedup
        lanes = [[lane.name, lane.number, lane.at] for client in self.clients.values() for lane in client.lanes]
        assert self.rows("lane,n,at", "lane", "lane") == lanes
        assert self.rows("t,turn,paused,busy", "state", "id") == [[oracle.time, oracle.turn, oracle.paused, 0]]
        self._check_dead()

    def _check_dead(self) -> None:
        columns = "seq,group_id,event,rank,due,headers,published_at,attempts,priority,reason,died_at"
        rows = [
            [*list(vars(letter.message).values())[:8], letter.priority, letter.reason, letter.died_at]
            for _, letter in sorted(self.oracle.dead.items())
        ]
        assert self.rows(columns, "dead", "seq") == rows

    def check_hints(self) -> dict[str, float]:
        """`ready_at` may be early, never late."""
        hints = self.hints()
        for group, hint in hints.items():
            if not self.oracle.groups[group].paused and self.oracle.head(group) is not None:
                ready = max(self.oracle.ready_at(group), self.oracle.time)
                assert hint <= ready, f"ready_at of {group!r} is {hint}, it can be claimed at {ready}"
        return hints

    def check_leases(self) -> None:
        """Never two workers in a group, as far as one of them is of rqfast."""
        where = f"locked_by<>'{PARKED}' AND lock_expiry>={self.oracle.time!r}"
        more = "HAVING count(DISTINCT locked_by)>1 AND max(locked_by GLOB '~*')"
        text = f'SELECT group_id,count(*) FROM "{self.names["messages"]}" WHERE {where} GROUP BY 1 {more}'
        assert self.db.execute(text).fetchall() == []


def _settlement(call: Settle) -> Settlement:
    lease = call.lease
    return Settlement(lease.seq, lease.token, lease.group_id, HOW[call.op], call.argument)


def _told(error: BaseException | None) -> str:
    """The verdict that an error amounts to."""
    assert error is None or isinstance(error, LeaseLost | OutOfOrder)
    return ACCEPTED if error is None else EARLY if isinstance(error, OutOfOrder) else LOST


def _new(call: Publish) -> New:
    return New(call.group, call.text, call.priority, call.rank, call.delay, call.headers, call.dedup_id)


def _token(client: Client, lane: Lane, place: int, block: list[Claim]) -> str:
    """The worker's name where all claims of the block share it, else the client's; then what makes it unique."""
    workers = {claim.worker for claim in block}
    name = workers.pop() if len(workers) == 1 else client.name
    return f"~{name}:{lane.name}.{lane.number}.{place}"


def _leases(value: Any) -> list[Lease[Any]]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _place(row: Row) -> Row:
    """Where a row of a run belongs in it: its rank, due time and seq."""
    return [row[4], row[10], row[0]]


def _story(request: Request, answers: list[Answer], reads: list[list[Row]]) -> str:
    """What a request did, for people who read a counter-example."""
    told = []
    for call, answer in zip([*request.acks, *request.others], answers, strict=True):
        lost = isinstance(answer.error, LeaseLost)
        early = isinstance(answer.error, OutOfOrder)
        told.append(
            f"{HOW[call.op]} {call.lease.seq} of {call.lease.group_id!r}" + " (lost)" * lost + " (early)" * early
        )
    told += [f"publish {call.future.value} to {call.group!r}" for call in request.news]
    for block, rows in zip(request.blocks, reads, strict=True):
        got = ", ".join(f"{row[0]} of {row[1]!r}" for row in rows) or "nothing"
        what = "run" if block[0].run else "claim"
        told.append(f"{what} for {block[0].visibility:g} s, min_priority {block[0].min_priority}: {got}")
    return "; ".join(told)
