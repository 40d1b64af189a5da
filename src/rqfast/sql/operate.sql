-- What operators do to a queue and see of it.  Names and rules of the text are those of queue.sql.
--
-- Every write takes from one list of parameters: ?1 lane, ?2 a JSON list of the group, ?3 a seq or a JSON list of
-- seqs, ?4 and ?5 bounds, ?6 the most rows of this step.  (A name is never bound as it is: of one that looks like
-- X'61' the server would make a blob.)  A step writes down in its lane's row what it is about to do (done, how many;
-- picked, to what), and what follows obeys: so a result can be read again after a lost reply.

-- fragment: last_seq
-- The last seq that was given.
coalesce((SELECT seq FROM sqlite_sequence WHERE name='{messages_raw}'),0)

-- fragment: in_work
-- Whether row {x} is in work: under a live lease, not parked.
({x}.locked_by IS NOT NULL AND {x}.locked_by<>'__parked__' AND {x}.lock_expiry>={t})

-- fragment: picked
-- The rows of what the step wrote down: groups, or seqs of dead letters.
json_each((SELECT picked FROM {lane} WHERE lane=?1))

-- name: operate_ready
-- As groups_ready, of the groups that were written down.
UPDATE {groups} INDEXED BY {g_key} SET ready_at={ready_at} WHERE group_id IN (SELECT value FROM {picked})

-- name: operate_drain
{drain}

-- name: operate_forget
-- What was written down may be long, and is of no use any more.
UPDATE {lane} SET picked=NULL WHERE lane=?1

-- fragment: noted
(SELECT {x} FROM {lane} WHERE lane=?1)

-- name: operate_outcome
-- How many it did; upto, not NULL when there may be more, and base, its bound, are for the next step.
UPDATE {state} SET busy=0 RETURNING {noted(n)},{noted(base)},{noted(done)},{noted(upto)},t,{work_hint}

-- name: operate_outcome_again
-- The same, read after a lost reply.
SELECT n,base,done,upto,{t},{work_hint} FROM {lane} WHERE lane=?1

-- name: pause_group
-- A group without messages gets a row too, so that it is paused when some come; its priority is still to be set.
INSERT INTO {groups}(group_id,priority,turn,ready_at,paused) SELECT ?2->>0,-1,fresh,9e15,1 FROM {state} WHERE 1 ON CONFLICT(group_id) DO UPDATE SET paused=1, ready_at=9e15

-- name: resume_group
-- A publisher of the plain transport leaves the priority as it was.
UPDATE {groups} INDEXED BY {g_key} SET paused=0, priority=max(priority,0) WHERE group_id=?2->>0

-- name: pick_group
-- The group of the call.
UPDATE {lane} SET picked=?2 WHERE lane=?1

-- name: pause_queue
-- No claim finds anything from now on; all else goes on.
UPDATE {state} SET paused=1

-- name: resume_queue
-- Groups that were paused one by one stay so.
UPDATE {state} SET paused=0

-- name: release_count
-- Lapsed leases count: their holders could settle until now.  Not what is left of a run that has ended.
UPDATE {lane} SET picked=?2, done=(SELECT count(*) FROM {messages} m INDEXED BY {m_lock} WHERE m.group_id=?2->>0 AND m.locked_by IS NOT NULL AND (m.locked_by<>'__parked__' OR m.lock_expiry>={t})
AND NOT ({is_run(m)} AND m.locked_by NOT GLOB '*+'||(SELECT g.turn FROM {groups} g INDEXED BY {g_key} WHERE g.group_id=m.group_id))) WHERE lane=?1

-- name: release
-- Attempts stay: the message was in work.
UPDATE {messages} INDEXED BY {m_lock} SET locked_by=NULL, lock_expiry=0 WHERE group_id=?2->>0 AND locked_by IS NOT NULL

-- name: delete_count
UPDATE {lane} SET (done,picked)=(SELECT count(*),json_group_array(m.group_id) FROM {messages} m WHERE m.seq=?3 AND NOT {in_work(m)}) WHERE lane=?1

-- name: delete
DELETE FROM {messages} WHERE seq=?3 AND NOT {in_work({messages})}

-- fragment: group_rows
-- The next rows of group ?2 to go: not what is in work, nor what was published after the call began (?5).
(SELECT k.rank,k.due,k.seq FROM {messages} k INDEXED BY {m_head} WHERE k.group_id=?2->>0 AND k.seq<=coalesce(?5,{last_seq}) AND NOT {in_work(k)} ORDER BY k.rank,k.due,k.seq LIMIT ?6)

