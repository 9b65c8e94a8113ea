"""What docstrings say to Sphinx, said to mkdocstrings: :func:`~a.b.c` becomes `c`."""

import re

import griffe

_ROLE = re.compile(r":(?:func|class|meth|mod|data|attr):`([^`]+)`")
_LITERAL = re.compile(r"``([^`\n]+)``")


def plain(text: str) -> str:
    """The text in Markdown, with the short name where the role asks for it."""

    def name(found: re.Match[str]) -> str:
        target = found[1]
        return f"`{target[1:].rpartition('.')[2] if target.startswith('~') else target}`"

    return _LITERAL.sub(r"`\1`", _ROLE.sub(name, text))


class Roles(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = plain(obj.docstring.value)
