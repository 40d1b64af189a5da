"""The statements on a table of the user's own, composed from its quoted names.

Rules of the text are those of queue.sql: no clock, no random number, no order that is not said; every LIMIT cuts what
the tests have passed.  ?1 is the lane.  Times are bound by the client.  Lists are bound as JSON, since rqlite takes
some bare texts for blobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .names import quote
from .statements import Statements

if TYPE_CHECKING:
    from ..address.inbox import Address, Inbox

# A statement with a name for errors; its parameters follow the lane.
Own = tuple[str, str, list[Any]]

# Groups that one claim walks, at most, from its cursor to the end and from the beginning to its cursor.
WALK = 4000

# Of a settlement, as a number of the list.
DONE, FREE, PARK, LATER, EXTEND, GIVE_BACK, DEAD = range(7)

PARKED = "__parked__"
# Two ends of a lease that are nearer than this are one: numbers pass through JSON.
TOLERANCE = "5e-7"
EMPTY = "''"

TABLE_COLUMNS = 'SELECT name,type,pk,cid,"notnull" FROM pragma_table_info(?1) ORDER BY cid'
# (partial, the statement that made it, the place, the column, whether it is a key and rises) of each index.
TABLE_INDEXES = (
    "SELECT l.name,l.partial,(SELECT m.sql FROM sqlite_master m WHERE m.type='index' AND m.name=l.name),i.seqno,i.name,"
    'i."desc" FROM pragma_index_list(?1) l JOIN pragma_index_xinfo(l.name) i WHERE i."key"=1 ORDER BY l.name,i.seqno'
)


@dataclass(frozen=True, slots=True)
class Indexes:
    """Those that a claim uses, by name; None where there is none, or none is needed."""

    claim: str | None = None
    lock: str | None = None


class InboxStatements:
    """The statements of one address of an Inbox, beside one queue.

    Args:
        columns: of the table, all.
        dead_group: a group that takes dead letters, and is not served with the others.
        not_null: columns that take no NULL.
    """

    def __init__(
        self,
        address: Address,
        statements: Statements,
        columns: Sequence[str],
        indexes: Indexes,
        dead_group: str | None = None,
        not_null: frozenset[str] = frozenset(),
    ) -> None:
        inbox = address.inbox
        self._not_null = not_null
        self._inbox = inbox
        self._selection = address.selection
        self._parts = statements.table
        self._columns = list(columns)
        self._table = quote(inbox.table)
        self._names = {role: quote(column) for role, column in inbox.roles.items()}
        self._claim_index = f" INDEXED BY {quote(indexes.claim)}" if indexes.claim else ""
        self._lock_index = f" INDEXED BY {quote(indexes.lock)}" if indexes.lock else ""
        self._skips = dead_group is not None
        self.is_numeric_token: bool = "token" not in self._names and inbox.roles["locked_until"] not in inbox.iso_text
        self.pick_rows: str = self._pick_rows()
        self.pick: str = (
            f"{self._parts['pick']}(SELECT json_group_array(h) FROM ({self.pick_rows})) {self._parts['of_lane']}"
        )
        self.take: str = self._take()
        rows = self._rows()
        self.outcome: str = f"{self._parts['outcome']},{rows}"
        self.again: str = f"{self._parts['outcome_again']},{rows} {self._parts['this_lane']}"
        lost = f"({self._parts['lost_list']})"
        self.outcome_settled: str = f"{self._parts['outcome']},{lost}"
        self.again_settled: str = f"{self._parts['outcome_again']},{lost} {self._parts['this_lane']}"
        self.verdict: str = self._verdict()
        self.guard: str = self._parts["guard"]

    # -- the claim ----------------------------------------------------------------------------------------

    def _has(self, role: str) -> bool:
        return role in self._names

    def _of(self, row: str, role: str) -> str:
        return f"{row}.{self._names[role]}"

    def _unfinished(self, row: str) -> str:
        return f" AND {self._of(row, 'processed_at')} IS NULL" if self._has("processed_at") else ""

    def _due(self, row: str) -> str:
        return f"ifnull({self._of(row, 'retry_at')}<=?2,1)" if self._has("retry_at") else "1"

    def _order(self, row: str) -> str:
        return ",".join(self._of(row, role) for role in order_roles(self._inbox))

    def _pick_rows(self) -> str:
        """?2 the time, ?3 the walk (JSON), ?4 how many: the ids of the rows that a claim takes, as h."""
        if self._inbox.fifo or self._inbox.exclusive:
            return self._heads()
        return (
            f"SELECT {self._of('k', 'id')} AS h FROM {self._table} k{self._claim_index} WHERE {self._among('k')}"
            f"ifnull({self._of('k', 'locked_until')}<=?2,1){self._unfinished('k')} AND {self._due('k')} "
            f"ORDER BY {self._order('k')} LIMIT ?4"
        )

    def _among(self, row: str) -> str:
        """Whether a row is of these groups; where the rows of a group go side by side."""
        selection = self._selection
        if not self._has("group"):
            return ""
        group = self._of(row, "group")
        if selection.groups is not None:
            if len(selection.groups) == 1:
                return f"{group}=?3->>0 AND "
            return f"{group} IN (SELECT value FROM json_each(?3)) AND "
        bounds = f"{group}>=?3->>1 AND {group}<?3->>2 AND " if selection.prefix is not None else ""
        return bounds + (f"{group} IS NOT ?3->>3 AND " if self._skips else "")

    def _heads(self) -> str:
        """One row of each group: the head if it is due, or, where there is no order, the first that is due.

        The groups come in the order of the walk, which is that of its queue whatever the plan.
        """
        due = self._due("k")
        fifo = self._inbox.fifo
        what = self._of("k", "id") if not fifo or due == "1" else f"CASE WHEN {due} THEN {self._of('k', 'id')} END"
        test = "" if fifo else f" AND {due}"
        head = (
            f"SELECT {what} FROM {self._table} k{self._claim_index} WHERE {self._of('k', 'group')}=w.g"
            f"{self._unfinished('k')}{test} ORDER BY {self._order('k')} LIMIT 1"
        )
        live = (
            f"SELECT 1 FROM {self._table} l{self._lock_index} WHERE {self._of('l', 'group')}=w.g AND "
            f"{self._of('l', 'locked_until')}>?2{self._unfinished('l')}"
        )
        walk, shown = self._walk()
        heads = f"SELECT ({head}) AS h FROM w WHERE {shown}NOT EXISTS({live})"
        return f"{walk}SELECT h FROM ({heads}) WHERE h IS NOT NULL LIMIT ?4"

    def _walk(self) -> tuple[str, str]:
        """The groups, as w, and which of its rows count: those after the cursor, then those up to it."""
        if self._selection.groups is not None:
            return "WITH w(g) AS (SELECT value FROM json_each(?3)) ", ""
        group = self._of("x", "group")
        unfinished = self._unfinished("x")
        least = f"SELECT min({group}) FROM {self._table} x{self._claim_index} WHERE "
        prefix = self._selection.prefix is not None
        first = f"{group}>=?3->>1" if prefix else "1"
        within = ("w.g<?3->>2 AND " if prefix else "") + "ifnull(w.z=0 OR w.g<=?3->>0,1)"
        walk = (
            "WITH RECURSIVE w(g,z,i) AS (VALUES(?3->>0,0,0),(NULL,1,0) UNION ALL SELECT CASE WHEN w.i=0 AND w.z THEN "
            f"({least}{first}{unfinished}) ELSE ({least}{group}>w.g{unfinished}) END,w.z,w.i+1 FROM w "
            f"WHERE (w.i=0 AND w.z OR w.g IS NOT NULL AND {within}) AND w.i<{WALK} ORDER BY 2,3) "
        )
        skip = "w.g IS NOT ?3->>3 AND " if self._skips else ""
        return walk, f"w.i AND w.g IS NOT NULL AND {within} AND {skip}"

    @property
    def look(self) -> str:
        """A plain read with the claim's own test: a row where it would find something."""
        return f"SELECT 1 FROM ({self.pick_rows}) WHERE ?1 IS NULL"

    @property
    def cut(self) -> str | None:
        """Where a walk that found nothing ended before it was round."""
        if not (self._inbox.fifo or self._inbox.exclusive) or self._selection.groups is not None:
            return None
        return f"{self._walk()[0]}SELECT w.g,w.z FROM w WHERE w.i={WALK} AND w.g IS NOT NULL ORDER BY w.z LIMIT 1"

    def _take(self) -> str:
        """?2 the end of the lease, ?3 the token."""
        names = self._names
        sets = [f"{names['locked_until']}=?2"]
        if self._has("token"):
            sets.append(f"{names['token']}=?3")
        if self._has("attempt"):
            sets.append(f"{names['attempt']}=ifnull({names['attempt']},0)+1")
        return (
            f"UPDATE {self._table} SET {','.join(sets)} WHERE {names['id']} IN "
            f"(SELECT value FROM json_each({self._parts['picked']}))"
        )

    def _rows(self) -> str:
        """?2 the token, or the end of the lease: [what was lost, the turn, the picked ids, their rows whole], JSON.

        Values are quoted, for JSON has no blobs and not all the digits of a number.
        """
        values = ",".join(map(self._value, self._columns))
        mine = self._same(self._table, "?2")
        rows = (
            f"SELECT json_group_array(json_array({values})) FROM {self._table} WHERE {self._names['id']} IN "
            f"(SELECT value FROM json_each({self._parts['picked']})) AND {mine}"
        )
        parts = self._parts
        return f"(json_array(json({parts['lost_list']}),{parts['turn']},json({parts['picked']}),json(({rows}))))"

    def _value(self, column: str) -> str:
        name = quote(column)
        roles = self._inbox.roles
        if column in (roles["id"], roles["payload"], roles.get("group")):
            # quote() ends at a NUL character.
            return f"iif(typeof({name})='text','t'||{name},quote({name}))"
        return f"quote({name})"

    def _same(self, row: str, token: str) -> str:
        if self._has("token"):
            return f"{self._of(row, 'token')}={token}"
        if self.is_numeric_token:
            return f"abs({self._of(row, 'locked_until')}-({token}))<{TOLERANCE}"
        return f"{self._of(row, 'locked_until')}={token}"

    # -- settlements --------------------------------------------------------------------------------------

    def _verdict(self) -> str:
        """?2 [[id,token,what,..],..], ?3 the time: the positions of those that were lost.

        A lease that has run out is not extended while another row of its group is in work.
        """
        same = self._same("m", "j.value->>1")
        row = f"SELECT 1 FROM {self._table} m WHERE {self._of('m', 'id')}=j.value->>0 AND {same}"
        if self._inbox.fifo or self._inbox.exclusive:
            row += (
                f" AND NOT (j.value->>2={EXTEND} AND EXISTS(SELECT 1 FROM {self._table} o{self._lock_index} WHERE "
                f"{self._of('o', 'group')}={self._of('m', 'group')} AND {self._of('o', 'id')}<>{self._of('m', 'id')} "
                f"AND {self._of('o', 'locked_until')}>?3))"
            )
        return (
            f"{self._parts['lose']}(SELECT json_group_array(j.key) FROM json_each(?2) j WHERE NOT EXISTS({row})) "
            f"{self._parts['of_lane']}"
        )

    def _those(self, what: int) -> str:
        """The rows of list ?2 to which that happens, whatever statistics say."""
        return (
            f"{self._names['id']} IN (SELECT j.value->>0 FROM json_each(?2) j WHERE j.value->>2={what} AND "
            f"j.key NOT IN {self._parts['lost']})"
        )

    def _argument(self, what: int, place: int = 3) -> str:
        return (
            f"(SELECT j.value->>{place} FROM json_each(?2) j WHERE j.value->>2={what} AND "
            f"j.value->>0={self._table}.{self._names['id']})"
        )

    def _free(self) -> str:
        roles = self._inbox.roles
        nothing = EMPTY if roles["locked_until"] in self._inbox.iso_text else "0"
        sets = self._cleared("locked_until", nothing)
        return f"{sets},{self._cleared('token', EMPTY)}" if self._has("token") else sets

    def _cleared(self, role: str, nothing: str) -> str:
        taken = self._inbox.roles[role] in self._not_null
        return f"{self._names[role]}={nothing if taken else 'NULL'}"

    def _update(self, what: int, sets: str) -> str:
        return f"UPDATE {self._table} SET {sets} WHERE {self._those(what)}"

    def settle(self, what: int, now: Any) -> list[tuple[str, str, list[Any]]]:
        """What lets those of list ?2 happen that are `what`; each with its parameters after the list."""
        names = self._names
        if what == DONE:
            if not self._has("processed_at"):
                return [("inbox_done", f"DELETE FROM {self._table} WHERE {self._those(DONE)}", [])]
            return [("inbox_done", self._update(DONE, f"{names['processed_at']}=?3,{self._free()}"), [now])]
        if what == FREE:
            return [("inbox_free", self._update(FREE, self._free()), [])]
        if what == PARK:
            token = f",{names['token']}='{PARKED}'" if self._has("token") else ""
            sets = f"{names['locked_until']}={self._argument(PARK)}{token}"
            return [("inbox_park", self._update(PARK, sets), [])]
        if what == LATER:
            sets = f"{names['retry_at']}={self._argument(LATER)},{self._free()}"
            return [("inbox_later", self._update(LATER, sets), [])]
        if what == EXTEND:
            return [("inbox_extend", self._update(EXTEND, f"{names['locked_until']}={self._argument(EXTEND)}"), [])]
        attempt = names.get("attempt")
        less = f",{attempt}=max(ifnull({attempt},0)-1,0)" if attempt else ""
        return [("inbox_give_back", self._update(GIVE_BACK, self._free() + less), [])]

    def bury(self, dead_group: str | None, dead: Inbox | None) -> list[tuple[str, str, list[Any]]]:
        """What lets the dead ones of list ?2 happen: to another group of the table, or to another table."""
        steps: list[tuple[str, str, list[Any]]] = []
        headers = self._names.get("headers")
        if headers is not None:
            kept = f"CASE WHEN json_valid({headers}) THEN {headers} ELSE '{{}}' END"
            told = f"'$.dead_reason',{self._argument(DEAD)},'$.dead_error',{self._argument(DEAD, 4)}"
            steps.append(("inbox_dead_reason", self._update(DEAD, f"{headers}=json_set({kept},{told})"), []))
        if dead_group is not None:
            # In a list: rqlite takes some bare texts for blobs.
            sets = f"{self._names['group']}=?3->>0,{self._free()}"
            steps.append(("inbox_dead_group", self._update(DEAD, sets), []))
            return steps
        if dead is not None:
            columns = ",".join(map(quote, self.moved(dead)))
            steps.append(
                (
                    "inbox_dead_insert",
                    f"INSERT INTO {quote(dead.table)}({columns}) SELECT {columns} FROM {self._table} "
                    f"WHERE {self._those(DEAD)} ORDER BY {self._names['id']}",
                    [],
                )
            )
        steps.append(("inbox_dead_delete", f"DELETE FROM {self._table} WHERE {self._those(DEAD)}", []))
        return steps

    def moved(self, dead: Inbox) -> list[str]:
        """The columns that go with a row into the table of dead letters: all but its lease and what is generated."""
        roles = self._inbox.roles
        left = {roles["locked_until"], roles.get("token"), roles.get("processed_at")}
        if roles["id"] in self._inbox.generated or dead.roles["id"] in dead.generated:
            left.add(roles["id"])
        return [column for column in self._columns if column not in left]


