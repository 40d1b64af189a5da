"""The README's examples run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
PRINTED = [
    ["customer-7 {'order': 1} 1", "customer-7 {'order': 2} 1", "customer-8 {'order': 3} 1"],
    ["1000"],
    ["102"],
    ["customer-7 paused 1 None", "1 0 [{'order': 1}]"],
]


def test_each_example_is_known() -> None:
    assert len(EXAMPLES) == len(PRINTED)


@pytest.mark.parametrize("number", range(len(PRINTED)), ids=["blocking", "asyncio", "bundles", "operating"])
def test_the_example_runs(number: int, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXAMPLES[number]],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == sorted(PRINTED[number])
