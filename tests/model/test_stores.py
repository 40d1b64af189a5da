"""The same histories where the queue stands elsewhere: in a file that several processes write, and on servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rqfast.devserver import DevServer
from rqfast.sql import Statements
from tests.cluster import Cluster
from tests.contract.conftest import ClusterDatabase
from tests.devserver import DevDatabase

from .driver import drive_on
from .plans import EXTRAS, FATES, GROUPS, OPERATIONS, SETTLEMENTS, VISIBILITIES
from .stores import FileStore, ServerStore

# Steps of each history.
ON_A_FILE = 200
ON_A_SERVER = 150
# Not those that stop or empty all of it.
MILD = OPERATIONS[:3] + OPERATIONS[7:11] + OPERATIONS[14:]
# A busy queue, in which there is a bit of everything.
BUSY: dict[str, object] = {
    "groups": GROUPS[:4], "crowd": 12, "extras": EXTRAS, "operations": MILD, "operating": 0.05, "bundles": 0.15,
    "some": 0.2, "runs": 0.3, "dedup": 0.2, "calls": (2, 4, 8), "fates": FATES, "min_priorities": (0, 0, 1),
    "settlements": SETTLEMENTS, "visibilities": VISIBILITIES,
}  # fmt: skip
SEEN = (
    "publish", "leases", "empty claim", "run", "ack", "ack lost", "crash", "reply lost", "given up", "bundle",
    "bundle refused", "published before", "claim of some", "duplicate",
)  # fmt: skip
SEEN_BESIDE = ("plain publish", "plain claim", "plain ack")


def has_seen(counts: Counter[str], *what: str) -> None:
    """A history in which too little happened shows nothing."""
    assert not [one for one in what if not counts[one]], counts


@pytest.mark.parametrize("seed", [1, 2])
def test_several_processes_write_one_file_and_are_killed_between_two_statements(tmp_path: Path, seed: int) -> None:
    """Three lanes, each of a process of its own; what they send together is applied in an order that they choose."""
    with closing(FileStore(tmp_path / "queue.db")) as store:
        counts = drive_on(store, Statements(None), None, seed, ON_A_FILE, races=0.6, **BUSY)
    has_seen(counts, *SEEN)


@pytest.fixture
def dev_server_url(dev_server: DevServer) -> Iterator[str]:
    """A dev server without a queue."""
    yield from _emptied(DevDatabase(dev_server))


@pytest.fixture
def node_url(one_node: Cluster) -> Iterator[str]:
    """A rqlited without a queue."""
    yield from _emptied(one_node)


def _emptied(server: Cluster | DevDatabase) -> Iterator[str]:
    def empty() -> None:
        ClusterDatabase(server).drop(None)
        server.execute_many([['DROP TABLE IF EXISTS "own_messages"']])

    empty()
    yield server.url
    empty()


def test_the_dev_server_does_what_the_oracle_says(dev_server_url: str) -> None:
    with closing(ServerStore(dev_server_url)) as store:
        counts = drive_on(store, Statements(None), None, 5, ON_A_SERVER, plain=0.4, **BUSY)
    has_seen(counts, *SEEN, *SEEN_BESIDE)


@pytest.mark.cluster
def test_rqlited_does_what_the_oracle_says(node_url: str) -> None:
    with closing(ServerStore(node_url)) as store:
        counts = drive_on(store, Statements(None), None, 5, ON_A_SERVER, plain=0.4, **BUSY)
    has_seen(counts, *SEEN, *SEEN_BESIDE)
