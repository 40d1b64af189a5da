"""Real rqlited servers for tests: one node or a cluster that starts, dies, hangs and comes back on demand.

Standard library only. What was started here is stopped here: by `close()`, at interpreter exit, and on Linux
by the kernel when the test process itself is killed.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlsplit

T = TypeVar("T")
Auth = tuple[str, str]

START_SECONDS = 30.0
MEMORY_BYTES = 6 << 30  # of address space: a server that runs wild must not take the machine with it
NO_SERVER = "no rqlited: put it on PATH or name it in RQFAST_RQLITED"

# Runs as its own small program, so that no Python code runs between fork and exec of a process with threads.
_LAUNCH = """
import os, sys
memory, parent = int(sys.argv[1]), int(sys.argv[2])
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
    if os.getppid() != parent:
        sys.exit("the test process is gone")
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
except (ImportError, ValueError, OSError):
    pass
os.execv(sys.argv[3], sys.argv[3:])
"""

# The death signal above is tied to the thread that starts a process, so one lasting thread starts them all.
_spawner = ThreadPoolExecutor(1, thread_name_prefix="rqlited-spawner")
_owner = os.getpid()
_nodes: set[Node] = set()
_ports_given: set[int] = set()


class ServerError(AssertionError):
    """A server did not do what the test needs; says what was waited for and shows the end of its log."""


def find_rqlited() -> str | None:
    """The server binary: RQFAST_RQLITED, else `rqlited` on PATH, else None."""
    named = os.environ.get("RQFAST_RQLITED")
    return shutil.which(named) if named else shutil.which("rqlited")


def run_servers_on(cores: set[int]) -> None:
    """Let servers that are started from now on run on these cores only; Linux."""
    _spawner.submit(os.sched_setaffinity, 0, cores).result(timeout=START_SECONDS)


def wait_until(
    what: str | Callable[[], str], look: Callable[[], T | None], timeout: float = 15.0, every: float = 0.02
) -> T:
    """Call `look` until it gives something true; the failure names `what`."""
    end = time.monotonic() + timeout
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() >= end:
            raise ServerError(f"waited {timeout:g} s for {what if isinstance(what, str) else what()}")
        time.sleep(every)


def free_port() -> int:
    """A free loopback port outside the range the kernel gives to clients, so that a restart finds it free."""
    for _ in range(200):
        port = _bindable(_random_port())
        if port and port not in _ports_given:
            _ports_given.add(port)
            return port
    raise ServerError("no free loopback port found in 200 tries")


def _random_port() -> int:
    try:
        clients = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        clients = 0
    return random.SystemRandom().randrange(18_000, 32_000) if clients >= 32_000 else 0


def _bindable(port: int) -> int:
    """The port if it can be had now (for 0: the one the kernel gives), else 0."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
        return int(probe.getsockname()[1])


def make_certificate(folder: Path) -> tuple[Path, Path] | None:
    """A self-signed certificate for 127.0.0.1 and its key, or None where there is no `openssl` command."""
    openssl = shutil.which("openssl")
    if openssl is None:
        return None
    certificate, key = folder / "node.crt", folder / "node.key"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    made = subprocess.run(command, capture_output=True, timeout=60, check=False)
    if made.returncode != 0:
        raise ServerError(f"openssl made no certificate: {made.stderr.decode(errors='replace')}")
    return certificate, key


