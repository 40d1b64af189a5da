"""A queue of the project and the oracle side by side: whatever is done to one is done to the other.

The statements are the project's, their order and parameters are the core's: calls go into a `Batcher`, a `Batch`
becomes a program, the program runs on sqlite3 in memory, and its rows are resolved by the core as in a transport.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import orjson

from rqfast._core import ACK, Batch, Bundle, Call, Claim, Lease, Many, Operate, Publish, Settle, Texts, make_publish
from rqfast.sql import Statements, upgrade

from .clients import Answer, Client, Lane, NotApplied, Row
from .judge import OPERATIONS, Judge
from .operations import Operation
from .plain import PlainSide
from .plans import ANSWERED, CRASHED, GIVEN_UP, REPLY_LOST, Bound, Done, Op, Plan, Pub, Take
from .stores import Slots, Store
from .tables import only_of

# How many leases the workers remember that they have settled.
SPENT = 4
# A reply that was lost is read again this many seconds later.
LATER = 12.0


class Flight:
    """A batch on its way."""

    def __init__(self, client: Client, lane: Lane, batch: Batch, now: float) -> None:
        self.client = client
        self.lane = lane
        self.batch = batch
        self.now = now

    def number(self) -> None:
        """Take the lane's next number: it is sent in its turn."""
        self.lane.number += 1
        self.client.check_operates(self.batch)
        self.client.check_order(self.batch.calls())

    def unnumber(self) -> None:
        """It was refused as a whole: its number is still to be spent."""
        self.lane.number -= 1

    def program(self, texts: Texts, later: float = 0.0) -> list[Row]:
        """The statements, for the first time or so much later."""
        one = self.client
        return self.batch.program(texts, self.lane.name, self.lane.number, self.now + later, one.window, one.name)

    def over(self) -> None:
        """The batch has come back."""
        one, batch = self.client, self.batch
        one.batcher.finish(batch)
        if batch.outcome is None or batch.outcome.goes_on is None:
            over = set(map(id, batch.calls()))
            one.begun -= over
            one.pending = [call for call in one.pending if id(call) not in over]


