"""The model finds mistakes: each mutant is one, made in the project's statements by replacing some text.

Those of the first prototype of this queue are here, and those that the project's own statements invite.

One mistake has a test of its own at the end, "the settlements test for themselves instead of obeying the stored
verdict": it shows only where two settlements of one group that are no acknowledgements stand in one batch, which the
batcher never makes.  Left out is "old workers take a second message of a group": only a redriven message becomes the
head of a group where another one is in work, while its seq is the smallest (tests/moving has that).
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass

import orjson
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from rqfast._core import EXTEND
from rqfast.sql import Statements

from .driver import drive
from .machine import QueueMachine
from .plans import ANSWERED, EXTRAS, GROUPS, OPERATIONS, REPLY_LOST, SETTLEMENTS, Op, Pub, Take
from .stores import Store
from .world import World

Habits = dict[str, object]

SEEDS = range(40)
STEPS = 250

T = '(SELECT t FROM "rqfast_state")'
HEAD = '"messages" k INDEXED BY "rqfast_m_head" WHERE k.group_id=g.group_id ORDER BY k.rank,k.due,k.seq LIMIT 1'
DUE = f" AND (SELECT k.due FROM {HEAD})<={T}"
LIVE = (
    ' AND NOT EXISTS(SELECT 1 FROM "messages" l INDEXED BY "rqfast_m_lock" WHERE l.group_id=g.group_id '
    f"AND l.locked_by IS NOT NULL AND l.lock_expiry>={T})"
)
SAME_LEASE = "m.seq=j.value->>0 AND m.locked_by=j.value->>1 AND m.group_id=j.value->>2"
TWO_LISTS = (
    "m.seq=j.value->>0 AND m.seq IN (SELECT value->>0 FROM json_each(?1)) "
    "AND m.locked_by IN (SELECT value->>1 FROM json_each(?1))"
)
GOING = '(SELECT 1-paused FROM "rqfast_state")'
ANY = f'IN (SELECT id FROM (SELECT turn, r, id FROM "rqfast_any" ORDER BY turn, r LIMIT ?1*{GOING}))'
READY = re.compile(r"CASE WHEN paused THEN 9e15 ELSE (coalesce\(.*?LIMIT 1\),8e15\)) END")
NOBODY = (
    'WHERE NOT EXISTS(SELECT 1 FROM "messages" l WHERE l.group_id="groups".group_id '
    f"AND l.locked_by IS NOT NULL AND l.lock_expiry>={T}) AND"
)


@dataclass(frozen=True)
class Edit:
    """Replace some text (or what a pattern matches) in one statement."""

    statement: str
    old: str | re.Pattern[str]
    new: str

    def apply(self, statements: Statements) -> None:
        """Make the mistake."""
        places = (statements.queue, statements.operate, statements.schema, statements.compat)
        where = next(place for place in places if self.statement in place)
        before = where[self.statement]
        pattern = re.compile(re.escape(self.old)) if isinstance(self.old, str) else self.old
        after = pattern.sub(lambda _: self.new, before)
        assert after != before, f"{self.statement} has changed: this mutant is none"
        where[self.statement] = after


# Mistakes of the first prototype.
OLD: dict[str, list[Edit]] = {
    "acks: seq and token tested by two lists": [Edit("ack_verdict", SAME_LEASE, TWO_LISTS)],
    "settling makes a group claimable whatever its head says": [
        Edit("groups_ready", READY, "0"),
        Edit("groups_ready", "WHERE", NOBODY),
    ],
    "LIMIT before the test of the head's due time": [
        Edit("any", DUE, ""),
        Edit(
            "claim_any",
            ANY,
            ANY + ' AND (SELECT k.due FROM "messages" k WHERE k.group_id="groups".group_id '
            f"ORDER BY k.rank,k.due,k.seq LIMIT 1)<={T}",
        ),
    ],
    "LIMIT before the test of live leases": [
        Edit("any", LIVE, ""),
        Edit("claim_any", ANY, ANY + LIVE.replace("g.group_id", '"groups".group_id')),
    ],
    "LIMIT before the test of the pause": [
        Edit("any", " AND g.paused=0", ""),
        Edit("claim_any", ANY, ANY + " AND paused=0"),
    ],
    "a group row for a publish that dedup suppressed": [
        Edit("publish_full_groups", re.compile(r"WHERE EXISTS\(.*?\) ON"), "WHERE 1 ON"),
    ],
    "a publish leaves ready_at as it was": [
        Edit("publish_groups", re.compile("ready_at=CASE.* END"), "ready_at=ready_at"),
    ],
    "extend is accepted though the group has gone on": [
        Edit("settle_verdict", f"m.lock_expiry<{T}", "m.lock_expiry<0"),
    ],
    "groups whose lease has lapsed are never marked claimable": [
        Edit("wake_due", f"f.ready_at<={T}", "f.ready_at<1"),
    ],
    "claims do not test live leases": [Edit("any", LIVE, "")],
    "claims of a min_priority do not test live leases": [Edit("high", LIVE, "")],
    "claims do not test the due time": [Edit("any", DUE, "")],
    "claims of a min_priority do not test the due time": [Edit("high", DUE, "")],
}

# Others that these statements invite.
NEW: dict[str, list[Edit]] = {
    "a request can be applied twice": [
        Edit("lane_step", re.compile("CASE WHEN .*? END"), "?2"),
    ],
    "an earlier request can be applied late": [
        Edit("lane_step", "=?2-1 THEN", "<>?2 THEN"),
    ],
    "the verdict on acks is not obeyed": [
        Edit("ack_delete", re.compile(r"key NOT IN \(SELECT value FROM .*?=\?2\)\)\)"), "?2=?2"),
    ],
    "the verdict on settlements is not obeyed": [
        Edit("settle_apply", re.compile(r" AND j\.key NOT IN \(.*?=\?2\)\)\)"), ""),
    ],
    "the verdict on dead letters is not obeyed": [
        Edit("dead_insert", "j.key NOT IN (SELECT value", "?2=?2 OR j.key NOT IN (SELECT value"),
    ],
    "dead letters stay in the queue": [Edit("dead_delete", "value->>3=5", "value->>3=7")],
    "dead letters forget the priority": [Edit("dead_insert", "coalesce((SELECT priority", "coalesce((SELECT 0")],
    "the group is not part of a lease": [
        Edit("settle_verdict", " AND m.group_id=j.value->>2", " AND m.locked_by IS NOT NULL"),
        Edit("settle_verdict", " AND m.locked_by=j.value->>1", ""),
    ],
    "a lease given back costs an attempt": [Edit("settle_apply", "attempts-1", "attempts")],
    "parking does not hold the group back": [
        Edit("settle_apply", "CASE o WHEN 2 THEN '__parked__' WHEN 4", "CASE o WHEN 4"),
    ],
    "deferring keeps the place": [Edit("settle_apply", "WHEN 3 THEN", "WHEN 7 THEN")],
    "a claim leaves the turn as it was": [
        Edit("claim_any", ', turn=(SELECT turn FROM "rqfast_state")', ""),
        Edit("claim_heads", ' AND turn=(SELECT turn FROM "rqfast_state")', ""),
    ],
    "a claim costs no attempt": [Edit("claim_heads", ", attempts=attempts+1", "")],
    "a claim takes the latest groups": [Edit("claim_any", "ORDER BY turn, r", "ORDER BY turn DESC, r")],
    "a claim of a min_priority takes the highest one first": [
        Edit("claim_2", "ORDER BY turn, r", "ORDER BY r, turn"),
    ],
    "a claim of min_priority 2 takes groups of 1": [Edit("claim_2", "priority=2", "priority=1")],
    "the head ignores the rank": [Edit("served", "k.rank,k.due,k.seq", "k.due,k.seq")],
    "the head ignores the due time": [Edit("served", "k.rank,k.due,k.seq", "k.rank,k.seq")],
    "a new group goes before those that have waited": [Edit("clock_step", "fresh=turn-1", "fresh=0")],
    "a new group goes after the group served last": [Edit("clock_step", "fresh=turn-1", "fresh=turn+1")],
    "time can run backwards": [Edit("clock_step", "max(t+?3,?1)", "max(?3,?1)")],
    "time stands still when a message is deferred": [Edit("clock_step", "t+?3", "t+?3*0")],
    "plain messages have no due time": [Edit("publish_plain", f"value->>1, {T}, {T}", f"value->>1, 0, {T}")],
    "delays are ignored": [Edit("publish_full", f"{T}+(value->>3)", T)],
    "seqs go on from 1 when the queue is empty": [
        Edit(
            "lane_step_publishing",
            "SELECT seq FROM sqlite_sequence WHERE name='messages'",
            'SELECT max(seq) FROM "messages"',
        ),
    ],
    "a dedup id that stands is published again": [
        Edit("publish_full", re.compile(r"value->>5 IS NULL OR .*"), "1)"),
    ],
    "a dedup id takes the seq of its last publish": [
        Edit("dedup_take", f' WHERE "rqfast_dedup".until<={T}', ""),
    ],
    "dedup ids never end": [Edit("dedup_prune", "d.until<=", "d.until<0 AND d.until<=")],
    "a paused group goes when it is empty": [
        Edit("groups_ready", "WHEN paused THEN 9e15", "WHEN paused THEN 8e15"),
        Edit("old_drain", "WHEN OLD.paused", "WHEN OLD.paused>1"),
    ],
    "an empty group stays": [Edit("groups_drain", "8e15", "7e15")],
    "ready_at ignores live leases' end": [
        Edit("groups_ready", "max(l.lock_expiry)", "max(l.lock_expiry)+1"),
    ],
    "ready_at is that of the last message": [
        Edit("groups_ready", "ORDER BY k.rank,k.due,k.seq", "ORDER BY k.rank DESC,k.due DESC,k.seq DESC"),
    ],
    "tidying takes claimable groups along": [Edit("tidy", "THEN k.due ELSE 0", "THEN k.due ELSE 7e15")],
    "tidying of a min_priority takes claimable groups along": [
        Edit("tidy_high", "THEN k.due ELSE 0", "THEN k.due ELSE 7e15"),
    ],
    "tidying leaves what is held back": [Edit("tidy", "WHERE g.ready_at=0", "WHERE g.ready_at=0 AND g.turn<0")],
    "the hint misses groups of priority 0": [Edit("outcome", "g.ready_at=0", "g.ready_at=0 AND g.priority>0")],
    "two claims of a request take one message": [
        Edit("claim_heads", f" WHERE locked_by IS NULL OR lock_expiry<{T}", ""),
    ],
    "a claim takes groups that another one holds": [
        Edit("claim_heads", ' AND turn=(SELECT turn FROM "rqfast_state")', ""),
        Edit("claim_heads", f" WHERE locked_by IS NULL OR lock_expiry<{T}", ""),
    ],
    "the hint tells the lowest priority": [Edit("outcome_high", "g.priority DESC", "g.priority")],
    "a look misses groups whose lease has lapsed": [
        Edit("look", "g.ready_at<>0 AND g.ready_at<=", "g.ready_at<>0 AND g.ready_at<=-"),
    ],
    "a look sees groups that are held back": [
        Edit("look_high", "AND l.lock_expiry>=", "AND l.lock_expiry>=9e15+"),
    ],
    "a look of a min_priority misses the highest": [
        Edit("look_high", "g.priority<>0", "g.priority<>0 AND g.priority<4")
    ],
    "a look says too late when to look again": [Edit("look", "SELECT min(ready_at)", "SELECT max(ready_at)")],
}
# In what keeps old workers and publishers in order.
BESIDE: dict[str, list[Edit]] = {
    "an old publisher's message has no due time": [Edit("old_publish", re.compile("BEGIN UPDATE .*?;"), "BEGIN")],
    "an old publisher's message leaves ready_at as it was": [
        Edit("old_publish", re.compile('UPDATE "groups" .*?; END'), "END"),
    ],
    "an old publisher's group has no turn": [Edit("old_group", "NEW.turn=0", "NEW.turn=-1")],
    "old workers take what is not due": [Edit("old_claim", f"NEW.due>{T} OR ", "")],
    "old workers take what is not the head": [Edit("old_claim", "NEW.seq<>(SELECT", "NEW.seq>(SELECT")],
    "old workers take messages of paused groups": [Edit("old_claim", "(SELECT g.paused FROM", "(SELECT 0 FROM")],
    "old workers free what rqfast holds": [Edit("old_nack", "OLD.locked_by GLOB", "OLD.locked_by=")],
    "old workers delete what rqfast holds": [Edit("old_ack", "OLD.locked_by GLOB", "OLD.locked_by=")],
    "old workers' claims cost no attempt": [Edit("old_held", "attempts+1", "attempts")],
    "after an old nack the group is claimable late": [
        Edit("old_held", re.compile("BEGIN UPDATE .*?;"), "BEGIN"),
    ],
    "after an old ack the group is claimable late": [
        Edit("old_done", re.compile("BEGIN UPDATE .*?;"), "BEGIN SELECT 1;"),
    ],
    "an old ack takes a paused group along": [Edit("old_drain", "WHEN OLD.paused", "WHEN OLD.paused>1")],
    "rqfast's settlements are taken for an old worker's": [Edit("clock_step", "busy=1", "busy=0")],
    "old workers are taken for rqfast after a settlement": [Edit("outcome", "busy=0", "busy=1")],
}
# Mistakes that the operating calls invite.
OPERATE: dict[str, list[Edit]] = {
    "a claim goes on in a paused queue": [Edit("claim_any", GOING, "1")],
    "a claim of a min_priority goes on in a paused queue": [Edit("claim_2", GOING, "1")],
    "a look finds work in a paused queue": [Edit("look", GOING, "1")],
    "the hint says work in a paused queue": [Edit("operate_outcome", f"{GOING}=0", "0")],
    "a paused group has the priority 0 before it has a message": [Edit("pause_group", "-1", "0")],
    "a plain publish leaves the priority of a paused group": [
        Edit("publish_groups", "iif(priority<0,excluded.priority,priority)", "priority"),
    ],
    "a full publish leaves the priority of a paused group": [
        Edit("publish_full_groups", re.compile("DO UPDATE SET .*"), "DO NOTHING"),
    ],
    "pause leaves a group marked claimable for ever": [Edit("pause_group", "paused=1, ready_at=9e15", "ready_at=9e15")],
    "a resumed group stays held back": [Edit("operate_ready", "ready_at=CASE", "ready_at=ready_at+0*CASE")],
    "a resumed group without a message stays": [Edit("operate_drain", "8e15", "7e15")],
    "resume ends all pauses": [Edit("resume_group", "WHERE group_id=?2->>0", "WHERE ?2=?2")],
    "release costs an attempt": [Edit("release", "lock_expiry=0", "lock_expiry=0, attempts=attempts+1")],
    "release ends live leases only": [Edit("release", "IS NOT NULL", f"IS NOT NULL AND lock_expiry>={T}")],
    "release counts parkings that are over": [Edit("release_count", f" OR m.lock_expiry>={T}", " OR 1")],
    "delete takes what is in work": [Edit("delete", re.compile(" AND NOT .*"), "")],
    "delete leaves what is parked": [Edit("delete", "<>'__parked__'", "<>''")],
    "delete says yes of what is in work": [Edit("delete_count", re.compile(r" AND NOT \(.*?\)\)"), "")],
    "purge of a group takes what is in work": [
        Edit("purge_group", re.compile(r" AND NOT \(.*"), ""),
    ],
    "purge of a group forgets the rank": [
        Edit("purge_group", "(rank,due,seq)<=(SELECT k.rank", "(0,due,seq)<=(SELECT 0")
    ],
    "purge of a group stops after a step": [Edit("purge_group_end", "done<?6", "1")],
    "purge of the queue takes what is in work": [Edit("purge_queue", re.compile(r" AND NOT \(.*"), "")],
    "purge of the queue ends at a step full of work": [
        Edit("purge_queue_step", "iif(count(*)=?6,max(seq),NULL)", "NULL"),
    ],
    "redrive counts on the attempts": [
        Edit("redrive_insert", "headers,published_at)", "headers,published_at,attempts)"),
        Edit("redrive_insert", "d.headers,d.published_at", "d.headers,d.published_at,d.attempts"),
    ],
    "redrive makes messages due now": [Edit("redrive_insert", "d.rank,d.due", f"d.rank,{T}")],
    "redrive gives new seqs": [
        Edit("redrive_insert", "(seq,group_id", "(group_id"),
        Edit("redrive_insert", "SELECT d.seq,", "SELECT "),
    ],
    "redrive leaves the dead letters": [Edit("redrive_delete", "WHERE seq IN", "WHERE 0 AND seq IN")],
    "redrive makes no group": [Edit("redrive_groups", "WHERE 1 GROUP", "WHERE 0 GROUP")],
    "redrive takes the lowest priority": [Edit("redrive_groups", "max(d.priority)", "min(d.priority)")],
    "redrive leaves ready_at as it was": [Edit("redrive_ready", "ready_at=CASE", "ready_at=ready_at+0*CASE")],
    "redrive of chosen ones ignores the group": [Edit("redrive_pick_seqs", "?2 IS NULL OR", "1 OR")],
    "redrive ignores the limit": [Edit("redrive_pick_all", "LIMIT ?6", "LIMIT 1000")],
    "redrive takes the largest seqs first": [Edit("redrive_pick_all", "ORDER BY d.seq", "ORDER BY d.seq DESC")],
    "drop takes others along": [Edit("drop", "AND seq IN", "AND 1 OR seq IN")],
}
# Mistakes that runs invite.
ENDED = re.compile(r"g\.turn=j\.value->>\d")
RUNS: dict[str, list[Edit]] = {
    "a run takes what is not due": [Edit("run_claim", f" WHERE latest<={T}", "")],
    "a run goes on behind what is not due": [Edit("run_claim", re.compile(r"max\(due\) OVER \(.*?\)"), "due")],
    "a run takes one message more": [Edit("run_claim", "LIMIT ?3", "LIMIT ?3+1")],
    "a run ignores the rank": [Edit("run_claim", "rank,due,seq LIMIT", "due,seq LIMIT")],
    "a run costs no attempt": [Edit("run_claim", ", attempts=attempts+1", "")],
    "a run takes what another claim of its request took": [Edit("stamped", LIVE, "")],
    "a run takes a group that was served before": [
        Edit("stamped", re.compile(r" AND g\.turn=.*"), ""),
    ],
    "a run lasts for ever": [Edit("run_claim", f"lock_expiry={T}+?2", "lock_expiry=9e15")],
    "a run does not say in what order it comes": [Edit("run_claim", '"rqfast_state"),due', '"rqfast_state"),0.0')],
    "acks of a run in any order": [Edit("run_ack_verdict", "2*(", "0*(")],
    "acks of a run, but for the one that is out of order": [
        Edit("run_ack_verdict", re.compile(r"0=min\(f\) OVER \(.*?\)"), "0=f"),
    ],
    "acks of a run follow one another, whatever is before them": [
        Edit("run_ack_verdict", "j.value->>3 IS lag(m.seq) OVER w AND ", ""),
    ],
    "acks of a run in one list in any order": [
        Edit("run_ack_verdict", re.compile(r" AND j\.value->>0>lag\(.*?\) OVER w"), ""),
    ],
    "acks of a run see nothing before them that is due at the same time": [
        Edit("run_acks", "AND seq<m.seq", "AND seq<0"),
    ],
    "acks of a run see nothing before them that is due before": [Edit("run_acks", "due<m.due", "due<-1")],
    "acks of a run see nothing before them of a smaller rank": [Edit("run_acks", "rank<m.rank", "rank<-9")],
    "acks of a run that has ended": [Edit("run_ack_verdict", "iif(o,1,", "iif(0,1,")],
    "settlements of a run that has ended": [Edit("run_settle_verdict", ENDED, "g.turn=g.turn")],
    "a nack of a run gives back nothing else": [Edit("run_rest", "IN (1,2,3,6)", "IN (2,3,6)")],
    "a parking in a run gives back nothing else": [Edit("run_rest", "IN (1,2,3,6)", "IN (1,3,6)")],
    "a deferral in a run gives back nothing else": [Edit("run_rest", "IN (1,2,3,6)", "IN (1,2,6)")],
    "a dead letter of a run gives back the rest": [Edit("run_rest", "IN (1,2,3,6)", "IN (1,2,3,5,6)")],
    "what a nack of a run gives back has cost an attempt": [Edit("run_rest", "attempts-1", "attempts")],
    "a nack of a run gives back what is before": [Edit("run_rest", ")>(r,d,s)", ")<>(r,d,s)")],
    "a lost nack of a run gives back the rest": [
        Edit("run_rest", re.compile(r" AND j\.key NOT IN \(.*?=\?2\)\)\)"), " AND ?2=?2"),
    ],
    "one of a run is extended": [Edit("run_extend", f"{T}+a", "lock_expiry")],
    "of two extensions of a run the first counts": [Edit("run_extend", "max(j.key)", "min(j.key)")],
    "a lost extension extends the run": [
        Edit("run_extend", re.compile(r" AND j\.key NOT IN \(.*?=\?2\)\)\)"), " AND ?2=?2"),
    ],
    "what is parked of a run keeps it from being extended": [
        Edit("settle_verdict", f"AND m.lock_expiry<{T} AND EXISTS", "AND EXISTS"),
        Edit(
            "settle_verdict",
            re.compile(r"(?<=o\.lock_expiry>=\(SELECT t FROM \"rqfast_state\"\))"),
            " AND o.seq<>m.seq",
        ),
    ],
    "release counts what is left of a run that has ended": [
        Edit("release_count", "AND NOT (rtrim(", "AND NOT (0 AND rtrim("),
    ],
    "old workers leave a run that has lapsed": [Edit("old_run", f"l.lock_expiry<{T}", "l.lock_expiry<0")],
}
# Mistakes that claims of some groups invite.
KEPT = re.compile(r"\(value->>6 IS NULL OR .*?\) a\)\)")
SOME_LIST = "id IN (SELECT value FROM json_each(?3))"
SOME_PREFIX = "id>=?3->>0 AND id<?3->>1"
AMONG: dict[str, list[Edit]] = {
    "a claim of a list takes others": [Edit("claim_list", SOME_LIST, "?3=?3")],
    "a claim of a list ignores the min_priority": [Edit("claim_list", "priority>=?4", "?4=?4")],
    "a claim of a list takes the latest": [Edit("claim_list", "ORDER BY turn, r", "ORDER BY turn DESC, r")],
    "a claim of a list goes on in a paused queue": [Edit("claim_list", GOING, "1")],
    "a claim of a prefix takes what comes after": [Edit("claim_prefix", SOME_PREFIX, "id>=?3->>0")],
    "a claim of a prefix takes what comes before": [Edit("claim_prefix", SOME_PREFIX, "id<?3->>1")],
    "a claim of a prefix ignores the min_priority": [Edit("claim_prefix", "priority>=?4", "?4=?4")],
    "a claim of a prefix leaves the turn as it was": [
        Edit("claim_prefix", ', turn=(SELECT turn FROM "rqfast_state")', ""),
        Edit("claim_heads", ' AND turn=(SELECT turn FROM "rqfast_state")', ""),
    ],
    "claims of some groups do not test live leases": [Edit("keyed", LIVE, "")],
    "claims of some groups do not test the due time": [Edit("keyed", DUE, "")],
    "claims of some groups do not test the pause": [Edit("keyed", " AND g.paused=0", "")],
    "claims of some groups miss those whose time has come": [Edit("keyed", f"g.ready_at<={T}", "g.ready_at<-1")],
    "a look at a list sees others": [Edit("look_list", "IN (SELECT value FROM json_each(?3))", "<>?3")],
    "a look at a list finds work in a paused queue": [Edit("look_list", GOING, "1")],
    "a look at a list says too late when to look again": [Edit("look_list", "SELECT min(", "SELECT max(")],
    "a look at a prefix sees what comes after": [Edit("look_prefix", "AND g.group_id<?3->>1", "")],
    "a look at a prefix sees what is held back": [Edit("look_prefix", "l.lock_expiry>=n.x", "l.lock_expiry>=9e15")],
}
# And those of acknowledgements with messages and statements of the user's own, and of dead letters with an error.
BOUND: dict[str, list[Edit]] = {
    "messages of a lost ack are published": [Edit("publish_full", KEPT, "?2=?2")],
    "messages of a lost ack take their dedup id": [Edit("dedup_take", KEPT, "?2=?2")],
    "a bundle goes on when one of its acks is lost": [Edit("guard", "<>'[]'", "='?'")],
    "a bundle is refused whatever its acks say": [Edit("guard", "<>'[]'", "<>'?'")],
    "what a message brings is done again with its dedup id": [Edit("dedup_guard", "<>base", "=base-9+")],
    "a message that brings something is never published": [Edit("dedup_guard", "<>base", ">=base")],
    "a refused bundle tells of acks that are not lost": [Edit("ack_lost", "WHERE NOT EXISTS", "WHERE 1 OR NOT EXISTS")],
    "a refused bundle tells of no ack": [Edit("ack_lost", "WHERE NOT EXISTS", "WHERE 0 AND NOT EXISTS")],
    "a dead letter forgets the error": [Edit("dead_insert", "j.value->4->>1", "NULL")],
    "a dead letter forgets the reason": [Edit("dead_insert", "j.value->4->>0", "''")],
}
# And those of what is read again after a lost reply.
AGAIN: dict[str, list[Edit]] = {
    "read again, a claim has more": [Edit("claim_read", "m.locked_by=?1", "m.locked_by>=?1")],
    "read again, a claim has nothing": [Edit("claim_read", "m.locked_by=?1", "m.locked_by=?1||'.'")],
    "read again, a run has nothing": [Edit("run_read", "m.locked_by>?1", "m.locked_by>?1||'~'")],
    "read again, dedup ids have other seqs": [Edit("dedup_seqs_again", "SELECT d.seq", "SELECT d.seq+1")],
    "read again, no settlement is lost": [Edit("outcome_again", "json(lost_n)", "json('[]')")],
    "read again, no ack is lost": [Edit("outcome_again", "json(lost_a)", "json('[]')")],
    "dedup ids are told the seqs that they would have had": [
        Edit("dedup_seqs", re.compile(r"\(SELECT d\.seq FROM .*?\)"), "NULL"),
    ],
}
MUTANTS = OLD | NEW | BESIDE | OPERATE | RUNS | AMONG | BOUND | AGAIN

# Where most histories hardly come near a mistake: what is usual in those that do.
CALM: Habits = {
    "behind": (0.0,), "dedup": 0.0, "meddling": 0.0, "fates": (ANSWERED,), "calls": (1, 2), "crowd": 25,
    "bundles": 0.0, "some": 0.0,
}  # fmt: skip
ACKS: Habits = CALM | {"settlements": SETTLEMENTS[:1]}
# A message that is not due enters ahead of one in work, whose lease then lapses.
NOT_DUE: Habits = ACKS | {
    "groups": GROUPS[:4],
    "extras": ((0, 0.0, None), (-1, 30.0, None)),
    "pauses": (0.0, 1.0, 3.0, 10.0),
    "visibilities": (5.0,),
    "min_priorities": (0,),
}
GONE_ON: Habits = CALM | {
    "groups": GROUPS[:2],
    "extras": ((0, 0.0, None), (-1, 0.0, None)),
    "pauses": (0.0, 1.0),
    "visibilities": (1.0, 5.0),
    "settlements": (("extend", 30.0), ("extend", 1.0), ("ack", 0.0)),
}
OTHERS: Habits = ACKS | {"groups": GROUPS, "meddling": 0.3, "crowd": 6, "min_priorities": (0,), "pauses": (0.0,)}
LATE_ACKS: Habits = ACKS | {"calls": (4, 8), "pauses": (0.0, 1.0, 3.0), "visibilities": (1.0,)}
PLAIN: Habits = {"plain": 0.5}
OPERATOR: Habits = CALM | {"operating": 0.3, "operations": OPERATIONS, "groups": GROUPS[:3]}
BURIED: Habits = OPERATOR | {
    "settlements": (("dead", "why"), ("dead", "why"), ("ack", 0.0)),
    "operations": OPERATIONS[14:],
    "operating": 0.05,
}
RUNNING: Habits = CALM | {
    "runs": 0.9, "groups": GROUPS[:2], "crowd": 12, "operating": 0.0, "ties": 0.0, "calls": (1, 2, 4),
    "pauses": (0.0, 1.0),
}  # fmt: skip
PUT_OFF: Habits = RUNNING | {"settlements": tuple(SETTLEMENTS[3:10]) + SETTLEMENTS[:2]}
EXTENDED: Habits = RUNNING | {
    "settlements": (("extend", 1.0), ("extend", 30.0), ("ack", 0.0), ("park", 60.0)),
    "visibilities": (5.0, 1.0),
}
PARTLY: Habits = CALM | {"some": 0.7, "groups": GROUPS, "operating": 0.0, "min_priorities": (0, 0, 1, 3)}
BUNDLED: Habits = CALM | {"bundles": 0.6, "dedup": 0.4, "pauses": (0.0, 1.0, 3.0), "visibilities": (1.0, 5.0)}
LOST: Habits = CALM | {"fates": (REPLY_LOST,), "dedup": 0.3, "pauses": (0.0, 1.0, 3.0), "visibilities": (1.0, 5.0)}
HABITS: dict[str, Habits] = {
    **dict.fromkeys(AMONG, PARTLY),
    **{name: PARTLY | {"operating": 0.2, "operations": OPERATIONS[:7]} for name in AMONG if "paused queue" in name},
    "claims of some groups do not test the pause": PARTLY | {"meddling": 0.4},
    "claims of some groups do not test the due time": NOT_DUE | {"some": 0.9},
    **dict.fromkeys(BOUND, BUNDLED),
    **{name: BURIED for name in BOUND if name.startswith("a dead letter")},
    **dict.fromkeys(AGAIN, LOST),
    "read again, a run has nothing": LOST | RUNNING | {"fates": (REPLY_LOST,)},
    **dict.fromkeys(RUNS, RUNNING),
    **{name: EXTENDED for name in RUNS if "exten" in name},
    **{name: PUT_OFF for name in RUNS if "nack" in name or "parking" in name or "deferral" in name},
    "old workers leave a run that has lapsed": PLAIN | RUNNING,
    "release counts what is left of a run that has ended": RUNNING
    | {"operating": 0.3, "operations": OPERATIONS[7:9], "visibilities": (1.0,)},
    "an old ack takes a paused group along": CALM
    | PLAIN
    | {"groups": GROUPS[:3], "crowd": 2, "operating": 0.2, "operations": OPERATIONS[:3], "plain": 0.7},
    **{name: BURIED if name.startswith(("redrive", "drop")) else OPERATOR for name in OPERATE},
    # A group that is made anew, with another priority, when its messages have died.
    "redrive takes the lowest priority": BURIED
    | {"groups": GROUPS[:1], "calls": (1,), "operations": OPERATIONS[12:15], "operating": 0.1},
    "acks: seq and token tested by two lists": LATE_ACKS,
    "LIMIT before the test of the head's due time": NOT_DUE,
    "claims do not test the due time": NOT_DUE,
    "claims of a min_priority do not test the due time": NOT_DUE | {"min_priorities": (1,)},
    "extend is accepted though the group has gone on": GONE_ON,
    "LIMIT before the test of the pause": OTHERS,
    "a paused group goes when it is empty": OTHERS,
    "a publish leaves ready_at as it was": CALM | {"extras": EXTRAS[:1], "settlements": SETTLEMENTS[7:10]},
}


def mutant(name: str) -> Statements:
    """The default queue's statements with that mistake."""
    statements = Statements(None)
    for edit in MUTANTS[name]:
        edit.apply(statements)
    return statements