def order_roles(inbox: Inbox) -> list[str]:
    """The roles of the columns that make the claim's order."""
    roles = [role for role in ("priority", "retry_at") if inbox.has(role)]
    if inbox.exclusive and "retry_at" not in roles and inbox.has("attempt"):
        roles.append("attempt")
    return [*roles, "id"]


def insert(inbox: Inbox, statements: Statements, columns: Sequence[str], payload: str, queue_time: str | None) -> str:
    """A published row: ?2 a JSON list of the values of `columns`, ?3 the payload.

    Args:
        queue_time: a column that is filled with the queue's time, which only moves forward.
    """
    names = [*columns, payload]
    values = [f"?2->>{place}" for place in range(len(columns))] + ["?3"]
    if queue_time is not None:
        names.append(queue_time)
        values.append(statements.table["now"])
    return (
        f"INSERT INTO {quote(inbox.table)}({','.join(map(quote, names))}) SELECT {','.join(values)} "
        f"{statements.table['this_lane']}"
    )


def missing_columns(table: str, columns: Sequence[str]) -> str:
    """A read that fails when one of these is missing; for one statement that says which."""
    return f"SELECT {','.join(map(quote, columns))} FROM {quote(table)} LIMIT 0"


# -- indexes --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WantedIndex:
    """An index that the claim goes by.

    Attributes:
        columns: in order; the id stands last where it is not the table's own row number.
        where: its condition, "" when it has none.
        create: the statement that makes it.
    """

    columns: tuple[str, ...]
    where: str
    create: str


