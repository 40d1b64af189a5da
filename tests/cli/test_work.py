"""`rqfast work`: it serves until it is told to stop, alone or several times, and starts again what has died."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import rqfast
from tests.cli.command import COMMAND, SECONDS, call, environment, rqfast_command
from tests.cli.conftest import Place

# Each message leaves its name, and the process that worked it.
JOBS = """
import os, rqfast
VERSION = 1
worker = rqfast.Worker(name="jobs", visibility=2, max_poll=0.05)
@worker.subscriber(max_attempts=9, dead_letter=True)
def note(event: str) -> None:
    with open("done.txt", "a") as file:
        file.write(f"{event} {os.getpid()} {VERSION}\\n")
    if event == "die" and os.path.exists("mortal"):
        os._exit(3)
    if event == "fail":
        raise ValueError("\\x1b[31mred")
    if event == "stop":
        worker.stop()
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals")


@contextmanager
def working(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`rqfast work jobs:worker`; what it says goes to work.log."""
    (folder / "jobs.py").write_text(JOBS)
    with (
        (folder / "work.log").open("w") as log,
        subprocess.Popen(
            [*COMMAND, "work", "jobs:worker", *arguments],
            env=environment(folder) | {"PYTHONDONTWRITEBYTECODE": "1"},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def done(folder: Path) -> list[list[str]]:
    """What was worked: event, process, version."""
    path = folder / "done.txt"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def wait(folder: Path, what: str, test: Callable[[], bool]) -> None:
    """Wait until that is so."""
    end = time.monotonic() + SECONDS
    while not test():
        said = (folder / "work.log").read_text()[-2000:]
        assert time.monotonic() < end, f"waited {SECONDS:g} s for {what}; done {done(folder)}; said {said}"
        time.sleep(0.05)


def stopped(process: subprocess.Popen[str], number: int) -> tuple[int, str]:
    """Exit status and output after a signal."""
    process.send_signal(number)
    out, _ = process.communicate(timeout=SECONDS)
    return process.returncode, out


def test_it_works_until_it_is_stopped(place: Place, folder: Path) -> None:
    with place.open() as transport, working(folder, *place.options, "--json") as process:
        transport.publish("g", "one")
        wait(folder, "the message", lambda: bool(done(folder)))
        status, out = stopped(process, signal.SIGTERM)
        assert status == 0 and json.loads(out)["acked"] == 1
        assert transport.stats().messages == 0
    assert "worker 'jobs' serves note" in (folder / "work.log").read_text()


def test_a_database_that_is_not_there_is_told_soon(folder: Path) -> None:
    # Nobody listens there.
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with working(folder, "--url", url) as process:
        told = f"waiting for a leader at {url} (connection refused)"
        wait(folder, "the line", lambda: told in (folder / "work.log").read_text())
        assert process.poll() is None
        status, out = stopped(process, signal.SIGINT)
    assert (status, out) == (0, "Worker jobs stopped: it never reached the database.\n")
    assert (folder / "work.log").read_text().count("waiting for a leader") == 1


def test_the_log_colours_no_terminal(folder: Path) -> None:
    with rqfast.connect("q.db") as transport, working(folder, "--url", "q.db") as process:
        transport.publish("g", "fail")
        wait(folder, "the failure", lambda: "ValueError" in (folder / "work.log").read_text())
        stopped(process, signal.SIGTERM)
    said = (folder / "work.log").read_text()
    assert "\\x1b[31mred" in said and "\x1b" not in said
    assert "\n  File " in said


def test_of_several_one_that_dies_is_started_again(folder: Path) -> None:
    with rqfast.connect("q.db") as transport, working(folder, "--url", "q.db", "--processes", "2") as process:
        (folder / "mortal").touch()
        transport.publish("a", "die")
        # It dies with the message in work, each time; another one, and it itself anew, get it when the lease is over.
        wait(folder, "three deaths", lambda: len([one for one in done(folder) if one[0] == "die"]) >= 3)
        (folder / "mortal").unlink()
        transport.publish_many((f"g{n}", "work") for n in range(5))
        wait(folder, "the others", lambda: len([one for one in done(folder) if one[0] == "work"]) == 5)
        assert len({pid for event, pid, _ in done(folder) if event == "die"}) >= 3
        assert stopped(process, signal.SIGINT) == (0, ""), (folder / "work.log").read_text()
    said = (folder / "work.log").read_text()
    assert "died (exit status 3); the next one in " in said
    for pid in {int(pid) for _, pid, _ in done(folder)}:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="bounds the files of another process")
def test_a_start_that_fails_leaves_the_others_alone(folder: Path) -> None:
    import resource

    with rqfast.connect("q.db") as transport, working(folder, "--url", "q.db", "--processes", "2") as process:
        transport.publish("g", "one")
        wait(folder, "the message", lambda: bool(done(folder)))
        wait(folder, "both to run", lambda: len(pids(folder)) == 2)
        before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
        victim, other = pids(folder)
        os.kill(victim, signal.SIGKILL)
        wait(folder, "a start that fails", lambda: "cannot be started" in (folder / "work.log").read_text())
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
        wait(folder, "a start that does not", lambda: len(pids(folder)) == 3)
        assert runs(other)
        assert stopped(process, signal.SIGTERM) == (0, ""), (folder / "work.log").read_text()


def pids(folder: Path) -> list[int]:
    """The workers that were started."""
    return [int(pid) for pid in re.findall(r" pid ([0-9]+)\n", (folder / "work.log").read_text())]


def test_workers_end_with_what_started_them_and_by_themselves(folder: Path) -> None:
    with rqfast.connect("q.db") as transport, working(folder, "--url", "q.db", "--processes", "2") as process:
        transport.publish("g", "one")
        wait(folder, "the message", lambda: bool(done(folder)))
        pids = [int(pid) for pid in re.findall(r" pid ([0-9]+)", (folder / "work.log").read_text())]
        assert len(pids) == 2
        process.kill()
        process.wait()
        wait(folder, "its workers to end", lambda: not any(map(runs, pids)))
        transport.publish("g", "stop")
    with rqfast.connect("q.db") as transport, working(folder, "--url", "q.db", "--reload", "--json") as process:
        assert process.wait(SECONDS) == 0, (folder / "work.log").read_text()
    assert "process 1 has ended" in (folder / "work.log").read_text()


def runs(pid: int) -> bool:
    """Whether there is such a process, that is no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or ") Z " not in stat.read_text()


def test_reload_starts_again_when_a_source_changes(folder: Path) -> None:
    with rqfast.connect("q.db") as transport, working(folder, "--url", "q.db", "--reload") as process:
        transport.publish("g", "one")
        wait(folder, "the message", lambda: len(done(folder)) == 1)
        (folder / "jobs.py").write_text("this is no Python")
        wait(folder, "the fault to be told", lambda: "cannot be imported" in (folder / "work.log").read_text())
        (folder / "jobs.py").write_text(JOBS.replace("VERSION = 1", "VERSION = 22"))
        transport.publish("g", "two")
        wait(folder, "the message of the new version", lambda: len(done(folder)) == 2)
        assert [(event, version) for event, _, version in done(folder)] == [("one", "1"), ("two", "22")]
        assert stopped(process, signal.SIGTERM) == (0, "")


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("jobs", "'jobs' must be module:name, as in shop.jobs:worker"),
        ("nojobs:worker", "module nojobs cannot be imported: ModuleNotFoundError"),
        ("jobs:boss", "module jobs has no boss"),
        ("jobs:VERSION", "jobs:VERSION is an int; an rqfast.Worker is needed"),
        ("jobs:rqfast", "jobs:rqfast is a module; an rqfast.Worker is needed"),
        ("broken:worker", "module broken cannot be imported: ZeroDivisionError: division by zero ("),
    ],
)
def test_a_worker_that_is_none(target: str, told: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "jobs.py").write_text(JOBS)
    (folder / "broken.py").write_text("1 / 0")
    monkeypatch.delitem(sys.modules, "jobs", raising=False)
    ran = call("work", target, "--url", "q.db")
    assert (ran.status, ran.out) == (2, "") and told in ran.err and ran.err.count("\n") == 1