@pytest.mark.parametrize("name", MUTANTS)
def test_the_model_finds_a_mutant(name: str) -> None:
    statements = mutant(name)
    for number in SEEDS:
        try:
            drive(statements, None, number, STEPS, **((PLAIN if name in BESIDE else {}) | HABITS.get(name, {})))
        except (AssertionError, sqlite3.IntegrityError):
            return
    pytest.fail(f"not found in {len(SEEDS)} histories of {STEPS} steps")


@pytest.mark.parametrize("name", ["deferring keeps the place", "parking does not hold the group back"])
def test_the_machine_finds_a_mutant_and_tells_it_in_a_few_steps(name: str) -> None:
    @seed(5)
    class Mutant(QueueMachine):
        statements = mutant(name)

    with pytest.raises(AssertionError) as found:
        run_state_machine_as_test(
            Mutant,
            settings=settings(
                max_examples=1000,
                stateful_step_count=50,
                database=None,
                deadline=None,
                print_blob=False,
                phases=[Phase.generate, Phase.shrink],
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )
    told = found.value.__notes__
    # Looks change nothing; the shrinker does not always find the time to leave them out.
    steps = [line for line in told if line.startswith("state.") and not line.startswith(("state.agrees", "state.look"))]
    assert 2 <= len(steps) <= 10, "\n".join(told)
    assert any(line.startswith("#   t=") for line in told), "\n".join(told)


OBEYS = re.compile(r" AND j\.key NOT IN \(.*?=\?2\)\)\)")
OTHER = (
    ' AND NOT EXISTS(SELECT 1 FROM "messages" o WHERE o.group_id=j.value->>2 AND o.seq<>j.value->>0 '
    f"AND o.locked_by IS NOT NULL AND o.lock_expiry>={T})"
)


def two_extensions(statements: Statements) -> tuple[set[int], set[int]]:
    """Two lapsed leases of one group are extended by one statement; which were told so, and which are."""
    with closing(Store()) as store:
        world = World(store, statements)
        for rank in (0, -1):
            world.request("A", [Pub("a", rank=rank)])
            world.request("A", [Take(visibility=1.0)])
            world.wait(3.0)
        world.request("A", [Op("resume")])
        leases = world.hand
        rows = orjson.dumps([[one.seq, one.token, "a", EXTEND, 30.0] for one in leases]).decode()
        settle = [statements.queue[name] for name in ("settle_verdict", "settle_apply")]
        # In the second one the message that comes first has what the first one gave it.
        store.transaction([[settle[0], rows, "A0"]])
        store.transaction([[f'UPDATE "messages" SET lock_expiry=9e9 WHERE seq={leases[1].seq}']])
        store.transaction([[settle[1], rows, "A0", 1, 9]])
        lost = orjson.loads(store.read('SELECT lost_n FROM "rqfast_lane" WHERE lane=?', "A0")[0][0])
        told = {one.seq for place, one in enumerate(leases) if place not in lost}
        extended = store.read('SELECT seq FROM "messages" WHERE lock_expiry=?', world.oracle.time + 30.0)
        return told, {row[0] for row in extended}


def test_settlements_obey_the_verdict_that_was_told() -> None:
    told, extended = two_extensions(Statements(None))
    assert told == extended == {1, 2}


def test_the_test_above_finds_settlements_that_test_for_themselves() -> None:
    statements = Statements(None)
    before = statements.queue["settle_apply"]
    statements.queue["settle_apply"] = OBEYS.sub(lambda _: OTHER, before)
    told, extended = two_extensions(statements)
    assert told == {1, 2} and extended != told