def wanted_indexes(address: Address, id_is_rowid: bool) -> dict[str, WantedIndex]:
    """Which indexes the claim of an address goes by: `claim`, and `lock` where one row of a group is in work."""
    inbox = address.inbox
    roles = inbox.roles
    wanted = {}
    by_group = inbox.fifo or inbox.exclusive or address.selection.groups is not None or address.selection.prefix
    columns = [roles["group"]] if by_group else []
    columns += [roles[role] for role in order_roles(inbox) if role not in ("id", "attempt")]
    if not id_is_rowid:
        columns.append(roles["id"])
    finished = f"{quote(roles['processed_at'])} IS NULL" if inbox.has("processed_at") else ""
    if not columns and finished:
        columns = [roles["id"]]
    if columns:
        wanted["claim"] = _wanted(inbox.table, "claim", columns, finished)
    if inbox.fifo or inbox.exclusive:
        lock = [roles["group"], roles["locked_until"]]
        wanted["lock"] = _wanted(inbox.table, "lock", lock, f"{quote(roles['locked_until'])} IS NOT NULL")
    return wanted


def _wanted(table: str, kind: str, columns: list[str], where: str) -> WantedIndex:
    listed = ",".join(map(quote, columns))
    condition = f" WHERE {where}" if where else ""
    create = f"CREATE INDEX {quote(f'{table}_{kind}')} ON {quote(table)}({listed}){condition}"
    return WantedIndex(tuple(columns), where, create)


def find_index(wanted: WantedIndex, rows: Sequence[Sequence[Any]]) -> str | None:
    """The name of the index that serves, among the rows of `TABLE_INDEXES`; None: there is none."""
    found: dict[str, list[Sequence[Any]]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    for name, parts in found.items():
        columns = tuple(part[4] for part in parts)
        if any(part[5] for part in parts) or columns[: len(wanted.columns)] != wanted.columns:
            continue
        if _condition(parts[0]) == _bare(wanted.where) or (not wanted.where and not parts[0][1]):
            return name
        if not parts[0][1] and wanted.where.endswith("IS NOT NULL"):
            return name
    return None


def _condition(part: Sequence[Any]) -> str:
    if not part[1] or part[2] is None:
        return ""
    return _bare(str(part[2]).upper().rpartition("WHERE")[2])


def _bare(text: str) -> str:
    return "".join(letter for letter in text.upper() if letter.isalnum() or letter == "_")
