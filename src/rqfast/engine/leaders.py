"""Which node leads: asked of all nodes when it is not known, and kept up to date beside the work."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Callable

import aiohttp

from ..errors import RqfastError, Unavailable
from .cluster import Cluster
from .outcome import Kind, Reply, Result, speaks_tls, tls_refused, why

# How long a node that is asked waits for the others to tell it their addresses (one that hangs makes it wait so long),
# and how long it is waited for itself.  Where addresses were told before, each fourth question is asked in the long
# form as well, beside the short one: they may have changed.
SHORT, LONG = ("250ms", 0.75), ("1s", 1.5)
LONG_EACH = 4
# How old what is known of the nodes' addresses may be, in seconds; somewhat older where nothing is asked of them.
KNOWN_FOR = 30.0
IDLE = 1.2
# How often it is asked whether another node leads while a request is unanswered, in seconds: as long as an election may
# take, and after that, when the one that leads is just slow.
ASK_EVERY, ASK_EVERY_LATER, ELECTION = 0.25, 2.0, 6.0


def rest_after(asked_at: float, since: float, now: float) -> float:
    """How long to rest until the nodes are asked again (seconds), of a request unanswered `since` that long."""
    return max(0.0, asked_at + (ASK_EVERY if now - since < ELECTION else ASK_EVERY_LATER) - now)


class Leaders:
    """Finds the leader of one cluster; belongs to one event loop.

    Args:
        cluster: what is known of the nodes.
        get: asks a node for a path; raises what aiohttp raises.
        query: sends a node a query that only a leader answers itself.
    """

    def __init__(
        self,
        cluster: Cluster,
        get: Callable[[str, str], Awaitable[Reply]],
        query: Callable[[str], Awaitable[Result]],
    ) -> None:
        self._cluster = cluster
        self._get = get
        self._query = query
        self._finding: asyncio.Task[str | None] | None = None
        self._learning: asyncio.Task[None] | None = None
        self._learn_at = 0.0
        self._is_stopped = False
        self._reminder: asyncio.TimerHandle | None = None
        # How often in a row no node could tell who leads.
        self._misses = 0
        # Why a node could not tell who leads, for people.
        self._troubles: dict[str, str] = {}
        # Nodes with which no connection can be agreed on, until the user changes something.
        self._refusals: dict[str, RqfastError] = {}

    async def now(self) -> str | None:
        """The leader's address: as known, else asked for; None when no node knows one now."""
        return self._cluster.leader or await self.find()

    async def find(self, suspect: str | None = None) -> str | None:
        """Ask the nodes who leads; all that ask at the same time share the answer.

        Args:
            suspect: a leader that does not answer: it is not asked, and not believed.
        """
        cluster = self._cluster
        if not cluster.discover:
            cluster.leader = cluster.next_seed()
            return cluster.leader
        if suspect is not None and cluster.leader not in (None, suspect):
            return cluster.leader  # somebody else asked
        if self._finding is None or self._finding.done():
            self._finding = asyncio.create_task(self._ask_all(suspect), name="rqfast: who leads")
        return await asyncio.shield(self._finding)

    def answered(self, node: str) -> None:
        """A node did what it was asked; now and then, and after a redirect, it is asked beside the work where all are.

        They may move one after another, and with the last one all addresses that were right at the start would be gone:
        so it is asked as well when there is no work.
        """
        if self._troubles:
            self._troubles.clear()
        loop = asyncio.get_running_loop()
        if self._cluster.discover and loop.time() >= self._learn_at:
            self._learn_at = loop.time() + KNOWN_FOR
            self._learn_beside([node], None)

    def pointed_away(self) -> None:
        """A node said that another one leads: what is known of the addresses may be old."""
        self._learn_at = 0.0

    def stop(self) -> None:
        """Ask no more."""
        self._is_stopped = True
        for task in (self._finding, self._learning):
            if task is not None:
                task.cancel()
        if self._reminder is not None:
            self._reminder.cancel()

    def unavailable(self, text: str) -> Unavailable:
        """The error that tells that nothing was applied."""
        nodes = self._cluster.nodes
        tried = [f"{node} ({self._troubles[node]})" if node in self._troubles else node for node in nodes]
        return Unavailable(
            f"no leader answered in time ({text}); nothing was applied, call again. Nodes tried: {', '.join(tried)}",
            nodes,
        )

    @property
    def trouble(self) -> str:
        """Why the nodes could not tell who leads when they were asked last; "" when one could."""
        if len(self._cluster.nodes) == 1:
            return "; ".join(self._troubles.values())
        return "; ".join(f"{node}: {trouble}" for node, trouble in self._troubles.items())

    async def _ask_all(self, suspect: str | None) -> str | None:
        nodes = [node for node in self._cluster.nodes if node != suspect]
        known = self._cluster.knows_all
        if known and self._misses % LONG_EACH == LONG_EACH - 1:
            self._learn_beside(nodes, suspect)
        asked = [asyncio.create_task(self._ask(node, suspect, SHORT if known else LONG)) for node in nodes]
        try:
            for answer in asyncio.as_completed(asked):
                leader = await answer
                if leader is not None:
                    self._troubles.clear()
                    self._misses = 0
                    return leader
            self._misses += 1
            if suspect is None and all(node in self._refusals for node in nodes):
                raise self._refusals[nodes[0]]
            return None
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    async def _ask(self, node: str, suspect: str | None, form: tuple[str, float]) -> str | None:
        self._refusals.pop(node, None)
        others_within, within = form
        try:
            async with asyncio.timeout(within):
                reply = await self._get(node, f"/nodes?ver=2&timeout={others_within}")
                if reply.status in (401, 403):
                    return await self._ask_by_query(node, suspect)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._trouble(node, why(error), tls_refused(error, node))
            return None
        leader = self._cluster.learn(reply.body, suspect) if reply.status == 200 else None
        if leader is not None:
            self._ask_again_in(KNOWN_FOR)
            return leader
        found = reply.body[:60].decode("utf-8", "replace").strip()
        is_listing = reply.status == 200 and b'"nodes"' in reply.body
        text = "knows no leader" if is_listing else f"HTTP {reply.status} {found!r}"
        if is_listing and suspect is not None and b'"leader":true' in reply.body:
            text = f"knows no other leader than {suspect}, which does not answer"
        self._trouble(node, text, speaks_tls(reply.body, node))
        return None

    def _trouble(self, node: str, text: str, refusal: RqfastError | None) -> None:
        self._troubles[node] = text
        if refusal is not None:
            self._refusals[node] = refusal

    async def _ask_by_query(self, node: str, suspect: str | None) -> str | None:
        """Where the user may not see /nodes: a query that the leader answers and others point away from."""
        cluster = self._cluster
        result = await self._query(node)
        if result.error is not None:
            raise result.error
        if result.kind is Kind.APPLIED and node != suspect:
            cluster.leader, cluster.forwards = node, False
        elif result.leader and cluster.leader is None:
            cluster.forward_by(node)
        return cluster.leader if cluster.leader != suspect else None

    def _learn_beside(self, nodes: list[str], suspect: str | None) -> None:
        if not self._is_stopped and (self._learning is None or self._learning.done()):
            self._learning = asyncio.create_task(self._learn(nodes, suspect), name="rqfast: where the nodes are")

    async def _learn(self, nodes: list[str], suspect: str | None) -> None:
        others = [node for node in self._cluster.nodes if node not in nodes and node != suspect]
        is_told = await self._ask_quietly(nodes, suspect) or await self._ask_quietly(others, suspect)
        # Also where a redirect on the way said to ask again: it was asked.
        self._ask_again_in(KNOWN_FOR if is_told else LONG[1])

    def _ask_again_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._learn_at = loop.time() + seconds
        if self._reminder is not None:
            self._reminder.cancel()
        if not self._is_stopped:
            # It must not keep alive what nobody uses any more.
            self._reminder = loop.call_later(KNOWN_FOR * IDLE, _remind, weakref.ref(self))

    def ask_when_idle(self) -> None:
        """Nothing was asked for long: learn where the nodes are now, from the leader if it is known."""
        leader = self._cluster.leader
        self._learn_beside(list(self._cluster.nodes) if leader is None else [leader], None)

    async def _ask_quietly(self, nodes: list[str], suspect: str | None) -> bool:
        """Whether one of them tells who leads."""

        async def ask(node: str) -> str | None:
            # What is wrong with the credentials is told to those that call.
            with contextlib.suppress(RqfastError):
                return await self._ask(node, suspect, LONG)
            return None

        return any(await asyncio.gather(*map(ask, nodes)))


def _remind(leaders: weakref.ref[Leaders]) -> None:
    found = leaders()
    if found is not None:
        found.ask_when_idle()
