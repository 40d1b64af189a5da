"""The help of `rqfast`: its commands in sections."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

SECTIONS = {
    "Try": {
        "demo": "20,000 messages, a worker killed on the way, all checked",
        "dev": "a development server with rqlite's HTTP API",
        "bench": "how fast a database is, in a queue of its own",
    },
    "Messages": {
        "publish": "one message, or JSON lines from a file or stdin",
        "work": "run a worker, in one process or several",
    },
    "Look": {
        "stats": "a queue in figures",
        "groups": "the groups of a queue, and what holds them back",
        "peek": "the first messages of a group",
        "top": "a queue, live",
        "queues": "the queues of a database",
    },
    "Operate": {
        "pause": "a group, or the queue: nothing is claimed",
        "resume": "a group, or the queue, goes on",
        "release": "end the lease or the parking of a group",
        "delete": "delete a message",
        "purge": "delete all messages of a group, or of the queue",
        "dead": "dead letters: list, show, redrive, drop",
    },
    "Look after the database": {
        "schema": "its tables: show, check, upgrade, finish",
        "verify": "do the nodes agree, and is the bookkeeping sound",
        "soak": "drive it, kill processes, and check every rule",
        "inbox": "tables of your own: check",
    },
}
NAMES = tuple(name for commands in SECTIONS.values() for name in commands)


class Sections(TyperGroup):
    """Lists the commands under heads, not in one long row."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """See click."""
        wide = max(map(len, NAMES))
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(wide), text) for name, text in commands.items()])
