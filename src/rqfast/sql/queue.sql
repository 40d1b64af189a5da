-- Every statement of publishing, claiming and settling.
--
-- "fragment" names a piece that others include as {name} or {name(expression)}, where the expression takes the
-- place of {x}; "name" names a statement.  {messages}, {groups}, ... are the tables and indexes of one queue,
-- already quoted.  Times are REAL seconds of the queue's own clock: no statement asks the server for the time,
-- a random number or its row order, so every node of a cluster makes the same change.  No statement is longer
-- than 1,023 bytes once rendered: rqlite compresses longer ones on every request.

-- fragment: t
-- The queue's time, which only moves forward.
(SELECT t FROM {state})

-- fragment: head
-- The first message of group g in claim order, as k.
FROM {messages} k INDEXED BY {m_head} WHERE k.group_id=g.group_id ORDER BY k.rank,k.due,k.seq LIMIT 1

-- fragment: live
-- Whether group g has a live lease (or a parked message) at time {x}.
EXISTS(SELECT 1 FROM {messages} l INDEXED BY {m_lock} WHERE l.group_id=g.group_id AND l.locked_by IS NOT NULL AND l.lock_expiry>={x})

-- fragment: ready_at
-- When a group can be claimed again: never while paused, else when its live lease ends, else when its head is
-- due, else now (0); 8e15 when it has no message left.  The one expression for it: as a hint it may be early, never
-- late.
CASE WHEN paused THEN 9e15 ELSE coalesce(
(SELECT max(l.lock_expiry) FROM {messages} l INDEXED BY {m_lock} WHERE l.group_id={groups}.group_id AND l.locked_by IS NOT NULL AND l.lock_expiry>={t}),
(SELECT CASE WHEN k.due>{t} THEN k.due ELSE 0 END FROM {messages} k INDEXED BY {m_head} WHERE k.group_id={groups}.group_id ORDER BY k.rank,k.due,k.seq LIMIT 1),8e15) END

-- fragment: drain
-- A group row lives as long as the group has a message or is paused; follows what computed ready_at.
DELETE FROM {groups} INDEXED BY {g_due} WHERE ready_at=8e15 AND ready_at<>0

-- fragment: base
-- The last seq before this request's publishes.
(SELECT base FROM {lane} WHERE lane=?2)

-- fragment: same_lease
-- Row m is the message of row j and still has its token: seq, token and group are tested together, because the
-- claims of one batch share a token.
m.seq=j.value->>0 AND m.locked_by=j.value->>1 AND m.group_id=j.value->>2

-- fragment: going
-- 0 while the whole queue is paused, else 1.
(SELECT 1-paused FROM {state})

-- fragment: any_ready
-- Whether any group is marked claimable.
EXISTS(SELECT 1 FROM {groups} g INDEXED BY {g_ready} WHERE g.ready_at=0)

-- fragment: work_hint
-- The highest priority among groups marked claimable, -1 when there is none.
iif({going}=0,-1,coalesce((SELECT g.priority FROM {groups} g INDEXED BY {g_pri} WHERE g.ready_at=0 AND g.priority<>0 ORDER BY g.priority DESC LIMIT 1),{any_ready}-1))

-- name: lane_open
-- Registers the lanes of a client.  Changes nothing when they stand, so it may be sent any number of times.
INSERT OR IGNORE INTO {lane}(lane,n,at) SELECT value,0,max(?2,{t}) FROM json_each(?1)

-- name: lane_prune
-- Lanes that were silent for a day belong to clients that are gone.
DELETE FROM {lane} WHERE lane IN (SELECT p.lane FROM {lane} p WHERE p.at<{t}-86400 ORDER BY p.lane LIMIT 500)

-- fragment: next_number
-- NULL, and so refused, unless ?2 is the lane's next number.
CASE WHEN (SELECT n FROM {lane} WHERE lane=?1)=?2-1 THEN ?2 END, max(?3,{t})

