"""What an operator's view shows beside `stats()`: how many messages were ever published, and the nodes of a cluster."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ..errors import RqfastError
from ..sql import Statements
from ..transport.schema import Database, on_database
from ..verify.found import NodeState
from ..verify.nodes import Nodes

# How long a node is waited for that is asked, and how long all of it may take, in seconds: it is beside the figures.
OF_A_NODE, OF_ALL = 1.2, 3.5


@dataclass(frozen=True, slots=True)
class Overview:
    """A database at one moment.

    Attributes:
        last_seq: the seq that was given last in the queue (int); it rises by one with each message.
        nodes: of the cluster, the leader among them; none of an embedded file.
        trouble: why the nodes could not be looked at (str); "" when they could.
    """

    last_seq: int
    nodes: list[NodeState] = field(default_factory=list)
    trouble: str = ""


async def look(url: str, is_rqlite: bool, queue: str | None, timeout: float) -> Overview:
    """See how it stands (Overview).

    Args:
        timeout: bounds what is asked of the queue, in seconds.

    Raises:
        SchemaError: there is no such file; Unavailable, ConfigError: as `connect`.
    """

    async def work(database: Database) -> Overview:
        last_seq = int((await database.read([Statements(queue).operate["seq_given"]]))[0][0])
        if database.rqlite is None:
            return Overview(last_seq)
        nodes = Nodes(database.rqlite, OF_A_NODE)
        try:
            async with asyncio.timeout(OF_ALL):
                await nodes.find()
        except TimeoutError:
            return Overview(last_seq, trouble=f"the nodes did not tell of themselves within {OF_ALL:g} s")
        except RqfastError as error:
            return Overview(last_seq, trouble=str(error))
        return Overview(last_seq, nodes.states)

    return await on_database(url, is_rqlite, work, timeout)
