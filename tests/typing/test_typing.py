"""What mypy and pyright say of the files beside this one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import rqfast

HERE = Path(__file__).parent
ACCEPT, REJECT = "accept.py", "reject.py"
SECONDS = 300

EXPECTED = {
    number: found[1]
    for number, line in enumerate((HERE / REJECT).read_text(encoding="utf-8").splitlines(), 1)
    if (found := re.search(r"  # error: ([a-z-]+)$", line))
}


def run(arguments: list[str], **variables: str) -> str:
    """What it prints; it says nothing on stderr of a fault of its own."""
    ran = subprocess.run(
        arguments,
        cwd=HERE,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    return ran.stdout


def source() -> str:
    """The folder that has the package, unless checkers find it by themselves."""
    folder = Path(rqfast.__file__).parents[1]
    return "" if folder.name == "site-packages" else str(folder)


@pytest.mark.timeout(SECONDS)
def test_mypy(tmp_path: Path) -> None:
    if find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = true\nwarn_unreachable = true\n", encoding="utf-8")
    said = run(
        [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", str(tmp_path), ACCEPT, REJECT],
        MYPYPATH=source(),
    )
    found: dict[tuple[str, int], set[str]] = {}
    for file, line, code in re.findall(r"^(.+?):(\d+): error: .*\[([a-z-]+)\]$", said, re.MULTILINE):
        found.setdefault((file, int(line)), set()).add(code)
    assert {at for at in found if at[0] != REJECT} == set(), said
    assert sorted(found) == [(REJECT, line) for line in EXPECTED], said
    for line, code in EXPECTED.items():
        assert code in found[REJECT, line], said


@pytest.mark.timeout(SECONDS)
def test_pyright(tmp_path: Path) -> None:
    beside = str(Path(sys.executable).parent)
    path = os.pathsep.join([beside, os.environ.get("PATH", "")])
    # The second is the first in a wheel that brings its own interpreter.
    pyright = shutil.which("pyright", path=path) or shutil.which("basedpyright", path=path)
    if pyright is None:
        pytest.skip("pyright is not installed: pip install basedpyright")
    for file in (ACCEPT, REJECT):
        shutil.copy(HERE / file, tmp_path)
    config = tmp_path / "pyrightconfig.json"
    config.write_text(
        json.dumps({"typeCheckingMode": "standard", "strict": [ACCEPT], "pythonVersion": "3.11"}), encoding="utf-8"
    )
    said = run([pyright, "--outputjson", "--pythonpath", sys.executable, "--project", str(config)], PYTHONPATH=source())
    errors = [one for one in json.loads(said)["generalDiagnostics"] if one["severity"] == "error"]
    found = sorted({(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in errors})
    assert found == [(REJECT, line) for line in EXPECTED], "\n".join(
        f"{Path(one['file']).name}:{one['range']['start']['line'] + 1}: {one['message']}" for one in errors
    )


def test_nothing_is_expected_twice_or_never() -> None:
    marked = (HERE / REJECT).read_text(encoding="utf-8").count("# error:")
    assert len(EXPECTED) == marked - 1 > 40  # the docstring has one