-- name: lane_step
-- First statement of each request: fails on NOT NULL, and so rolls all back, unless ?2 is the lane's next
-- number.  This is what makes it safe to send a request again.
INSERT OR REPLACE INTO {lane}(lane,n,at) SELECT ?1, {next_number}

-- name: lane_step_publishing
-- The same of a request that publishes: its seqs are base+1+position, told again after a lost reply, equal on
-- every node.
INSERT OR REPLACE INTO {lane}(lane,n,at,base) SELECT ?1, {next_number}, coalesce((SELECT seq FROM sqlite_sequence WHERE name='{messages_raw}'),0)

-- name: clock_step
-- Moves the queue's time forward to ?1, at least by ?3 (not 0 when the request defers: later than all that is due),
-- and the turn counter by ?2 (2 when the request claims).  A new group's turn is just before that of the group
-- served last.  Until the outcome, what is written is no old worker's (compat.sql).
UPDATE {state} SET t=max(t+?3,?1), fresh=turn-1, turn=turn+?2, busy=1

-- fragment: of_lane
-- What the lane's row says of this request, as JSON: the number, the base of the seqs, the settlements that were lost.
(SELECT json_array(n,base,json(lost_a),json(lost_n)) FROM {lane} WHERE lane=?1)

-- name: outcome
-- The end of each request.  What cannot be asked again; the time; and whether a claim would find work: 0, else -1.
-- Exact enough to decide whether the next claim is sent at once or looks first.  RETURNING, since /db/execute, which
-- prepares each statement once where /db/request does it three times, gives no rows otherwise; where a server gives
-- none all the same, outcome_again is read.
UPDATE {state} SET busy=0 RETURNING {of_lane},t,(paused=0 AND {any_ready})-1

-- name: outcome_high
-- The same for a request that claims with a min_priority: the highest priority among groups marked claimable, or -1.
UPDATE {state} SET busy=0 RETURNING {of_lane},t,{work_hint}

-- name: outcome_again
-- The same, read after a lost reply.
SELECT json_array(n,base,json(lost_a),json(lost_n)),{t},{work_hint} FROM {lane} WHERE lane=?1

-- name: publish_plain
-- ?1 [[group,event],..]: due at the queue's time of this commit, so seq alone orders them.
INSERT INTO {messages}(seq,group_id,event,due,published_at) SELECT {base}+1+key, value->>0, value->>1, {t}, {t} FROM json_each(?1)

-- name: publish_groups
-- ?1 [[group,priority],..], each group once; only the first publish of a group sets its priority (of one that was
-- paused before it had a message as well: there it stands at -1).
INSERT INTO {groups}(group_id,priority,turn) SELECT value->>0, value->>1, (SELECT fresh FROM {state}) FROM json_each(?1) WHERE 1
ON CONFLICT(group_id) DO UPDATE SET priority=iif(priority<0,excluded.priority,priority), ready_at={ready_at} WHERE {groups}.ready_at>0

-- fragment: kept
-- Whether the ack that a row came with was not lost.
(value->>6 IS NULL OR value->>6 NOT IN (SELECT a.value FROM json_each((SELECT lost_a FROM {lane} WHERE lane=?2)) a))

-- name: dedup_prune
-- Forgets ids whose window has passed, some at a time.
DELETE FROM {dedup} WHERE id IN (SELECT d.id FROM {dedup} d INDEXED BY {d_until} WHERE d.until<={t} ORDER BY d.until,d.id LIMIT 2000)

-- name: dedup_take
-- ?1 rows of the full form, ?2 lane, ?3 window: an id that stands keeps its first seq.
INSERT INTO {dedup}(id,seq,until) SELECT value->>5,{base}+1+key,{t}+?3 FROM json_each(?1) WHERE value->>5 IS NOT NULL AND {kept}
ON CONFLICT(id) DO UPDATE SET seq=excluded.seq, until=excluded.until WHERE {dedup}.until<={t}

-- name: dedup_guard
-- Rolls all back where an id of ?1 stood: what commits with that message was committed with its first publish.
UPDATE {lane} SET n=NULL WHERE lane=?2 AND EXISTS(SELECT 1 FROM json_each(?1) j WHERE (SELECT d.seq FROM {dedup} d WHERE d.id=j.value->>5)<>base+1+j.key)