def test_a_queue_that_is_not_there_is_made_only_with_create(folder: Path) -> None:
    (folder / "jobs.py").write_text(JOBS)
    ran = rqfast_command(folder, "work", "jobs:worker", "--url", "q.db")
    assert ran.returncode == 2 and ran.stderr.splitlines()[-1].startswith("rqfast work: there is no file "), ran
    assert ran.stderr.endswith("q.db; check --url and --queue, or make it with --create\n")
    assert not (folder / "q.db").exists()
    rqfast.connect("q.db").close()
    for more in ([], ["--processes", "2"]):
        ran = rqfast_command(folder, "work", "jobs:worker", "--url", "q.db", "--queue", "nix", *more)
        assert ran.returncode == 2 and "'nix' is not in this database; queues that are: (default); check" in ran.stderr
    with working(folder, "--url", "q.db", "--queue", "nix", "--create") as process:
        wait(folder, "the queue to be made", lambda: "serves note" in (folder / "work.log").read_text())
        assert stopped(process, signal.SIGTERM)[0] == 0
    rqfast.connect("q.db", queue="nix", create=False).close()


def test_the_worker_keeps_what_it_names() -> None:
    worker = rqfast.Worker("q.db", name="jobs", queue="orders")
    worker.use()
    worker.use("q.db", queue="orders")
    for given in ({"url": "other.db"}, {"queue": "other"}):
        with pytest.raises(rqfast.ConfigError, match=r"'jobs' names its (url|queue) itself"):
            worker.use(**given)
