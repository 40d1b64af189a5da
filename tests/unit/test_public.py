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


def test_the_package_is_typed() -> None:
    assert (Path(rqfast.__file__).parent / "py.typed").is_file()
    assert (Path(rqfast.__file__).parent / "_core.pyi").is_file()