-- name: purge_group_count
-- How many they are,
UPDATE {lane} SET picked=?2, base=coalesce(?5,{last_seq}), done=(SELECT count(*) FROM {group_rows}) WHERE lane=?1

-- name: purge_group_last
-- and which is the last.
UPDATE {lane} SET upto=(SELECT seq FROM {group_rows} ORDER BY rank DESC,due DESC,seq DESC LIMIT 1) WHERE lane=?1

-- name: purge_group
-- A range of the index of heads, so that no statistics make it a walk of the table.
DELETE FROM {messages} INDEXED BY {m_head} WHERE group_id=?2->>0 AND (rank,due,seq)<=(SELECT k.rank,k.due,k.seq FROM {messages} k WHERE k.seq=(SELECT upto FROM {lane} WHERE lane=?1))
AND seq<=(SELECT base FROM {lane} WHERE lane=?1) AND NOT {in_work({messages})}

-- name: purge_group_end
-- Fewer than were wanted: there are no more.
UPDATE {lane} SET upto=NULL WHERE lane=?1 AND done<?6

-- fragment: queue_rows
-- The rows of this step that go: after ?4, up to where it ends.
{x}.seq>?4 AND {x}.seq<=(SELECT coalesce(upto,base) FROM {lane} WHERE lane=?1) AND NOT {in_work({x})}

-- name: purge_queue_step
-- Where this step ends; those in work count, so that it is short whatever it finds.
UPDATE {lane} SET base=coalesce(?5,{last_seq}), upto=(SELECT iif(count(*)=?6,max(seq),NULL) FROM (SELECT k.seq FROM {messages} k WHERE k.seq>?4 AND k.seq<=coalesce(?5,{last_seq}) ORDER BY k.seq LIMIT ?6)) WHERE lane=?1

-- name: purge_queue_count
UPDATE {lane} SET (done,picked)=(SELECT count(*), json_group_array(DISTINCT k.group_id) FROM {messages} k WHERE {queue_rows(k)}) WHERE lane=?1

-- name: purge_queue
DELETE FROM {messages} WHERE {queue_rows({messages})}

-- fragment: redrive_pick
-- The next dead letters {x}, in the order of their seqs; not those that died after the call began (?5).
UPDATE {lane} SET base=coalesce(?5,{t}), (done,upto,picked)=(SELECT count(*), iif(count(*)=?6,max(s),NULL), json_group_array(s) FROM (SELECT d.seq AS s FROM {dead} d {x} AND d.seq>?4 AND d.died_at<=coalesce(?5,{t}) ORDER BY d.seq LIMIT ?6)) WHERE lane=?1

-- name: redrive_pick_all
{redrive_pick(WHERE 1)}

-- name: redrive_pick_group
{redrive_pick(INDEXED BY {x_group} WHERE d.group_id=?2->>0)}

-- name: redrive_pick_seqs
-- ?3 a list, ?4 and ?5 its least and greatest: which of them are there, and of group ?2 where one is named.
UPDATE {lane} SET (done,picked)=(SELECT count(*), json_group_array(s) FROM (SELECT d.seq AS s FROM {dead} d WHERE d.seq BETWEEN ?4 AND ?5 AND d.seq IN (SELECT value FROM json_each(?3)) AND (?2 IS NULL OR d.group_id=?2->>0) ORDER BY d.seq LIMIT ?6)) WHERE lane=?1

-- name: redrive_insert
-- Under their old seqs and due times, so in their old order and ahead of what was published later.
INSERT INTO {messages}(seq,group_id,event,rank,due,headers,published_at) SELECT d.seq,d.group_id,d.event,d.rank,d.due,d.headers,d.published_at FROM {picked} j CROSS JOIN {dead} d ON d.seq=j.value

-- name: redrive_groups
-- A group that has gone since comes back with the highest priority it had.
INSERT INTO {groups}(group_id,priority,turn) SELECT d.group_id,max(d.priority),(SELECT fresh FROM {state}) FROM {picked} j CROSS JOIN {dead} d ON d.seq=j.value WHERE 1 GROUP BY d.group_id ORDER BY min(d.seq)
ON CONFLICT(group_id) DO UPDATE SET priority=excluded.priority WHERE {groups}.priority<0

-- name: redrive_ready
UPDATE {groups} INDEXED BY {g_key} SET ready_at={ready_at} WHERE group_id IN (SELECT d.group_id FROM {picked} j CROSS JOIN {dead} d ON d.seq=j.value)

