"""What all groups share: servers on their core, sizes, and the report after the last of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import find_rqlited

from .best import Best
from .machine import describe, pin_clients, syncs_per_second
from .report import Report
from .servers import Server, running
from .sizes import FULL, NORMAL, QUICK, Sizes

_report = Report()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of `pytest bench/`."""
    group = parser.getgroup("rqfast bench")
    group.addoption("--full", action="store_true", help="publish_many of 1,000,000 messages, idle for 60 s")
    group.addoption("--quick", action="store_true", help="tiny sizes: shows that the suite works, measures nothing")
    group.addoption("--nodes", default="1,3", help="sizes of clusters to measure on: 1, 3 or 1,3 (default)")
    group.addoption("--rounds", type=int, default=0, help="rounds of each comparison (default: 5 on 1 node, 3 on 3)")


def pytest_configure(config: pytest.Config) -> None:
    """The clients' core; what is started for it (threads, helper processes) inherits it."""
    _report.machine = describe(find_rqlited())
    pin_clients()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Groups with a server run on clusters of all wanted sizes."""
    if "server" in metafunc.fixturenames:
        nodes = [int(size) for size in metafunc.config.getoption("nodes").split(",")]
        if find_rqlited() is None:
            nodes = [1]
        metafunc.parametrize("server", nodes, ids=["1-node" if n == 1 else f"{n}-nodes" for n in nodes], indirect=True)


@pytest.fixture(scope="session", name="server")
def _server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(request.param) as server:
        syncs = syncs_per_second(server.folder)
        _report.disks[f"disk, {server.name}"] = f"{syncs:,.0f} fdatasync/s of 4 KiB where its data lies"
        yield server


@pytest.fixture
def sizes(request: pytest.FixtureRequest) -> Sizes:
    """How much is measured."""
    if request.config.getoption("quick"):
        return QUICK
    return FULL if request.config.getoption("full") else NORMAL


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """How often each side runs."""
    server = request.node.callspec.params.get("server", 1) if hasattr(request.node, "callspec") else 1
    if request.config.getoption("quick"):
        return 1
    return int(request.config.getoption("rounds")) or (5 if server == 1 else 3)


@pytest.fixture
def report() -> Report:
    """Where rows go."""
    return _report


@pytest.fixture(scope="session")
def best() -> Best:
    """Which setting of each other side was fastest."""
    return Best()


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Into the JSON."""
    machine_info["rqfast bench"] = _report.machine


def pytest_benchmark_update_json(config: pytest.Config, benchmarks: Any, output_json: dict[str, Any]) -> None:
    """What was only known at the end."""
    output_json["machine_info"]["rqfast bench"] |= _report.disks


def pytest_report_header(config: pytest.Config) -> str:
    """Says which server and which cores, before anything runs."""
    return f"bench: {_report.machine['server']}; {_report.machine['pinning']}"


def pytest_terminal_summary() -> None:
    """All tables."""
    if _report.rows:
        _report.print()
