"""What a reply says about a request: applied, not applied or unknown, by the texts that real servers sent."""

import errno
import os
import socket
import ssl
from typing import Any

import aiohttp
import orjson
import pytest

from rqfast import ConfigError, SchemaError, StatementError
from rqfast.engine.outcome import RETURNING, Kind, Reply, Result, of_exception, of_reply, why

NODE = "http://127.0.0.1:4001"
LANE = "rqfast_lane"


def classify(status: int, body: object = b"", location: str = "") -> Result:
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    return of_reply(Reply(status, location, data, NODE), ["lane_step", "clock_step", "outcome"], LANE)


def test_rows_of_each_statement_when_applied() -> None:
    reply = {"results": [{"rows_affected": 1}, {}, {"columns": ["n"], "types": ["integer"], "values": [[7]]}]}
    result = classify(200, reply)
    assert result.kind is Kind.APPLIED
    assert result.rows == [None, None, [[7]]]


def test_a_statement_that_found_nothing_is_not_one_without_rows() -> None:
    result = classify(200, {"results": [{}, {}, {"columns": ["n"], "types": ["integer"]}]})
    assert result.rows == [None, None, []]


def test_a_refused_number_means_that_it_was_applied_before() -> None:
    result = classify(200, {"results": [{"error": f"NOT NULL constraint failed: {LANE}.n"}]})
    assert result.kind is Kind.REFUSED


def test_the_same_text_in_another_slot_is_an_error() -> None:
    result = classify(200, {"results": [{}, {"error": f"NOT NULL constraint failed: {LANE}.n"}]})
    assert result.kind is Kind.FATAL
    assert isinstance(result.error, StatementError)
    assert result.error.statement == "clock_step"


@pytest.mark.parametrize(
    "text",
    [
        "not leader",
        "leadership transfer in progress",
        "store not ready",
        "store not open",
        "timed out enqueuing operation",
        "node failed to process Execute on remote node at 127.0.0.1:4002: not leader",
        "pool get: dial tcp 127.0.0.1:4002: connect: connection refused",
    ],
)
def test_not_applied_by_a_whole_request_error(text: str) -> None:
    assert classify(200, {"results": [], "error": text}).kind is Kind.NOT_APPLIED


@pytest.mark.parametrize(
    "text",
    [
        "leadership lost while committing log",
        "read protobuf length: EOF",
        "read tcp 127.0.0.1:1->127.0.0.1:2: i/o timeout",
        "write protobuf: broken pipe",
        "a text that nobody has seen before",
    ],
)
def test_unknown_by_a_whole_request_error(text: str) -> None:
    assert classify(200, {"results": [], "error": text}).kind is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (500, b"leader address: leader not found"),
        (500, b"leader not found"),
        (503, b"leader not found"),
    ],
)
def test_no_leader_is_not_applied(status: int, text: bytes) -> None:
    assert classify(status, text).kind is Kind.NOT_APPLIED


@pytest.mark.parametrize(("status", "text"), [(500, b"json: unsupported value: +Inf"), (502, b""), (503, b"busy")])
def test_other_server_errors_are_unknown(status: int, text: bytes) -> None:
    assert classify(status, text).kind is Kind.UNKNOWN


def test_a_redirect_names_the_leader() -> None:
    result = classify(301, b"", "http://127.0.0.1:4003/db/execute?transaction")
    assert result.kind is Kind.NOT_APPLIED
    assert result.leader.startswith("http://127.0.0.1:4003")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"null", b'{"results":1}', b'{"results":[1]}', b"\xff"])
def test_garbage_is_unknown(body: bytes) -> None:
    assert classify(200, body).kind is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("status", "kind"), [(401, ConfigError), (403, ConfigError), (400, StatementError), (405, StatementError)]
)
def test_what_is_refused_for_good_raises_its_own_error(status: int, kind: type[Exception]) -> None:
    result = classify(status, b"why")
    assert result.kind is Kind.FATAL
    assert isinstance(result.error, kind)