class Node:
    """One rqlited in a folder of its own. `start()` returns when it answers as itself and knows a leader."""

    def __init__(
        self,
        node_id: str = "1",
        *,
        args: Sequence[str] = (),
        auth: Auth | None = None,
        tls: tuple[Path, Path] | None = None,
        client: tuple[Path, Path] | None = None,
        binary: str | None = None,
        memory: int = MEMORY_BYTES,
    ) -> None:
        found = binary or find_rqlited()
        if found is None:
            raise ServerError(NO_SERVER)
        self.binary, self.node_id, self.auth, self.tls, self.memory = found, node_id, auth, tls, memory
        self.args = list(args)
        self.folder = Path(tempfile.mkdtemp(prefix=f"rqfast-node-{node_id}-"))
        self.log = self.folder / "log"
        self.http_port = self.raft_port = 0
        self.paused = False
        self._join: list[str] = []
        self._has_state = False  # it has been ready once: its folder says who its peers are
        self._process: subprocess.Popen[bytes] | None = None
        self._context = ssl.create_default_context(cafile=str(tls[0])) if tls else None
        if self._context is not None and client is not None:
            self._context.load_cert_chain(*map(str, client))  # for `-http-verify-client`
        _nodes.add(self)

    # -- life ------------------------------------------------------------------------------------------

    def start(self, join: Sequence[Node] = (), *, timeout: float = START_SECONDS) -> Self:
        self.launch(join)
        return self.wait_ready(timeout)

    def launch(self, join: Sequence[Node] = ()) -> None:
        """Start the process without waiting for it; `wait_ready()` follows."""
        self._join = [f"127.0.0.1:{node.raft_port}" for node in join]
        self.http_port, self.raft_port = free_port(), free_port()
        self._spawn()

    def wait_ready(self, timeout: float = START_SECONDS) -> Self:
        """Wait until the node answers under its own id and knows a leader; a port clash is started again."""
        end = time.monotonic() + timeout
        while not self._is_ready():
            if not self.running and not self._clashed():
                raise ServerError(f"node {self.node_id} ended before it was ready\n{self.tail()}")
            if not self.running:
                if not self._has_state:
                    self.http_port, self.raft_port = free_port(), free_port()
                self._spawn()
            if time.monotonic() >= end:
                raise ServerError(f"waited {timeout:g} s for node {self.node_id} to be ready\n{self.tail()}")
            time.sleep(0.05)
        self._has_state = True
        return self

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._end(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)

    def terminate(self) -> None:
        """SIGTERM (a leader steps down first), and wait until it is gone."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing answers."""
        self._signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.paused = False

    def restart(self, *, wait: bool = True, timeout: float = START_SECONDS) -> Self:
        """Start again in the same folder on the same ports. `wait=False` where no majority is up yet."""
        if self.running:
            raise ServerError(f"node {self.node_id} still runs: kill or terminate it first")
        self._spawn()
        return self.wait_ready(timeout) if wait else self

    def close(self) -> None:
        """Stop the server and remove its folder."""
        if os.getpid() != _owner or self not in _nodes:
            return
        _nodes.discard(self)
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """Of the server, None before it was started."""
        return None if self._process is None else self._process.pid

    def tail(self, lines: int = 15) -> str:
        """The end of the server's log."""
        try:
            text = self.log.read_text(errors="replace").splitlines()
        except OSError:
            text = ["(no log)"]
        return "\n".join([f"--- end of the log of node {self.node_id}", *text[-lines:]])

    def _spawn(self) -> None:
        command = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(self.memory), str(os.getpid()), self.binary]
        command += ["-node-id", self.node_id, "-http-addr", f"127.0.0.1:{self.http_port}"]
        command += ["-raft-addr", f"127.0.0.1:{self.raft_port}", *self.args]
        if self._join and not self._has_state:
            command += ["-join", ",".join(self._join), "-join-interval", "250ms", "-join-attempts", "100"]
        if self.tls:
            command += ["-http-cert", str(self.tls[0]), "-http-key", str(self.tls[1])]
        if self.auth:
            users = [{"username": self.auth[0], "password": self.auth[1], "perms": ["all"]}]
            (self.folder / "auth.json").write_text(json.dumps(users))
            command += ["-auth", str(self.folder / "auth.json"), "-join-as", self.auth[0]]
        command.append(str(self.folder / "data"))
        environment = {**os.environ, "GOMEMLIMIT": "1GiB"}

        def spawn() -> subprocess.Popen[bytes]:
            with self.log.open("ab") as log:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    start_new_session=True,  # Ctrl-C on the terminal is for the tests, not for the servers
                )

        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._process = _spawner.submit(spawn).result(timeout=START_SECONDS)
        self.paused = False

    def _is_ready(self) -> bool:
        try:
            status, body = self.request("GET", "/status", timeout=2)
            if status != 200 or json.loads(body)["store"]["node_id"] != self.node_id:
                return False
            return self.request("GET", "/readyz", timeout=2)[0] == 200
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return False

    def _clashed(self) -> bool:
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return b"address already in use" in log.read()

    def _signal(self, number: int) -> None:
        if self._process is None or not self.running:
            raise ServerError(f"node {self.node_id} is not running\n{self.tail()}")
        self._process.send_signal(number)

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(number)
            if self.paused and number != getattr(signal, "SIGKILL", None):
                self.resume()  # a stopped process takes no other signal
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=20)
        self.paused = False

    # -- talk ------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.http_port}"

    def request(self, method: str, path: str, body: bytes | None = None, *, timeout: float = 15.0) -> tuple[int, bytes]:
        """One raw request to this node: status and body."""
        if self._context is not None:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                "127.0.0.1", self.http_port, timeout=timeout, context=self._context
            )
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=timeout)
        headers = {"Content-Type": "application/json"}
        if self.auth:
            headers["Authorization"] = "Basic " + base64.b64encode(":".join(self.auth).encode()).decode()
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read()

    def raft(self) -> dict[str, Any]:
        """The node's own view of Raft: state, term, last_log_index, commit_index, applied_index and more."""
        status, body = self.request("GET", "/status")
        if status != 200:
            raise ServerError(f"node {self.node_id} answered /status with {status}\n{self.tail()}")
        found: dict[str, Any] = json.loads(body)["store"]["raft"]
        return found

    def __repr__(self) -> str:
        state = "paused" if self.paused else "running" if self.running else "stopped"
        return f"<Node {self.node_id} {self.url} {state}>"


