"""What a reply, or its absence, says about a request: applied, not applied, or unknown.

HTTP 200 is not success and an error is not failure: a write whose reply was lost is usually there.  Only what is
known to have happened before the log counts as *not applied*; text that nobody has seen before is *unknown*.
"""

from __future__ import annotations

import asyncio
import enum
import errno
import os
import re
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from .._core import decode_reply, slot_errors, slot_rows
from ..errors import ConfigError, GarbledReply, NotHeld, Published, RqfastError, SchemaError, StatementError

_NOT_APPLIED = (
    "not leader",
    "leader not found",
    "leadership transfer in progress",
    "store not ready",
    "store not open",
    "timed out enqueuing operation",
    "pool get: dial tcp",
)
# The other side went away in the handshake, as when a node ends.
_TLS_CUT = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
REFUSED = "connection refused"
_ERRNO = re.compile(r"\[Errno (\d+)\]")
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
_SCHEMA = (
    "no such table",
    "no such column",
    "no such index",
    "no such view",
    "has no column",
    "no query solution",
)
# What a node's own disk or memory did to it, after the log had the request: other nodes may have applied it, and the
# node itself does when it starts again and reads its log.
_OF_ONE_NODE = (
    "database or disk is full",
    "disk I/O error",
    "database disk image is malformed",
    "file is not a database",
    "unable to open database file",
    "attempt to write a readonly database",
    "database is locked",
    "out of memory",
    # It is ending.
    "sql: database is closed",
    "sql: connection is already closed",
    "driver: bad connection",
)

# Statements that roll all back by making the lane's number NULL.
GUARDS = ("guard", "dedup_guard")
# The statements that give rows.
RETURNING = frozenset(
    ("claim_heads", "run_claim", "dedup_seqs", "outcome", "outcome_high", "operate_outcome", "table_outcome")
)


class Kind(enum.Enum):
    """What became of one copy of a request."""

    APPLIED = "applied"
    REFUSED = "refused"
    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"
    FATAL = "fatal"


@dataclass(slots=True)
class Reply:
    """An HTTP reply, read to its end."""

    status: int
    location: str
    body: bytes
    node: str


@dataclass(slots=True)
class Result:
    """The verdict on one copy of a request.

    `rows` of each statement when applied; `text` in the server's words; `leader` where it pointed to another node;
    `unreachable` when no connection to the node could be made; `error` what to raise when it is fatal.
    """

    kind: Kind
    text: str = ""
    rows: list[list[Any] | None] = field(default_factory=list)
    leader: str = ""
    unreachable: bool = False
    error: RqfastError | None = None


def of_reply(reply: Reply, statements: list[str], lane_table: str) -> Result:
    """Classify a reply to a request whose statements have these names."""
    if reply.status == 200:
        return _of_body(reply, statements, lane_table)
    text = reply.body[:500].decode("utf-8", "replace").strip()
    if reply.status in (301, 302, 307, 308):
        return Result(Kind.NOT_APPLIED, "not the leader", leader=reply.location)
    if reply.status in (401, 403):
        said = f"{reply.status} {text}".strip()
        return _fatal(
            ConfigError(
                f"{reply.node} refused the credentials ({said}): give user and password in the URL or auth=, "
                "with the rights execute, query and status"
            )
        )
    plain = speaks_tls(reply.body, reply.node) if reply.status == 400 else None
    if plain is not None:
        return _fatal(plain)
    if 400 <= reply.status < 500 or "SQL rewrite: panic" in text:
        return _fatal(StatementError(f"{reply.node} refused the request: {reply.status} {text}", text))
    if any(known in text for known in _NOT_APPLIED):
        return Result(Kind.NOT_APPLIED, text)
    return Result(Kind.UNKNOWN, f"{reply.status} {text}")


def _of_body(reply: Reply, statements: list[str], lane_table: str) -> Result:
    try:
        results, error = decode_reply(reply.body)
        if error is not None:
            kind = Kind.NOT_APPLIED if any(known in error for known in _NOT_APPLIED) else Kind.UNKNOWN
            return Result(kind, error)
        errors = slot_errors(results)
        if errors:
            return _of_slots(errors, reply.node, statements, lane_table)
        return Result(Kind.APPLIED, rows=slot_rows(results))
    except GarbledReply as garbled:
        return Result(Kind.UNKNOWN, str(garbled))


