"""`rqfast bench`: figures, and nothing is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, SECONDS, call, environment
from tests.cli.conftest import Place


def queues_of(url: str) -> list[str]:
    """Those of bench."""
    return [one["queue"] for one in call("queues", "--url", url, "--json").ok.json if one["queue"].startswith("bench_")]


def test_it_measures_in_a_queue_of_its_own(place: Place) -> None:
    ran = call("bench", "--url", place.url, "--seconds", "0.15", "--size", "40", "--groups", "50", "--json").ok
    assert [figure["what"] for figure in ran.json] == [
        "publish, one after the other",
        "publish, 256 callers",
        "publish_many",
        "claim and ack, one worker",
        "claim and ack, 64 workers",
    ]
    for figure in ran.json:
        assert figure["messages"] > 0 and figure["a_second"] > 0
        assert (figure["median_ms"] is None) == (figure["what"] == "publish_many")
    assert queues_of(place.url) == []


def test_for_people(folder: Path) -> None:
    shown = call("bench", "--url", "q.db", "--seconds", "0.1").ok.lines
    assert shown[0] == "rqfast bench: 5 figures, 0.1 s each, in a new queue of q.db"
    assert shown[1].split() == ["a", "second", "median", "99", "%"]
    assert shown[2].startswith("publish, one after the other ") and shown[2].endswith(" ms")
    assert list(folder.iterdir()) == []  # the file was made for it


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_interrupted_it_leaves_nothing(place: Place) -> None:
    process = subprocess.Popen(
        [*COMMAND, "bench", "--url", place.url, "--seconds", "60"],
        env=environment(place.folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + SECONDS
    while not queues_of(place.url):
        assert time.monotonic() < end, f"waited {SECONDS:g} s for its queue"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (130, "rqfast: interrupted; its queue is dropped\n")
    assert queues_of(place.url) == []
