"""Which rows of a RETURNING clause the server sends.

Only where the server's own parser understands the statement does it send them; what it misses is applied without a
word.  That parser is not rebuilt here: these are its misses that are known (v10).
"""

from __future__ import annotations

import enum
import re
from itertools import pairwise

from .tokens import Token, remembered, tokens, verb

_CHANGES = ("INSERT", "REPLACE", "UPDATE", "DELETE")
_BEFORE_NAME = {"FROM", "JOIN", "INTO", "UPDATE"}
_KEYWORDS = """
ABORT ACTION ADD AFTER ALL ALTER ALWAYS ANALYZE AND ASC ATTACH AUTOINCREMENT BEFORE BEGIN BETWEEN BY CASCADE CASE
CAST CHECK COLLATE COLUMN COMMIT CONFLICT CONSTRAINT CREATE CROSS CURRENT CURRENT_DATE CURRENT_TIME
CURRENT_TIMESTAMP DATABASE DEFAULT DEFERRABLE DEFERRED DELETE DESC DETACH DISTINCT DO DROP EACH ELSE END ESCAPE
EXCEPT EXCLUDE EXCLUSIVE EXISTS EXPLAIN FAIL FILTER FIRST FOLLOWING FOR FOREIGN FROM FUNCTION GENERATED GLOB GROUP
GROUPS HAVING IF IGNORE IMMEDIATE IN INDEX INDEXED INITIALLY INNER INSERT INSTEAD INTERSECT INTO IS ISNULL JOIN KEY
LAST LEFT LIKE LIMIT MATCH MATERIALIZED NATURAL NO NOT NOTHING NOTNULL NULLS OF OFFSET ON ORDER OTHERS OUTER OVER
PARTITION PLAN PRAGMA PRECEDING PRIMARY QUERY RAISE RANGE RECURSIVE REFERENCES REGEXP REGISTER REINDEX RELEASE
RENAME RESTRICT RETURNING ROLLBACK ROW ROWID ROWS SAVEPOINT SET SPAN STORED STRICT TABLE TEMP THEN TIES TO
TRANSACTION TRIGGER TRUTH UNBOUNDED UNION UNIQUE USING VACUUM VARIABLE VECTOR VIEW VIRTUAL WHEN WHERE WINDOW WITH
WITHOUT
"""
_NOT_NAMES = frozenset(re.findall(r"\w+", _KEYWORDS))
_TIMES = {"DATE": 1, "TIME": 1, "DATETIME": 1, "JULIANDAY": 1, "UNIXEPOCH": 1, "STRFTIME": 2, "TIMEDIFF": 2}
_RANDOM = ("RANDOM", "RANDOMBLOB")


class Returned(enum.Enum):
    """What becomes of a statement's rows."""

    ROWS = "rows"
    COUNTS = "counts, as if there were no RETURNING"
    NOTHING = "neither rows nor counts"


@remembered
def returned(text: str) -> Returned:
    """What the server sends of this statement."""
    found = tokens(text)
    what, place = verb(found)
    if what not in _CHANGES or not any(t.word == "RETURNING" and t.depth == 0 for t in found[place:]):
        return Returned.COUNTS
    if "returning " not in text.lower() or _is_missed(found):
        return Returned.COUNTS
    # The server writes such a statement anew, with the value for the function, and then forgets the RETURNING.
    if what in ("UPDATE", "DELETE") and any(_is_rewritten(found, at) for at in range(len(found) - 1)):
        return Returned.NOTHING
    return Returned.ROWS


def _is_missed(found: list[Token]) -> bool:
    for before, token in pairwise(found):
        if before.text == "." and token.word in _NOT_NAMES:
            return True
        if before.word in _BEFORE_NAME and token.word in _NOT_NAMES - {"SET"}:
            return True
        if before.word in ("IS", "NOT") and token.word == "DISTINCT":
            return True
    return False


def _is_rewritten(found: list[Token], at: int) -> bool:
    if found[at + 1].text != "(":
        return False
    if found[at].word in _RANDOM:
        return True
    least = _TIMES.get(found[at].word, 0)
    return least > 0 and _arguments(found, at + 1) >= least


def _arguments(found: list[Token], opening: int) -> int:
    depth, commas, end = found[opening].depth, 0, opening + 1
    while end < len(found) and found[end].depth > depth:
        commas += found[end].text == "," and found[end].depth == depth + 1
        end += 1
    return commas + 1 if end > opening + 1 else 0
