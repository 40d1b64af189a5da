from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import GenericAlias
from typing import Any, ClassVar, Final, Generic, TypeVar, final

from typing_extensions import disjoint_base

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

ACK: Final[int]
NACK: Final[int]
PARK: Final[int]
DEFER: Final[int]
EXTEND: Final[int]
DEAD: Final[int]
GIVE_BACK: Final[int]
MAX_BLOCKS: Final[int]
MAX_RUNS: Final[int]
STATEMENTS: Final[tuple[str, ...]]

MOST_EVENT: Final[int]
OPERATIONS: Final[dict[str, tuple[str, ...]]]

def set_default_clock(clock: Callable[[], float]) -> None: ...
def holder_of(token: str) -> str: ...
def check_id(value: object, argument: str) -> str: ...
def make_publish(
    group_id: str,
    event: Any,
    priority: int,
    delay: float,
    rank: int,
    headers: str | None,
    dedup_id: str | None,
    encode: Callable[[Any], str | bytes] | None,
) -> Publish: ...
def plain_publish(
    group_id: Any,
    event: Any,
    priority: Any,
    delay: Any,
    rank: Any,
    headers: Any,
    dedup_id: Any,
    encode: Callable[[Any], str | bytes] | None,
) -> Publish | None: ...
def as_parts(future: Any, calls: list[Any], deadline: float) -> None: ...
def forked() -> None: ...

@final
class Load:
    def __init__(
        self,
        make: Callable[[Any, int], Publish],
        encode: Callable[[Any], str | bytes] | None,
        most: int,
        most_size: int,
    ) -> None: ...
    def fill(self, items: Iterator[Any]) -> bool: ...
    def put(self, item: Any) -> bool: ...
    def take(self) -> list[Publish]: ...

@final
class Intake:
    encode: Callable[[Any], str | bytes] | None
    on_lost: Callable[[Exception], None] | None
    give_back: Callable[[list[Lease[Any]]], None] | None
    def __init__(
        self,
        batcher: Batcher,
        enter: Callable[[], tuple[Callable[..., Future[Any]], dict[str, Any]]],
        wake: Callable[[], None],
        running: str,
        at_once: Callable[[int], bool],
    ) -> None: ...
    def shut(self) -> None: ...
    def start(self, call: Call) -> None: ...
    def start_all(self, calls: Iterable[Call]) -> None: ...
    def rested(self) -> None: ...
    def publish(
        self, group_id: Any, event: Any, priority: Any, delay: Any, rank: Any, headers: Any, dedup_id: Any
    ) -> Future[int] | None: ...
    def ack(self, lease: Any) -> Future[None] | None: ...
    def claim(
        self, worker_id: Any, visibility: Any, min_priority: Any, wait: Any, lease: Any
    ) -> ClaimFuture | None: ...

@final
class ClaimFuture(Future[Any]):
    def __init__(self, inner: Future[Any], give_back: Callable[[list[Lease[Any]]], None]) -> None: ...
    def drop(self) -> None: ...

@final
class Verdict:
    outcome: str
    again: str
    parameters: list[Any]
    answer: Callable[[Any], Any]
    lost: Exception | None
    def __init__(
        self,
        outcome: str,
        again: str,
        parameters: list[Any],
        answer: Callable[[Any], Any],
        lost: Exception | None = None,
    ) -> None: ...

