"""What an operator's view shows beside `stats()`: how many messages were ever published, and the nodes of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..sql import Statements
from ..transport.schema import Database, on_database
from ..verify.found import NodeState
from ..verify.nodes import Nodes

TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class Overview:
    """A database at one moment.

    Attributes:
        last_seq: the seq that was given last in the queue (int); it rises by one with each message.
        nodes: of the cluster, the leader among them; none of an embedded file.
    """

    last_seq: int
    nodes: list[NodeState] = field(default_factory=list)


async def look(url: str, is_rqlite: bool, queue: str | None) -> Overview:
    """See how it stands (Overview).

    Raises:
        SchemaError: there is no such file; Unavailable, ConfigError: as `connect`.
    """

    async def work(database: Database) -> Overview:
        last_seq = int((await database.read([Statements(queue).operate["seq_given"]]))[0][0])
        if database.rqlite is None:
            return Overview(last_seq)
        nodes = Nodes(database.rqlite)
        await nodes.find()
        return Overview(last_seq, nodes.states)

    return await on_database(url, is_rqlite, work, TIMEOUT)
