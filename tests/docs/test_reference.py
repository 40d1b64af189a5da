"""The reference holds all that is public and nothing else; `unit/test_public.py` says what that is."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import rqfast
from tests.docs.pages import DOCS, read

ENTRY = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
REFERENCE = sorted(path.name for path in (DOCS / "reference").glob("*.md"))
# `rqfast.connect` is a module for who reads the source only, so its functions are named by it.
NAMED = [
    name.replace("rqfast.connect.", "rqfast.")
    for page in REFERENCE
    for name in ENTRY.findall(read(f"docs/reference/{page}"))
]
# Beside the names of `rqfast` itself.
PUBLIC_MODULES = (
    "rqfast.devserver",
    "rqfast.observe",
    "rqfast.observe.otel",
    "rqfast.observe.prometheus",
    "rqfast.testing",
    "rqfast.testing.plugin",
    "rqfast.worker.lifespan",
)


def test_the_reference_has_all_names_and_no_other() -> None:
    of_rqfast = [name.removeprefix("rqfast.") for name in NAMED if name.count(".") == 1]
    assert sorted(of_rqfast) == sorted(rqfast.__all__)
    others = {name.rpartition(".")[0] for name in NAMED if name.count(".") > 1}
    assert others <= set(PUBLIC_MODULES)


def test_help_of_the_package_names_all() -> None:
    assert [name for name in rqfast.__all__ if not re.search(rf"\b{name}\b", rqfast.__doc__ or "")] == []


def members(found: Any) -> Iterator[str]:
    """The public methods and properties that a class defines itself."""
    if not inspect.isclass(found):
        return
    for name, value in vars(found).items():
        if not name.startswith("_") and (inspect.isroutine(value) or isinstance(value, property)):
            yield name


@pytest.mark.parametrize("name", ["", *NAMED])
def test_examples_in_docstrings_are_python(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    found = getattr(importlib.import_module(module), attribute) if name else rqfast
    docstrings = [inspect.getdoc(found) or "", *(inspect.getdoc(getattr(found, one)) or "" for one in members(found))]
    for docstring in docstrings:
        for example in doctest.DocTestParser().get_examples(docstring):
            compile(example.source, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
