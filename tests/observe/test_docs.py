"""The examples of docs/observability.md run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.script import run_python
from tests.unit.test_readme import blocks

DOCS = "docs/observability.md"
PRINTED = {
    "prometheus": [
        'rqfast_handled_total{outcome="Ack",subscription="ship"} 3.0',
        'rqfast_published_total{call="publish_many"} 3.0',
        'rqfast_published_total{call="publish"} 1.0',
        'rqfast_messages{queue="default",state="claimable"} 1.0',
    ],
    "otel": ["publish default PRODUCER 1", "process default CONSUMER Ack", "True True"],
    "by hand": ["{'subscription': 'ship', 'outcome': 'Ack'} 1"],
    "hooks": ["{'sent_by': 'billing'}"],
}
NEEDS = {"prometheus": "prometheus_client", "by hand": "prometheus_client", "otel": "opentelemetry.sdk"}


def test_each_example_is_known() -> None:
    assert len(blocks(DOCS)) == len(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_the_example_runs(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is not installed")
    ran = run_python(tmp_path, "-c", blocks(DOCS)[list(PRINTED).index(name)])
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == sorted(PRINTED[name])
