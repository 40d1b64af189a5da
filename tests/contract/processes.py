"""What runs in spawned processes: views that obey their parent, and workers that write down what they did."""

from __future__ import annotations

import contextlib
import datetime
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

SPAWN = multiprocessing.get_context("spawn")
START_SECONDS = 60.0
CALL_SECONDS = 60.0


class Skew:
    """The wall clock of this process, so many seconds off; may be changed while it runs."""

    seconds = 0.0
    _time, _time_ns = time.time, time.time_ns

    @classmethod
    def install(cls, seconds: float) -> None:
        cls.seconds = seconds
        if seconds:
            time.time = lambda: cls._time() + cls.seconds
            time.time_ns = lambda: cls._time_ns() + round(cls.seconds * 1e9)


class Remote:
    """A view of the queue in a process of its own, which may have a wrong wall clock and may be killed."""

    def __init__(self, address: Any, *, skew: float = 0.0, **options: Any) -> None:
        self._ours, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=serve, args=(theirs, address, skew, options), daemon=True)
        self.process.start()
        theirs.close()

    def ready(self) -> Remote:
        """Wait until the view is open there."""
        self._receive(START_SECONDS)
        return self

    def send(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Start a call there; `receive` waits for it."""
        self._ours.send((name, args, kwargs))

    def receive(self) -> Any:
        """What the call gave; what it raised is raised here."""
        return self._receive(CALL_SECONDS)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        self.send(name, *args, **kwargs)
        return self.receive()

    def kill(self) -> None:
        """SIGKILL (where there is none, the like), and wait until it is gone."""
        self.process.kill()
        self.process.join(30)
        self._ours.close()

    def close(self) -> None:
        if self.process.is_alive():
            with contextlib.suppress(OSError):
                self.send("exit")
            self.process.join(15)
            self.process.kill()
        self.process.join(15)
        self._ours.close()

    def _receive(self, seconds: float) -> Any:
        if not self._ours.poll(seconds):
            raise AssertionError(f"waited {seconds:g} s for process {self.process.pid}")
        ok, result = self._ours.recv()
        if not ok:
            raise result
        return result


@contextlib.contextmanager
def remotes(address: Any, *skews: float, **options: Any) -> Iterator[list[Remote]]:
    """A remote view for each skew, started side by side."""
    started = [Remote(address, skew=skew, **options) for skew in skews]
    try:
        yield [remote.ready() for remote in started]
    finally:
        for remote in started:
            remote.close()


def serve(connection: Connection, address: Any, skew: float, options: dict[str, Any]) -> None:
    """Do what the parent asks, one call after another."""
    Skew.install(skew)
    try:
        from tests.contract.views import open_address

        view: Any = open_address(address, **options)
    except BaseException as error:
        connection.send((False, error))
        raise
    connection.send((True, None))
    while True:
        try:
            name, args, kwargs = connection.recv()
        except EOFError:  # the parent is gone
            os._exit(1)
        if name == "exit":
            break
        try:
            if name == "skew":
                Skew.seconds = args[0]
                connection.send((True, (time.time(), datetime.datetime.now(datetime.UTC).timestamp())))
            else:
                connection.send((True, getattr(view, name)(*args, **kwargs)))
        except Exception as error:
            connection.send((False, error))
    view.close()


# -- workers that write down what they did ---------------------------------------------------------------


class Log:
    """What all workers did, one file for each group; a worker holds the group's mark while it works there.

    A mark that is already there is another worker in the same group: it is written down as a clash.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def enter(self, group_id: str) -> None:
        try:
            os.close(os.open(self.folder / f"{group_id}.mark", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            self._append("clashes", group_id)

    def leave(self, group_id: str, event: object) -> None:
        self._append(f"{group_id}.done", str(event))
        with contextlib.suppress(FileNotFoundError):
            (self.folder / f"{group_id}.mark").unlink()

    def clashes(self) -> list[str]:
        return self._lines("clashes")

    def done(self, group_id: str) -> list[int]:
        """The events worked in a group, in the order in which they were."""
        return [int(line) for line in self._lines(f"{group_id}.done")]

    def _append(self, name: str, line: str) -> None:
        file = os.open(self.folder / name, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.write(file, f"{line}\n".encode())
        os.close(file)

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


def work(address: Any, folder: str, limit: int, many: bool) -> None:
    """Work until a second passes with nothing to claim; `many` claims and settles by the batch."""
    from tests.contract.views import open_address

    log = Log(Path(folder))
    with open_address(address) as view:
        leases: list[Any] = []
        while True:
            if many:
                leases = view.claim_many(None, 60, limit, wait=1, ack=leases)
            else:
                lease = view.claim(None, 60, wait=1, ack=leases[0] if leases else None)
                leases = [] if lease is None else [lease]
            if not leases:
                return
            for lease in leases:
                log.enter(lease.group_id)
            for lease in leases:
                log.leave(lease.group_id, lease.event)


def open_and_use(address: Any, number: int) -> None:
    """Open a queue that may not be there yet, publish into it and work one message off."""
    from tests.contract.views import open_address

    with open_address(address) as view:
        for n in range(5):
            view.publish(f"g{number}", n)
        lease = view.claim(f"worker {number}", 60, wait=30)
        assert lease is not None
        view.ack(lease)


def use_after_fork(address: Any) -> None:
    """Both sides of a fork go on with the view that was open before; exit code 0 when both did their part."""
    from tests.contract.views import open_address

    view = open_address(address)
    view.publish("before", 0)
    assert view.stats().messages == 1
    before = view.claim("parent", 60)
    assert before is not None
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            for n in range(50):
                view.publish("child", n)
            lease = view.claim("child", 60)
            assert lease is not None and lease.group_id in ("child", "parent")
            assert view.stats().in_work >= 1
            assert view.release("nobody") is False
            view.ack(lease)
            code = 0
        os._exit(code)
    for n in range(50):
        view.publish("parent", n)
    view.ack(before)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    view.publish("after", 0)
    view.close()


def join_all(processes: list[Any], seconds: float) -> None:
    """Wait for all; those that are late are killed and named."""
    end = time.monotonic() + seconds
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
    late = [process.pid for process in processes if process.is_alive()]
    for process in processes:
        process.kill()
        process.join(15)
    assert not late, f"processes {late} were still at work after {seconds:g} s"
    codes = [process.exitcode for process in processes]
    assert codes == [0] * len(codes), f"processes ended with {codes}"


HAS_FORK = hasattr(os, "fork")
HAS_SIGKILL = hasattr(signal, "SIGKILL")
