"""Opening and closing: URLs, classes, queues beside each other, what a closed transport says."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import rqfast
from rqfast import Closed, ConfigError, Lease, LeaseLost, RqfastError, SchemaError, Unavailable
from tests.contract.views import Address, Queue, View, open_address, run_async

COLOURS = ["sync", "async"]


def used(view: View) -> None:
    """Publish, claim and acknowledge one message."""
    seq = view.publish("used", 1)
    lease = view.claim("w")
    assert lease is not None and lease.seq == seq
    view.ack(lease)


# -- queues beside each other ----------------------------------------------------------------------------


def test_two_queues_side_by_side(q: Queue) -> None:
    other_name = f"{q.queue}_b"
    one, two = q.open(), q.open(queue=other_name)
    one.publish("g", "one", dedup_id="same")
    two.publish("g", "two", dedup_id="same")
    first, second = one.claim("w"), two.claim("w")
    assert first is not None and second is not None
    assert (first.event, second.event) == ("one", "two")
    for view, lease in ((one, second), (two, first)):
        with pytest.raises(LeaseLost):
            view.ack(lease)
    one.ack(first)
    assert one.claim("w") is None
    two.ack(second)


def test_the_default_queue_stands_beside_others(default_q: Queue) -> None:
    one, two = default_q.open(), default_q.open(queue="beside")
    one.publish("g", "one")
    two.publish("g", "two")
    first, second = one.claim("w"), two.claim("w")
    assert first is not None and second is not None
    assert (first.event, second.event) == ("one", "two")
    assert default_q.sql("SELECT group_id, event FROM messages") == [("g", '"one"')]


def test_a_queue_is_kept_when_all_transports_are_closed(q: Queue) -> None:
    with q.open() as view:
        view.publish("g", 1)
    with q.open() as view:
        lease = view.claim("w")
        assert lease is not None and lease.event == 1
        view.ack(lease)
        assert view.publish("g", 2) > lease.seq


def test_without_create_a_queue_that_is_there_opens(q: Queue) -> None:
    q.open().publish("g", 1)
    view = q.open(create=False)
    assert view.claim("w") is not None


def test_without_create_a_queue_that_is_not_there_is_refused(q: Queue) -> None:
    q.open()
    before = q.sql("SELECT name FROM sqlite_master ORDER BY name")
    with pytest.raises(SchemaError) as caught:
        q.open(queue=f"{q.queue}_typo", create=False)
    assert f"{q.queue}_typo" in str(caught.value)
    assert str(q.queue) in str(caught.value).replace(f"{q.queue}_typo", ""), "it lists those that are there"
    assert q.sql("SELECT name FROM sqlite_master ORDER BY name") == before


def test_without_create_an_empty_database_stays_empty(default_q: Queue) -> None:
    for name in (None, "orders"):
        with pytest.raises(SchemaError):
            default_q.open(queue=name, create=False)
    assert default_q.sql("SELECT name FROM sqlite_master WHERE name LIKE '%messages'") == []


def test_a_name_that_cannot_be_a_queue_is_refused(q: Queue) -> None:
    names: list[Any] = ["", " ", "a b", "a'b", 'a"b', "a;b", "a-b", "a.b", "A", "1a", "_a", "\u00e4", "a\n", "a\x00"]
    for name in [*names, "x" * 100, 7, b"a"]:
        with pytest.raises(ConfigError, match="queue"):
            open_address(q.address, queue=name)


# -- closing ---------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[View], object]] = {
    "publish": lambda view: view.publish("g", 1),
    "publish with more": lambda view: view.publish("g", 1, delay=1),
    "claim": lambda view: view.claim("w"),
    "waiting claim": lambda view: view.claim("w", wait=1),
    "claim_many": lambda view: view.claim_many("w", 30, 1),
    "ack": lambda view: view.ack(Lease(1, "g", 1, "t")),
    "nack": lambda view: view.nack(Lease(1, "g", 1, "t")),
    "defer": lambda view: view.defer(Lease(1, "g", 1, "t"), 1),
    "extend": lambda view: view.extend(Lease(1, "g", 1, "t"), 1),
    "dead_letter": lambda view: view.dead_letter(Lease(1, "g", 1, "t"), "why"),
    "ack_many": lambda view: view.ack_many([Lease(1, "g", 1, "t")]),
}


def test_close_is_idempotent_and_every_call_after_it_says_closed(q: Queue) -> None:
    view = q.open()
    used(view)
    view.close()
    view.close()
    for name, call in CALLS.items():
        with pytest.raises(Closed):
            call(view)
        assert name
    with pytest.raises((Closed, rqfast.PublishIncomplete)):
        view.publish_many([("g", 1)])
    view.close()


def test_a_view_closes_when_left(q: Queue) -> None:
    with q.open() as view:
        used(view)
    with pytest.raises(Closed):
        view.publish("g", 1)


def test_close_ends_waiting_claims(q: Queue) -> None:
    view = q.open()
    started = threading.Semaphore(0)

    def claim() -> object:
        started.release()
        return view.claim("w", wait=50)

    with ThreadPoolExecutor(5) as pool:
        futures = [pool.submit(claim) for _ in range(5)]
        for _ in futures:
            assert started.acquire(timeout=30)
        view.close()
        for future in futures:
            with pytest.raises(Closed):
                future.result(40)


def test_close_leaves_leases_that_a_caller_has(q: Queue) -> None:
    view, other = q.open(), q.open()
    view.publish("g", 1)
    lease = view.claim("w", 600)
    assert lease is not None
    view.close()
    assert other.claim("w") is None
    other.ack(lease)


def test_closing_one_transport_leaves_the_others(q: Queue) -> None:
    view, other = q.open(), q.open()
    view.close()
    used(other)


# -- which URL -------------------------------------------------------------------------------------------


def test_the_url_may_stand_in_the_environment(q: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQFAST_URL", q.url)
    with open_address(Address(None, q.options, q.colour)) as view:  # type: ignore[arg-type]
        used(view)
    monkeypatch.setenv("RQFAST_URL", "http://127.0.0.1:1")
    with open_address(q.address) as view:
        used(view)


@pytest.mark.parametrize("colour", COLOURS)
def test_no_url_at_all_is_refused(monkeypatch: pytest.MonkeyPatch, colour: str) -> None:
    monkeypatch.delenv("RQFAST_URL", raising=False)
    with pytest.raises(ConfigError, match="RQFAST_URL"):
        open_address(Address(None, {}, colour))  # type: ignore[arg-type]


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://127.0.0.1:4001",
        "postgres://127.0.0.1/queue",
        "http://",
        "http://:4001",
        "http://127.0.0.1:port",
        "http://127.0.0.1:70000",
        "sqlite://",
        "sqlite:///",
        "sqlite://host/queue.db",
    ],
)
def test_a_url_that_cannot_work_is_refused(
    colour: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RQFAST_URL", raising=False)
    with pytest.raises(ConfigError):
        open_address(Address(url, {}, colour))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("colour", COLOURS)
def test_forms_of_an_embedded_url(colour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    forms = {
        "sqlite:///relative.db": tmp_path / "relative.db",
        f"sqlite:///{tmp_path.as_posix()}/absolute.db": tmp_path / "absolute.db",
        "bare.db": tmp_path / "bare.db",
        str(tmp_path / "bare absolute.db"): tmp_path / "bare absolute.db",
    }
    for url, path in forms.items():
        with open_address(Address(url, {}, colour)) as view:
            used(view)
        assert path.exists(), url


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("url", ["sqlite://:memory:", "sqlite:///:memory:"])
def test_in_memory_each_call_is_a_queue_of_its_own(colour: str, url: str) -> None:
    with open_address(Address(url, {}, colour)) as one, open_address(Address(url, {}, colour)) as two:
        one.publish("g", 1)
        assert two.claim("w") is None
        lease = one.claim("w")
        assert lease is not None and lease.event == 1
        used(two)


@pytest.mark.parametrize("colour", COLOURS)
def test_a_node_that_is_not_there_is_unavailable(colour: str) -> None:
    with pytest.raises(Unavailable) as caught:
        open_address(
            Address("http://user:secret@127.0.0.1:1", {"timeout": 1, "connect_retries": 1, "retry_delay": 0.1}, colour)
        ).claim("w")
    assert "secret" not in str(caught.value)
    assert isinstance(caught.value, ConnectionError)


# -- classes ---------------------------------------------------------------------------------------------


def test_connect_gives_the_class_of_the_engine(q: Queue) -> None:
    kinds: dict[str, tuple[type[Any], type[Any]]] = {
        "embedded": (rqfast.SqliteTransport, rqfast.AsyncSqliteTransport),
        "dev server": (rqfast.RqliteTransport, rqfast.AsyncRqliteTransport),
        "one node": (rqfast.RqliteTransport, rqfast.AsyncRqliteTransport),
        "three nodes": (rqfast.RqliteTransport, rqfast.AsyncRqliteTransport),
    }
    view: Any = q.open()
    if q.colour == "sync":
        assert type(view) is kinds[q.engine][0]
        assert isinstance(view, rqfast.Transport)
    else:
        assert type(view.transport) is kinds[q.engine][1]
        assert isinstance(view.transport, rqfast.AsyncTransport)


def test_the_sync_class_opens_at_once(q: Queue) -> None:
    if q.colour == "async":
        pytest.skip("async: see the next test")
    if q.engine == "embedded":
        made: list[Any] = [rqfast.SqliteTransport(q.url.removeprefix("sqlite:///"), **q.options)]
    else:
        made = [
            rqfast.RqliteTransport(q.url, **q.options),
            rqfast.RqliteTransport(q.url, 10.0, None, **q.options),
            rqfast.RqliteTransport.from_url(q.url, **q.options),
            rqfast.RqliteTransport.from_url(q.url, timeout=5, connect_retries=1, retry_delay=0.1, **q.options),
        ]
    for transport in made:
        with transport as view:
            used(view)


def test_the_async_class_opens_when_entered_or_at_its_first_call(q: Queue) -> None:
    if q.colour == "sync":
        pytest.skip("sync: see the test before")

    async def use(transport: Any) -> None:
        await transport.publish("g", 1)
        await transport.ack(await transport.claim("w"))

    async def script() -> None:
        async with rqfast.connect_async(q.url, **q.options) as entered:
            await use(entered)
        awaited = await rqfast.connect_async(q.url, **q.options)
        await use(awaited)
        await awaited.close()
        path = q.url.removeprefix("sqlite:///")

        def make() -> Any:
            if q.engine == "embedded":
                return rqfast.AsyncSqliteTransport(path, **q.options)
            return rqfast.AsyncRqliteTransport(q.url, **q.options)

        async with make() as entered:
            await use(entered)
        bare = make()
        await use(bare)
        await bare.close()
        await make().close()
        if q.engine != "embedded":
            async with rqfast.AsyncRqliteTransport.from_url(q.url, **q.options) as entered:
                await use(entered)
            awaited = await rqfast.AsyncRqliteTransport.from_url(q.url, timeout=5, connect_retries=1, **q.options)
            await use(awaited)
            await awaited.close()

    run_async(script(), "opening in every way")


@pytest.mark.parametrize("kind", ["RqliteTransport", "AsyncRqliteTransport"])
def test_a_client_where_the_url_belongs_is_refused(kind: str) -> None:
    with pytest.raises((TypeError, ConfigError), match="from_url"):
        getattr(rqfast, kind)(object(), "http://127.0.0.1:4001")


def test_calls_of_the_twin_start_at_the_call(q: Queue) -> None:
    if q.colour == "sync":
        pytest.skip("sync: a call has ended when it returns")

    async def script() -> list[Any]:
        async with rqfast.connect_async(q.url, **q.options) as transport:
            futures = [transport.publish("g", n) for n in range(3)]
            assert all(isinstance(future, asyncio.Future) for future in futures)
            return [await future for future in reversed(futures)][::-1]

    seqs = run_async(script(), "three publishes")
    assert seqs == sorted(seqs)


def test_the_twin_belongs_to_the_loop_it_was_first_used_on(q: Queue) -> None:
    if q.colour == "sync":
        pytest.skip("sync: belongs to no loop")
    view: Any = q.open()
    used(view)

    async def elsewhere() -> object:
        return await view.transport.publish("g", 1)

    with pytest.raises((RqfastError, RuntimeError), match="loop"):
        asyncio.run(elsewhere())
    used(view)


def test_a_sync_call_inside_a_running_loop_works(q: Queue) -> None:
    if q.colour == "async":
        pytest.skip("async: has its own test")
    view = q.open()

    async def inside() -> None:
        used(view)
        with rqfast.connect(q.url, **q.options) as another:
            used(another)

    asyncio.run(inside())
