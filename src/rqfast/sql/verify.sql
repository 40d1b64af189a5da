-- What `rqfast verify` reads, and how it mends what is derived.  Names and rules of the text are those of queue.sql.
--
-- Reads that look for what must not be: each row is a subject (a group, a seq, ..) and two things to say of it, after
-- the number of such rows.  ?1 is the most rows.  No token and no payload is read.

-- fragment: found
SELECT count(*) OVER (),subject,a,b FROM ({x}) ORDER BY subject LIMIT ?1

-- fragment: without_row
-- Messages m whose group has no row.
NOT EXISTS(SELECT 1 FROM {groups} g INDEXED BY {g_key} WHERE g.group_id=m.group_id)

-- fragment: drained
-- Group g has no message and no reason to stay.
g.paused=0 AND NOT EXISTS(SELECT 1 FROM {messages} m INDEXED BY {m_head} WHERE m.group_id=g.group_id)

-- fragment: too_late
-- Groups whose hint is later than the truth, and not over; those without a message have none.
SELECT r,id,hint,truth FROM (SELECT rowid AS r,group_id AS id,ready_at AS hint,{ready_at} AS truth FROM {groups}) WHERE truth<>8e15 AND hint>max(truth,{t})

-- fragment: largest
-- The largest seq that is in use, below 2**53: a larger one was not given by a queue.
(SELECT max(s) FROM (SELECT max(seq) AS s FROM {messages} UNION ALL SELECT max(seq) FROM {dead} UNION ALL SELECT max(seq) FROM {dedup} WHERE typeof(seq)='integer') WHERE s<9007199254740992)

-- fragment: latest_turn
(SELECT max(g.turn) FROM {groups} g WHERE typeof(g.turn)='integer' AND g.turn<9007199254740992)

-- name: state_row
{found(SELECT 'state' AS subject, n AS a, NULL AS b FROM (SELECT count(*) AS n FROM {state}) WHERE n<>1)}

-- name: state_value
{found(SELECT 'state' AS subject, CAST(t AS TEXT) AS a, CAST(turn AS TEXT) AS b FROM {state} WHERE typeof(t) NOT IN ('real','integer') OR t<0 OR t>=8e15 OR typeof(turn)<>'integer' OR turn<0 OR paused NOT IN (0,1))}

-- name: state_busy
{found(SELECT 'state' AS subject, busy AS a, NULL AS b FROM {state} WHERE busy<>0)}

-- name: group_missing
{found(SELECT m.group_id AS subject, count(*) AS a, min(m.seq) AS b FROM {messages} m INDEXED BY {m_head} WHERE {without_row} GROUP BY m.group_id)}

-- name: group_empty
{found(SELECT g.group_id AS subject, g.turn AS a, NULL AS b FROM {groups} g WHERE {drained})}

-- name: group_late
{found(SELECT id AS subject, CAST(hint AS TEXT) AS a,truth AS b FROM ({too_late}))}

-- name: group_priority
-- -1 stands for a group that was paused before it had a message.
{found(SELECT group_id AS subject, priority AS a, paused AS b FROM {groups} WHERE typeof(priority)<>'integer' OR priority>4 OR priority<iif(paused,-1,0))}

-- name: group_turn
{found(SELECT g.group_id AS subject, g.turn AS a, s.turn AS b FROM {groups} g CROSS JOIN {state} s WHERE typeof(g.turn)<>'integer' OR g.turn>s.turn)}

-- name: group_leases
-- Parked messages may stand beside what is left of the run they were part of; workers of the plain transport go by
-- clocks of their own.
{found(SELECT l.group_id AS subject, count(*) AS a, min(l.seq)||' and '||max(l.seq) AS b FROM {messages} l INDEXED BY {m_lock} WHERE l.locked_by IS NOT NULL AND l.locked_by<>'__parked__' AND l.lock_expiry>={t}
GROUP BY l.group_id HAVING count(*)>1 AND max(l.locked_by GLOB '~*') AND (min(l.locked_by)<>max(l.locked_by) OR NOT min({is_run(l)})))}

-- name: message_lock
-- Neither live nor lapsed: nobody could ever claim it.
{found(SELECT l.seq AS subject, l.group_id AS a, NULL AS b FROM {messages} l INDEXED BY {m_lock} WHERE l.locked_by IS NOT NULL AND typeof(l.lock_expiry) NOT IN ('real','integer'))}

-- name: message_value
{found(SELECT seq AS subject, group_id AS a, CAST(attempts AS TEXT) AS b FROM {messages} WHERE typeof(attempts)<>'integer' OR attempts<0 OR typeof(rank)<>'integer' OR typeof(due) NOT IN ('real','integer'))}

-- name: dead_again
{found(SELECT d.seq AS subject, d.group_id AS a, m.group_id AS b FROM {dead} d CROSS JOIN {messages} m ON m.seq=d.seq)}

-- name: dead_priority
{found(SELECT seq AS subject, group_id AS a, priority AS b FROM {dead} WHERE typeof(priority)<>'integer' OR priority NOT BETWEEN -1 AND 4)}

-- name: lane_number
{found(SELECT lane AS subject, CAST(n AS TEXT) AS a, NULL AS b FROM {lane} WHERE typeof(n)<>'integer' OR n<0)}

-- name: dedup_seq
-- Each id was given a seq of its own.
{found(SELECT id AS subject, CAST(seq AS TEXT) AS a, NULL AS b FROM {dedup} WHERE typeof(seq)<>'integer' OR seq<1 OR seq IN (SELECT e.seq FROM {dedup} e GROUP BY e.seq HAVING count(*)>1))}