class Cluster:
    """`n` nodes that form one cluster; a context manager. `args` go to every node."""

    def __init__(
        self,
        n: int = 1,
        *,
        args: Sequence[str] = (),
        auth: Auth | None = None,
        tls: tuple[Path, Path] | None = None,
        client: tuple[Path, Path] | None = None,
        binary: str | None = None,
    ) -> None:
        self.auth = auth
        self.nodes: list[Node] = []
        self._leader: Node | None = None
        try:
            for number in range(1, n + 1):
                self.nodes.append(Node(str(number), args=args, auth=auth, tls=tls, client=client, binary=binary))
            first, *others = self.nodes
            first.start()
            for node in others:
                node.launch(join=[first])
            for node in others:
                node.wait_ready()
            self.wait_leader()
        except BaseException:
            self.close()
            raise

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    @property
    def url(self) -> str:
        """All nodes in one URL, as `rqfast.connect` takes it."""
        user = ":".join(quote(part, safe="") for part in self.auth) + "@" if self.auth else ""
        scheme = urlsplit(self.urls[0]).scheme
        return f"{scheme}://{user}" + ",".join(urlsplit(url).netloc for url in self.urls)

    def leader(self) -> Node:
        """The node that leads now."""
        return self.wait_leader()

    def followers(self) -> list[Node]:
        """All nodes but the leader, whether they run or not."""
        leader = self.leader()
        return [node for node in self.nodes if node is not leader]

    def wait_leader(self, timeout: float = START_SECONDS) -> Node:
        """Wait until a node leads and a majority confirms it: it answers a linearizable read."""
        return wait_until(
            lambda: "a leader that a majority confirms\n" + self._tails(), self._confirmed_leader, timeout
        )

    def wait_applied(self, timeout: float = START_SECONDS) -> None:
        """Wait until every running node has applied all that the leader has committed by now."""
        target = int(self.leader().raft()["commit_index"])

        def applied() -> bool:
            return all(int(node.raft()["applied_index"]) >= target for node in self._able())

        wait_until(lambda: f"all nodes to apply entry {target}\n" + self._tails(), applied, timeout)

    def raft_entries(self) -> int:
        """Entries in the leader's Raft log so far: a difference of two counts what was written in between."""
        return int(self.leader().raft()["last_log_index"])

    def applied_index(self) -> int:
        """The last entry that the leader has applied."""
        return int(self.leader().raft()["applied_index"])

    def execute(self, sql: str, *params: object) -> dict[str, Any]:
        """Write one statement through the leader; its slot of the reply."""
        return self.execute_many([[sql, *params]])[0]

    def execute_many(self, statements: Sequence[Sequence[object]]) -> list[dict[str, Any]]:
        """Write statements in one transaction through the leader."""
        return self._call("/db/execute?transaction", statements)

    def query(self, sql: str, *params: object, level: str = "linearizable") -> list[tuple[Any, ...]]:
        """Rows of one read that sees every write confirmed so far; adds no Raft entry."""
        slot = self._call(f"/db/query?level={level}", [[sql, *params]])[0]
        return [tuple(row) for row in slot.get("values", [])]

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, path: str, statements: Sequence[Sequence[object]]) -> list[dict[str, Any]]:
        body = json.dumps(statements).encode()

        def attempt() -> list[dict[str, Any]] | None:
            node = self._leader if self._leader in self._able() else self.wait_leader()
            assert node is not None
            status, text = node.request("POST", path + "&redirect", body)
            if status in (301, 500, 503):  # it does not lead any more, and has applied nothing
                self._leader = None
                return None
            reply: dict[str, Any] = json.loads(text) if status == 200 else {"error": f"{status} {text!r}"}
            results: list[dict[str, Any]] = reply.get("results", [])
            bad = [slot["error"] for slot in [*results, reply] if "error" in slot]
            if bad == ["not leader"]:
                self._leader = None
                return None
            if bad:
                raise ServerError(f"node {node.node_id}: {bad[0]} for {statements!r:.500}")
            return results

        return wait_until(f"the leader to answer {path}", attempt, START_SECONDS)

    def _able(self) -> list[Node]:
        return [node for node in self.nodes if node.running and not node.paused]

    def _confirmed_leader(self) -> Node | None:
        leading: list[tuple[int, Node]] = []
        for node in self._able():
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError, ServerError):
                raft = node.raft()
                if raft["state"] == "Leader":
                    leading.append((int(raft["term"]), node))
        if not leading:
            return None
        leader = max(leading, key=lambda pair: pair[0])[1]
        # The first linearizable read of a term writes a Raft entry: it is spent here, before a test counts.
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            path = "/db/query?level=linearizable&linearizable_timeout=2s&redirect"
            status, text = leader.request("POST", path, b'["SELECT 1"]', timeout=5)
            if status == 200 and json.loads(text)["results"][0].get("values") == [[1]]:
                self._leader = leader
                return leader
        return None

    def _tails(self) -> str:
        return "\n".join(f"{node!r}\n{node.tail()}" for node in self.nodes)


@atexit.register
def _close_all() -> None:
    if os.getpid() == _owner:
        for node in list(_nodes):
            node.close()
