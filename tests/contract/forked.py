"""What runs in processes that fork with an embedded queue open."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import rqfast
from tests.contract.views import Address, View, open_address

CHILD_SECONDS = 20
FORKS = 12
TOP = 4  # the priority of what the children publish and claim


def in_child(work: Callable[[], None]) -> None:
    """Fork, do the work in the child, and see that it came to its end in time."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(CHILD_SECONDS)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, f"the child ended with {os.waitstatus_to_exitcode(status)}"


def fork_while_busy(address: Address) -> None:
    """Fork again and again while threads publish, claim and wait; each event of the parent is published once."""
    view = open_address(address)
    over = threading.Event()
    errors: list[BaseException] = []

    def run(step: Callable[[int], None]) -> None:
        n = 0
        try:
            while not over.is_set():
                step(n)
                n += 1
        except BaseException as error:
            errors.append(error)

    def publishes(group: str) -> Callable[[int], None]:
        return lambda n: view.publish(group, n) and None

    def settles(n: int) -> None:
        lease = view.claim("parent", 600, wait=0.01)
        if lease is not None:
            view.nack(lease)

    steps = [*(publishes(f"parent {n}") for n in range(6)), settles, settles]
    threads = [threading.Thread(target=run, args=(step,), daemon=True) for step in steps]
    for thread in threads:
        thread.start()
    for _ in range(FORKS):
        in_child(lambda: work_as_child(view))
    over.set()
    for thread in threads:
        thread.join(CHILD_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []
    view.close()


def work_as_child(view: View) -> None:
    group = f"child {os.getpid()}"
    for n in range(3):
        view.publish(group, n, TOP)
    for n in range(3):
        # The parent's threads may just hold it.
        lease = view.claim(None, 600, TOP, wait=15)
        assert lease is not None
        assert (lease.group_id, lease.event) == (group, n)
        assert lease.worker_id is not None and lease.worker_id.endswith(f"-{os.getpid()}")
        view.ack(lease)


def fork_elsewhere(here: str, there: str) -> None:
    """Open a file by a relative path in one folder and go on in another, on both sides of a fork."""
    os.chdir(here)
    view = rqfast.connect("queue.db")
    view.publish("g", "before")
    os.chdir(there)
    in_child(lambda: view.publish("g", "child") and None)
    view.publish("g", "parent")
    view.close()


def fork_and_fail(address: Address, how: str) -> None:
    """A child's first call cannot open the file, its second one can."""
    path = Path(address.url.removeprefix("sqlite:///"))
    view = open_address(address, busy_timeout=0.1)
    view.publish("g", "before")
    hindrance = {"locked": locked, "no file": no_file}[how]

    def work() -> None:
        with hindrance(path):
            refused = [error_of(lambda: view.publish("g", "hindered")) for _ in range(2)]
        assert all(isinstance(error, rqfast.Unavailable | rqfast.StatementError) for error in refused), refused
        view.publish("g", "child")

    in_child(work)
    view.publish("g", "parent")
    view.close()


def error_of(call: Callable[[], object], *others: type[Exception]) -> Exception | None:
    try:
        call()
    except (rqfast.RqfastError, *others) as error:
        return error
    return None


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program holds the lock for writing."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextlib.contextmanager
def no_file(path: Path) -> Iterator[None]:
    """There is a folder in its place."""
    aside = path.with_suffix(".aside")
    path.rename(aside)
    path.mkdir()
    yield
    path.rmdir()
    aside.rename(path)


def fork_on_a_loop(address: Address) -> None:
    """Fork in a coroutine while calls of an async transport are in flight; the child opens another on its own loop."""

    async def child_work() -> None:
        async with rqfast.connect_async(address.url, **address.options) as transport:
            await transport.publish("child", 0, TOP)

    async def script() -> None:
        async with rqfast.connect_async(address.url, **address.options) as transport:
            before = [transport.publish("parent", n) for n in range(50)]
            waiting = transport.claim("parent", 600, TOP, wait=None)
            await before[0]
            before += [transport.publish("parent", n) for n in range(50, 100)]
            await asyncio.sleep(0)

            def work() -> None:
                refused = error_of(lambda: transport.publish("child", 1), RuntimeError)
                assert refused is not None and "loop" in str(refused)
                asyncio.run(child_work())

            in_child(work)
            seqs = await asyncio.gather(*before)
            assert seqs == sorted(seqs)
            lease = await asyncio.wait_for(waiting, CHILD_SECONDS)
            assert lease is not None and lease.group_id == "child"
            await transport.ack(lease)

    asyncio.run(script())
