"""The nodes of a cluster: which there are, how far each has come, and what each answers by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp
import orjson

from ..engine.outcome import why
from ..engine.rqlite import RqliteEngine
from ..errors import ConfigError, Unavailable
from .found import NodeState

# Without a forward and without a look at who leads: what this node itself holds.
OWN_READ = "/db/query?level=none"
# How long a node is waited for, in seconds: when it tells of itself, and when it reads a page of a table.
STATUS_TIMEOUT, READ_TIMEOUT = 3.0, 60.0
# The part of it that the leader waits for the others to tell it their addresses.
OF_OTHERS = 2 / 3
PAUSE = 0.1
# Nothing has moved for so long, and the nodes stored different entries last: one of them has begun from a snapshot.
STILL = 3.0


class NodeLost(Exception):
    """A node did not answer: which, and why."""

    def __init__(self, node: str, why: str) -> None:
        super().__init__(f"node {node}: {why}")
        self.node = node
        self.why = why


class BadRead(Exception):
    """A node answered that a statement cannot be run."""


class Nodes:
    """All nodes of the cluster that an engine talks to.

    Args:
        patience: how long a node is waited for when it tells of itself, in seconds.
    """

    def __init__(self, engine: RqliteEngine, patience: float = STATUS_TIMEOUT) -> None:
        self._engine = engine
        self._patience = patience
        self.states: list[NodeState] = []

    @property
    def readable(self) -> list[str]:
        """The ids of the nodes that answer."""
        return [state.node for state in self.states if not state.error]

    async def find(self) -> None:
        """Learn from the leader which nodes there are.

        Raises:
            Unavailable: there is no leader; ConfigError: the credentials.
        """
        leader = await self._engine.leaders.now()
        if leader is None:
            raise self._engine.leaders.unavailable("none was found")
        listed = _json(
            await self._get(leader, f"/nodes?ver=2&nonvoters&timeout={self._patience * OF_OTHERS * 1000:.0f}ms")
        )
        by_id = await self._seeds()
        try:
            self.states = [self._state(node, by_id) for node in listed["nodes"]]
        except (KeyError, TypeError, AttributeError) as error:
            raise Unavailable(f"{leader}: it answers /nodes with something else", (leader,)) from error
        await self.look()

    async def look(self) -> None:
        """See how far each node has come; one that does not answer has an error from then on."""
        await asyncio.gather(*(self._look(state) for state in self.states if not state.error))

    async def read(self, node: str, statement: Sequence[Any]) -> tuple[list[str], list[list[Any]]]:
        """Columns and rows as this node holds them.

        Raises:
            NodeLost: it does not answer; BadRead: the statement cannot be run there.
        """
        address = next(state.address for state in self.states if state.node == node)
        assert address is not None
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                reply = await self._engine.post(address, OWN_READ, orjson.dumps([statement]))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NodeLost(node, _why(error)) from error
        if reply.status != 200:
            raise NodeLost(node, f"HTTP {reply.status} {reply.body[:100].decode('utf-8', 'replace').strip()}")
        try:
            answer = orjson.loads(reply.body)
            text = answer.get("error") or answer["results"][0].get("error")
            if text is None:
                slot = answer["results"][0]
                return slot.get("columns") or [], slot.get("values") or []
        except (ValueError, KeyError, IndexError, AttributeError, TypeError) as error:
            raise NodeLost(node, "a reply that is none") from error
        raise BadRead(str(text))

    # -- asking ---------------------------------------------------------------------------------------------

    def _state(self, node: dict[str, Any], by_id: dict[str, str]) -> NodeState:
        """A node as the leader lists it."""
        told = node.get("api_addr") or None
        address = by_id.get(node["id"]) or (self._engine.cluster.address(told) if told else None)
        state = NodeState(str(node["id"]), address)
        if address is None:
            state.error = f"down ({node.get('error') or 'it tells no address'}; raft address {node.get('addr')})"
        return state

    async def _look(self, state: NodeState) -> None:
        assert state.address is not None
        try:
            found = _json(await self._get(state.address, "/status"))["store"]
            raft = found["raft"]
            state.leads = raft["state"] == "Leader"
            state.applied, state.last = int(raft["applied_index"]), int(raft["last_log_index"])
            state.stored, state.pending = int(found.get("fsm_index", -1)), int(raft.get("fsm_pending", 0))
        except (Unavailable, KeyError, TypeError, ValueError) as error:
            state.error = str(error) if isinstance(error, Unavailable) else "it answers /status with something else"
            return
        if str(found.get("node_id")) != state.node:
            state.error = f"at {state.address} answers node {found.get('node_id')}"

    async def _seeds(self) -> dict[str, str]:
        """Node id -> the address that the user gave of it: one that a node tells may lead nowhere from here."""

        async def ask(seed: str) -> tuple[str, str] | None:
            try:
                return str(_json(await self._get(seed, "/status"))["store"]["node_id"]), seed
            except (Unavailable, KeyError, TypeError):
                return None

        found = await asyncio.gather(*(ask(seed) for seed in self._engine.cluster.seeds))
        return dict(pair for pair in found if pair is not None)

    async def _get(self, address: str, path: str) -> bytes:
        try:
            async with asyncio.timeout(self._patience):
                reply = await self._engine.get(address, path)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"{address}: {_why(error)}", (address,)) from error
        if reply.status in (401, 403):
            raise ConfigError(
                f"{address} refused {path.partition('?')[0]} ({reply.status}): the right status is needed"
            )
        if reply.status != 200:
            raise Unavailable(f"{address}: HTTP {reply.status} to {path.partition('?')[0]}", (address,))
        return reply.body


def _why(error: BaseException) -> str:
    return f"no answer ({why(error)})"


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except ValueError as error:
        raise Unavailable("a reply that is no JSON", ()) from error


def marks(states: Sequence[NodeState]) -> tuple[tuple[int, ...], ...]:
    """What moves when a node applies an entry."""
    return tuple((state.applied, state.stored, state.last, state.pending) for state in states if not state.error)


def at_one_index(states: Sequence[NodeState], still: bool) -> bool:
    """Whether the nodes that answer have applied all that there is, and have it in SQLite.

    `still`: nothing has moved for a while, so that what they stored last need not be the same entry.
    """
    able = [state for state in states if not state.error]
    if not able or any(state.pending for state in able):
        return False
    if len({state.applied for state in able} | {state.last for state in able}) > 1:
        return False
    return still or len({state.stored for state in able}) == 1


def describe(states: Sequence[NodeState]) -> str:
    """Which node has come how far (str)."""
    return ", ".join(
        f"node {state.node} at {state.applied} (stored {state.stored}, last in its log {state.last})"
        for state in states
        if not state.error
    )


async def settle(nodes: Nodes, until: float) -> bool:
    """Wait until all nodes that answer are at one index and nothing moves; False when `until` (on the loop's clock)
    came first."""
    loop = asyncio.get_running_loop()
    since, patience = loop.time(), min(STILL, max(0.0, until - loop.time()) / 2)
    before = marks(nodes.states)
    while True:
        await asyncio.sleep(PAUSE)
        await nodes.look()
        now = marks(nodes.states)
        if now != before:
            since = loop.time()
        elif at_one_index(nodes.states, loop.time() - since > patience):
            return True
        if loop.time() >= until:
            return False
        before = now