@pytest.mark.parametrize(
    "text", ["no such table: messages", "no such index: rqfast_m_head", "no such column: rank", "no such view: v"]
)
def test_tables_that_are_gone_never_pass_for_success(text: str) -> None:
    result = classify(200, {"results": [{}, {"error": text}]})
    assert isinstance(result.error, SchemaError)
    assert "nothing was applied" in str(result.error)


@pytest.mark.parametrize("text", ["no such table: rqfast_state", "string or blob too big"])
@pytest.mark.parametrize("name", sorted(RETURNING))
def test_what_a_server_may_commit_in_part_is_not_called_undone(name: str, text: str) -> None:
    # A RETURNING that fails undoes the others only from v9.4.2 on.
    reply = Reply(200, "", orjson.dumps({"results": [{}, {"error": text}, {"values": [[1]]}]}), NODE)
    result = of_reply(reply, ["lane_step", name, "outcome"], LANE)
    assert result.kind is Kind.FATAL
    assert "may have taken effect in part" in str(result.error)
    assert "nothing was applied" not in str(result.error)


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize(
    "text",
    [
        "database or disk is full",
        "disk I/O error: no space left on device",
        "database disk image is malformed",
        "sql: database is closed",
    ],
)
def test_what_befell_one_node_is_no_refusal(text: str, at: int) -> None:
    """The log had the request: others may have applied it, and the node may when it reads its log again."""
    result = classify(200, {"results": [{}] * at + [{"error": text}]})
    assert result.kind is Kind.UNKNOWN
    assert result.text == text


CONNECTION: Any = aiohttp.client_reqrep.ConnectionKey("127.0.0.1", 1, False, True, None, None, None)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (aiohttp.ClientConnectorError(CONNECTION, OSError(111, "refused")), Kind.NOT_APPLIED),
        (aiohttp.ConnectionTimeoutError(), Kind.NOT_APPLIED),
        (aiohttp.ServerDisconnectedError(), Kind.UNKNOWN),
        (aiohttp.ClientOSError(104, "reset"), Kind.UNKNOWN),
        (aiohttp.ClientPayloadError("cut"), Kind.UNKNOWN),
        (TimeoutError(), Kind.UNKNOWN),
        (ConnectionResetError(), Kind.UNKNOWN),
    ],
)
def test_a_request_without_a_reply(error: BaseException, kind: Kind) -> None:
    result = of_exception(error, NODE)
    assert result.kind is kind
    assert result.unreachable is (kind is Kind.NOT_APPLIED)


REFUSED = f"[Errno {errno.ECONNREFUSED}]"


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 9)"), "connection refused"),
        (OSError(errno.EHOSTUNREACH, "Connect call failed"), os.strerror(errno.EHOSTUNREACH).lower()),
        (OSError(f"Multiple exceptions: {REFUSED} a, {REFUSED} b"), "connection refused"),
        (OSError(f"Multiple exceptions: {REFUSED} a, [Errno 1] b"), "no connection: Multiple"),
        (socket.gaierror(-2, "Name or service not known"), "no connection: Name or service not known"),
    ],
)
def test_why_there_is_no_connection(cause: OSError, told: str) -> None:
    text = why(aiohttp.ClientConnectorError(CONNECTION, cause))
    assert text.startswith(told) and "ssl:" not in text


def test_a_certificate_that_is_not_accepted_is_an_error_of_configuration() -> None:
    error = aiohttp.ClientConnectorCertificateError(CONNECTION, ssl.SSLCertVerificationError("self-signed"))
    assert isinstance(of_exception(error, NODE).error, ConfigError)


def test_a_fault_of_our_own_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        of_exception(ZeroDivisionError(), NODE)


def test_tls_that_breaks_on_a_connection_that_stood_leaves_it_open_whether_the_request_was_applied() -> None:
    """Something on the way may answer without TLS after the server has read the request."""
    cause = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    cause.reason = "WRONG_VERSION_NUMBER"
    error = aiohttp.ClientOSError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    error.__cause__ = cause
    assert of_exception(error, "https://127.0.0.1:4001").kind is Kind.UNKNOWN
