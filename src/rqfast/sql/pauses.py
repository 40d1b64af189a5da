"""Statements of the table that says which subscriptions are paused.  One for all queues of a database."""

from __future__ import annotations

PAUSES_TABLE = "CREATE TABLE IF NOT EXISTS rqfast_paused(subscription TEXT PRIMARY KEY) WITHOUT ROWID"
PAUSES_THERE = "SELECT count(*) FROM sqlite_master WHERE type='table' AND name='rqfast_paused'"
PAUSED = "SELECT subscription FROM rqfast_paused"


def pause(name: str) -> list[str]:
    """Write a name down; once is enough."""
    return ["INSERT OR IGNORE INTO rqfast_paused(subscription) VALUES(?)", name]


def resume(name: str) -> list[str]:
    """Strike it out."""
    return ["DELETE FROM rqfast_paused WHERE subscription=?", name]
