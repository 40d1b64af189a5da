-- The tables of one queue.  "messages" and "groups" are those of the plain transport (the first two statements
-- make them exactly as it does), so that a database it made is upgraded in place by the same statements.

-- name: registry
-- Which queues stand in this database, and the version of their tables; '' is the default queue.
CREATE TABLE IF NOT EXISTS rqfast_schema(queue TEXT PRIMARY KEY, version INT NOT NULL) WITHOUT ROWID

-- name: registry_add
-- Before all others: fails, and so rolls all back, when another process was first.
INSERT INTO rqfast_schema(queue,version) VALUES(?1,?2)

-- name: messages
CREATE TABLE IF NOT EXISTS {messages}(seq INTEGER PRIMARY KEY AUTOINCREMENT, group_id TEXT NOT NULL, event TEXT NOT NULL, locked_by TEXT, lock_expiry REAL)

-- name: groups
CREATE TABLE IF NOT EXISTS {groups}(group_id TEXT PRIMARY KEY, last_claimed_at REAL NOT NULL DEFAULT 0.0, priority INT NOT NULL DEFAULT 0)

-- name: messages_rank
ALTER TABLE {messages} ADD COLUMN rank INT NOT NULL DEFAULT 0

-- name: messages_due
ALTER TABLE {messages} ADD COLUMN due REAL NOT NULL DEFAULT 0

-- name: messages_attempts
ALTER TABLE {messages} ADD COLUMN attempts INT NOT NULL DEFAULT 0

-- name: messages_headers
ALTER TABLE {messages} ADD COLUMN headers TEXT

-- name: messages_published_at
ALTER TABLE {messages} ADD COLUMN published_at REAL

-- name: groups_ready_at
-- A hint: it may be early, never late.
ALTER TABLE {groups} ADD COLUMN ready_at REAL NOT NULL DEFAULT 0

-- name: groups_turn
ALTER TABLE {groups} ADD COLUMN turn INT NOT NULL DEFAULT 0

-- name: groups_paused
ALTER TABLE {groups} ADD COLUMN paused INT NOT NULL DEFAULT 0

-- name: m_head
-- Claim order; seq, the rowid, is its hidden last column.
CREATE INDEX {m_head} ON {messages}(group_id,rank,due)

-- name: m_lock
-- Live leases and parked messages of a group.
CREATE INDEX {m_lock} ON {messages}(group_id,lock_expiry) WHERE locked_by IS NOT NULL

-- name: g_ready
-- Claimable groups in turn order; those held back are not in it.
CREATE INDEX {g_ready} ON {groups}(turn) WHERE ready_at=0

-- name: g_pri
-- The same for groups of priority 1 to 4.
CREATE INDEX {g_pri} ON {groups}(priority,turn) WHERE ready_at=0 AND priority<>0

-- name: g_due
-- Groups held back, by when that ends.  (Of ready_at>0 the planner would make a range, and walk it instead of
-- searching, where its statistics say that few times are in it.)
CREATE INDEX {g_due} ON {groups}(ready_at) WHERE ready_at<>0

-- name: state
-- One row: the queue's time, the turn given last, that of a new group.
CREATE TABLE {state}(id INTEGER PRIMARY KEY CHECK(id=1), t REAL NOT NULL, turn INT NOT NULL, fresh INT NOT NULL DEFAULT 1, busy INT NOT NULL DEFAULT 0, paused INT NOT NULL DEFAULT 0, boot TEXT, boot_t REAL)

-- name: lane
-- One row for each lane of a client: the number of its last request, and what of it cannot be asked again.
-- done, upto and picked belong to operating calls (operate.sql).
CREATE TABLE {lane}(lane TEXT PRIMARY KEY, n INT NOT NULL, at REAL NOT NULL, base INT, lost_a TEXT, lost_n TEXT, done INT, upto INT, picked TEXT) WITHOUT ROWID

-- name: dedup
CREATE TABLE {dedup}(id TEXT PRIMARY KEY, seq INT NOT NULL, until REAL NOT NULL) WITHOUT ROWID

