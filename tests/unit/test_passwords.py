"""A URL that cannot be used is refused without its password: people paste errors into reports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rqfast

MALFORMED = [
    "http://user:secret",
    "http://user:secret\u2100",
    "http://user:secret@host:99999",
    "http://user:secret@host:port",
    "http://user:secret@host:4001/path",
    "http://user:secret@host:4001?secret",
    "http://user:secret@",
    "http://user:secret@:4001",
    "http://user:secret@ho st",
    "http://user:secret@[::1",
    "http://user:secret@host,user:secret",
    "http//user:secret@host:4001",
    "http:user:secret@host:4001",
    "http:/user:secret@host:4001",
    "user:secret@host",
    "user:secret@host:4001,other:4001",
    "ftp://user:secret@host",
    "secret://user:secret@host",
    "sqlite://user:secret@host",
    "sqlite:user:secret@host",
]


async def awaited(url: str | None) -> None:
    await rqfast.connect_async(url)


WAYS: dict[str, Callable[[str | None], object]] = {
    "connect": rqfast.connect,
    "connect_async": lambda url: asyncio.run(awaited(url)),
}


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and all that stand behind it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def check_hides(error: BaseException, password: str) -> None:
    for each in chain(error):
        for text in (str(each), repr(each), repr(each.args), repr(vars(each)) if hasattr(each, "__dict__") else ""):
            assert password not in text, f"{type(each).__name__}: {text}"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RQFAST_URL", raising=False)
    yield
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["argument", "environment"])
@pytest.mark.parametrize("way", [pytest.param(WAYS[name], id=name) for name in WAYS])
@pytest.mark.parametrize("url", MALFORMED)
def test_a_malformed_url_shows_no_password(
    monkeypatch: pytest.MonkeyPatch, url: str, way: Callable[[str | None], object], where: str
) -> None:
    given: str | None = url
    if where == "environment":
        monkeypatch.setenv("RQFAST_URL", url)
        given = None
    with pytest.raises(rqfast.ConfigError) as caught:
        way(given)
    check_hides(caught.value, "user:secret")
    check_hides(caught.value, "secret")


@pytest.mark.parametrize("kind", ["RqliteTransport", "AsyncRqliteTransport", "SqliteTransport", "AsyncSqliteTransport"])
@pytest.mark.parametrize("url", MALFORMED)
def test_nor_does_a_class_that_is_given_one(url: str, kind: str) -> None:
    make: Any = getattr(rqfast, kind)
    with pytest.raises(rqfast.ConfigError) as caught:
        make(url)
    check_hides(caught.value, "secret")
