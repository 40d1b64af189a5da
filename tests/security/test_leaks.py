"""Passwords, tokens and payloads stand in no log, no repr, no traceback, no report and no line of a command."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import gc
import io
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import rqfast
from rqfast.cli.app import run
from rqfast.cli.console import without_password
from rqfast.cli.soak import introduction
from rqfast.demo.run import Plan as DemoPlan
from rqfast.devserver import DevServer
from rqfast.observe.hooks import Event
from rqfast.soak.figures import measure
from rqfast.soak.history import check as judged
from rqfast.soak.lives import Lives
from rqfast.soak.process import Job
from rqfast.soak.report import page, summary
from rqfast.soak.run import Plan as SoakPlan
from rqfast.soak.run import Result
from rqfast.soak.shown import show
from tests.proxy import Proxy, is_write
from tests.security.strangers import Stranger, refuses

PASSWORD = "pa55-w0rd/with@all:of%it"
PAYLOAD, HEADER, PARAMETER = "p4yl0ad-5ecret", "h3ader-5ecret", "p4rameter-5ecret"
EVENT = {"card": PAYLOAD}
USER = f"user:{quote(PASSWORD, safe='')}@"
SECRETS = {
    "password": PASSWORD,
    "a part of the password": "pa55",
    "password in a URL": quote(PASSWORD, safe=""),
    "Authorization": base64.b64encode(f"user:{PASSWORD}".encode()).decode()[8:-4],
    "payload": PAYLOAD,
    "header": HEADER,
    "parameter": PARAMETER,
}
AWAY = "http://" + USER + "127.0.0.1:1"
SHORT: dict[str, Any] = {"connect_retries": 1, "retry_delay": 0.2}


def check(text: str, *more: str) -> None:
    """None of the secrets stands in a text, nor one of these."""
    found = [name for name, secret in SECRETS.items() if secret in text]
    found += [secret for secret in more if secret in text]
    assert found == [], text[:2000]


def told(error: BaseException) -> str:
    """All that is shown of an error: its chain, and the texts of its attributes."""
    texts = ["".join(traceback.format_exception(error))]
    seen: BaseException | None = error
    while seen is not None:
        texts += [repr(seen), repr(seen.args), *getattr(seen, "__notes__", ())]
        if isinstance(seen, rqfast.RqfastError):
            texts.append(repr(vars(seen)))
        seen = seen.__cause__ or seen.__context__
    return "\n".join(texts)


def raised(step: Callable[[], object]) -> BaseException:
    with pytest.raises(Exception, match=r".") as caught:
        step()
    return caught.value


# -- errors and tracebacks -------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["url", "auth", "RQFAST_URL"])
@pytest.mark.parametrize("kind", ["connect", "connect_async", "RqliteTransport", "AsyncRqliteTransport", "from_url"])
@pytest.mark.parametrize("fault", ["refused", "away"])
def test_a_traceback_with_local_variables_shows_no_password(
    given: str, kind: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As error trackers make them, of all frames that are ours."""
    with Stranger(refuses) as node:
        plain = node.url if fault == "refused" else "http://127.0.0.1:1"
        with_password = plain.replace("//", f"//{USER}")
        if given == "RQFAST_URL" and not kind.startswith("connect"):
            pytest.skip("it takes a URL")
        monkeypatch.setenv("RQFAST_URL", with_password)
        args = {"url": (with_password,), "auth": (plain,), "RQFAST_URL": ()}[given]
        options: dict[str, Any] = {"auth": ("user", PASSWORD)} if given == "auth" else {}
        options |= {"timeout": 0.5} if kind.endswith("Transport") else SHORT

        async def use(make: Any) -> None:
            async with make(*args, **options):
                pass

        makers: dict[str, Callable[[], object]] = {
            "connect": lambda: rqfast.connect(*args, **options),
            "connect_async": lambda: asyncio.run(use(rqfast.connect_async)),
            "RqliteTransport": lambda: rqfast.RqliteTransport(*args, **options),
            "AsyncRqliteTransport": lambda: asyncio.run(use(rqfast.AsyncRqliteTransport)),
            "from_url": lambda: rqfast.RqliteTransport.from_url(*args, **options),
        }
        error = raised(makers[kind])
    assert isinstance(error, rqfast.ConfigError if fault == "refused" else rqfast.Unavailable)
    check(told(error))
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    ours = [frame for frame in shown.stack if "/rqfast/" in frame.filename.replace("\\", "/")]
    assert len(ours) >= 3 or kind.endswith("Transport")
    for frame in ours:
        check(repr(frame.locals))