-- name: sequence
{found(SELECT 'sqlite_sequence' AS subject, {last_seq} AS a, {largest} AS b WHERE {last_seq}<{largest})}

-- Mending, each statement with its own guard and any number of times; those with a LIMIT until nothing is left.

-- name: mend_group_missing
-- A group comes back with the highest priority that a dead letter of it remembers.
INSERT OR IGNORE INTO {groups}(group_id,priority,turn) SELECT id, max(0,coalesce((SELECT max(d.priority) FROM {dead} d INDEXED BY {x_group} WHERE d.group_id=id AND d.priority<=4),0)), (SELECT fresh FROM {state})
FROM (SELECT m.group_id AS id FROM {messages} m INDEXED BY {m_head} WHERE {without_row} GROUP BY m.group_id ORDER BY min(m.seq),m.group_id LIMIT 5000)

-- name: mend_group_empty
DELETE FROM {groups} WHERE rowid IN (SELECT g.rowid FROM {groups} g WHERE {drained} ORDER BY g.rowid LIMIT 5000)

-- name: mend_group_late
-- Early is never wrong: the next claim that comes short reckons it anew.
UPDATE {groups} SET ready_at=0 WHERE rowid IN (SELECT r FROM ({too_late}) ORDER BY r LIMIT 5000)

-- name: mend_group_priority
-- As resume does it.
UPDATE {groups} SET priority=0 WHERE priority=-1 AND paused=0

-- name: mend_group_turn
-- The counter only rises: fences that were given out stay below those to come.
UPDATE {state} SET turn={latest_turn} WHERE turn<{latest_turn}

-- name: mend_state_busy
UPDATE {state} SET busy=0 WHERE busy<>0

-- name: mend_sequence
UPDATE sqlite_sequence SET seq={largest} WHERE name='{messages_raw}' AND seq<{largest}

-- name: mend_sequence_row
INSERT INTO sqlite_sequence(name,seq) SELECT '{messages_raw}',{largest} WHERE {largest}>0 AND NOT EXISTS(SELECT 1 FROM sqlite_sequence WHERE name='{messages_raw}')

-- The tables as the nodes hold them.  ?1 and ?2 are JSON lists of the least key and of a key that is left out, ?3 the
-- most rows, ?4 the most characters of their payloads, but for the last row.

-- name: page_messages
SELECT p.seq, p.* FROM {messages} p WHERE p.seq>=?1->>0 AND p.seq IS NOT ?2->>0 AND p.seq<=(SELECT max(s) FROM (SELECT q.seq AS s, sum(length(q.event)) OVER (ORDER BY q.seq ROWS UNBOUNDED PRECEDING)-length(q.event) AS before
FROM (SELECT seq, event FROM {messages} WHERE seq>=?1->>0 AND seq IS NOT ?2->>0 ORDER BY seq LIMIT ?3) q) WHERE before<?4) ORDER BY p.seq

-- name: page_dead
SELECT p.seq, p.* FROM {dead} p WHERE p.seq>=?1->>0 AND p.seq IS NOT ?2->>0 AND p.seq<=(SELECT max(s) FROM (SELECT q.seq AS s, sum(length(q.event)) OVER (ORDER BY q.seq ROWS UNBOUNDED PRECEDING)-length(q.event) AS before
FROM (SELECT seq, event FROM {dead} WHERE seq>=?1->>0 AND seq IS NOT ?2->>0 ORDER BY seq LIMIT ?3) q) WHERE before<?4) ORDER BY p.seq

-- name: page_groups
-- Their rowids decide between groups of one turn.
SELECT p.group_id, p.rowid, p.* FROM {groups} p WHERE p.group_id>=?1->>0 AND p.group_id IS NOT ?2->>0 ORDER BY p.group_id LIMIT ?3

-- name: page_lane
SELECT p.lane, p.* FROM {lane} p WHERE p.lane>=?1->>0 AND p.lane IS NOT ?2->>0 ORDER BY p.lane LIMIT ?3

-- name: page_dedup
SELECT p.id, p.* FROM {dedup} p WHERE p.id>=?1->>0 AND p.id IS NOT ?2->>0 ORDER BY p.id LIMIT ?3

-- name: page_state
SELECT p.id, p.* FROM {state} p WHERE p.id>=?1->>0 AND p.id IS NOT ?2->>0 ORDER BY p.id LIMIT ?3

-- name: page_sequence
SELECT p.name, p.* FROM sqlite_sequence p WHERE p.name='{messages_raw}' AND p.name>=?1->>0 AND p.name IS NOT ?2->>0 ORDER BY p.name LIMIT ?3

-- name: page_registry
SELECT p.queue, p.* FROM rqfast_schema p WHERE p.queue>=?1->>0 AND p.queue IS NOT ?2->>0 ORDER BY p.queue LIMIT ?3

-- name: page_paused
SELECT p.subscription, p.* FROM rqfast_paused p WHERE p.subscription>=?1->>0 AND p.subscription IS NOT ?2->>0 ORDER BY p.subscription LIMIT ?3

-- name: page_objects
-- ?4 a JSON list of names.
SELECT p.name, p.type, p.sql FROM sqlite_master p WHERE p.name>=?1->>0 AND p.name IS NOT ?2->>0 AND p.name IN (SELECT value FROM json_each(?4)) ORDER BY p.name LIMIT ?3

-- name: objects
-- ?1 a list of names: what they are, and the text that made them.
SELECT name,type,sql FROM sqlite_master WHERE name IN (SELECT value FROM json_each(?1)) ORDER BY name

-- name: integrity
-- The pages and indexes of the file itself.
PRAGMA integrity_check(20)
