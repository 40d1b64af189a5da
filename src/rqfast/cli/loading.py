"""MODULE:NAME, as several commands take it."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ..errors import ConfigError


def load_object(where: str, example: str) -> tuple[Any, Any]:
    """The module and the object that MODULE:NAME means; the working folder is looked in first.

    Raises:
        ConfigError: there is none; it says why.
    """
    module_name, _, name = where.partition(":")
    if not module_name or not name:
        raise ConfigError(f"{where!r} must be module:name, as in {example}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        why = f"{type(error).__name__}: {error}{_place(error)}"
        raise ConfigError(f"module {module_name} cannot be imported: {why}") from error
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"module {module_name} has no {name}")
        found = getattr(found, part)
    return module, found


def _place(error: BaseException) -> str:
    """Where in the user's own files it was raised."""
    trace, last = error.__traceback__, None
    while trace is not None:
        if "importlib" not in trace.tb_frame.f_code.co_filename:
            last = trace
        trace = trace.tb_next
    if last is None or isinstance(error, SyntaxError) or last.tb_frame.f_code.co_filename == __file__:
        return ""
    return f" ({last.tb_frame.f_code.co_filename}, line {last.tb_lineno})"
