"""The user's own statements: what is taken, what is refused, and how rqlite gets them."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqfast import InvalidMessage
from rqfast.sql.own import check_statements, for_http

TAKEN = [
    ["INSERT INTO t VALUES(?, ?)", 1, "a"],
    ["UPDATE t SET a='?;--' WHERE b=? ;", 1],
    ["DELETE FROM t -- all of it"],
    ["/* first */ INSERT INTO t VALUES('returning')"],
    ['UPDATE "returning" SET "a;b"=?', None],
    ["UPDATE [a?b] SET `c;?`=1"],
    ["WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x"],
    ["CREATE TABLE IF NOT EXISTS t(a)"],
    ["INSERT INTO t VALUES(?)", b"\0\xff"],
    ["INSERT INTO tür VALUES(?)", True],
]
REFUSED: list[tuple[Any, type[Exception]]] = [
    ([""], InvalidMessage),
    (["   "], InvalidMessage),
    (["-- nothing"], InvalidMessage),
    (["/* nothing */;"], InvalidMessage),
    (["; ;"], InvalidMessage),
    (["INSERT INTO t VALUES(1); DELETE FROM t"], InvalidMessage),
    (["CREATE TEMP TRIGGER a AFTER INSERT ON t BEGIN DELETE FROM t; END"], InvalidMessage),
    (["begin"], InvalidMessage),
    (["COMMIT"], InvalidMessage),
    (["  /* x */ ROLLBACK"], InvalidMessage),
    (["PRAGMA synchronous=OFF"], InvalidMessage),
    (["INSERT INTO t VALUES(1) RETURNING a"], InvalidMessage),
    (["INSERT INTO t VALUES(1)\nreturning\na"], InvalidMessage),
    (["INSERT INTO t VALUES(1)RETURNING/**/a"], InvalidMessage),
    (["WITH c(a) AS (SELECT 1) DELETE FROM t WHERE a IN (SELECT a FROM c) Returning *"], InvalidMessage),
    (["UPDATE t SET a=x'00'returning\"a\""], InvalidMessage),
    (["UPDATE t SET a=1 \ufeffRETURNING a"], InvalidMessage),
    (["\ufeffCOMMIT"], InvalidMessage),
    (["INSERT INTO t VALUES(?)"], InvalidMessage),
    (["INSERT INTO t VALUES(1)", 1], InvalidMessage),
    (["INSERT INTO t VALUES(:a)", 1], InvalidMessage),
    (["INSERT INTO t VALUES(?1)", 1], InvalidMessage),
    (["INSERT INTO t VALUES(?)", 1 << 63], InvalidMessage),
    (["INSERT INTO t VALUES(?)", float("nan")], InvalidMessage),
    (["INSERT INTO t VALUES(?)", "\ud800"], InvalidMessage),
    (["INSERT INTO t VALUES('\ud800')"], InvalidMessage),
    (["INSERT INTO t VALUES('\0')"], InvalidMessage),
    (["INSERT INTO t VALUES(?)", object()], TypeError),
    (["INSERT INTO t VALUES(?)", [1]], TypeError),
    ([b"DELETE FROM t"], TypeError),
    ([], TypeError),
    ("DELETE FROM t", TypeError),
]


@pytest.mark.parametrize("statement", TAKEN, ids=str)
def test_taken(statement: list[Any]) -> None:
    checked = check_statements([statement])[0]
    assert checked[1:] == statement[1:]
    assert ";" not in checked[0].replace("'?;--'", "").replace('"a;b"', "").replace("`c;?`", "")


@pytest.mark.parametrize(("statement", "error"), REFUSED, ids=[str(at) for at in range(len(REFUSED))])
def test_refused(statement: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="with_statements"):
        check_statements([statement])


@pytest.mark.parametrize("statements", ["DELETE FROM t", 7, None, b"x"])
def test_no_list(statements: Any) -> None:
    with pytest.raises(TypeError):
        check_statements(statements)


def test_comments_go_and_what_looks_like_one_in_text_stays() -> None:
    checked = check_statements([["INSERT INTO t /* a */ VALUES('--x', \"/*y*/\") -- end"]])[0][0]
    assert checked == "INSERT INTO t   VALUES('--x', \"/*y*/\")"


def test_rqlite_gets_bytes_as_numbers_and_text_stays_text() -> None:
    statement = ["INSERT INTO t VALUES(?, '?', ?, ?)", b"\0\1", "x'00'", "plain"]
    assert for_http(statement) == [
        "INSERT INTO t VALUES(?, '?', CAST(? AS TEXT), ?)",
        [0, 1],
        list(b"x'00'"),
        "plain",
    ]


@given(st.lists(st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1), st.text(), st.binary()), max_size=5))
def test_what_is_taken_is_stored_as_it_is(values: list[Any]) -> None:
    try:
        statement = check_statements([["INSERT INTO t VALUES" + ",".join(["(?)"] * len(values)), *values]])[0]
    except InvalidMessage:
        return
    if not values:
        return
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE TABLE t(a)")
        db.execute(statement[0], statement[1:])
        assert [row[0] for row in db.execute("SELECT a FROM t ORDER BY rowid")] == values
    db.close()
