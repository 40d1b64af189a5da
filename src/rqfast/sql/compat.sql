-- What keeps the publishers and workers of the plain transport in order while they share the default queue: triggers,
-- which stand from the making of the tables until `rqfast schema finish`.
--
-- What rqfast does tells itself apart: its messages have a published_at, its groups a turn, its tokens begin with ~.
-- Only its settlements look like those of an old worker, so a request raises the flag busy at its beginning and lowers
-- it at its end.  An old worker that is refused sees that nothing was changed: no message to
-- claim, an acknowledgement that had no effect.

-- They are short: SQLite compiles them anew with every statement that could fire them.  So ready_at is not reckoned
-- here but set where it is certainly not late.

-- fragment: not_ours
-- No request of rqfast is being applied.
(SELECT busy FROM {state})=0

-- fragment: group_row
-- The row of group {x}, by index whatever statistics say; INDEXED BY cannot stand at the UPDATE itself.
rowid=(SELECT g.rowid FROM {groups} g INDEXED BY {g_key} WHERE g.group_id={x})

-- name: old_publish
-- A message of an old publisher is due at the queue's time of its commit, as any plain one.
CREATE TRIGGER {old_publish} AFTER INSERT ON {messages} WHEN NEW.published_at IS NULL AND {not_ours} BEGIN
UPDATE {messages} SET due={t} WHERE seq=NEW.seq;
UPDATE {groups} SET ready_at=0 WHERE {group_row(NEW.group_id)} AND ready_at>0 AND paused=0; END

-- name: old_group
-- A group that it makes gets the turn of a new one.
CREATE TRIGGER {old_group} AFTER INSERT ON {groups} WHEN NEW.turn=0 BEGIN
UPDATE {groups} SET turn=(SELECT turn-1 FROM {state}) WHERE rowid=NEW.rowid; END

-- name: old_claim
-- An old worker may take only the head, when it is due, in a group that is not paused and where rqfast holds nothing.
-- Else the group goes to the end of the old workers' turns, so that they find another one.
CREATE TRIGGER {old_claim} BEFORE UPDATE OF locked_by ON {messages} WHEN NEW.locked_by NOT GLOB '~*' AND NEW.locked_by<>'__parked__' AND {not_ours}
AND (NEW.due>{t} OR NEW.seq<>(SELECT k.seq FROM {messages} k INDEXED BY {m_head} WHERE k.group_id=NEW.group_id ORDER BY k.rank,k.due,k.seq LIMIT 1)
OR (SELECT paused FROM {state}) OR (SELECT g.paused FROM {groups} g INDEXED BY {g_key} WHERE g.group_id=NEW.group_id)
OR EXISTS(SELECT 1 FROM {messages} l INDEXED BY {m_lock} WHERE l.group_id=NEW.group_id AND l.locked_by IS NOT NULL AND l.lock_expiry>={t} AND l.locked_by GLOB '~*')) BEGIN
UPDATE {groups} SET last_claimed_at=max(last_claimed_at,NEW.lock_expiry) WHERE {group_row(NEW.group_id)};
SELECT RAISE(IGNORE); END

-- name: old_nack
-- An old worker that gives back what an rqfast worker holds is late: its own lease has lapsed before.
CREATE TRIGGER {old_nack} BEFORE UPDATE OF locked_by ON {messages} WHEN (NEW.locked_by GLOB '~*') IS NOT TRUE AND OLD.locked_by GLOB '~*' AND OLD.lock_expiry>={t} AND {not_ours} BEGIN
SELECT RAISE(IGNORE); END

-- name: old_ack
-- So is one that acknowledges it.
CREATE TRIGGER {old_ack} BEFORE DELETE ON {messages} WHEN OLD.locked_by GLOB '~*' AND {not_ours} AND OLD.lock_expiry>={t} BEGIN
SELECT RAISE(IGNORE); END

-- name: old_held
-- After a claim or a nack of an old worker: when the group can be claimed again, and an attempt more.
CREATE TRIGGER {old_held} AFTER UPDATE OF locked_by ON {messages} WHEN (NEW.locked_by GLOB '~*') IS NOT TRUE AND {not_ours} BEGIN
UPDATE {groups} SET ready_at=iif(NEW.locked_by IS NULL,0,NEW.lock_expiry) WHERE {group_row(NEW.group_id)} AND paused=0;
UPDATE {messages} SET attempts=attempts+1 WHERE seq=NEW.seq AND NEW.locked_by<>'__parked__'; END

-- name: old_run
-- A run in that group has lapsed, and is over: a claim of rqfast would tell it by the turn of the group.
CREATE TRIGGER {old_run} AFTER UPDATE OF locked_by ON {messages} WHEN (NEW.locked_by GLOB '~*') IS NOT TRUE AND {not_ours} BEGIN
UPDATE {messages} SET locked_by=NULL, lock_expiry=0 FROM (SELECT l.seq AS s FROM {messages} l INDEXED BY {m_lock} WHERE l.group_id=NEW.group_id AND l.locked_by IS NOT NULL AND l.lock_expiry<{t} AND {is_run(l)} ORDER BY l.seq LIMIT 1000000) c WHERE {messages}.seq=c.s; END

-- name: old_done
-- After its acknowledgement.
CREATE TRIGGER {old_done} AFTER DELETE ON {messages} WHEN {not_ours} BEGIN
UPDATE {groups} SET ready_at=0 WHERE {group_row(OLD.group_id)} AND paused=0; END

-- name: old_drain
-- A paused group stays when its last message goes.
CREATE TRIGGER {old_drain} BEFORE DELETE ON {groups} WHEN OLD.paused BEGIN
SELECT RAISE(IGNORE); END
