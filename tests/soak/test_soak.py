"""`rqfast soak`: a few seconds of it pass on each engine, and fail by the right rule when the client is broken."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import rqfast
from rqfast.devserver import DevServer
from rqfast.soak.breaks import BREAKS, VARIABLE
from rqfast.soak.run import Plan, SoakError, run
from tests.cluster import Cluster

SECONDS = 100.0
SHORT = (
    "--minutes", "0.07", "--visibility", "1.5", "--kill-every", "1", "--groups", "12", "--workers", "3", "--publishers",
    "2", "--backlog", "300", "--drain", "8", "--need-messages", "100", "--need-taken-over", "1",
)  # fmt: skip


def soak(folder: Path, url: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command; temporary files go to folder/tmp."""
    (folder / "tmp").mkdir(exist_ok=True)
    source = str(Path(rqfast.__file__).parent.parent)
    kept = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "RQFAST_URL", VARIABLE)}
    return subprocess.run(
        [sys.executable, "-m", "rqfast.cli", "soak", "--url", url, *SHORT, *arguments],
        env=kept | {"TMPDIR": str(folder / "tmp"), "TEMP": str(folder / "tmp"), "PYTHONPATH": source} | variables,
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
    )


def check_passed(done: subprocess.CompletedProcess[str], folder: Path) -> str:
    """It passed, left a report and nothing else; returns the page."""
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert re.search(r"^Passed in ", done.stdout, re.MULTILINE)
    assert list((folder / "tmp").iterdir()) == []
    return (folder / "report" / "soak.html").read_text(encoding="utf-8")


def test_a_short_one_passes_on_a_file(tmp_path: Path) -> None:
    done = soak(tmp_path, "q.db", "--report", "report")
    page = check_passed(done, tmp_path)
    assert "<svg" in page and "killed" in page and "broken" not in page
    assert "http" not in page.replace("http-equiv", ""), "it needs nothing else"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("q.db")] == [], "its file is gone"


def test_a_short_one_passes_on_the_dev_server(tmp_path: Path, dev_server: DevServer) -> None:
    check_passed(soak(tmp_path, dev_server.url, "--report", "report"), tmp_path)


@pytest.mark.cluster
def test_a_short_one_passes_on_one_node(tmp_path: Path, one_node: Cluster) -> None:
    check_passed(soak(tmp_path, one_node.url, "--report", "report"), tmp_path)
    assert one_node.query("SELECT name FROM sqlite_master WHERE name LIKE 'rqfast_soak%'") == []


@pytest.mark.parametrize(
    ("broken", "rules"),
    [
        ("drop-publish", "lost"),
        ("bury-done", "again"),
        ("leave-behind", "left"),
        ("publish-twice", "twice"),
        ("drop-ack", "again"),
        ("share-lease", "two"),
        ("release-lease", "early"),
        ("ack-twice", "twice fenced"),
        ("jump-queue", "order"),
        ("hide-claim", "attempts"),
        ("publish-refused", "refused"),
        ("change-event", "changed"),
        ("stray", "stats"),
    ],
)
def test_it_fails_when_the_client_is_broken(tmp_path: Path, broken: str, rules: str) -> None:
    done = soak(tmp_path, "q.db", **{VARIABLE: broken})
    assert done.returncode == 1, done.stdout
    assert "Failed in " in done.stdout
    for rule in rules.split():
        assert re.search(rf"^  {rule}: [\d,]+ times$", done.stdout, re.MULTILINE), done.stdout
    [kept] = (tmp_path / "tmp").iterdir()
    assert f"wrote down is in {kept}" in done.stdout and list(kept.glob("*.jsonl"))


def test_each_break_is_tried() -> None:
    [mark] = [mark for mark in test_it_fails_when_the_client_is_broken.pytestmark if mark.name == "parametrize"]
    assert {broken for broken, _ in mark.args[1]} == set(BREAKS)


def test_it_says_when_it_showed_too_little(tmp_path: Path) -> None:
    done = soak(
        tmp_path, "q.db", "--minutes", "0.02", "--need-lost-replies", "5", "--need-faults", "1", "--report", "report"
    )
    assert done.returncode == 2, done.stdout
    assert "too little was shown" in done.stdout and "0 lost replies, at least 5 were to be" in done.stdout
    assert "0 faults of the rarest kind, at least 1 were to be" in done.stdout
    assert "Too little was shown" in (tmp_path / "report" / "soak.html").read_text(encoding="utf-8")


def test_faults_are_shown_and_counted(tmp_path: Path) -> None:
    faults = tmp_path / "faults.jsonl"
    lines: list[dict[str, Any]] = [
        {"time": time.time() + 2, "kind": "kill leader", "node": "<2>"},
        {"time": time.monotonic() + 2, "kind": "lost reply", "node": "1", "applied": True, "count": 3},
        {"time": time.monotonic() + 3, "kind": "lost reply", "node": "1", "applied": False},
    ]
    faults.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    done = soak(
        tmp_path,
        "q.db",
        "--faults",
        str(faults),
        "--need-lost-replies",
        "4",
        "--need-faults",
        "1",
        "--report",
        "report",
    )
    page = check_passed(done, tmp_path)
    assert re.search(r"^faults +1 kill leader, 4 lost reply$", done.stdout, re.MULTILINE)
    assert re.search(r"^lost replies +4, of which 3 were of requests that were applied$", done.stdout, re.MULTILINE)
    assert "kill leader &lt;2&gt;" in page


def test_a_queue_that_is_there_is_left_alone(tmp_path: Path) -> None:
    with rqfast.connect(tmp_path / "q.db", queue="mine") as transport:
        transport.publish("g", 1)
        done = soak(tmp_path, "q.db", "--queue", "mine")
        assert (done.returncode, transport.stats().messages) == (1, 1)
    assert "the queue 'mine' is there already" in done.stderr


def test_the_queue_stays_when_it_is_to(tmp_path: Path) -> None:
    done = soak(tmp_path, "q.db", "--minutes", "0.02", "--queue", "mine", "--keep", "--need-taken-over", "0")
    assert done.returncode == 0, done.stdout
    with rqfast.connect(tmp_path / "q.db", queue="mine", create=False) as transport:
        assert transport.stats().messages == 0


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ({"url": ":memory:"}, "cannot see this one's memory"),
        ({"groups": 1}, "at least one for each"),
        ({"workers": 0}, "0 workers"),
        ({"publishers": 99}, "99 publishers"),
    ],
)
def test_what_cannot_be_run_is_refused(tmp_path: Path, plan: dict[str, Any], told: str) -> None:
    with pytest.raises(SoakError, match=told):
        run(Plan(**{"url": str(tmp_path / "q.db"), "queue": "q", "folder": tmp_path, **plan}), None)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