def failing_calls(queue: rqfast.Transport[Any]) -> Iterator[BaseException]:
    """Errors of all kinds of calls whose arguments are secrets."""
    own = [["INSERT INTO no_such_table VALUES(?)", PARAMETER]]
    queue.publish("g", EVENT, headers={"h": HEADER})
    lease = queue.claim()
    assert lease is not None
    yield raised(lambda: queue.publish("h", EVENT, with_statements=own))
    yield raised(lambda: queue.ack(lease, publish=[("h", EVENT)], with_statements=own))
    yield raised(lambda: queue.publish("h", EVENT, with_statements=[["SELECT ?", PARAMETER, PARAMETER]]))
    yield raised(lambda: queue.publish("h", EVENT, with_statements=[["SELECT datetime(?)", "now"]]))
    yield raised(lambda: queue.publish("h", EVENT, with_statements=[[f"SELECT '{PARAMETER}'; SELECT 1"]]))
    yield raised(lambda: queue.publish("", EVENT))
    yield raised(lambda: queue.publish("h", PAYLOAD.encode()))
    yield raised(lambda: queue.publish("h", EVENT, headers={"h": [HEADER]}))  # type: ignore[dict-item]
    yield raised(lambda: queue.publish("h", EVENT, headers={"h": HEADER * 9000}))
    yield raised(lambda: queue.publish("h", {"x": object(), "y": PAYLOAD}))
    yield raised(lambda: queue.publish("h", EVENT, delay=-1))
    yield raised(lambda: queue.publish_many([("h", EVENT), ("", EVENT)]))
    yield raised(lambda: queue.publish_many([("h", EVENT), ("h", EVENT, 9)], atomic=True))
    yield raised(lambda: queue.publish_many([rqfast.Message("h", EVENT, headers={"h": HEADER}, rank=1 << 70)]))
    queue.release("g")
    yield raised(lambda: queue.ack(lease))
    yield raised(lambda: queue.extend(lease, 5))
    yield raised(lambda: queue.dead_letter(lease, "why"))


@pytest.mark.parametrize("engine", ["sqlite", "dev server"])
def test_errors_of_calls_tell_no_payload(engine: str, tmp_path: Path, dev_server: DevServer) -> None:
    url = str(tmp_path / "q.db") if engine == "sqlite" else dev_server.url.replace("//", f"//{USER}")
    with rqfast.connect(url, queue="errors") as queue:
        for error in failing_calls(queue):
            assert isinstance(error, rqfast.RqfastError | TypeError), repr(error)
            check(told(error))
    check(told(raised(lambda: queue.publish("g", EVENT))))


# -- what objects print ----------------------------------------------------------------------------------