-- name: redrive_delete
DELETE FROM {dead} WHERE seq IN (SELECT value FROM {picked}) AND seq BETWEEN (SELECT min(value) FROM {picked}) AND (SELECT max(value) FROM {picked})

-- fragment: drop_rows
seq BETWEEN ?4 AND ?5 AND seq IN (SELECT value FROM json_each(?3))

-- name: drop_count
UPDATE {lane} SET done=(SELECT count(*) FROM {dead} WHERE {drop_rows}) WHERE lane=?1

-- name: drop
DELETE FROM {dead} WHERE {drop_rows}

-- Plain reads.  ?1 is the client's estimate of the time.

-- name: stats_messages
-- One walk of an index: all messages, and those not yet due.
SELECT count(*), coalesce(sum(k.due>{look_at}),0), {look_at}, (SELECT count(*) FROM {dead}) FROM {messages} k INDEXED BY {m_head}

-- name: stats_held
-- What is in work, since when the longest, and what is parked.
SELECT coalesce(sum(m.locked_by<>'__parked__'),0), min(CASE WHEN m.locked_by<>'__parked__' THEN (SELECT g.last_claimed_at FROM {groups} g INDEXED BY {g_key} WHERE g.group_id=m.group_id) END), coalesce(sum(m.locked_by='__parked__'),0)
FROM {messages} m INDEXED BY {m_lock} WHERE m.locked_by IS NOT NULL AND m.lock_expiry>={look_at}

-- name: stats_groups
-- One walk of the groups.
SELECT count(*), coalesce(sum(g.paused<>0),0), (SELECT paused FROM {state}) FROM {groups} g

-- name: stats_claimable
-- The claim's own test, of each group that is not marked as held back.
SELECT count(*), min(CASE WHEN due>0 THEN due END) FROM (SELECT (SELECT k.due {head}) AS due FROM {groups} g WHERE {going} AND g.ready_at<={look_at} AND g.paused=0 AND NOT {live({look_at})}) WHERE due<={look_at}

-- fragment: state_of
-- What a group's pause, lock and head amount to.
CASE WHEN paused THEN 'paused' WHEN until>={look_at} THEN iif(token='__parked__','parked','in_work') WHEN due>{look_at} THEN 'delayed' ELSE 'claimable' END

-- fragment: groups_page
-- ?2 a state or NULL; ?3 the key and ?4 a JSON list of the group after which the page begins (no key: that of the
-- group as it is now); {x} is the key.
SELECT s.group_id,p.state,max(s.priority,0),s.depth,s.seq,s.attempts,s.at,s.due,s.token,s.until,{look_at}
FROM (SELECT group_id AS id, {x} AS key, {state_of} AS state FROM {shown}
WHERE (?2 IS NULL OR state=?2) AND (?4 IS NULL OR (key,id)>(coalesce(?3,(SELECT {x} FROM {shown} WHERE group_id=?4->>0)),?4->>0)) ORDER BY key,id LIMIT ?5) p
CROSS JOIN {shown} s ON s.group_id=p.id ORDER BY p.key,p.id

-- name: groups_oldest
{groups_page(coalesce(seq,9223372036854775807))}

-- name: groups_depth
{groups_page(-depth)}

-- name: groups_attempts
{groups_page(-coalesce(attempts,0))}

-- name: group_there
-- Whether the group after which a page begins stands.
SELECT count(*) FROM {groups} INDEXED BY {g_key} WHERE group_id=?1->>0

-- name: seq_given
-- The seq of the message that was published last.
SELECT {last_seq}

-- name: peek
-- ?1 a JSON list of a group: its messages in claim order.
SELECT k.seq,k.group_id,k.event,k.attempts,k.rank,k.headers,k.published_at,k.due,(SELECT max(priority,0) FROM {groups} INDEXED BY {g_key} WHERE group_id=?1->>0)
FROM {messages} k INDEXED BY {m_head} WHERE k.group_id=?1->>0 ORDER BY k.rank,k.due,k.seq LIMIT ?2

-- fragment: dead_page
SELECT d.seq,d.group_id,d.event,d.attempts,d.rank,d.headers,d.published_at,d.due,d.priority,d.reason,d.error,d.died_at FROM {dead} d {x} d.seq>?2 ORDER BY d.seq LIMIT ?3

-- name: dead_all
-- ?2 the seq after which the page begins.
{dead_page(WHERE)}

-- name: dead_group
-- The same of the group in the JSON list ?1.
{dead_page(INDEXED BY {x_group} WHERE d.group_id=?1->>0 AND)}
