"""What `verify` has found: plain values, for people and for programs.  No payload, token or password is in it."""

from __future__ import annotations

from dataclasses import dataclass, field

AGREE, DISAGREE, UNKNOWN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be.

    Attributes:
        queue: "" is the default queue.
        check: the name of what was looked at.
        subject: the group, seq, lane, table or index that it is about; where there are many, the first of them.
        count: how many there are of this kind.
        text: what is wrong, and what to do where `--repair` does not mend it.
        mendable: `--repair` mends it.
    """

    queue: str
    check: str
    subject: str
    count: int
    text: str
    mendable: bool


@dataclass(slots=True)
class NodeState:
    """A node as it was seen last.

    Attributes:
        node: its id.
        address: where it was asked; None where it told none.
        leads: whether it is the leader.
        applied: the index of the last entry of the log that it has applied.
        stored: the index of the last one that it has stored in SQLite; not all entries are for SQLite.
        last: the index of the last entry in its log.
        pending: entries that wait to be stored.
        error: why it could not be asked; "" when it could.
    """

    node: str
    address: str | None
    leads: bool = False
    applied: int = -1
    stored: int = -1
    last: int = -1
    pending: int = 0
    error: str = ""


@dataclass(slots=True)
class TableState:
    """A table as each node holds it.

    Attributes:
        queue: "" is the default queue; None for what all queues share.
        table: its real name.
        rows: node -> how many.
        sums: node -> checksum of the rows in the order of their key.
        difference: the first row that is not the same everywhere, and on which nodes; "" when there is none.
        unread: why it could not be compared; "" when it was.
    """

    queue: str | None
    table: str
    rows: dict[str, int] = field(default_factory=dict)
    sums: dict[str, str] = field(default_factory=dict)
    difference: str = ""
    unread: str = ""


@dataclass(slots=True)
class Report:
    """All of it.

    Attributes:
        queues: those that were looked at; "" is the default queue.
        checks: how many checks of the bookkeeping were made.
        findings: what disagrees in the bookkeeping, or in the file itself.
        mended: what `--repair` did.
        nodes: of a cluster.
        index: the index at which its tables were compared; None when they were not.
        tables: those tables.
        untold: what could not be told, and why.
    """

    queues: list[str] = field(default_factory=list)
    checks: int = 0
    findings: list[Finding] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)
    nodes: list[NodeState] = field(default_factory=list)
    index: int | None = None
    tables: list[TableState] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)

    @property
    def status(self) -> int:
        """AGREE (0), DISAGREE (1) or UNKNOWN (2); what is known to be wrong outweighs what is not known."""
        if self.findings or any(table.difference for table in self.tables):
            return DISAGREE
        return UNKNOWN if self.untold else AGREE