-- name: dedup_first
-- The seq of an id that stands: asked after its guard refused.
SELECT seq FROM {dedup} WHERE id=?1

-- name: publish_full
-- ?1 [[group,event,rank,delay,headers,dedup,ack],..]: what a plain row has not; a known dedup id writes nothing, nor
-- does a row whose ack (a position in the list of acks) was lost.
INSERT INTO {messages}(seq,group_id,event,rank,due,headers,published_at) SELECT {base}+1+key, value->>0, value->>1, value->>2, {t}+(value->>3), value->>4, {t}
FROM json_each(?1) WHERE {kept} AND (value->>5 IS NULL OR (SELECT d.seq FROM {dedup} d WHERE d.id=value->>5)={base}+1+key)

-- name: publish_full_groups
-- A group row only where the group has a message; groups_ready follows and sets when it can be claimed.
INSERT INTO {groups}(group_id,priority,turn) SELECT value->>0, value->>1, (SELECT fresh FROM {state}) FROM json_each(?1)
WHERE EXISTS(SELECT 1 FROM {messages} e INDEXED BY {m_head} WHERE e.group_id=value->>0) ON CONFLICT(group_id) DO UPDATE SET priority=excluded.priority WHERE {groups}.priority<0

-- fragment: seqs_of_ids
-- A JSON object, from the place of each row of ?1 that has a dedup id to the seq of that id.  ("key" is quoted: of a
-- keyword as a name rqlite v8 understands no RETURNING.)
SELECT json_group_object("key",(SELECT d.seq FROM {dedup} d WHERE d.id=value->>5)) FROM json_each(?1) WHERE value->>5 IS NOT NULL

-- name: dedup_seqs
-- The seqs of messages that may have been published before.
UPDATE {state} SET busy=busy RETURNING ({seqs_of_ids})

-- name: dedup_seqs_again
-- The same, read after a lost reply.
{seqs_of_ids}

-- name: wake_due
-- Groups whose lease, parking or delay has ended are claimable again.  Bounded by ?1, as many as are claimed and some
-- more: 100,000 that end together must not stall one commit.
UPDATE {groups} INDEXED BY {g_key} SET ready_at=0 WHERE group_id IN (SELECT f.group_id FROM {groups} f INDEXED BY {g_due} WHERE f.ready_at<>0 AND f.ready_at<={t} ORDER BY f.ready_at,f.rowid LIMIT ?1)

-- fragment: claim_groups
-- ?1 how many, ?2 visibility: the groups that are served, of those {x} in turn order.  Their turn is now, and they
-- are out of the claimable index until the lease ends.
UPDATE {groups} INDEXED BY {g_key} SET last_claimed_at={t}, ready_at={t}+?2, turn=(SELECT turn FROM {state}) WHERE group_id IN (SELECT id FROM ({x} ORDER BY turn, r LIMIT ?1*{going}))

-- name: claim_any
-- Those that waited longest.  Due time, pause and live lease are tested inside what LIMIT cuts (the view), so one
-- blocked group never hides others.  The pause of the whole queue is in the LIMIT: then nothing is walked at all.
{claim_groups(SELECT turn, r, id FROM {any})}

-- fragment: high_of
SELECT turn, r, id FROM {high} WHERE priority={x}

-- name: claim_1
-- Priorities 1 to 4: a merge of one index walk for each.
{claim_groups({high_of(1)} UNION ALL {high_of(2)} UNION ALL {high_of(3)} UNION ALL {high_of(4)})}

-- name: claim_2
-- Priorities 2 to 4.
{claim_groups({high_of(2)} UNION ALL {high_of(3)} UNION ALL {high_of(4)})}

-- name: claim_3
-- Priorities 3 and 4.
{claim_groups({high_of(3)} UNION ALL {high_of(4)})}

-- name: claim_4
-- Priority 4.
{claim_groups({high_of(4)})}

