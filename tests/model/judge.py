"""What the queue told its callers, held against the oracle."""

from __future__ import annotations

from collections.abc import Callable
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
    Claim,
    Lease,
    Many,
    Operate,
    Outcome,
    Publish,
    Settle,
    first_of_each,
)
from rqfast.errors import NotHeld, Published
from rqfast.sql import Statements

from .clients import Answer, Client, Lane, Request, Row, block_of
from .operations import Operation
from .oracle import ACCEPTED, EARLY, LOST, Message, New, Settlement
from .stores import Store
from .tables import Tables

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
# How many leases the workers remember.
IN_HAND = 10


class Judge(Tables):
    """Applies each request to the oracle, and compares all that the queue said of it."""

    def __init__(self, store: Store, statements: Statements, tell: Callable[[str], None]) -> None:
        super().__init__(store, statements, tell)
        self.hand: list[Lease[Any]] = []
        self._operations: dict[int, Operation] = {}
        # Settlements that are parts of one call: of which, and where its answer will be.  Kept: so are ids.
        self._parts: dict[int, tuple[Many, int, Settle]] = {}
        # Messages that came with an acknowledgement, and which; what the user's own statements of a call write.
        self._bound: dict[int, tuple[Settle, Publish]] = {}
        self._writes: dict[int, tuple[Settle | Publish, int]] = {}
        # While a request is judged after others that came later: what stands in the tables is not what it left there.
        self.is_behind = False

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
        refused = {id(ack) for ack, verdict in zip(request.acks, verdicts, strict=False) if verdict != ACCEPTED}
        seqs = self.oracle.publish([self._new(call, refused) for call in request.news], client.window)
        if batch.dedup_id is not None:
            assert seqs[0] is not None and seqs[0] > last_seq, "what comes with a message was done though its id stands"
        self.counts["duplicate"] += sum(seq is not None and seq <= last_seq for seq in seqs)
        self.counts["publish of a lost ack"] += seqs.count(None)
        self.written += [
            self._writes[id(call)][1] for call in (*request.acks, *request.news) if id(call) in self._writes
        ]
        named = zip(batch.statement_names, slots, strict=True)
        reads = [sorted(rows, key=_place if name == "run_claim" else None) for name, rows in named if name in READS]
        for place, (block, rows) in enumerate(zip(request.blocks, reads, strict=True)):
            self._compare_block(block, rows, _token(client, lane, place, block))
        self._check_hint(request, batch, slots[-1][0][-1])
        outcome = batch.resolve(slots, resolved_at, orjson.loads, lambda: resolved_at)
        assert outcome.t == self.oracle.time
        self._check_settled(request, verdicts, outcome)
        told = [call.future.value if seq is not None else None for call, seq in zip(request.news, seqs, strict=True)]
        assert told == seqs, f"seqs told: {told}, right are {seqs}"
        self._hand_over(client, request, reads, outcome)
        self._count(request, verdicts, seqs)
        answers = [self._answer(call if call.then is None else call.then) for call in (*request.acks, *request.others)]
        self.tell(f"#   t={self.oracle.time:g} {lane.name}.{lane.number}: {_story(request, answers, reads)}")

    def _new(self, call: Publish, refused: set[int]) -> New:
        skipped = id(call) in self._bound and id(self._bound[id(call)][0]) in refused
        return New(call.group, call.text, call.priority, call.rank, call.delay, call.headers, call.dedup_id, skipped)

    def _compare_refused(self, lane: Lane, batch: Batch, client: Client, now: float) -> None:
        """A bundle was refused as a whole: an acknowledgement in it is lost or before its turn, its dedup id stands."""
        self.counts["bundle refused"] += 1
        request = Request(batch, client.pending)
        if batch.dedup_id is not None:
            self._compare_known(batch, request.news[0], now)
            return
        verdicts = self.oracle.verdicts([_settlement(call) for call in request.acks])
        places = {place for place, verdict in enumerate(verdicts) if verdict == LOST}
        found = self.store.read(self.statements.queue["ack_lost"], batch.lost_read())[0][0]
        assert set(orjson.loads(found)) == places, f"{found} are said to be lost, it is {places}"
        if not self.is_behind:
            assert verdicts.count(ACCEPTED) < len(verdicts), "a bundle was refused, and nothing in it is lost"
        batch.reject(NotHeld(places))
        for call, verdict in zip(request.acks, verdicts, strict=True):
            told = _told(self._answer(call).error)
            in_run = "+" in call.lease.token and not places
            assert told == verdict or (told == EARLY and in_run) or (told, verdict) == (ACCEPTED, EARLY), (
                told,
                verdict,
            )
            if verdict == ACCEPTED:
                self.hand.append(call.lease)
        self.tell(f"#   {lane.name}: a bundle of {len(verdicts)} refused: {verdicts}")

    def _compare_known(self, batch: Batch, call: Publish, now: float) -> None:
        """A message with a statement was published before: neither is there twice, and the first seq is told."""
        assert call.dedup_id is not None
        known = self.oracle.dedup.get(call.dedup_id)
        assert known is not None, f"the dedup id {call.dedup_id} does not stand"
        assert self.is_behind or known.until > max(now, self.oracle.time), f"the window of {call.dedup_id} has passed"
        found = self.store.read(self.statements.queue["dedup_first"], call.dedup_id)
        assert found == [[known.seq]], f"{found} is said to be the first seq, it is {known.seq}"
        batch.reject(Published(known.seq))
        assert call.future.value == known.seq
        self.counts["published before"] += 1

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
        if not self.is_behind:
            self._check_operated(slots[-1][0][-1])
        self.counts[call.operation] += 1
        self.counts["step"] += goes_on
        if not goes_on:
            assert call.future.value == operation.done
            del self._operations[id(call)]
        self.tell(f"#   t={self.oracle.time:g} {lane.name}.{lane.number}: {call.operation} {call.group}: {call.done}")

    def _check_operated(self, hint: int) -> None:
        """Groups whose time has come are marked by the next claim."""
        self.check_tables()
        marked = self.hints()
        seen = [self.oracle.groups[group].priority for group in self.oracle.claimable() if marked.get(group) == 0]
        assert max(seen, default=-1) <= hint and (hint == -1 or not self.oracle.paused)

    def _compare_block(self, block: list[Claim], rows: list[Row], token: str) -> None:
        """A claim hands out exactly min(k, claimable) groups, their heads, least turn first."""
        visibility, min_priority, is_run, only = block_of(block[0])
        if is_run:
            self._compare_run(block[0], rows, token)
            return
        wanted = sum(claim.limit for claim in block)
        may = self._claimable(min_priority, only)
        self.counts["claim of some"] += only is not None and bool(may)
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
        may = self._claimable(claim.min_priority, claim.only)
        if not may:
            assert rows == []
            return
        group = rows[0][1] if rows else min(may)
        assert group in may, f"a run of {group!r}, claimable are {may}"
        turns = {name: self.oracle.groups[name].turn for name in may}
        assert turns[group] == min(turns.values()), f"{group!r} out of turn: {turns}"
        run = self.oracle.hand_out_run(f"{token}+{self.oracle.turn}", claim.visibility, group, claim.limit)
        assert rows == [[*row, message.due] for row, message in zip(self._claimed(run), run, strict=True)]
        self.counts["run"] += 1
        self.counts["long run"] += len(run) > 1

    def _claimable(self, min_priority: int, only: tuple[str, str] | None) -> list[str]:
        """The groups that a claim may take: of those in a list, or from one text to before another."""
        may = self.oracle.claimable(min_priority)
        if only is None:
            return may
        among = orjson.loads(only[1])
        if only[0] == "list":
            return [group for group in may if group in among]
        return [group for group in may if group.startswith(among[0])]

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
        if self.is_behind:
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
        claimable = self.oracle.claimable()
        for group, hint in marked.items():
            if hint == 0 and self.oracle.groups[group].priority >= tidy:
                assert group in claimable or self.oracle.paused, f"{group!r} is still marked claimable"

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


def _settlement(call: Settle) -> Settlement:
    lease = call.lease
    return Settlement(lease.seq, lease.token, lease.group_id, HOW[call.op], call.argument, call.error)


def _told(error: BaseException | None) -> str:
    """The verdict that an error amounts to."""
    assert error is None or isinstance(error, LeaseLost | OutOfOrder)
    return ACCEPTED if error is None else EARLY if isinstance(error, OutOfOrder) else LOST


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
