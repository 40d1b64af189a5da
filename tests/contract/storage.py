"""Disks that are full, files that cannot be written, syncs that fail: made for a test and taken away again."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# System calls by machine: fsync, fdatasync.
SYNCS = {"x86_64": (74, 75), "aarch64": (82, 83)}


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of this size; skips where none can be mounted."""
    mount = shutil.which("mount")
    if sys.platform != "linux" or mount is None or os.geteuid() != 0:
        pytest.skip("a small disk is mounted by root, on Linux")
    folder.mkdir()
    mounted = subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False, timeout=30
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.decode(errors='replace').strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=30)


@contextlib.contextmanager
def filled(folder: Path, leave: int = 0) -> Iterator[None]:
    """Another program has taken all room on this disk, but for so many bytes."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                break
        file.truncate(max(0, file.tell() - leave))
    try:
        yield
    finally:
        filler.unlink()


def give_up_rights() -> None:
    """From now on this thread, and those that it starts, obey the modes of files, also as root; in a child process."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    # No capability at all, by the third version of this interface.
    if libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "capset")


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


def without_sync(work: Callable[[], object]) -> None:
    """Run this in a thread in which a disk refuses to sync; skips where that cannot be had."""
    numbers = SYNCS.get(platform.machine())
    if sys.platform != "linux" or numbers is None:
        pytest.skip("syncs are made to fail on Linux, on x86_64 and aarch64")
    outcome: list[BaseException | None] = []

    def run() -> None:
        try:
            if _refuse(numbers):
                work()
                outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "waited 30 s for a call whose sync fails"
    if not outcome:
        pytest.skip("this system filters no system calls")
    if outcome[0] is not None:
        raise outcome[0]


def _refuse(numbers: tuple[int, int]) -> bool:
    """Let these system calls fail with EIO in this thread; whether that could be done."""
    load, equals, give = 0x20, 0x15, 0x06
    program = (_Instruction * 5)(
        _Instruction(load, 0, 0, 0),
        _Instruction(equals, 1, 0, numbers[0]),
        _Instruction(equals, 0, 1, numbers[1]),
        _Instruction(give, 0, 0, 0x00050000 | errno.EIO),
        _Instruction(give, 0, 0, 0x7FFF0000),
    )
    libc = ctypes.CDLL(None, use_errno=True)
    filters = _Program(len(program), program)
    # PR_SET_NO_NEW_PRIVS, then PR_SET_SECCOMP with a filter: both of this thread alone.
    return libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(filters), 0, 0) == 0
