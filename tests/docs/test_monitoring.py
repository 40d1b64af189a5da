"""The dashboard and the alert rules read metrics that are told of, and that the adapter has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS, read

METRIC = re.compile(r"\brqfast_[a-z_]+")
PARTS = re.compile(r"_(bucket|count|sum)$")
FILES = ("grafana.json", "alerts.yaml")


def told() -> set[str]:
    table = read("docs/monitoring.md").partition("## Metrics")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `(rqfast_\w+)` ", table, re.MULTILINE))


def dashboard() -> Any:
    return json.loads((DOCS / "monitoring" / "grafana.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_what_is_read_is_told_of(name: str) -> None:
    text = (DOCS / "monitoring" / name).read_text(encoding="utf-8")
    used = {PARTS.sub("", metric) for metric in METRIC.findall(text)}
    assert len(used) >= 4 and used <= told()


def test_the_dashboard_shows_every_metric() -> None:
    text = json.dumps(dashboard())
    assert {PARTS.sub("", metric) for metric in METRIC.findall(text)} == told()


def test_each_panel_has_a_place_of_its_own_and_says_what_it_shows() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    assert all(panel["title"] for panel in panels)


def test_the_adapter_has_what_is_told() -> None:
    folder = DOCS.parent / "src" / "rqfast" / "observe"
    source = "".join(path.read_text(encoding="utf-8") for path in sorted(Path(folder).glob("*.py")))
    missing = [name for name in sorted(told()) if name not in source and name.removesuffix("_total") not in source]
    assert missing == []