-- name: d_until
CREATE INDEX {d_until} ON {dedup}(until)

-- name: dead
CREATE TABLE {dead}(seq INTEGER PRIMARY KEY, group_id TEXT NOT NULL, event TEXT NOT NULL, rank INT NOT NULL, due REAL NOT NULL, attempts INT NOT NULL, headers TEXT, published_at REAL, priority INT NOT NULL, reason TEXT, error TEXT, died_at REAL NOT NULL)

-- name: x_group
CREATE INDEX {x_group} ON {dead}(group_id)

-- name: any
-- Candidates of a claim; views, so that the text of a claim stays short.
CREATE VIEW {any} AS SELECT g.turn AS turn, g.rowid AS r, g.group_id AS id FROM {groups} g INDEXED BY {g_ready}
WHERE g.ready_at=0 AND g.paused=0 AND (SELECT k.due {head})<={t} AND NOT {live({t})}

-- name: high
-- The same for groups of priority 1 to 4.
CREATE VIEW {high} AS SELECT g.priority AS priority, g.turn AS turn, g.rowid AS r, g.group_id AS id FROM {groups} g INDEXED BY {g_pri}
WHERE g.ready_at=0 AND g.priority<>0 AND g.paused=0 AND (SELECT k.due {head})<={t} AND NOT {live({t})}

-- name: keyed
-- The same as any, for a claim that names its groups: these it finds by their ids.
CREATE VIEW {keyed} AS SELECT g.priority AS priority, g.turn AS turn, g.rowid AS r, g.group_id AS id FROM {groups} g INDEXED BY {g_key}
WHERE g.ready_at<={t} AND g.paused=0 AND (SELECT k.due {head})<={t} AND NOT {live({t})}

-- name: served
-- The head of each group that is held back until a time.
CREATE VIEW {served} AS SELECT g.ready_at AS until, g.turn AS turn, (SELECT k.seq {head}) AS h FROM {groups} g INDEXED BY {g_due} WHERE g.ready_at<>0

-- name: stamped
-- The groups that the request marks as served, and of which it has taken nothing yet.
CREATE VIEW {stamped} AS SELECT g.ready_at AS until, g.group_id AS id FROM {groups} g INDEXED BY {g_due} WHERE g.ready_at<>0 AND g.turn=(SELECT turn FROM {state}) AND NOT {live({t})}

-- name: shown
-- Each group as an operator sees it: h is its head, l the message whose lock ends last, whether that has lapsed or not.
CREATE VIEW {shown}(group_id,priority,paused,depth,seq,attempts,at,due,token,until) AS SELECT g.group_id, g.priority, g.paused OR (SELECT paused FROM {state}),
(SELECT count(*) FROM {messages} k INDEXED BY {m_head} WHERE k.group_id=g.group_id), h.seq, h.attempts, h.published_at, h.due, l.locked_by, l.lock_expiry
FROM {groups} g LEFT JOIN {messages} h ON h.seq=(SELECT k.seq {head}) LEFT JOIN {messages} l
ON l.seq=(SELECT o.seq FROM {messages} o INDEXED BY {m_lock} WHERE o.group_id=g.group_id AND o.locked_by IS NOT NULL ORDER BY o.lock_expiry DESC,o.seq DESC LIMIT 1)

-- name: old_groups
-- A database of the plain transport may hold messages whose group has no row.
INSERT OR IGNORE INTO {groups}(group_id) SELECT DISTINCT group_id FROM {messages}

-- name: old_turns
-- Its groups keep the order in which they were served.
UPDATE {groups} SET turn=o.turn FROM (SELECT group_id, row_number() OVER (ORDER BY last_claimed_at, group_id) AS turn FROM {groups}) o WHERE o.group_id={groups}.group_id

-- name: state_row
INSERT INTO {state}(id,t,turn) SELECT 1,0,2+count(*) FROM {groups}

-- name: old_ready
UPDATE {groups} SET ready_at={ready_at}
