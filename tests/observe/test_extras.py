"""Without their packages, the adapters say how to install them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.script import run_python

SCRIPT = """
import sys

sys.modules[{package!r}] = None
try:
    import rqfast.observe.{module}
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("module", "package", "distribution"),
    [("prometheus", "prometheus_client", "prometheus-client"), ("otel", "opentelemetry", "opentelemetry-api")],
)
def test_one_line_says_how(module: str, package: str, distribution: str, tmp_path: Path) -> None:
    ran = run_python(tmp_path, "-c", SCRIPT.format(module=module, package=package))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"rqfast.observe.{module} needs {distribution}: pip install 'rqfast[{module}]'\n"