def public_objects(url: str) -> Iterator[object]:
    """One of each thing that users hold."""
    with rqfast.connect(url, auth=("user", PASSWORD)) as queue:
        yield queue
        queue.publish("g", EVENT, headers={"h": HEADER})
        queue.publish("dead", EVENT, headers={"h": HEADER})
        future = queue.publish_soon("soon", EVENT, headers={"h": HEADER})
        yield future
        queue.flush()
        yield future
        leases = queue.claim_many("w", 60, 10)
        yield leases
        for lease in leases:
            assert lease.event == EVENT and lease.token
            yield from (lease, [lease], f"{lease}", lease.token in repr(lease) and PAYLOAD)
        queue.dead_letter(next(lease for lease in leases if lease.group_id == "dead"), "why")
        yield from (queue.stats(), queue.groups(), queue.peek("g"), queue.dead_letters())
        queue.drop_dead_letters([letter.seq for letter in queue.dead_letters()])
        for lease in leases:
            if lease.group_id != "dead":
                queue.ack(lease)
    message = rqfast.Message("g", EVENT, headers={"h": HEADER})
    yield from (message, [message], rqfast.Ack(publish=[message], with_statements=[["SELECT ?", PARAMETER]]))
    yield Event("s", "g", 1, 1, headers={"h": HEADER})
    worker = rqfast.Worker(url.replace("//", f"//{USER}"), auth=("user", PASSWORD))

    @worker.subscriber(group="g")
    def handle(event: dict[str, str], ctx: rqfast.Context) -> None:
        seen.extend((repr(ctx), str(ctx), repr(ctx.log)))
        worker.stop()

    seen: list[str] = []
    with rqfast.connect(url) as queue:
        queue.publish("g", EVENT, headers={"h": HEADER})
    worker.run()
    yield from (worker, worker.subscriptions, seen, len(seen) == 3 or PAYLOAD)
    yield from (rqfast.AsyncRqliteTransport(AWAY), rqfast.connect_async(AWAY))
    yield SoakPlan(AWAY, "q", Path("x"))
    yield Job("w", AWAY, "q", Path("x"), 1)
    yield [field.repr for field in dataclasses.fields(DemoPlan) if field.name == "url"] == [False] or PASSWORD


def test_no_object_prints_a_secret(dev_server: DevServer) -> None:
    for one in public_objects(dev_server.url):
        check(f"{one!r}\n{one!s}")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"http://user:{PASSWORD}@h:1,i:2", "http://h:1,i:2"),
        (f"rqlites://{USER}h:1", "rqlites://h:1"),
        (f"HTTPS://u:{PASSWORD}@[::1]:1", "HTTPS://[::1]:1"),
        ("http://h:1", "http://h:1"),
        ("sqlite:////home/a@b/q.db", "sqlite:////home/a@b/q.db"),
        ("a//b@c/q.db", "a//b@c/q.db"),
    ],
)
def test_commands_show_a_url_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


# -- logs ------------------------------------------------------------------------------------------------


