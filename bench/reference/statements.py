"""The statements of each call, as both colours send them: `[sql, *params]`."""

from __future__ import annotations

from typing import Any

from .lease import Lease

Statement = list[Any]

PARKED = "__parked__"

TABLES: list[Statement] = [
    [
        "CREATE TABLE IF NOT EXISTS messages (seq INTEGER PRIMARY KEY AUTOINCREMENT, group_id TEXT NOT NULL, "
        "event TEXT NOT NULL, locked_by TEXT, lock_expiry REAL)"
    ],
    [
        'CREATE TABLE IF NOT EXISTS "groups" (group_id TEXT PRIMARY KEY, '
        "last_claimed_at REAL NOT NULL DEFAULT 0.0, priority INT NOT NULL DEFAULT 0)"
    ],
    ['INSERT OR IGNORE INTO "groups" (group_id) SELECT DISTINCT group_id FROM messages'],
]


def publish(group_id: str, event: str, priority: int) -> list[Statement]:
    """The message, and its group unless that is there: so only the first publish sets the priority."""
    return [
        ["INSERT INTO messages (group_id, event) VALUES (?, ?)", group_id, event],
        ['INSERT OR IGNORE INTO "groups" (group_id, priority) VALUES (?, ?)', group_id, priority],
    ]


def claim(token: str, now: float, visibility: float, min_priority: int) -> Statement:
    """Takes the first message in the order of turns that is free or lapsed, in a group where none is in work."""
    return [
        "UPDATE messages SET locked_by = ?1, lock_expiry = ?2 WHERE seq = ("
        'SELECT m.seq FROM messages m JOIN "groups" g ON g.group_id = m.group_id '
        "WHERE (m.locked_by IS NULL OR m.lock_expiry < ?3) AND m.group_id NOT IN "
        "(SELECT group_id FROM messages WHERE locked_by IS NOT NULL AND lock_expiry >= ?3) "
        "AND g.priority >= ?4 ORDER BY g.last_claimed_at, m.seq LIMIT 1)",
        token,
        now + visibility,
        now,
        min_priority,
    ]


def claimed(token: str) -> Statement:
    """What the claim took."""
    return ["SELECT seq, group_id, event FROM messages WHERE locked_by = ?", token]


def served(group_id: str, now: float) -> Statement:
    """The group goes to the end of the turns."""
    return ['UPDATE "groups" SET last_claimed_at = ? WHERE group_id = ?', now, group_id]


def ack(lease: Lease) -> list[Statement]:
    """Whoever holds the message now: by seq alone."""
    return [
        ["DELETE FROM messages WHERE seq = ?", lease.seq],
        [
            'DELETE FROM "groups" WHERE group_id = ?1 AND NOT EXISTS (SELECT 1 FROM messages WHERE group_id = ?1)',
            lease.group_id,
        ],
    ]


def nack(lease: Lease, delay: float, now: float) -> Statement:
    """Parked for the delay, which holds back the group; without one, free at once."""
    if delay > 0:
        return ["UPDATE messages SET locked_by = ?, lock_expiry = ? WHERE seq = ?", PARKED, now + delay, lease.seq]
    return ["UPDATE messages SET locked_by = NULL, lock_expiry = 0 WHERE seq = ?", lease.seq]
