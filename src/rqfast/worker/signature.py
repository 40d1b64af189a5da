"""What a handler's signature says: the type of its payload, whether it takes batches, whether it takes a context."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import ConfigError
from .context import Context

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Signature(NamedTuple):
    """Of a handler.

    Attributes:
        payload: the annotation of its first parameter (in a list, of one item); None where there is none.
        takes_list: whether that is a `list[...]`.
        takes_context: whether it has a second parameter.
        is_async: whether it is awaited; a plain one runs in a thread.
    """

    payload: Any
    takes_list: bool
    takes_context: bool
    is_async: bool


def signature_of(handler: Callable[..., Any], name: str) -> Signature:
    """Read it.

    Raises:
        ConfigError: it cannot be called with a payload, or with a payload and a context.
    """
    if not callable(handler):
        raise ConfigError(f"a handler is a function or a callable object, not {type(handler).__name__}")
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name}: its signature cannot be read: {error}") from None
    places = [one for one in parameters if one.kind in POSITIONAL]
    required = [one for one in places if one.default is inspect.Parameter.empty]
    names_only = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    takes_any = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    if names_only or len(required) > 2 or (not places and not takes_any):
        raise ConfigError(
            f"{name}{inspect.signature(handler)}: a handler takes the payload, and a Context if it wants one"
        )
    hints = _hints(handler, name)
    first = hints.get(places[0].name) if places else None
    # A second one with a default is the handler's own, unless it is annotated as a context.
    second = places[1] if len(places) > 1 else None
    takes_context = second is not None and (len(required) == 2 or _is_context(hints.get(second.name)))
    takes_list = first is list or typing.get_origin(first) is list
    if takes_list:
        arguments = typing.get_args(first)
        first = arguments[0] if arguments else None
    return Signature(first, takes_list, takes_context, _is_async(handler))


def _hints(handler: Callable[..., Any], name: str) -> dict[str, Any]:
    target = _whole(handler)
    target = target if inspect.isroutine(target) else type(target).__call__
    while hasattr(target, "__wrapped__"):
        target = target.__wrapped__
    try:
        return typing.get_type_hints(target)
    except NameError as error:
        raise ConfigError(
            f"{name}: {error}: its annotations are read when it is declared, so what they name is defined before"
        ) from None


def _is_context(hint: Any) -> bool:
    return hint is Context or (
        typing.get_origin(hint) in (list, types.UnionType, typing.Union)
        and any(_is_context(one) for one in typing.get_args(hint))
    )


def _whole(handler: Any) -> Any:
    """What a `functools.partial` is a part of."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return handler


def _is_async(handler: Callable[..., Any]) -> bool:
    handler = _whole(handler)
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004
