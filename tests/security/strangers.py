"""A server that answers what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self


class Asked(NamedTuple):
    """One request: what came, and the credentials that came with it."""

    path: str
    authorization: str | None


class Answer(NamedTuple):
    """What to say to a request."""

    status: int
    body: bytes = b""
    location: str = ""


class Stranger:
    """Listens on a free loopback port; a context manager."""

    def __init__(self, answer: Callable[[str], Answer], *, context: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        self.touched = 0
        stranger = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                stranger.asked.append(Asked(self.path, self.headers.get("Authorization")))
                said = answer(self.path)
                self.send_response(said.status)
                if said.location:
                    self.send_header("Location", said.location + self.path)
                self.send_header("Content-Length", str(len(said.body)))
                self.end_headers()
                self.wfile.write(said.body)

            do_POST = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def get_request(self) -> tuple[socket.socket, Any]:
                found = super().get_request()
                stranger.touched += 1
                return found

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # the other side went away, or did not like the certificate

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        self.scheme = "http" if context is None else "https"
        if context is not None:
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(15)


def refuses(path: str) -> Answer:
    """As a node does whose password is another."""
    return Answer(401)


def listing(*addresses: str, leader: str) -> Answer:
    """A reply of /nodes."""
    nodes = [
        {"id": address, "api_addr": address, "leader": address == leader, "reachable": True} for address in addresses
    ]
    return Answer(200, json.dumps({"nodes": nodes}).encode())
