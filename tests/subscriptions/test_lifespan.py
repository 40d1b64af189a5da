"""A worker inside a web application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, web

from rqfast import RqfastError, Worker
from rqfast.worker.database import Database
from rqfast.worker.lifespan import aiohttp_web, serving, starlette
from tests.subscriptions.place import Place, run, until


def service(place: Place) -> tuple[Worker, list[int]]:
    """A worker, and what it has done."""
    worker, done = place.worker(), []

    @worker.subscriber(group="crm")
    async def sync(change: int) -> None:
        done.append(change)

    return worker, done


def count_of(done: list[int], count: int) -> Callable[[], bool]:
    """Whether so many are done."""
    return lambda: len(done) == count


def broken(place: Place) -> Worker:
    """A worker that cannot start."""
    worker, _ = service(place)

    @worker.on_startup
    async def schema(db: Database) -> None:
        raise KeyError("no schema")

    return worker


def is_stopped(worker: Worker) -> bool:
    """Whether it serves no more."""
    try:
        worker._running("publish()")
    except RqfastError:
        return True
    return False


# -- aiohttp.web ------------------------------------------------------------------------------------------


def aiohttp_app(worker: Worker) -> web.Application:
    async def change(request: web.Request) -> web.Response:
        return web.json_response({"seq": await worker.publish("crm", int(request.match_info["number"]))})

    app = web.Application()
    app.cleanup_ctx.append(aiohttp_web(worker))
    app.router.add_post("/changes/{number}", change)
    return app


@asynccontextmanager
async def served(app: web.Application) -> Any:
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def test_an_aiohttp_application(place: Place) -> None:
    async def scenario() -> None:
        worker, done = service(place)
        for number in (1, 2):  # an application may be started again
            async with served(aiohttp_app(worker)) as url, ClientSession() as session:
                async with session.post(f"{url}/changes/{number}") as reply:
                    assert reply.status == 200
                await until(count_of(done, number), "the change")
            assert is_stopped(worker)
        assert done == [1, 2]

    run(scenario())


def test_an_aiohttp_application_whose_worker_cannot_start(embedded_place: Place) -> None:
    async def scenario() -> None:
        worker = broken(embedded_place)
        with pytest.raises(KeyError, match="no schema"):
            async with served(aiohttp_app(worker)):
                pytest.fail("it started")
        assert is_stopped(worker)

    run(scenario())


# -- Starlette and FastAPI --------------------------------------------------------------------------------


def starlette_client(worker: Worker) -> Any:
    pytest.importorskip("starlette", reason="Starlette is not installed")
    pytest.importorskip("httpx", reason="httpx is not installed")
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route
    from starlette.testclient import TestClient

    async def change(request: Any) -> Any:
        worker = request.state.worker
        return JSONResponse({"seq": await worker.publish("crm", request.path_params["number"])})

    app = Starlette(routes=[Route("/changes/{number:int}", change, methods=["POST"])], lifespan=starlette(worker))
    return TestClient(app)


@pytest.mark.filterwarnings("ignore")
def test_a_starlette_application(place: Place) -> None:
    worker, done = service(place)
    for number in (1, 2):
        with starlette_client(worker) as client:
            assert client.post(f"/changes/{number}").status_code == 200
            run(until(count_of(done, number), "the change"))
        assert is_stopped(worker)
    assert done == [1, 2]


@pytest.mark.filterwarnings("ignore")
def test_a_starlette_application_whose_worker_cannot_start(embedded_place: Place) -> None:
    worker = broken(embedded_place)
    with pytest.raises(KeyError, match="no schema"), starlette_client(worker):
        pytest.fail("it started")
    assert is_stopped(worker)


# -- a lifespan of one's own ------------------------------------------------------------------------------


def test_a_handler_at_work_ends_before_the_application_does(place: Place) -> None:
    async def scenario() -> None:
        worker, ended = place.worker(grace=20), []
        at_work = asyncio.Event()

        @worker.subscriber(group="crm")
        async def sync(change: int) -> None:
            at_work.set()
            await asyncio.sleep(0.3)
            ended.append(change)

        async with serving(worker):
            await worker.publish("crm", 1)
            await at_work.wait()
        assert ended == [1] and is_stopped(worker)
        async with place.connect() as transport:
            assert (await transport.stats()).messages == 0

    run(scenario())


def test_an_application_that_is_cancelled_gives_messages_back(place: Place) -> None:
    async def scenario() -> None:
        worker = place.worker(grace=60)
        at_work = asyncio.Event()

        @worker.subscriber(group="crm")
        async def sync(change: int) -> None:
            at_work.set()
            await asyncio.Event().wait()

        async def application() -> None:
            async with serving(worker):
                await worker.publish("crm", 1)
                await asyncio.Event().wait()

        task = asyncio.ensure_future(application())
        await at_work.wait()
        task.cancel()  # the block ends: the worker stops, within its grace
        await asyncio.sleep(0.05)
        task.cancel()  # at once
        with pytest.raises(asyncio.CancelledError):
            await task
        assert is_stopped(worker)
        async with place.connect() as transport:
            (group,) = await transport.groups()
            assert (group.state, group.head_attempts) == ("claimable", 0)

    run(scenario())


def test_an_error_of_the_application_is_what_is_raised(embedded_place: Place) -> None:
    async def scenario() -> None:
        worker, _ = service(embedded_place)
        with pytest.raises(ZeroDivisionError):
            async with serving(worker):
                raise ZeroDivisionError
        assert is_stopped(worker)

    run(scenario())


def test_a_worker_that_is_stopped_while_it_starts(embedded_place: Place) -> None:
    async def scenario() -> None:
        worker = embedded_place.worker(grace=0.1)
        hanging = asyncio.Event()

        @worker.subscriber(group="crm")
        async def sync(change: int) -> None: ...

        @worker.on_startup
        async def hang(db: Database) -> None:
            hanging.set()
            await asyncio.Event().wait()

        async def application() -> None:
            async with serving(worker):
                raise AssertionError("it started")

        task = asyncio.ensure_future(application())
        await hanging.wait()
        worker.stop()
        with pytest.raises(RqfastError, match="stopped before it had started"):
            await task
        task = asyncio.ensure_future(application())
        hanging.clear()
        await hanging.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert is_stopped(worker)

    run(scenario(), 20)
