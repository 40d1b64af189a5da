-- What is read and written when a transport opens.

-- name: registry_there
-- Whether any queue of rqfast stands in this database.
SELECT count(*) FROM sqlite_master WHERE type='table' AND name='rqfast_schema'

-- name: registry_read
-- The queues that stand here and the version of their tables.
SELECT queue,version FROM rqfast_schema ORDER BY queue LIMIT 10000

-- name: objects
-- ?1 a list of names: those of them that exist.
SELECT name FROM sqlite_master WHERE name IN (SELECT value FROM json_each(?1)) ORDER BY name

-- name: columns
-- The columns of the two tables that other programs know as well.
SELECT name FROM pragma_table_info('{messages_raw}') UNION ALL SELECT name FROM pragma_table_info('{groups_raw}')

-- name: old_leases
-- Messages that workers of the plain transport hold, by the queue's time.
SELECT count(*) FROM {messages} INDEXED BY {m_lock} WHERE locked_by IS NOT NULL AND locked_by NOT GLOB '~*' AND locked_by<>'__parked__' AND lock_expiry>={t}

-- fragment: held
-- Whether anything in the queue would be changed by a jump of its time: a lease, a parking, a delay.
(EXISTS(SELECT 1 FROM {messages} INDEXED BY {m_lock} WHERE locked_by IS NOT NULL)
OR EXISTS(SELECT 1 FROM {groups} INDEXED BY {g_due} WHERE ready_at<>0 AND ready_at<9e15))

-- name: clock
-- The queue's time, the anchor of this boot, and whether a jump would change something.
SELECT t, boot, boot_t, {held} FROM {state}

-- name: clock_jump
-- From ?1 to ?2 over idle time; not when t has moved since it was read, nor (unless ?3) when something is held.
UPDATE {state} SET t=?2 WHERE t=?1 AND (?3 OR NOT {held})

-- name: server_wall
-- The wall clock of the node that answers; asked at level weak, so it is never part of the log.
SELECT unixepoch('subsec')

-- name: boot_anchor
-- ?1 names this boot of the machine, ?2 is the queue's time at its zero: processes of one machine count from
-- one point, whatever their wall clocks say.
-- Whoever is first in a boot sets it; ?3 is the anchor that a later one may replace.
UPDATE {state} SET boot=?1, boot_t=?2 WHERE boot IS NOT ?1 OR boot_t=?3

-- name: statistics_there
-- rqlite runs PRAGMA optimize once a day.  What it notes of a queue that is nearly empty at that moment makes plans
-- that read whole tables later, so notes on the queue's tables are removed: when opening, and once an hour.
SELECT count(*) FROM sqlite_master WHERE type='table' AND name='sqlite_stat1'

-- name: statistics_read
-- ?1 a list of tables.
SELECT count(*) FROM sqlite_stat1 WHERE tbl IN (SELECT value FROM json_each(?1))

-- name: statistics_delete
DELETE FROM sqlite_stat1 WHERE tbl IN (SELECT value FROM json_each(?1))

-- name: statistics_reload
-- Makes the connection that writes forget what it had read of them.
ANALYZE sqlite_schema

-- name: lane_number
-- The number of the last request of a lane.
SELECT n FROM {lane} WHERE lane=?1
