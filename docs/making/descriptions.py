"""Help texts and docstrings of commands, functions and errors, as Markdown."""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any

import typer
from docstring_parser import Docstring, DocstringStyle
from docstring_parser import parse as parsed
from making.blocks import SHARED, anchored, code, heading, inline, table

import fedsim
from fedsim.cli import app
from fedsim.core import errors


def command_line() -> str:
    """Return every command with its arguments and options."""
    group = typer.main.get_command(app)
    commands: dict[str, Any] = group.commands  # type: ignore[attr-defined]
    names: Sequence[str] = group.list_commands(None)  # type: ignore[attr-defined]
    uses = Counter(row for name in names for row in _rows(commands[name]))
    common = [row for row, count in uses.items() if count >= SHARED]
    parts = [part for name in names for part in _command(name, commands[name], common)]
    shared = anchored(2, "Common arguments and options", "common-options")
    return "\n\n".join((shared, table(_HEADS, common), *parts))


_HEADS = ("argument or option", "meaning", "default")

Row = tuple[str, str, str]


def _rows(command: Any) -> list[Row]:
    return [
        (code(_written(each)), inline(each.help or ""), _default(each))
        for each in command.params
        if not each.hidden and each.name != "help"
    ]


def _command(name: str, command: Any, common: Sequence[Row]) -> Iterator[str]:
    """Yield the description of a command; of common options only the names."""
    yield heading(2, f"fedsim {name}", name)
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield f"<p>{inline(paragraph)}</p>"
    rows = _rows(command)
    own = [row for row in rows if row not in common]
    shared = [row[0] for row in rows if row in common]
    if own:
        yield table(_HEADS, own)
    if shared:
        yield f'<p><a href="#common-options">Common</a>: {", ".join(shared)}</p>'


def _written(parameter: Any) -> str:
    """Return a parameter as it is typed."""
    if parameter.param_type_name == "argument":
        shown = parameter.metavar or parameter.name.upper()
        return str(shown) if parameter.required else f"[{shown}]"
    value = "" if getattr(parameter, "is_flag", False) else f" {parameter.metavar}"
    return "/".join(parameter.opts) + value


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    plain = default is None or default is False or default == () or callable(default)
    return "" if plain else code(default)


def slugged(name: str) -> str:
    """Return a dotted name as an anchor."""
    return name.lower().replace(".", "-")


def function(name: str, documented: Callable[..., object], level: int) -> list[str]:
    """Return what a function takes, returns and raises, below a heading of its name."""
    parameters = inspect.signature(documented).parameters
    words = ", ".join(_parameter(each) for each in parameters.values() if each.name != "self")
    call = f"<p><code>{escape(f'{name}({words})', quote=False)}</code></p>"
    return [heading(level, name, slugged(name)), call, *_documented(_doc(documented))]


def _parameter(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    if default is inspect.Parameter.empty:
        return parameter.name
    return f"{parameter.name}={'...' if callable(default) else repr(default)}"


def _doc(documented: object) -> Docstring:
    return parsed(inspect.getdoc(documented) or "", style=DocstringStyle.GOOGLE)


def _documented(doc: Docstring) -> Iterator[str]:
    """Yield the text of a docstring, and its sections as tables."""
    for text in (doc.short_description, doc.long_description):
        for paragraph in (text or "").split("\n\n"):
            if paragraph:
                yield f"<p>{inline(paragraph)}</p>"
    if doc.params:
        rows = [(code(each.arg_name), inline(each.description or "")) for each in doc.params]
        yield table(("", "meaning"), rows)
    if doc.returns is not None and doc.returns.description:
        yield f"<p>Returns {inline(doc.returns.description)}</p>"
    if doc.raises:
        rows = [(code(each.type_name), inline(each.description or "")) for each in doc.raises]
        yield table(("raises", "where"), rows)


def failures() -> str:
    """Return all errors, each below the one that it is a kind of."""
    rows = [
        (code(name), code(kind.__mro__[1].__name__), inline(inspect.getdoc(kind) or ""))
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, fedsim.FedsimError | UserWarning)
    ]
    return table(("name", "is a", "meaning"), rows)