def _of_slots(errors: list[tuple[int, str]], node: str, statements: list[str], lane_table: str) -> Result:
    position, text = errors[0]
    refusal = text == f"NOT NULL constraint failed: {lane_table}.n"
    if position == 0 and refusal:
        return Result(Kind.REFUSED, text)
    name = statements[position] if position < len(statements) else f"statement {position}"
    if text.startswith(_OF_ONE_NODE):
        return Result(Kind.UNKNOWN, text)
    if refusal and name in GUARDS:
        return _fatal(Published() if name == "dedup_guard" else NotHeld())
    # A statement that fails, or does not prepare, undoes all; but when it has a RETURNING, servers before v9.4.2 go
    # on with the others and commit them: nothing here may pass for success.
    became = "the call may have taken effect in part" if name in RETURNING else "nothing was applied"
    if any(known in text for known in _SCHEMA) and not name.startswith("with_statements"):
        return _fatal(
            SchemaError(
                f"{node}: {text} ({name}): the queue's tables were changed under this client; {became}, check the "
                "tables before you go on"
            )
        )
    return _fatal(StatementError(f"{node}: {text} ({name}); {became}", text, name))


def why(error: BaseException) -> str:
    """Why no reply came (str); of a connection that was not made the system's reason, without aiohttp's words."""
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        cause = error.os_error
        if isinstance(cause, ConnectionRefusedError):
            return REFUSED
        # Of a name with several addresses asyncio has one text with all of them.
        numbers = {cause.errno} if cause.errno else {int(n) for n in _ERRNO.findall(str(cause))}
        number = numbers.pop() if len(numbers) == 1 else None
        if number is not None and number in errno.errorcode and not isinstance(cause, socket.gaierror):
            return REFUSED if number == errno.ECONNREFUSED else os.strerror(number).lower()
        return f"no connection: {cause.strerror or cause}"
    return f"{type(error).__name__}: {error}".rstrip(": ")


def of_exception(error: BaseException, node: str) -> Result:
    """Classify a request that got no reply."""
    text = why(error)
    refused = tls_refused(error, node)
    if refused is not None:
        return _fatal(refused)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return Result(Kind.NOT_APPLIED, text, unreachable=True)
    if isinstance(error, aiohttp.InvalidURL):
        return _fatal(ConfigError(f"{node} is not a URL"))
    if isinstance(error, aiohttp.ClientError | asyncio.TimeoutError | OSError):
        return Result(Kind.UNKNOWN, text)
    raise error


def tls_refused(error: BaseException, node: str) -> ConfigError | None:
    """What to raise when node and client cannot agree on TLS, whoever refused whom; nothing was applied then."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return ConfigError(
            f"{node}: its certificate was not accepted ({error}); pass ssl= with the right authority "
            "(ssl.create_default_context(cafile=..))"
        )
    cause = error.__cause__ if isinstance(error.__cause__, ssl.SSLError) else error
    if not isinstance(cause, ssl.SSLError) or isinstance(cause, _TLS_CUT):
        return None
    reason = str(getattr(cause, "reason", ""))
    if "ALERT" in reason and ("CERT" in reason or "UNKNOWN_CA" in reason):
        return ConfigError(
            f"{node} wants another client certificate, or one at all ({reason}); pass ssl= with it "
            "(context.load_cert_chain(certificate, key))"
        )
    # On a connection that stands, what breaks it may come after the server has read the request.
    if reason in _NO_TLS and isinstance(error, aiohttp.ClientConnectorError):
        return ConfigError(f"{node} does not speak TLS ({reason}): the URL says https, and rqfast never falls back")
    if isinstance(error, aiohttp.ClientSSLError):
        return ConfigError(f"{node}: no TLS connection could be agreed on ({error}); look at the versions in ssl=")
    return None


def speaks_tls(body: bytes, node: str) -> ConfigError | None:
    """What to raise when this is the refusal of a plain request by a port for TLS."""
    if b"HTTP request to an HTTPS server" not in body[:200]:
        return None
    return ConfigError(f"{node} speaks TLS and the URL says http: write https:// (or rqlites://)")


def _fatal(error: RqfastError) -> Result:
    return Result(Kind.FATAL, str(error), error=error)