class Everything(logging.Handler):
    """Keeps each record of every logger, as text, with its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self._format = logging.Formatter("%(name)s %(levelname)s %(message)s")

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{self._format.format(record)}\n{record.args!r}")


@pytest.fixture
def everything() -> Iterator[Everything]:
    root = logging.getLogger()
    kept, level = Everything(), root.level
    root.addHandler(kept)
    root.setLevel(logging.DEBUG)
    try:
        yield kept
    finally:
        root.removeHandler(kept)
        root.setLevel(level)


FAULTS: tuple[Callable[[Proxy], object], ...] = (
    lambda proxy: proxy.cut_after(is_write, skip=5, count=3),
    lambda proxy: proxy.cut_before(is_write, skip=9, count=3),
    lambda proxy: proxy.cut_half(is_write, skip=13, count=3),
    lambda proxy: proxy.answer(500, b"leader not found", is_write, skip=17, count=2),
    lambda proxy: proxy.answer(503, b"what is this", is_write, skip=21, count=2, delivered=True),
    lambda proxy: proxy.answer(200, b"{garbage", is_write, skip=25, count=2, delivered=True),
)


def test_a_busy_queue_with_faults_logs_no_secret(everything: Everything, dev_server: DevServer) -> None:
    with ExitStack() as stack:
        proxy = stack.enter_context(Proxy(dev_server.host, dev_server.port))
        url = proxy.url.replace("//", f"//{USER}")
        tokens: set[str] = set()

        async def drive() -> None:
            asyncio.get_running_loop().set_debug(True)
            async with rqfast.connect_async(url, queue="busy", lost="warn", timeout=20, discover=False) as queue:
                for fault in FAULTS:
                    fault(proxy)
                for start in range(0, 60, 10):
                    sent = [queue.publish(f"g{n}", EVENT, headers={"h": HEADER}) for n in range(start, start + 10)]
                    await asyncio.gather(*sent, return_exceptions=True)
                    lease = await queue.claim(visibility=0.05)
                    while lease is not None:
                        tokens.add(lease.token)
                        await queue.ack(lease, publish=[("next", EVENT)] if lease.seq % 3 == 0 else ())
                        lease = await queue.claim(visibility=0.05 if lease.seq % 2 else 60)
                stale = rqfast.Lease(1 << 40, "g", EVENT, "~w:never")
                await queue.ack(stale)

        asyncio.run(drive(), debug=True)
        assert len(tokens) > 50 and len(proxy.seen(lambda exchange: exchange.fault.value != "pass")) >= 10
    lines = "\n".join(everything.lines)
    assert "rqfast" in lines and len(everything.lines) >= 3
    check(lines, *tokens)


def test_a_worker_whose_outcomes_are_not_told_logs_no_secret(everything: Everything, dev_server: DevServer) -> None:
    with Proxy(dev_server.host, dev_server.port) as proxy:
        worker = rqfast.Worker(proxy.url.replace("//", f"//{USER}"), queue="untold", timeout=0.4, discover=False)
        seen: list[int] = []
        tokens: set[str] = set()

        @worker.subscriber(dead_letter=True, max_attempts=9, backoff=0.01)
        async def handle(event: dict[str, str], ctx: rqfast.Context) -> rqfast.Outcome:
            seen.append(ctx.attempt)
            tokens.add(ctx._held.token)
            if len(seen) == 1:
                raise RuntimeError("a text of the user's own")
            if len(seen) == 2:
                proxy.answer(503, b"leader not found", is_write, count=12)
                return rqfast.Ack(publish=[("next", EVENT)], with_statements=[["SELECT ?", PARAMETER]])
            worker.stop()
            return rqfast.Dead("why")

        with rqfast.connect(dev_server.url, queue="untold") as queue:
            queue.publish("g", EVENT, headers={"h": HEADER})
            worker.run()
    lines = "\n".join(everything.lines)
    assert "could not be told to the database" in lines and "<1 messages>" in lines
    check(lines, *tokens)


def test_what_was_never_waited_for_logs_no_secret(everything: Everything, dev_server: DevServer) -> None:
    """Futures that fail and are thrown away are told by asyncio."""

    async def drive() -> None:
        async with rqfast.connect_async(dev_server.url, queue="thrown") as queue:
            queue.publish("g", EVENT, with_statements=[["INSERT INTO no_such_table VALUES(?)", PARAMETER]])
            queue.publish_soon("g", EVENT, headers={"h": HEADER})
            await queue.flush()
        del queue
        gc.collect()

    asyncio.run(drive(), debug=True)
    check("\n".join(everything.lines))


# -- commands and reports --------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that fails; what it said."""

    def command(*arguments: str, stdin: str = "") -> str:
        monkeypatch.setattr(sys, "argv", ["rqfast", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        assert run() != 0
        said = capsys.readouterr()
        return said.out + said.err

    return command


@pytest.mark.parametrize(
    "arguments",
    [
        ("stats", "--url", AWAY + "/path"),
        ("publish", "g", PAYLOAD, "--url", AWAY),
        ("soak", "--url", AWAY + "/:memory:"),
    ],
    ids=["stats", "publish", "soak"],
)
def test_a_line_of_a_command_that_failed_has_no_secret(arguments: tuple[str, ...], command: Callable[..., str]) -> None:
    check(command(*arguments))


def test_a_line_of_the_standard_input_is_named_by_its_number(
    dev_server: DevServer, command: Callable[..., str]
) -> None:
    text = f'{{"group_id": "g", "event": "{PAYLOAD}"}}\n{{"group_id": "", "event": "{PAYLOAD}"}}\n'
    url = dev_server.url.replace("//", f"//{USER}")
    said = command("publish", "--url", url, "--queue", "lines", "--create", stdin=text)
    assert "line 2" in said
    check(said)
    check(command("publish", "--url", url, "--queue", "lines", "--create", stdin=f'{{"event": "{PAYLOAD}"\n'))


def test_the_report_of_a_soak_has_no_password() -> None:
    lives = Lives([])
    plan = SoakPlan(AWAY, "q", Path("x"))
    result = Result(plan, judged(lives), show(lives, set()), measure(lives), [], [], [], [f"w1: {plan!r}"], 1.0)
    check(page(result, ["little"]) + introduction(plan) + repr(summary(result)))