@final
class Bundle(Call):
    acks: list[Settle]
    publishes: list[Publish]
    statements: list[list[Any]]
    own: list[tuple[str, str, list[Any]]] | None
    verdict: Verdict | None
    alone: bool
    size: int
    def __init__(
        self,
        acks: list[Settle],
        publishes: list[Publish],
        statements: list[list[Any]],
        own: list[tuple[str, str, list[Any]]] | None = None,
        verdict: Verdict | None = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    def until(self, deadline: float) -> None: ...

def give_back(lease: Lease[Any]) -> Settle: ...
def first_of_each(leases: Iterable[Lease[_T]]) -> list[Lease[_T]]: ...
def encode_program(program: list[Any]) -> bytes: ...
def decode_reply(body: bytes) -> tuple[list[dict[str, Any]], str | None]: ...
def slot_errors(results: list[dict[str, Any]]) -> list[tuple[int, str]]: ...
def slot_rows(results: list[dict[str, Any]]) -> list[list[Any] | None]: ...

@final
class Term: ...

@final
class Lease(Generic[_T_co]):
    """A message in work: what it is, and the token that owns it until `expires_at`.

    Made by `claim`; by hand (`Lease(seq, group_id, event, token)`) in tests, or to settle in another process what
    this one claimed.  An empty token owns nothing: settling it raises `LeaseLost`.

    Attributes:
        seq: the message's number; rises with each publish.
        group_id: its group.
        token: what owns the message.
        attempts: how often it was claimed, this time included.
        priority: its group's, 0 to 4.
        rank: its place in the group, smaller first.
        fence: rises with every claim in the queue; for other systems that must refuse a late writer.
        expires_at: when the lease ends, in seconds since 1970 UTC on the queue's clock; that of a run's leases is one.
        published_at: when it was published, likewise; None for a message of the plain transport.
    """

    @classmethod
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...
    __match_args__: ClassVar[tuple[str, ...]]
    seq: int
    group_id: str
    token: str
    attempts: int
    priority: int
    rank: int
    fence: int
    published_at: float | None
    def __init__(self, seq: int, group_id: str, event: _T_co, token: str = "") -> None: ...
    @property
    def event(self) -> _T_co:
        """The event, decoded at the first look.  Raises what the decoder raises, and leaves the lease as it was."""

    @property
    def raw(self) -> str:
        """The stored text, byte for byte what was encoded."""

    @property
    def headers(self) -> dict[str, str | int | float | bool | None]:
        """The headers of the message, empty when it has none."""

    @property
    def worker_id(self) -> str:
        """Who claimed it: the caller's `worker_id`; of a lease made by hand, the name in its token."""

    @property
    def expires_at(self) -> float:
        """When it ends, on the queue's clock; of a run, all its leases end together."""

    def remaining(self) -> float:
        """Seconds left until the lease ends, by this process's own clock; 0.0 when it has ended."""

    def __copy__(self) -> Lease[_T_co]: ...
    def __deepcopy__(self, memo: dict[int, Any]) -> Lease[_T_co]: ...
    def __replace__(self, **changes: Any) -> Lease[Any]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@disjoint_base
class Slot:
    value: Any
    error: BaseException | None
    def __init__(self) -> None: ...
    def done(self) -> bool: ...
    def set_result(self, value: Any) -> None: ...
    def set_exception(self, error: BaseException) -> None: ...
    def abandon(self) -> None: ...
    def leases(self) -> list[Any]: ...
    def result(self) -> Any: ...

@final
class Relay(Slot):
    future: Any
    def __init__(self, future: Any, outbox: deque[Relay], wake: Callable[[], None] | None = None) -> None: ...

@disjoint_base
class LockSlot(Slot):
    lock: Any
    def __init__(self, lock: Any) -> None: ...

@final
class Many:
    future: Any
    results: list[Any]
    def __init__(self, future: Any, count: int) -> None: ...

@disjoint_base
class Call:
    future: Any
    deadline: float
    @property
    def gone(self) -> bool: ...
    def part_of(self, many: Many, pos: int) -> None: ...
    def resolve(self, value: object) -> None: ...
    def reject(self, error: BaseException) -> None: ...

@final
class Publish(Call):
    group: str
    text: str
    priority: int
    delay: float
    rank: int
    headers: str | None
    dedup_id: str | None
    size: int

@final
class Settle(Call):
    lease: Lease[Any]
    op: int
    argument: float | str
    error: str | None
    then: Claim | None
    on_lost: Callable[[Exception], None] | None
    def __init__(self, lease: Lease[Any], op: int, argument: float | str = 0.0, error: str | None = None) -> None: ...
    def tie(self, claim: Claim) -> None: ...
    def lost(self) -> Exception: ...

@final
class Claim(Call):
    worker: str
    visibility: float
    min_priority: int
    limit: int
    wants_list: bool
    run: bool
    only: tuple[str, str] | None
    wait_until: float
    until: float
    looked: bool
    tied: Settle | None
    def __init__(
        self,
        worker: str,
        visibility: float,
        min_priority: int,
        limit: int,
        wants_list: bool,
        run: bool = False,
        only: tuple[str, str] | None = None,
    ) -> None: ...
    def wait_for(self, future: Any, kept: Any) -> None: ...
    def untie(self) -> None: ...
    def empty(self) -> list[Any] | None: ...

@final
class Operate(Call):
    operation: str
    group: str | None
    seqs: list[int] | None
    answer: Callable[[int], Any]
    limit: int | None
    done: int
    goes_on: bool
    step: int
    def __init__(
        self,
        operation: str,
        answer: Callable[[int], Any],
        group: str | None = None,
        seqs: list[int] | None = None,
        limit: int | None = None,
    ) -> None: ...

@final
class Texts:
    names: list[str]
    as_json: bool
    def __init__(
        self,
        statements: dict[str, str],
        as_json: bool,
        operate: dict[str, str] | None = None,
    ) -> None: ...

@final
class Block: ...

@final
class Outcome:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    t: float
    hint: int | None
    fresh: int | None
    unfilled: list[Claim]
    short: list[int]
    give_back: list[Lease[Any]]
    refused: list[Claim]
    late: list[tuple[Claim, list[Lease[Any]]]]
    goes_on: Operate | None

@final
class Batch:
    lane: int
    rows: int
    size: int
    tidy: int | None
    number: int
    operate: Operate | None
    outcome: Outcome | None
    alone: bool
    acks_count: int
    dedup_id: str | None
    may_be_early: bool
    is_waited_for: bool
    def given_back(self) -> list[Lease[Any]]: ...
    def lost_read(self) -> str: ...
    def __init__(self, lane: int = 0) -> None: ...
    def __len__(self) -> int: ...
    @property
    def statement_names(self) -> list[str]: ...
    @property
    def claims_only(self) -> bool: ...
    def calls(self) -> list[Call]: ...
    def reject(self, error: Exception) -> None: ...
    def reject_claims(self, error: Exception) -> None: ...
    def stamp(self, deadline: float) -> None: ...
    def all_expired(self, now: float) -> bool: ...
    def expire(self, now: float, error: Exception) -> None: ...
    def program(self, texts: Texts, lane: str, n: int, now: float, window: float, name: str) -> list[list[Any]]: ...
    def empty_program(self, texts: Texts, lane: str, n: int, now: float) -> list[list[Any]]: ...
    def forget_program(self) -> None: ...
    def reread(self, texts: Texts, lane: str) -> list[tuple[int, list[Any]]]: ...
    def check(self, slots: Sequence[list[Any] | None], n: int) -> bool: ...
    def resolve(
        self,
        slots: Sequence[list[Any] | None],
        now: float,
        decode: Callable[[str], Any],
        clock: Callable[[], float],
    ) -> Outcome: ...

@final
class Pin: ...

@final
class Fifo: ...

@final
class Batcher:
    lanes: int
    max_rows: int
    max_size: int
    many: int
    def __init__(self, lanes: int, max_rows: int, max_size: int, many: int = 256) -> None: ...
    def waiting(self) -> int: ...
    def has_work(self, lane: int) -> bool: ...
    def add(self, call: Call) -> None: ...
    def add_all(self, calls: Iterable[Call]) -> None: ...
    def take(self, lane: int) -> Batch | None: ...
    def unfinished(self, lane: int) -> Batch | None: ...
    def put_back(self, batch: Batch) -> None: ...
    def finish(self, batch: Batch) -> None: ...
    def drain(self) -> list[Call]: ...
    def abort(self) -> list[Call]: ...
    def expire(self, now: float, fresh: float = 0.0) -> list[Call]: ...