-- name: claim_list
-- ?3 a JSON list of groups, ?4 the least priority: the same of these groups only.
{claim_groups(SELECT turn, r, id FROM {keyed} WHERE id IN (SELECT value FROM json_each(?3)) AND priority>=?4)}

-- name: claim_prefix
-- ?3 a JSON list of two bounds: the same of the groups from the first to before the second.
{claim_groups(SELECT turn, r, id FROM {keyed} WHERE id>=?3->>0 AND id<?3->>1 AND priority>=?4)}

-- name: claim_heads
-- ?1 token, ?2 visibility: the heads of the groups that were just stamped (the view), but for those that another
-- claim of this request took.  An INSERT of what is there, so that each is looked up by its seq whatever statistics say:
-- INDEXED BY and FROM would hide RETURNING from rqlite.  (In RETURNING a column has lost its collation, and without the
-- CAST its index.)
INSERT INTO {messages}(seq,group_id,event) SELECT h,'','' FROM {served} WHERE until={t}+?2 AND turn=(SELECT turn FROM {state}) AND h IS NOT NULL
ON CONFLICT(seq) DO UPDATE SET locked_by=?1, lock_expiry={t}+?2, attempts=attempts+1 WHERE locked_by IS NULL OR lock_expiry<{t}
RETURNING seq,group_id,event,attempts,rank,headers,published_at,lock_expiry,(SELECT max(g.priority,0) FROM {groups} g WHERE g.group_id=CAST({messages}.group_id AS TEXT)),(SELECT turn FROM {state})

-- name: claim_read
-- What token ?1 holds, read again after a lost reply.
SELECT m.seq,m.group_id,m.event,m.attempts,m.rank,m.headers,m.published_at,m.lock_expiry,max(g.priority,0),g.turn
FROM {messages} m INDEXED BY {m_lock} LEFT JOIN {groups} g INDEXED BY {g_key} ON g.group_id=m.group_id WHERE m.locked_by IS NOT NULL AND m.locked_by=?1 ORDER BY m.seq

-- fragment: look_at
-- What a look knows of time: a client's estimate, or what the database has seen.
max(?1,{t})

-- fragment: look_through
-- A plain read with the claim's own test, on the claimable groups that {x} walks: is there work at time ?1 for
-- priorities from ?2 on, when will the next group that is held back be ready, and what is the time.
SELECT {going} AND (EXISTS(SELECT 1 FROM {groups} g {x} AND g.priority>=?2 AND g.paused=0 AND (SELECT k.due {head})<={look_at} AND NOT {live({look_at})})
OR EXISTS(SELECT 1 FROM {groups} g INDEXED BY {g_due} WHERE g.ready_at<>0 AND g.ready_at<={look_at} AND g.priority>=?2 AND g.paused=0 AND (SELECT k.due {head})<={look_at} AND NOT {live({look_at})})),
(SELECT min(ready_at) FROM {groups} INDEXED BY {g_due} WHERE ready_at<>0 AND ready_at>{look_at} AND ready_at<9e15), {t}

-- name: look
-- For all priorities.
{look_through(INDEXED BY {g_ready} WHERE g.ready_at=0)}

-- name: look_high
-- For priorities of 1 and more: found by index behind any number of others.
{look_through(INDEXED BY {g_pri} WHERE g.ready_at=0 AND g.priority<>0)}

-- fragment: look_among
-- The same among the groups whose id is {x}; when the next of them is ready, and the time.
WITH n(x) AS (SELECT {look_at}) SELECT {going} AND EXISTS(SELECT 1 FROM n CROSS JOIN {groups} g INDEXED BY {g_key} WHERE g.group_id{x} AND g.ready_at<=n.x AND g.priority>=?2 AND g.paused=0
AND (SELECT k.due {head})<=n.x AND NOT {live(n.x)}), (SELECT min(g.ready_at) FROM n CROSS JOIN {groups} g INDEXED BY {g_key} WHERE g.group_id{x} AND g.ready_at>n.x AND g.ready_at<8e15), {t}

