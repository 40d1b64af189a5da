"""The pages that take a reader by the hand, done as they say: files saved, commands run, output compared."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.contract.conftest import ClusterDatabase
from tests.docs.pages import Block, blocks
from tests.docs.session import Session

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the pages show a POSIX shell, and Ctrl-C in it")

CLUSTER = "The same on a cluster"


def test_start_in_five_minutes(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.save(blocks("docs/start.md", "python"))
    for block in blocks("docs/start.md", "console"):
        session.run(block)


def tutorial(heading: str | None) -> list[Block]:
    """Its commands, under this heading, or before that of the cluster."""
    found = blocks("docs/tutorial.md", "console")
    if heading is not None:
        return [block for block in found if block.heading == heading]
    first = next(place for place, block in enumerate(found) if block.heading == CLUSTER)
    return found[:first]


def test_the_tutorial_in_a_file(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.save(blocks("docs/tutorial.md", "python"))
    assert len(tutorial(None)) >= 6
    for block in tutorial(None):
        session.run(block)


@pytest.fixture
def cluster_url(three_nodes: Cluster) -> Iterator[str]:
    """Three nodes on which there is no queue of the tutorial, before and after."""
    database = ClusterDatabase(three_nodes)
    database.drop("shop")
    yield three_nodes.url
    database.drop("shop")


@pytest.mark.cluster("the tutorial")
def test_the_tutorial_on_a_cluster(cluster_url: str, tmp_path: Path) -> None:
    session = Session(tmp_path, {"RQFAST_URL": cluster_url})
    session.save(blocks("docs/tutorial.md", "python"))
    assert len(tutorial(CLUSTER)) >= 2
    for block in tutorial(CLUSTER):
        session.run(block)