class World(Judge):
    """One queue in a database, its oracle, two clients, and the leases in the hands of the workers."""

    def __init__(
        self,
        store: Store,
        statements: Statements,
        queue: str | None = None,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        super().__init__(store, statements, tell)
        self.texts = Texts(statements.queue, False, statements.operate)
        self.now = 1000.0
        self.spent: list[Lease[Any]] = []
        self.clients = {"A": Client("A", 1, 6, 40.0), "B": Client("B", 2, 100, 15.0)}
        self._events = 0
        self._crashes = 0
        self.plain = PlainSide(self)
        self.store.transaction(upgrade.making(statements, queue))
        self.store.transaction([[f"CREATE TABLE {self.own}(n INT)"]])
        lanes = [lane.name for client in self.clients.values() for lane in client.lanes]
        self.store.transaction([[statements.queue["lane_open"], orjson.dumps(lanes).decode(), 0.0]])

    # -- what clients do ---------------------------------------------------------------------------

    def request(
        self,
        client: str,
        plans: Sequence[Plan],
        *,
        behind: float = 0.0,
        fate: str = ANSWERED,
        tidy: int | None = None,
    ) -> None:
        """Make some calls on one client, whose clock is `behind`, and send whatever batches they become."""
        one = self.clients[client]
        operating = self._make(one, plans)
        for _ in range(100):
            if not one.batcher.waiting():
                break
            for flight in self._take(one, self.now - behind, tidy):
                self._send(flight, fate)
            tidy = None
        assert not one.batcher.waiting(), "calls wait for ever"
        assert all(call.future.done() for call in operating)

    def race(self, plans: dict[str, Sequence[Plan]], behind: float = 0.0) -> None:
        """Make calls on several clients; whatever batches they become are all on their way at the same time."""
        operating = [call for name, some in plans.items() for call in self._make(self.clients[name], some)]
        for _ in range(100):
            flights = [one for name in plans for one in self._take(self.clients[name], self.now - behind, None)]
            if not flights:
                break
            for one in flights:
                one.number()
            applied = self.store.race([(one.lane.name, one.program(self.texts)) for one in flights])
            for place, slots in applied:
                if slots is None:
                    flights[place].unnumber()
            last = max((number for number, (_, slots) in enumerate(applied) if slots is not None), default=0)
            for number, (place, slots) in enumerate(applied):
                self.is_behind = number != last and len(applied) > 1
                if slots is None:
                    self._refused_whole(flights[place])
                else:
                    self._answered(flights[place], slots)
            self.is_behind = False
        assert not any(self.clients[name].batcher.waiting() for name in plans), "calls wait for ever"
        assert all(call.future.done() for call in operating)

    def _make(self, client: Client, plans: Sequence[Plan]) -> list[Call]:
        """Make the calls; returns those that operate."""
        calls = [call for plan in plans for call in self._calls(plan)]
        for call in calls:
            client.add(call)
        return [call for call in calls if isinstance(call, Operate)]

    def _take(self, client: Client, now: float, tidy: int | None) -> list[Flight]:
        """Let each lane take a batch: all of them are in flight together, and the last one is the first to arrive."""
        flights = []
        for number, lane in enumerate(client.lanes):
            batch = client.batcher.take(number)
            if batch is not None:
                batch.tidy = tidy
                flights.insert(0, Flight(client, lane, batch, now))
        return flights

    def _send(self, flight: Flight, fate: str) -> None:
        flight.number()
        program = flight.program(self.texts)
        if fate == GIVEN_UP:
            self._give_up(flight, program)
            return
        if fate == CRASHED:
            self._crash(flight.lane, program)
        before = self.everything() if flight.batch.alone else []
        try:
            slots = self.store.transaction(program, flight.lane.name)
        except sqlite3.IntegrityError as error:
            if not flight.batch.alone or "NOT NULL" not in str(error):
                raise
            assert self.everything() == before, "a bundle that was refused changed something"
            flight.unnumber()
            self._refused_whole(flight)
            return
        self._answered(flight, slots, fate)

    def _refused_whole(self, flight: Flight) -> None:
        """It is a bundle that must not be done in part."""
        assert flight.batch.alone, f"a request of lane {flight.lane.name} was refused"
        self._compare_refused(flight.lane, flight.batch, flight.client, flight.now)
        flight.over()

    def _answered(self, flight: Flight, slots: Slots, fate: str = ANSWERED) -> None:
        lane, batch, now = flight.lane, flight.batch, flight.now
        assert batch.check(slots, lane.number)
        lane.at = max(now, self.oracle.time)
        resolved_at = now
        if fate == REPLY_LOST:
            slots = self._send_again(flight, slots)
            resolved_at = max(now, self.oracle.time) + LATER
        lane.remember(flight.program(self.texts))
        self._compare(flight.client, lane, batch, slots, now, resolved_at)
        flight.over()

    def _crash(self, lane: Lane, program: list[Row]) -> None:
        """Its process dies between two statements: nothing is left of it, and nothing in the way of others."""
        self._crashes += 1
        before = self.everything()
        self.store.crash(program, self._crashes % (len(program) + 1), lane.name)
        assert self.everything() == before, "something is left of a request that was cut off"
        self.counts["crash"] += 1

    def _send_again(self, flight: Flight, first: Slots) -> list[Any]:
        """The reply was lost: sent again the request is refused and changes nothing; its results are read again."""
        self.counts["reply lost"] += 1
        lane, batch = flight.lane, flight.batch
        self._refused(lane, flight.program(self.texts, LATER))
        if lane.last is not None:
            self._refused(lane, lane.last)
        slots: list[list[Row]] = [[] for _ in batch.statement_names]
        for slot, read in batch.reread(self.texts, lane.name):
            slots[slot] = self.store.read(*read)
            end = slot == len(slots) - 1
            told = [row[:-1] for row in first[slot]] if end else sorted(first[slot])
            found = [row[:-1] for row in slots[slot]] if end else sorted(slots[slot])
            assert found == told, "read again, the results are others"
        assert batch.check(slots, lane.number), "read again, the request was not applied"
        return slots

    def _give_up(self, flight: Flight, program: list[Row]) -> None:
        """An empty request spends the number; when the real one arrives after all, it is refused."""
        self.counts["given up"] += 1
        lane, batch, now = flight.lane, flight.batch, flight.now
        lane.at = max(now, self.oracle.time)
        self.store.transaction(batch.empty_program(self.texts, lane.name, lane.number, now), lane.name)
        self.oracle.begin(now)
        self._refused(lane, program)
        lane.remember(program)
        batch.reject(NotApplied())
        self.tell(f"#   t={self.oracle.time:g} {lane.name}.{lane.number}: given up")
        flight.over()

    def _refused(self, lane: Lane, program: list[Row]) -> None:
        before = self.everything()
        try:
            self.store.transaction(program, lane.name)
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
        if isinstance(plan, Bound):
            return self._bundle(plan)
        if not isinstance(plan, Done) or plan.count == 1:
            return [call for call in (self._call(plan),) if call is not None]
        # What is extended stays in hand: then the next one is meant.
        step = int(plan.how == "extend" and plan.lease >= 0)
        found = [self._call(replace(plan, count=1, lease=plan.lease + n * step)) for n in range(plan.count)]
        # Twice the same message cannot be part of one call: which of the two is lost depends on what shares a request.
        calls = list({call.lease.seq: call for call in found if isinstance(call, Settle)}.values())
        self._join(calls)
        return list[Call](calls)

    def _join(self, calls: Sequence[Call]) -> None:
        """They have one caller."""
        many = Many(Answer(), len(calls))
        for place, call in enumerate(calls):
            call.future = None
            call.part_of(many, place)
            if isinstance(call, Settle):
                self._parts[id(call)] = many, place, call

    def _bundle(self, plan: Bound) -> list[Call]:
        """Acknowledgements with messages and a statement of the user's own."""
        leases = [self._pick(plan.lease, keep=False) for _ in range(plan.count)]
        acks = list({lease.seq: Settle(lease, ACK) for lease in leases if lease is not None}.values())
        news = [call for pub in plan.publish if isinstance(call := self._call(pub), Publish)]
        if (plan.count and not acks) or not (news or plan.writes):
            return []
        event = self.new_event()
        self._join(acks)
        for new in news if acks else ():
            self._bound[id(new)] = acks[0], new
        if plan.writes:
            lead = [*acks, *news][0]
            self._writes[id(lead)] = lead, event
        self.counts["bundle"] += 1
        return [Bundle(list(acks), list(news), [[f"INSERT INTO {self.own} VALUES(?)", event]] if plan.writes else [])]

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
            # Of some there is an error that led to it.
            error = f"Error: {lease.seq}" if plan.how == "dead" and lease.seq % 2 else None
            call = Settle(lease, OPERATIONS[plan.how], plan.argument, error)
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
        only = only_of(plan.only)
        claim = Claim(plan.worker, plan.visibility, plan.min_priority, plan.limit, wants_list, plan.run, only)
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

    # -- what others do ----------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

    def pause_by_hand(self, group: str) -> None:
        """Pause a group as a tool would that knows nothing of `ready_at`."""
        if group in self.oracle.groups:
            self.store.transaction([[f'UPDATE "{self.names["groups"]}" SET paused=1 WHERE group_id=?', group]])
            self.oracle.pause(group)
