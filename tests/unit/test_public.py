"""What is public is listed, and documented where it stands."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import rqfast

ROOT = Path(__file__).parents[2]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*.py"))]

# What users import from, each with `__all__`; with the package that it needs.
MODULES = {
    "rqfast": None,
    "rqfast.devserver": None,
    "rqfast.errors": None,
    "rqfast.observe": None,
    "rqfast.observe.otel": "opentelemetry",
    "rqfast.observe.prometheus": "prometheus_client",
    "rqfast.testing": None,
    "rqfast.testing.plugin": None,
    "rqfast.worker": None,
    "rqfast.worker.lifespan": None,
}


def module(name: str) -> Any:
    needs = MODULES[name]
    if needs is not None:
        pytest.importorskip(needs, reason=f"{needs} is not installed")
    return importlib.import_module(name)


def members_of(kind: type[Any]) -> dict[str, Any]:
    """Its public methods and properties, those that it inherits from a class of ours too."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] == "rqfast":
            found.update({name: value for name, value in vars(base).items() if not name.startswith("_")})
    return {
        name: value
        for name, value in found.items()
        if inspect.isroutine(value) or isinstance(value, property | classmethod | staticmethod)
    }


def undocumented(name: str, value: Any) -> list[str]:
    """What of it has no docstring of its own."""
    missing = [] if (value.__doc__ or "").strip() else [name]
    if not isinstance(value, type):
        return missing
    missing += [f"{name}.{one}" for one, member in members_of(value).items() if not member.__doc__]
    if dataclasses.is_dataclass(value):
        fields = [one.name for one in dataclasses.fields(value) if not one.name.startswith("_")]
        known = " ".join(base.__doc__ or "" for base in value.__mro__ if base is not object)
        missing += [f"{name}.{one}" for one in fields if not re.search(rf"\b{one}\b", known)]
    return missing


@pytest.mark.parametrize("name", MODULES)
def test_each_public_name_is_documented(name: str) -> None:
    found = module(name)
    assert found.__doc__, name
    assert len(set(found.__all__)) == len(found.__all__) and found.__all__ == sorted(found.__all__)
    missing = []
    for one in found.__all__:
        value = importlib.import_module(f"{name}.{one}") if not hasattr(found, one) else getattr(found, one)
        missing += undocumented(f"{name}.{one}", value)
    assert missing == []


def test_all_is_the_whole_surface() -> None:
    extra = [
        name
        for name, value in vars(rqfast).items()
        if not name.startswith("_") and name not in rqfast.__all__ and not inspect.ismodule(value)
    ]
    assert extra == []
    assert all(hasattr(rqfast, name) for name in rqfast.__all__)
    assert set(rqfast.__all__) >= set(importlib.import_module("rqfast.errors").__all__)


def test_what_docs_and_examples_use_is_public() -> None:
    used: set[tuple[str, str]] = set()
    for file in DOCS:
        text = file.read_text(encoding="utf-8")
        used |= {("rqfast", name) for name in re.findall(r"\brqfast\.([A-Z]\w+|connect\w*)\b", text)}
        for where, names in re.findall(r"^ *from (rqfast[\w.]*) import (\([^)]*\)|.*)$", text, re.MULTILINE):
            used |= {(where, name) for name in re.findall(r"\b[A-Za-z_]\w*", names.partition("#")[0])}
    assert len(used) > 20
    listed = {name: set(importlib.import_module(name).__all__) for name, needs in MODULES.items() if needs is None}
    unknown = sorted(
        f"{where}.{name}"
        for where, name in used
        if MODULES.get(where, "") is None and name not in listed[where] and f"{where}.{name}" not in MODULES
    )
    assert unknown == []
    assert {where for where, _ in used} <= MODULES.keys()


def test_the_package_is_typed() -> None:
    assert (Path(rqfast.__file__).parent / "py.typed").is_file()
    assert (Path(rqfast.__file__).parent / "_core.pyi").is_file()
