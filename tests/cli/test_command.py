"""The command `rqfast`: what it prints, where, and with which exit status."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import rqfast
from rqfast.cli.console import without_password
from rqfast.cli.exits import epilog
from rqfast.cli.help import NAMES
from rqfast.devserver import DevServer
from tests.cli.command import COMMAND, SECONDS, Terminal, call, commands, environment, rqfast_command

SMALL = 200


@pytest.fixture
def rows(tmp_path: Path) -> str:
    """A small file: 200 rows in 10 groups, one of them with a name that would colour a terminal."""
    path = tmp_path / "rows.jsonl"
    names = ["\x1b[31mred", *(f"[b]g{n}" for n in range(9))]
    path.write_text("".join(json.dumps({"k": names[n % 10], "n": n}) + "\n" for n in range(SMALL)))
    return str(path)


def test_version() -> None:
    assert call("--version").ok.out == f"rqfast {rqfast.__version__}\n"


def test_help_names_each_command_once() -> None:
    shown = call("--help").ok.lines
    for name in NAMES:
        assert len([line for line in shown if line.startswith(f"  {name} ")]) == 1, name
    plain = call()
    assert (plain.status, plain.err) == (2, "") and plain.lines == shown


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["sing"], "rqfast: No such command 'sing'; rqfast --help tells more"),
        (["stat"], "rqfast: No such command 'stat'"),
        (["groups", "--state", "x"], "rqfast groups: Invalid value for '--state': 'x' is not one of 'claimable', "),
        (["stats", "--sing"], "rqfast stats: No such option: --sing"),
        (["peek"], "rqfast peek: Missing argument 'GROUP'; rqfast peek --help tells more"),
        (
            ["demo", "--workers", "1"],
            "rqfast demo: Invalid value for '--workers': ",
        ),
        (["dead", "show", "x"], "rqfast dead show: Invalid value for 'SEQ': it must be a whole number; rqfast dead "),
        (["top"], "rqfast top: top needs a terminal; --json writes lines, and `rqfast stats` figures"),
    ],
)
def test_a_command_line_that_cannot_be_understood_is_2_and_one_line(arguments: list[str], told: str) -> None:
    ran = call(*arguments)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(told) and ran.err.count("\n") == 1 and "?;" not in ran.err


def test_each_command_tells_its_exit_statuses_and_has_the_common_options() -> None:
    for name, command in commands().items():
        shown = call(*name.split(), "--help").ok.out
        assert f"Usage: rqfast {name} " in shown
        words = " ".join(shown.split())
        assert words.endswith(" ".join(epilog(name).split()).removeprefix(" ")), name
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--debug" in options, name
        assert ("--json" in options) == (name not in ("demo", "dev", "soak")), name
        assert ("--url" in options) == (name != "dev"), name


def test_no_node_is_3(monkeypatch: pytest.MonkeyPatch) -> None:
    with DevServer() as server:
        url = server.url
    monkeypatch.setattr("rqfast.cli.queue.PATIENCE", 1)
    ran = call("stats", "--url", url.replace("//", "//user:secret@"))
    assert (ran.status, ran.out) == (3, ""), ran
    assert "(connection refused)" in ran.err and "ssl:" not in ran.err
    assert "no leader answered" in ran.err and ran.err.count("\n") == 1 and "secret" not in ran.err


@pytest.mark.skipif(sys.platform == "win32", reason="of a shell of its own")
@pytest.mark.parametrize("arguments", ["groups", "dead list --json"])
def test_a_pipe_that_is_closed_is_no_fault(arguments: str, tmp_path: Path) -> None:
    with rqfast.connect("q.db") as transport:
        transport.publish_many((f"{'g' * 500}{n}", n) for n in range(600))
        transport.dead_letter_many(transport.claim_many(limit=300), "r" * 500)
    command = f"{shlex.join(COMMAND)} {arguments} --url q.db --limit 9999 | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], env=environment(tmp_path), capture_output=True, text=True, timeout=SECONDS
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[1:] == ["141"]


def test_completion(monkeypatch: pytest.MonkeyPatch) -> None:
    for line, wanted in (("rqfast pur", "purge"), ("rqfast groups --ord", "--order"), ("rqfast dead re", "redrive")):
        for name, value in {"_RQFAST_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": ""}.items():
            monkeypatch.setenv(name, value or str(len(line.split()) - 1))
        monkeypatch.setattr(sys, "argv", ["rqfast"])
        assert call().out.split() == [wanted]
    # What --show-completion prints, for a shell that is named: it asks which one runs it, and here none does.
    for shell in ("bash", "zsh", "fish"):
        monkeypatch.setenv("_RQFAST_COMPLETE", f"source_{shell}")
        assert "rqfast" in call().ok.out
    monkeypatch.delenv("_RQFAST_COMPLETE")
    assert "--install-completion" in call("--help").out


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
    assert "`rqfast publish " in told[-1]
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
def test_an_error_is_one_line_on_stderr(
    tmp_path: Path, arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    ran = call("demo", *arguments)
    assert ran.status == 1
    assert ran.err.startswith("rqfast: ") and told in ran.err and ran.err.count("\n") == 1
    assert list((tmp_path / "tmp").iterdir()) == []


def test_debug_shows_the_traceback_before_and_after_the_command() -> None:
    for arguments in (["--debug", "stats", "--url", "ftp://x"], ["stats", "--url", "ftp://x", "--debug"]):
        ran = call(*arguments)
        assert ran.status == 1
        assert ran.err.startswith("Traceback") and "ConfigError" in ran.err
        assert ran.err.splitlines()[-1].startswith("rqfast: ")


def test_a_password_in_the_url_is_not_shown() -> None:
    assert without_password("http://u:p@h:4001,g:4001") == "http://h:4001,g:4001"
    assert without_password("http://u:p@ss@h:4001") == "http://h:4001"
    assert without_password("http://u:p/w@h:4001") == "http://h:4001"
    assert without_password("queue@home.db") == "queue@home.db"
    assert without_password("sqlite:///queue@home.db") == "sqlite:///queue@home.db"


@pytest.mark.skipif(importlib.util.find_spec("pty") is None, reason="needs a pseudo-terminal")
def test_on_a_terminal_there_are_bars_and_no_control_code_of_a_strangers_making(tmp_path: Path, rows: str) -> None:
    with Terminal(tmp_path, "demo", "--file", rows, "--group-field", "k", "--workers", "2") as terminal:
        assert terminal.ended() == 0
    shown = terminal.shown
    assert f"{SMALL}/{SMALL}" in shown and "\x1b[2K" in shown and "Passed in" in shown
    assert "\x1b[31mred" not in shown


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


def test_a_soak_of_one_each_says_so(folder: Path) -> None:
    from rqfast.cli.soak import introduction
    from rqfast.soak.run import Plan

    told = introduction(Plan("q.db", "soak", folder, publishers=1, workers=1, subscribers=1, groups=1))
    assert "1 publisher, 1 worker and 1 subscriber, 1 group, in" in told