-- name: look_list
-- ?3 a JSON list of groups.
{look_among( IN (SELECT value FROM json_each(?3)))}

-- name: look_prefix
-- ?3 a JSON list of two bounds.
{look_among(>=?3->>0 AND g.group_id<?3->>1)}

-- name: tidy
-- Groups that stand among the claimable ones but are held back leave that index, some at a time; sent after a
-- claim that came back short.
UPDATE {groups} SET ready_at={ready_at} WHERE rowid IN (SELECT g.rowid FROM {groups} g INDEXED BY {g_ready} WHERE g.ready_at=0 ORDER BY g.turn,g.rowid LIMIT 500)

-- name: tidy_high
-- The same after a claim with min_priority ?1.
UPDATE {groups} SET ready_at={ready_at} WHERE rowid IN (SELECT g.rowid FROM {groups} g INDEXED BY {g_pri} WHERE g.ready_at=0 AND g.priority<>0 AND g.priority>=?1 ORDER BY g.priority,g.turn,g.rowid LIMIT 500)

-- name: ack_verdict
-- ?1 [[seq,token,group],..], ?2 lane: the positions that were lost, decided once and obeyed by all that follows.
UPDATE {lane} SET lost_a=(SELECT json_group_array(j.key) FROM json_each(?1) j WHERE NOT EXISTS(SELECT 1 FROM {messages} m WHERE {same_lease})) WHERE lane=?2

-- name: guard
-- Rolls all back when one of the acks was lost: what is bundled with them must not happen then.
UPDATE {lane} SET n=NULL WHERE lane=?1 AND lost_a<>'[]'

-- name: ack_lost
-- The positions of ?1 that are lost: asked after a guard refused, and good then, since a lost lease stays lost.
SELECT json_group_array(x) FROM (SELECT j.key AS x FROM json_each(?1) j WHERE NOT EXISTS(SELECT 1 FROM {messages} m WHERE {same_lease}) UNION ALL SELECT j.key FROM json_each(?1) j WHERE j.value->>3 IS NOT NULL AND {run_ended(j.value->>3)})

-- fragment: locked_of
-- The locked messages of the groups of list ?1, whatever statistics say; {x} says which of them.
INDEXED BY {m_lock} WHERE group_id IN (SELECT value->>2 FROM json_each(?1)) AND locked_by IS NOT NULL AND seq IN (SELECT value->>0 FROM json_each(?1) WHERE {x})

-- name: ack_delete
DELETE FROM {messages} {locked_of(key NOT IN (SELECT value FROM json_each((SELECT lost_a FROM {lane} WHERE lane=?2))))}

-- fragment: lost_n
(SELECT value FROM json_each((SELECT lost_n FROM {lane} WHERE lane=?2)))

-- name: settle_verdict
-- ?1 [[seq,token,group,operation,argument],..], ?2 lane.  Operations: 1 nack, 2 park, 3 defer, 4 extend, 5 dead
-- letter, 6 give back unworked.  An extend of a lapsed lease is refused when the group has gone on with another message.
UPDATE {lane} SET lost_n=(SELECT json_group_array(j.key) FROM json_each(?1) j WHERE NOT EXISTS(SELECT 1 FROM {messages} m WHERE {same_lease}
AND NOT (j.value->>3=4 AND m.lock_expiry<{t} AND EXISTS(SELECT 1 FROM {messages} o INDEXED BY {m_lock} WHERE o.group_id=m.group_id AND o.locked_by IS NOT NULL AND o.lock_expiry>={t})))) WHERE lane=?2

-- name: dead_insert
-- Dead letters keep all that a redrive needs.  The argument is a list: the reason, and the text of an error.
INSERT INTO {dead}(seq,group_id,event,rank,due,attempts,headers,published_at,priority,reason,error,died_at)
SELECT m.seq,m.group_id,m.event,m.rank,m.due,m.attempts,m.headers,m.published_at,coalesce((SELECT priority FROM {groups} g WHERE g.group_id=m.group_id),0),j.value->4->>0,j.value->4->>1,{t}
FROM json_each(?1) j CROSS JOIN {messages} m ON m.seq=j.value->>0 WHERE j.value->>3=5 AND j.key NOT IN {lost_n}

