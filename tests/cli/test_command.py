"""The command `rqfast`: what it prints, where, and with which exit status."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rqfast
from tests.cli.command import SECONDS, environment, rqfast_command

SMALL = 200


@pytest.fixture
def rows(tmp_path: Path) -> str:
    """A small file: 200 rows in 10 groups, one of them with a name that would colour a terminal."""
    path = tmp_path / "rows.jsonl"
    names = ["\x1b[31mred", *(f"[b]g{n}" for n in range(9))]
    path.write_text("".join(json.dumps({"k": names[n % 10], "n": n}) + "\n" for n in range(SMALL)))
    return str(path)


def test_version(tmp_path: Path) -> None:
    done = rqfast_command(tmp_path, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"rqfast {rqfast.__version__}\n", "")


def test_help_names_the_commands(tmp_path: Path) -> None:
    done = rqfast_command(tmp_path, "--help")
    assert done.returncode == 0 and "demo" in done.stdout


def test_a_command_line_that_cannot_be_understood_is_2(tmp_path: Path) -> None:
    for arguments in (["sing"], ["demo", "--workers", "1"], ["demo", "--sing"]):
        done = rqfast_command(tmp_path, *arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments


def test_without_the_extra_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    for missing in ("typer", "rich"):
        code = f"import sys; sys.modules['{missing}'] = None; import rqfast.cli; sys.exit(rqfast.cli.main())"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines() == ["rqfast: the command line needs typer and rich: pip install 'rqfast[cli]'"]


def test_the_library_does_not_import_the_command_line() -> None:
    code = (
        "import sys, rqfast; sys.exit('typer' in sys.modules or 'rich' in sys.modules or 'rqfast.cli' in sys.modules)"
    )
    source = str(Path(rqfast.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": source}, timeout=SECONDS)
    assert done.returncode == 0


def test_the_demo_is_plain_text_when_it_is_no_terminal(tmp_path: Path, rows: str) -> None:
    done = rqfast_command(tmp_path, "demo", "--file", rows, "--group-field", "k", "--workers", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(letter.isprintable() or letter == "\n" for letter in done.stdout)
    told = done.stdout.splitlines()
    assert told[0] == f"rqfast demo: 200 messages from {rows}; those with the same k are a group, worked in order."
    assert told[1] == "  publish  into a fresh SQLite file"
    figures = {line.split()[0]: line.split()[1] for line in told if line[:1].islower()}
    assert (figures["published"], figures["worked"]) == ("200", "200")
    assert int(figures["redelivered"]) > 0
    assert any(line.startswith("Passed in ") and "all 200 messages were done" in line for line in told)
    assert "README" in told[-1]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_demo_runs_on_a_queue_that_is_named(tmp_path: Path, rows: str) -> None:
    arguments = ["demo", "--file", rows, "--group-field", "k", "--workers", "2", "--url", "q.db", "--queue", "mine"]
    done = rqfast_command(tmp_path, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "into the new queue mine of q.db" in done.stdout
    with rqfast.connect(tmp_path / "q.db", queue="mine", create=False) as transport:
        assert transport.claim() is None
    again = rqfast_command(tmp_path, *arguments)
    assert again.returncode == 1
    assert again.stderr.startswith("rqfast: the queue 'mine' is there already") and again.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--file", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--group-field", "sing"], "no group in the field 'sing'; the fields are date, delay, distance, origin"),
        (["--url", "ftp://x"], "ftp:// is no scheme"),
        (["--queue", "Not A Name"], "queue='Not A Name'"),
    ],
)
def test_an_error_is_one_line_on_stderr(tmp_path: Path, arguments: list[str], told: str) -> None:
    done = rqfast_command(tmp_path, "demo", *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("rqfast: ") and told in done.stderr and done.stderr.count("\n") == 1
    assert list((tmp_path / "tmp").iterdir()) == []


def test_debug_shows_the_traceback_before_and_after_the_command(tmp_path: Path) -> None:
    for arguments in (["--debug", "demo", "--url", "ftp://x"], ["demo", "--url", "ftp://x", "--debug"]):
        done = rqfast_command(tmp_path, *arguments)
        assert done.returncode == 1
        assert "Traceback" in done.stderr and "ConfigError" in done.stderr


def test_a_password_in_the_url_is_not_shown() -> None:
    demo = pytest.importorskip("rqfast.cli.demo")
    assert demo.without_password("http://u:p@h:4001,g:4001") == "http://h:4001,g:4001"
    assert demo.without_password("http://u:p@ss@h:4001") == "http://h:4001"
    assert demo.without_password("queue@home.db") == "queue@home.db"


@pytest.mark.skipif(importlib.util.find_spec("pty") is None, reason="needs a pseudo-terminal")
def test_on_a_terminal_there_are_bars_and_no_control_code_of_a_strangers_making(tmp_path: Path, rows: str) -> None:
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rqfast.cli", "demo", "--file", rows, "--group-field", "k", "--workers", "2"],
        env=environment(tmp_path) | {"TERM": "xterm-256color", "COLUMNS": "120"},
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    os.close(theirs)
    shown = read_all(ours)
    assert process.wait(SECONDS) == 0
    assert f"{SMALL}/{SMALL}" in shown and "\x1b[2K" in shown and "Passed in" in shown
    assert "\x1b[31mred" not in shown


def read_all(file: int) -> str:
    """All that comes until the other side is closed."""
    end = time.monotonic() + SECONDS
    data = b""
    while select.select([file], [], [], max(0.0, end - time.monotonic()))[0]:
        try:
            more = os.read(file, 65536)
        except OSError:  # how Linux says that a terminal was closed
            more = b""
        if not more:
            os.close(file)
            return data.decode()
        data += more
    raise AssertionError(f"waited {SECONDS:g} s for the end of the output; so far {data[-500:]!r}")


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.parametrize("when", ["Publishing 20,000", "Working 20,000", "killed with"])
def test_ctrl_c_stops_the_workers_and_cleans_up(tmp_path: Path, when: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rqfast.cli", "demo"],
        env=environment(tmp_path) | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if when in line:
            break
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (130, "")
    assert out.splitlines()[-1] == "Stopped; the workers are gone."
    assert list((tmp_path / "tmp").iterdir()) == []
    end = time.monotonic() + SECONDS
    while group_runs(process.pid):  # multiprocessing's own helper ends when it sees that its parent has
        assert time.monotonic() < end, f"waited {SECONDS:g} s for the last process to end"
        time.sleep(0.02)


def group_runs(group: int) -> bool:
    """Whether a process of this group still runs."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
