"""A PostgreSQL of the bench's own: in a temporary folder, on a free port, gone when the bench ends."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cluster import free_port

from .peer import Missing

START_SECONDS = 30.0
# Where Debian has what is not on PATH.
DEBIAN = "/usr/lib/postgresql"
# PostgreSQL refuses to run as root.
USERS = ("postgres", "nobody")


def find(program: str) -> str:
    """The path of a program of PostgreSQL, of the newest version that is installed; raises `Missing`."""
    versions = sorted(Path(DEBIAN).glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    found = shutil.which(program, path=os.pathsep.join([*map(str, versions), os.environ.get("PATH", "")]))
    if found is None:
        raise Missing(f"no {program}: PostgreSQL is not installed")
    return found


class Postgres:
    """Runs with its defaults (fsync and synchronous_commit on) and listens on loopback alone; a context manager."""

    def __init__(self) -> None:
        initdb, server = find("initdb"), find("postgres")
        self.version = _output([server, "--version"]).split()[2]
        self._user = _other_user()
        self._folder = Path(tempfile.mkdtemp(prefix="rqfast-postgres-"))
        self._process: subprocess.Popen[bytes] | None = None
        try:
            if self._user is not None:
                shutil.chown(self._folder, self._user)
            data = str(self._folder / "data")
            self._run([initdb, "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--locale=C"])
            port = free_port()
            self.address = f"host=127.0.0.1 port={port} user=bench"
            options = [f"-cport={port}", "-clisten_addresses=127.0.0.1", f"-cunix_socket_directories={self._folder}"]
            with (self._folder / "log").open("wb") as log:
                self._process = subprocess.Popen(
                    [server, "-D", data, *options],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    user=self._user,
                    start_new_session=True,
                )
            self._wait(find("pg_isready"), port)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Of the process whose children serve the connections."""
        assert self._process is not None
        return self._process.pid

    def _run(self, command: Sequence[str]) -> None:
        done = subprocess.run(command, capture_output=True, user=self._user, cwd="/", timeout=60, check=False)
        if done.returncode != 0:
            raise Missing(f"{command[0]} failed: {done.stderr.decode(errors='replace').strip()}")

    def _wait(self, is_ready: str, port: int) -> None:
        end = time.monotonic() + START_SECONDS
        command = [is_ready, "-q", "-h", "127.0.0.1", "-p", str(port)]
        while subprocess.run(command, timeout=10, check=False).returncode != 0:
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > end:
                log = (self._folder / "log").read_text(errors="replace")
                raise Missing(f"PostgreSQL did not start: {log.strip()[-300:]}")
            time.sleep(0.05)

    def close(self) -> None:
        """Stop it and remove its folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(timeout=20)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _other_user() -> str | None:
    """Whom to run it as: None, or for root somebody else."""
    if os.geteuid() != 0:
        return None
    for name in USERS:
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise Missing("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
