"""`rqfast dev`: what it says, how it ends, and with which exit status."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import rqfast
from rqfast.devserver import DevServer
from tests.cli.command import SECONDS, environment, rqfast_command


@contextmanager
def running(tmp_path: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """`rqfast dev` on a free port, and the lines that it has said when it is ready."""
    with subprocess.Popen(
        [sys.executable, "-m", "rqfast.cli", "dev", "--port", "0", *arguments],
        env=environment(tmp_path),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            assert process.stdout is not None
            said: list[str] = []
            while not said or "Ctrl-C" not in said[-1]:
                line = process.stdout.readline()
                assert line, process.communicate(timeout=SECONDS)
                said.append(line.rstrip("\n"))
            yield process, said
        finally:
            process.kill()


def url_of(said: list[str]) -> str:
    """The URL in the first line."""
    start = "rqfast dev server on "
    assert said[0].startswith(start)
    return said[0].removeprefix(start)


def ended(process: subprocess.Popen[str], number: int) -> tuple[int, str, str]:
    """Exit status and what is said at last, after a signal."""
    process.send_signal(number)
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out, err


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_stopped(tmp_path: Path, number: int) -> None:
    with running(tmp_path) as (process, said):
        assert "one node without replication, for development only" in said[1]
        assert "gone when it ends" in said[2] and not any("password" in line for line in said)
        with rqfast.connect(url_of(said)) as queue:
            queue.publish("g", 1)
            assert queue.claim("w") is not None
            assert ended(process, number) == (0, "Stopped.\n", "")
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_it_keeps_messages_in_a_file(tmp_path: Path) -> None:
    for event in (None, "kept"):
        with running(tmp_path, "--file", "queue.db") as (process, said):
            assert said[2].endswith("are kept in queue.db")
            with rqfast.connect(url_of(said)) as queue:
                lease = queue.claim("w")
                assert (None if lease is None else lease.event) == event
                queue.publish("g", "kept")
            assert ended(process, signal.SIGINT)[0] == 0


def test_it_tells_time_as_it_is_told(tmp_path: Path) -> None:
    with running(tmp_path, "--clock-skew", "86400") as (_, said), rqfast.connect(url_of(said)) as queue:
        queue.publish("g", 1)
        far = queue.claim("w")
    with DevServer() as server, rqfast.connect(server.url) as queue:
        queue.publish("g", 1)
        near = queue.claim("w")
    assert far is not None and near is not None and far.published_at is not None and near.published_at is not None
    assert far.published_at - near.published_at > 80000


def test_it_warns_where_everyone_can_come_in(tmp_path: Path) -> None:
    with running(tmp_path, "--host", "0.0.0.0") as (_, said):
        assert url_of(said).startswith("http://0.0.0.0:")
        assert any("no password" in line for line in said)


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with DevServer() as server:
        done = rqfast_command(tmp_path, "dev", "--port", str(server.port))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"rqfast: the dev server cannot listen on port {server.port} of 127.0.0.1: it is in use; choose another port, "
        "or stop what listens there\n"
    )


def test_a_file_that_is_no_database_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database, but as long as one would have to be " * 50)
    done = rqfast_command(tmp_path, "dev", "--port", "0", "--file", "notes.txt")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "rqfast: notes.txt cannot be opened as an SQLite database: file is not a database\n"
