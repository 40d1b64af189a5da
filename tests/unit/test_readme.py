"""The README's examples run as they stand."""

import re
from pathlib import Path

import pytest

from tests.script import run_python

README = Path(__file__).parents[2] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
PRINTED = [
    ["customer-7 {'order': 1} 1", "customer-7 {'order': 2} 1", "customer-8 {'order': 3} 1"],
    ["1000"],
    ["1000 True"],
    ["102"],
    ["customer-7 paused 1 None", "1 0 [{'order': 1}]"],
]


def test_each_example_is_known() -> None:
    assert len(EXAMPLES) == len(PRINTED)


@pytest.mark.parametrize("number", range(len(PRINTED)), ids=["blocking", "asyncio", "runs", "bundles", "operating"])
def test_the_example_runs(number: int, tmp_path: Path) -> None:
    ran = run_python(tmp_path, "-c", EXAMPLES[number])
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == sorted(PRINTED[number])
