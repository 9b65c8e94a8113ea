"""From plain dictionaries to frozen dataclasses, strictly.

Every key must be known, every value of the right type; what is wrong is said in one line with the full path of the
key, and an unknown key names the nearest known one. Nothing is converted but what loses nothing: whole numbers where
real ones are expected, lists to tuples, paths to texts, and single numbers of numpy and torch.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, TypeVar

from emrdm.errors import ConfigError

T = TypeVar("T")

_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def check(value: Any, where: str) -> None:
    """Hold a dataclass built by hand to the rules of :func:`parse`; call it from ``__post_init__``."""
    hints = typing.get_type_hints(type(value))
    for field in dataclasses.fields(value):
        checked = _value(hints[field.name], getattr(value, field.name), _join(where, field.name))
        object.__setattr__(value, field.name, checked)  # whole numbers become real ones, lists tuples


def parse(cls: type[T], data: object, where: str = "") -> T:
    """Build the dataclass ``cls`` from a dictionary; ``where`` is the path that messages start with."""
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where or 'the configuration'} is {_describe(data)}: expected a table of keys")
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in data:
        if key not in fields:
            raise ConfigError(f"unknown key {_join(where, key)!r}{nearest(key, fields)}")
    hints = typing.get_type_hints(cls)
    values = {key: _value(hints[key], value, _join(where, key)) for key, value in data.items()}
    for name, field in fields.items():
        if name not in values and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{_join(where, name)} is missing")
    return cls(**values)


def dump(value: Any) -> Any:
    """The plain dictionaries, lists and numbers that :func:`parse` turns back into the same value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: dump(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: dump(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [dump(item) for item in value]
    return value


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes`` laid over it, table by table; lists are replaced whole."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        result[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def nested(dotted: Mapping[str, Any]) -> dict[str, Any]:
    """{"sampler.steps": 5} -> {"sampler": {"steps": 5}}."""
    if not isinstance(dotted, Mapping):
        raise ConfigError(f"changes are {_describe(dotted)}: expected a table of dotted keys")
    result: dict[str, Any] = {}
    for path, value in dotted.items():
        for key in reversed(str(path).split(".")):
            value = {key: value}
        result = merge(result, value)
    return result


def nearest(word: object, known: Iterable[str]) -> str:
    """End of a message about an unknown word: did you mean ...?, or what there is to choose from."""
    known, word = list(known), str(word)[:100]  # the comparison is slow on long texts
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f": expected one of {', '.join(known)}"


def _value(hint: Any, value: Any, where: str) -> Any:
    if hint is Any or (isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, hint)):
        return value
    if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:  # a number from numpy or torch
        value = value.item()
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return parse(hint, value, where)  # type: ignore[arg-type]
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where} is {_describe(value)}: expected a list")
        inner = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        if len(inner) != len(value):
            raise ConfigError(f"{where} has {len(value)} entries: expected {len(inner)}")
        return tuple(
            _value(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(inner, value, strict=True))
        )
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where} is {_describe(value)}: expected a table")
        return {str(key): _value(arguments[1], item, _join(where, key)) for key, item in value.items()}
    if origin is typing.Literal:
        if not isinstance(value, str) or value not in arguments:
            raise ConfigError(f"{where} is {value!r}{nearest(value, map(str, arguments))}")
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (inner_hint,) = (argument for argument in arguments if argument is not type(None))
        return _value(inner_hint, value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 1000:
        return float(value)
    if hint is str and isinstance(value, PurePath):
        return str(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(f"{where} is {_describe(value)}: expected {_NAMES.get(hint, hint.__name__)}")
    if isinstance(value, float) and value != value:
        raise ConfigError(f"{where} is NaN: expected a number")
    return value


def _describe(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print whole numbers of thousands of digits
        text = "a huge number"
    return text if len(text) <= 60 else text[:57] + "..."


def _join(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)
