"""Files of presets, TOML or YAML, as plain tables; what is wrong with one is said in one line.

YAML is read by the rules of YAML 1.2, so that both kinds of file mean the same: 1e-4 is a number, only true and false
are booleans, and yes, no, on, off and dates are texts. What could make a small file mean much, or something else than
it seems to, is refused: tags, anchors and aliases, a key given twice, keys that are no texts, several documents.
"""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path
from typing import Any

from emrdm.errors import ConfigError, MissingDependencyError
from emrdm.files import why_unreadable

_YAML = (".yaml", ".yml")
_LARGEST = 1 << 20  # bytes of a preset
# A key with more parts than any preset has; tomllib takes quadratic time for those.
_DEEP = re.compile(r"(?<![\w'\"-])(?:[\w'\"-]++[ \t]*+\.[ \t]*+){40}")

# What plain words mean in YAML 1.2 (its core schema): kind, pattern, and the characters such a word may begin with.
_PLAIN_WORDS = (
    ("null", r"(?:~|null|Null|NULL|)\Z", ["~", "n", "N", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)\Z", list("tTfF")),
    ("int", r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z", list("-+0123456789")),
    (
        "float",
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z",
        list("-+.0123456789"),
    ),
)

# Parts of the model that may be named without it: sampler.steps is model.sampler.steps.
_OF_THE_MODEL = (
    "network",
    "process",
    "preconditioning",
    "training_noise",
    "sampler",
    "inputs",
    "frames",
    "bands",
    "aux",
)


def full_key(key: str) -> str:
    """A dotted key by its full name."""
    return f"model.{key}" if key.partition(".")[0] in _OF_THE_MODEL else key


def is_preset_file(name: str) -> bool:
    """Whether a name is that of a file with a preset, by its ending."""
    return name.endswith((".toml", *_YAML))


def read_preset_file(path: Path) -> dict[str, Any]:
    """The tables of a ``.toml``, ``.yaml`` or ``.yml`` file."""
    reason = why_unreadable(path)
    if reason is not None:
        raise ConfigError(f"{path} cannot be read: {reason}")
    size = path.stat().st_size
    if size > _LARGEST:
        raise ConfigError(f"{path} has {size:,} bytes: a preset has at most {_LARGEST:,}")
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeError as error:
        raise ConfigError(f"{path} is not text in UTF-8: {error}") from None
    return (read_yaml if path.name.endswith(_YAML) else read_toml)(text, str(path))


def read_toml(text: str, name: str) -> dict[str, Any]:
    """Parse, with one line that names the file when it is not TOML."""
    if _DEEP.search(text):
        raise ConfigError(f"{name}: a key of more than 40 parts: expected a few")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError is a ValueError, and so is a number too long
        raise ConfigError(f"{name}: not valid TOML: {error}") from None


def read_yaml(text: str, name: str) -> dict[str, Any]:
    """Parse, with one line that names the file when it is not YAML, or is more of it than a preset needs."""
    yaml = _yaml()
    try:
        root = _loader()(text).get_single_node()
        found = {} if root is None else _value(root)
    except _RefusedError as error:
        raise ConfigError(f"{name}: {error}") from None
    except yaml.MarkedYAMLError as error:
        # the first part says what was being read, the second what stood in the way
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        mark = error.problem_mark or error.context_mark
        where = f" (at line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise ConfigError(f"{name}: not valid YAML: {problem}{where}") from None
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply: expected a few levels") from None
    # Numbers with too many digits and characters that do not exist are errors of Python's, not of the parser's.
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise ConfigError(f"{name}: not valid YAML: {' '.join(str(error).split())}") from None
    if found is None:  # a document with nothing in it
        return {}
    if not isinstance(found, dict):
        raise ConfigError(f"{name}: is a {'list' if isinstance(found, list) else 'single value'}: expected keys")
    return found


def _yaml() -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingDependencyError("YAML files need pyyaml: pip install 'emrdm[train]' (or write TOML)") from None
    return yaml


class _RefusedError(Exception):
    """Valid YAML that a preset must not have."""


def _refuse(mark: Any, problem: str, expected: str) -> _RefusedError:
    return _RefusedError(f"line {mark.line + 1}: {problem}: expected {expected}")


@functools.cache
def _loader() -> type[Any]:
    """The parser, made when it is first needed: pyyaml is optional."""
    yaml = _yaml()

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        """Text -> nodes; :func:`_value` makes values of them, so that nothing of pyyaml's ever builds an object."""

        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - none of YAML 1.1; pyyaml wants a plain dictionary

        def compose_node(self, parent: Any, index: Any) -> Any:
            """Refuse what makes a node more than its text; these are gone from the nodes themselves."""
            event = self.peek_event()
            if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
                sign = "*" if isinstance(event, yaml.AliasEvent) else "&"
                raise _refuse(event.start_mark, f"{sign}{event.anchor} is an anchor or alias", "the value itself")
            if event.tag is not None:
                raise _refuse(event.start_mark, f"the tag {event.tag}", "a value without a tag")
            return super().compose_node(parent, index)

    for kind, pattern, first in _PLAIN_WORDS:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(pattern), first)
    return Loader


def _value(node: Any) -> Any:
    """Plain values of a node and all below it."""
    kind = node.tag.rpartition(":")[2]
    if kind == "map":
        table: dict[str, Any] = {}
        for key, item in node.value:
            name = _key(key)
            if name in table:
                raise _refuse(key.start_mark, f"the key {name!r} is there twice", "it once")
            table[name] = _value(item)
        return table
    if kind == "seq":
        return [_value(item) for item in node.value]
    if kind == "null":
        return None
    if kind == "bool":
        return node.value.lower() == "true"
    if kind == "int":
        digits = node.value
        return int(digits[2:], {"0o": 8, "0x": 16}[digits[:2]]) if digits[1:2] in ("o", "x") else int(digits)
    if kind == "float":
        return float(node.value.replace(".", "", 1) if node.value.lower().endswith(("inf", "nan")) else node.value)
    return _text(node)


def _key(node: Any) -> str:
    if node.tag != "tag:yaml.org,2002:str":
        shown = repr(node.value) if isinstance(node.value, str) else "a table or list"
        raise _refuse(node.start_mark, f"a key is {shown}", "a text (in quotes, if it looks like a number)")
    return _text(node)


def _text(node: Any) -> str:
    # JSON, which is YAML as well, writes some characters as two halves; one half alone could be stored nowhere.
    return str(node.value.encode("utf-16-le", "surrogatepass").decode("utf-16-le"))