-- name: dead_delete
-- They leave the queue in the same transaction.
DELETE FROM {messages} {locked_of(value->>3=5 AND key NOT IN {lost_n})}

-- name: settle_apply
-- The list is materialized (that is what its LIMIT is for), then each message is looked up by its seq.
-- Parking keeps the place and blocks the group, deferring gives a later due time, giving back unworked takes
-- the attempt back.
UPDATE {messages} SET locked_by=CASE o WHEN 2 THEN '__parked__' WHEN 4 THEN {messages}.locked_by END,
lock_expiry=CASE WHEN o IN (2,4) THEN {t}+a ELSE 0 END,
due=CASE o WHEN 3 THEN {t}+a ELSE due END,
attempts=CASE o WHEN 6 THEN attempts-1 ELSE attempts END
FROM (SELECT j.value->>0 AS s, j.value->>3 AS o, j.value->>4 AS a FROM json_each(?1) j WHERE j.value->>3<>5 AND j.key NOT IN {lost_n} ORDER BY j.key LIMIT 1000000) c
WHERE {messages}.seq=c.s AND {messages}.seq BETWEEN ?3 AND ?4

-- name: groups_ready
-- ?1 [[group,..],..]: says anew when each of these groups can be claimed.
UPDATE {groups} INDEXED BY {g_key} SET ready_at={ready_at} WHERE group_id IN (SELECT value->>0 FROM json_each(?1))

-- name: groups_drain
{drain}

-- Runs: consecutive messages of one group in the hands of one worker.  The token of a run ends with "+" and the turn
-- of its group: whoever claims from the group after the lease has lapsed ends all of the run, not only what it took.
-- In the lists of settlements that turn is one more item of a row; the rows of other leases have none.

-- name: run_claim
-- ?1 the token without its turn, ?2 visibility, ?3 how many: after a claim of one group, which stamped it (the view), its
-- head and what follows, up to the first message that is not due.  Their due times say in which order they come.
UPDATE {messages} SET locked_by=?1||(SELECT turn FROM {state}), lock_expiry={t}+?2, attempts=attempts+1 WHERE seq IN (SELECT s FROM (SELECT seq AS s, max(due) OVER (ORDER BY rank,due,seq ROWS UNBOUNDED PRECEDING) AS latest
FROM {messages} INDEXED BY {m_head} WHERE group_id=(SELECT id FROM {stamped} WHERE until={t}+?2) ORDER BY rank,due,seq LIMIT ?3) WHERE latest<={t})
RETURNING seq,group_id,event,attempts,rank,headers,published_at,lock_expiry,(SELECT max(g.priority,0) FROM {groups} g WHERE g.group_id=CAST({messages}.group_id AS TEXT)),(SELECT turn FROM {state}),due

-- name: run_read
-- What the run of token ?1 holds, read again after a lost reply; nothing once somebody else has claimed from the group.
SELECT m.seq,m.group_id,m.event,m.attempts,m.rank,m.headers,m.published_at,m.lock_expiry,max(g.priority,0),g.turn,m.due
FROM {messages} m INDEXED BY {m_lock} CROSS JOIN {groups} g INDEXED BY {g_key} ON g.group_id=m.group_id AND m.locked_by=?1||g.turn WHERE m.locked_by IS NOT NULL AND m.locked_by>?1 AND m.locked_by<?1||':'

-- fragment: is_run
-- Whether message {x} has the token of a run.
rtrim({x}.locked_by,'0123456789') GLOB '~*+'

-- fragment: run_ended
-- Whether the run of row j, whose turn is {x}, has ended: its group was claimed from again.
NOT EXISTS(SELECT 1 FROM {groups} g INDEXED BY {g_key} WHERE g.group_id=j.value->>2 AND g.turn={x})

-- fragment: run_earlier
-- The last message of m's run where {x}.
(SELECT seq FROM {messages} INDEXED BY {m_head} WHERE locked_by=m.locked_by AND group_id=m.group_id AND rank{x} DESC)

