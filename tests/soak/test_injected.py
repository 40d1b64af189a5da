"""A soak on servers that are being broken: `python -m tests.soak` for two minutes, or one on the dev server."""

from __future__ import annotations

import re

import pytest

from tests.cluster import find_rqlited
from tests.soak.program import Settings, run

LOAD = (
    "--groups", "60", "--publishers", "2", "--workers", "2", "--subscribers", "1", "--batch", "60", "--backlog", "600",
    "--visibility", "2", "--timeout", "6", "--drain", "60", "--kill-every", "3",
)  # fmt: skip
NEEDS = {"messages": 300, "taken-over": 1, "kills": 3, "lost-replies": 5}


def soak(nodes: int, minutes: float, every: float, **more: object) -> tuple[int, str]:
    """Run it; its exit status and what it said."""
    said: list[str] = []
    settings = Settings(nodes=nodes, minutes=minutes, every=every, arguments=LOAD, **more)  # type: ignore[arg-type]
    status = run(settings, said.append)
    return status, "\n".join(said)


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_three_nodes() -> None:
    status, said = soak(3, 2.0, 6.0, needs=NEEDS)
    assert status == 0, said
    assert re.search(r"^Passed in ", said, re.MULTILINE) and "rqfast verify, exit status 0" in said


@pytest.mark.skipif(find_rqlited() is not None, reason="there is a rqlited: three nodes are broken instead")
@pytest.mark.timeout(600)
def test_the_dev_server() -> None:
    status, said = soak(0, 0.6, 4.0, needs=NEEDS)
    assert status == 0, said
    assert re.search(r"^Passed in ", said, re.MULTILINE)


@pytest.mark.parametrize(
    ("broken", "rules"), [("drop-publish", "lost"), ("share-lease", "two"), ("ack-twice", "twice fenced")]
)
@pytest.mark.timeout(300)
def test_it_fails_when_the_client_is_broken(broken: str, rules: str) -> None:
    status, said = soak(0, 0.15, 2.0, broken=broken)
    assert status == 1, said
    for rule in rules.split():
        assert re.search(rf"^  {rule}: [\d,]+ times$", said, re.MULTILINE), said
