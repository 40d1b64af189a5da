"""From the stored text of a message to what the handler's annotation says."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, TypeAlias

import orjson

from ..errors import ConfigError

Decoder: TypeAlias = Callable[[Any], Any]
"""From raw text (str) or bytes to a value."""

PLAIN = (dict, list, str, int, float, bool, object, Any, None, type(None))


def decoder_of(wanted: Any) -> Decoder | None:
    """The decoder for a type: a dataclass, TypedDict, pydantic or msgspec type, bytes, or what JSON is made of.

    Returns:
        None for what is annotated with nothing (or Any): the transport's own `decode` is used.

    Raises:
        ConfigError: nothing is known that makes this type of JSON; pass `decode=`.
    """
    if wanted is None or wanted is Any:
        return None
    if wanted is bytes:
        return _as_bytes
    if _is_pydantic(wanted):
        return typing.cast(Decoder, wanted.model_validate_json)
    if _is_msgspec(wanted):
        import msgspec  # type: ignore[import-not-found, unused-ignore]

        return typing.cast(Decoder, msgspec.json.Decoder(wanted).decode)
    convert = converter_of(wanted)
    if convert is None:
        return orjson.loads
    return lambda raw: convert(orjson.loads(raw))


def _as_bytes(raw: Any) -> bytes:
    return raw.encode() if isinstance(raw, str) else bytes(raw)


def _is_pydantic(wanted: Any) -> bool:
    return isinstance(wanted, type) and callable(getattr(wanted, "model_validate_json", None))


def _is_msgspec(wanted: Any) -> bool:
    # Asked by name, so that nothing is imported that the user has not.
    return any(f"{kind.__module__}.{kind.__name__}" == "msgspec.Struct" for kind in getattr(wanted, "__mro__", ()))


def converter_of(wanted: Any) -> Callable[[Any], Any] | None:
    """From decoded JSON to a value of the type; None where it is one already.

    Raises:
        ConfigError: the type is not known.
    """
    origin = typing.get_origin(wanted)
    if origin in (types.UnionType, typing.Union):
        return _optional(wanted)
    if origin in (list, tuple, set, frozenset):
        return _collection(origin, typing.get_args(wanted))
    if origin in (dict, Mapping) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return _mapping(typing.get_args(wanted))
    if origin in (typing.Annotated, typing.Required, typing.NotRequired):
        return converter_of(typing.get_args(wanted)[0])
    if origin is typing.Literal or wanted in PLAIN or isinstance(wanted, typing.TypeVar):
        return None
    return _class(wanted)


def _class(wanted: Any) -> Callable[[Any], Any]:
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        return _dataclass(wanted)
    if typing.is_typeddict(wanted):
        return _typed_dict(wanted)
    if isinstance(wanted, type) and issubclass(wanted, datetime | date):
        return wanted.fromisoformat
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        return wanted
    if _is_pydantic(wanted):
        return typing.cast(Callable[[Any], Any], wanted.model_validate)
    if _is_msgspec(wanted):
        import msgspec

        return lambda value: msgspec.convert(value, wanted)
    raise ConfigError(
        f"nothing is known that makes a {getattr(wanted, '__name__', wanted)} of JSON: pass decode= to the "
        "subscription, or annotate with a dataclass, a TypedDict, a pydantic or msgspec type, dict or bytes"
    )


def _optional(wanted: Any) -> Callable[[Any], Any] | None:
    others = [one for one in typing.get_args(wanted) if one is not type(None)]
    if len(others) != 1:
        converters = [converter_of(one) for one in others]
        if all(one is None for one in converters):
            return None
        raise ConfigError(f"{wanted}: of several types nothing says which one a payload is; pass decode=")
    convert = converter_of(others[0])
    return None if convert is None else lambda value: None if value is None else convert(value)


def _collection(kind: Any, of: tuple[Any, ...]) -> Callable[[Any], Any] | None:
    convert = converter_of(of[0]) if of else None
    if convert is None:
        return None if kind is list else kind
    return lambda value: kind(convert(one) for one in value)


def _mapping(of: tuple[Any, ...]) -> Callable[[Any], Any] | None:
    convert = converter_of(of[1]) if len(of) == 2 else None
    return None if convert is None else lambda value: {name: convert(one) for name, one in value.items()}


def _dataclass(wanted: type) -> Callable[[Any], Any]:
    hints = typing.get_type_hints(wanted)
    names = [one.name for one in dataclasses.fields(wanted) if one.init]
    converters = {name: convert for name in names if (convert := converter_of(hints[name])) is not None}
    known = frozenset(names)

    def make(value: Any) -> Any:
        _check_object(value, wanted)
        unknown = value.keys() - known
        if unknown:
            # What a newer publisher added is no reason to stop.
            value = {name: one for name, one in value.items() if name in known}
        if not converters:
            return wanted(**value)
        return wanted(**{name: converters[name](one) if name in converters else one for name, one in value.items()})

    return make


def _typed_dict(wanted: Any) -> Callable[[Any], Any]:
    hints = typing.get_type_hints(wanted, include_extras=True)
    required = _required(wanted, hints)
    converters = {name: convert for name, hint in hints.items() if (convert := converter_of(hint)) is not None}

    def make(value: Any) -> Any:
        _check_object(value, wanted)
        missing = sorted(required - value.keys())
        if missing:
            raise ValueError(f"a {wanted.__name__} has {', '.join(missing)}: missing in the payload")
        return {name: converters[name](one) if name in converters else one for name, one in value.items()}

    return make


def _required(wanted: Any, hints: dict[str, Any]) -> set[str]:
    # What Python says itself is wrong where annotations are texts (`from __future__ import annotations`).
    return {
        name
        for name, hint in hints.items()
        if typing.get_origin(hint) is typing.Required
        or (name in wanted.__required_keys__ and typing.get_origin(hint) is not typing.NotRequired)
    }


def _check_object(value: Any, wanted: Any) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"a {wanted.__name__} is a JSON object, the payload is a {type(value).__name__}")
