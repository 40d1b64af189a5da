"""Processes that run a worker: started, started again when they die, and stopped together."""

from __future__ import annotations

import logging
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType

from .exits import FAILED, USAGE, WELL
from .reloading import Files

log = logging.getLogger("rqfast.work")

BEAT = 0.2
LOOK = 0.5
# The pause before a process that died is started again, in seconds: it doubles while it keeps dying.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# How long those that run get to end when something else has failed, in seconds, before they are killed.
LAST_GRACE = 15.0
# Who has lived so long starts again with the first pause.
HEALTHY = 30.0


class Place:
    """Where one process runs, and the next one after it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.began = 0.0
        self.due = 0.0
        self.pause = FIRST_PAUSE
        self.ended = False

    def died(self, now: float) -> float:
        """Note it; returns the pause until the next start, in seconds."""
        if now - self.began >= HEALTHY:
            self.pause = FIRST_PAUSE
        pause = self.pause * random.uniform(0.8, 1.2)
        self.pause = min(LONGEST_PAUSE, self.pause * 2)
        self.process, self.due = None, now + pause
        return pause


class Processes:
    """Runs `rqfast work` several times.

    Args:
        arguments: behind `rqfast work`.
        count: of processes.
        files: watched; a change starts all of them again.
    """

    def __init__(self, arguments: Sequence[str], count: int, files: Files | None) -> None:
        self._command = [sys.executable, "-m", "rqfast.cli", "work", *arguments, "--supervised"]
        self._places = [Place(number) for number in range(1, count + 1)]
        self._files = files
        self._stops = 0
        self._status = WELL
        self._look_at = 0.0

    def run(self) -> int:
        """Until it is stopped, or all have ended by themselves; returns the exit status (int)."""
        main = threading.current_thread() is threading.main_thread()
        before = (
            {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)} if main else {}
        )
        try:
            while not self._stops and not all(place.ended for place in self._places):
                self._tend()
                time.sleep(BEAT)
            self._end()
        finally:
            self._clear()
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._status

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stops += 1

    def _tend(self) -> None:
        now = time.monotonic()
        for place in self._places:
            if place.process is not None:
                self._look(place, now)
            if place.process is None and not place.ended and now >= place.due:
                self._start(place, now)
        if self._files is not None and now >= self._look_at:
            self._look_at = now + LOOK
            changed = self._files.changed()
            if changed is not None:
                self._again(changed)

    def _start(self, place: Place, now: float) -> None:
        # In a session of its own: Ctrl-C is for us, and we tell them.
        flags = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        place.began = now
        try:
            place.process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, start_new_session=sys.platform != "win32", creationflags=flags
            )
        except OSError as error:  # no memory, no files, no processes: the others work on
            pause = place.died(now)
            log.warning("process %d cannot be started (%s); the next try in %.1f s", place.number, error, pause)
            return
        log.info("process %d of %d: pid %d", place.number, len(self._places), place.process.pid)

    def _look(self, place: Place, now: float) -> None:
        """See whether it has ended: well, for good, or to be started again."""
        assert place.process is not None
        code = place.process.poll()
        if code is None:
            return
        if code == WELL:
            place.process, place.ended = None, True
            log.info("process %d has ended", place.number)
        elif code == USAGE:
            # It would end so again, and has said why: only a change of the sources can help.
            place.process, place.due = None, float("inf")
            if self._files is None:
                self._status, self._stops = USAGE, self._stops + 1
        else:
            pause = place.died(now)
            log.warning("process %d died (%s); the next one in %.1f s", place.number, _how(code), pause)

    def _again(self, changed: str) -> None:
        log.info("%s has changed: starts again", changed)
        self._end()
        self._status = WELL
        for place in self._places:
            place.process, place.ended, place.due, place.pause = None, False, 0.0, FIRST_PAUSE

    def _running(self) -> list[subprocess.Popen[bytes]]:
        return [one for one in (place.process for place in self._places) if one is not None and one.poll() is None]

    def _clear(self) -> None:
        """Leave none behind, whatever has failed: they may end their work, unless they are told to stop once more."""
        running, told, until = self._running(), self._stops, time.monotonic() + LAST_GRACE
        for process in running:
            _tell(process, kill=False)
        while any(process.poll() is None for process in running):
            if self._stops > told or time.monotonic() > until:
                for process in running:
                    process.kill()
            time.sleep(BEAT / 4)

    def _end(self) -> None:
        """Tell all to stop, and wait; told a second time, they are to stop at once, a third time they are killed."""
        running = self._running()  # one that has died before is no fault of the stop
        told = 0
        while any(process.poll() is None for process in running):
            if told < max(1, self._stops):
                told += 1
                for process in running:
                    if process.poll() is None:
                        _tell(process, kill=told > 2)
            time.sleep(BEAT / 4)
        badly = [process for process in running if process.returncode not in (WELL, -signal.SIGTERM)]
        for process in badly:
            log.warning("pid %d ended badly (%s)", process.pid, _how(process.returncode))
        if badly and self._stops:
            self._status = self._status or FAILED


def _tell(process: subprocess.Popen[bytes], *, kill: bool) -> None:
    if kill:
        process.kill()
    elif sys.platform == "win32":
        assert process.stdin is not None
        process.stdin.close()
    else:
        process.terminate()


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit status {code}"