-- fragment: run_before
-- What comes just before m in its run: of those due at the same time, else due before, else of a smaller rank.
coalesce({run_earlier(=m.rank AND due=m.due AND seq<m.seq ORDER BY seq)},{run_earlier(=m.rank AND due<m.due ORDER BY due DESC,seq)},{run_earlier(<m.rank ORDER BY rank DESC,due DESC,seq)})

-- name: run_acks
-- After ack_verdict, where runs are among the acks, and for the statement that follows: position, seq, turn, and what
-- comes just before it in its run, of each of these.
UPDATE {lane} SET picked=(SELECT json_group_array(json_array(j.key,m.seq,j.value->>3,{run_before})) FROM json_each(?1) j CROSS JOIN {messages} m ON {same_lease} WHERE j.value->>3 IS NOT NULL) WHERE lane=?2

-- name: run_ack_verdict
-- Acks of a run that has ended are lost.  Others fit (f) when the ack of what comes just before stands before them in
-- the list, and are refused from the first on that does not: then the list has -1-k beside the position k.
UPDATE {lane} SET picked=NULL, lost_a=(SELECT json_group_array(x) FROM (SELECT value AS x FROM json_each(lost_a) UNION ALL SELECT iif(n,-1-k,k)
FROM (SELECT k, iif(o,1,2*(0=min(f) OVER (PARTITION BY b ORDER BY r,d,s ROWS UNBOUNDED PRECEDING))) AS v FROM (SELECT j.value->>0 AS k, m.locked_by AS b, m.rank AS r, m.due AS d, m.seq AS s,
NOT EXISTS(SELECT 1 FROM {groups} g INDEXED BY {g_key} WHERE g.group_id=m.group_id AND g.turn=j.value->>2) AS o, j.value->>3 IS lag(m.seq) OVER w AND j.value->>0>lag(j.value->>0,1,-1) OVER w AS f
FROM json_each(picked) j CROSS JOIN {messages} m ON m.seq=j.value->>1 WINDOW w AS (PARTITION BY m.locked_by ORDER BY m.rank,m.due,m.seq))), (SELECT 0 AS n UNION ALL SELECT 1) WHERE n<v)) WHERE lane=?2

-- name: run_settle_verdict
-- After settle_verdict, where runs are among the settlements.
UPDATE {lane} SET lost_n=(SELECT json_group_array(x) FROM (SELECT value AS x FROM json_each(lost_n) UNION ALL SELECT j.key FROM json_each(?1) j WHERE j.value->>5 IS NOT NULL AND {run_ended(j.value->>5)})) WHERE lane=?2

-- name: run_rest
-- Before settle_apply, which may move the message: what comes after one that is given back goes back with it, unspent.
UPDATE {messages} INDEXED BY {m_lock} SET locked_by=NULL, lock_expiry=0, attempts=attempts-1
FROM (SELECT m.group_id AS g, m.locked_by AS b, m.rank AS r, m.due AS d, m.seq AS s FROM json_each(?1) j CROSS JOIN {messages} m ON m.seq=j.value->>0 WHERE j.value->>5 IS NOT NULL AND j.value->>3 IN (1,2,3,6) AND j.key NOT IN {lost_n} ORDER BY j.key LIMIT 1000000) c
WHERE {messages}.group_id=c.g AND {messages}.locked_by=c.b AND ({messages}.rank,{messages}.due,{messages}.seq)>(r,d,s)

-- name: run_extend
-- After settle_apply: one is extended, all are; of several the last counts.
UPDATE {messages} INDEXED BY {m_lock} SET lock_expiry={t}+a
FROM (SELECT j.value->>2 AS g, j.value->>1 AS b, j.value->>4 AS a, max(j.key) FROM json_each(?1) j WHERE j.value->>5 IS NOT NULL AND j.value->>3=4 AND j.key NOT IN {lost_n} GROUP BY b) c WHERE {messages}.group_id=c.g AND {messages}.locked_by=c.b
