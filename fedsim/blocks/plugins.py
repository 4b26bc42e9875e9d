"""Plugins: Python files of a user's own that hold blocks, and that the user names to be run.

A plugin is run once a process, as a module whose name is made of what is in the file: two files
of one name are two modules. Other processes are sent its text with the classes (`dump`), so
they need not find the file, and have what it was when it was read.
"""

import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from itertools import chain
from operator import attrgetter
from pathlib import Path
from traceback import extract_tb
from types import FunctionType, ModuleType
from typing import Any

from fedsim.blocks.catalogue import AnyRegistry
from fedsim.blocks.spec import Spec
from fedsim.errors import BlockError

_OWN = f"{__name__.partition('.')[0]}."


@dataclass(frozen=True)
class Plugin:
    """A file with blocks.

    Attributes:
        file: its path, absolute.
        text: what is in it.
    """

    file: str
    text: bytes

    @classmethod
    def at(cls, path: Path) -> "Plugin":
        """Read a file.

        Raises:
            BlockError: it cannot be read.
        """
        try:
            return cls(str(path.absolute()), path.read_bytes())
        except OSError as error:
            raise BlockError(f"the plugin {path} cannot be read: {error.strerror}") from None

    @cached_property
    def name(self) -> str:
        """What its module is called."""
        stem = re.sub(r"\W", "_", Path(self.file).stem)
        digest = sha256(self.file.encode() + b"\0" + self.text).hexdigest()
        return f"fedsim_plugin_{stem}_{digest[:12]}"

    def module(self) -> ModuleType:
        """Return its module, which is run when it is asked for first.

        Raises:
            BlockError: that fails; with the line.
        """
        if self.name not in _run:
            _run[self.name] = self
            module = sys.modules[self.name] = ModuleType(self.name)
            module.__file__ = self.file
            try:
                with redirect_stdout(sys.stderr):  # standard output is the command's, to be piped
                    exec(compile(self.text, self.file, "exec"), vars(module))  # noqa: S102 - its purpose
            except (Exception, SystemExit) as error:
                del sys.modules[self.name], _run[self.name]
                raise BlockError(self._report_failure(error)) from error
        return sys.modules[self.name]

    def _report_failure(self, error: BaseException) -> str:
        """Say what went wrong, and show the line of the plugin where it did."""
        what = f"{type(error).__name__}: {error}".strip(": ")
        if isinstance(error, SyntaxError) and error.filename == self.file:
            number, what = error.lineno, f"{type(error).__name__}: {error.msg}"
        else:
            frames = [
                each for each in extract_tb(error.__traceback__) if each.filename == self.file
            ]
            number = frames[-1].lineno if frames else None
        if not number:
            return f"the plugin {self.file} cannot be used: {what}"
        lines = self.text.decode(errors="replace").splitlines()
        line = lines[number - 1].strip() if number <= len(lines) else ""
        return f"the plugin {self.file} cannot be used, line {number}: {what}\n    {line}"


_run: dict[str, Plugin] = {}
"""The plugins that this process has run, by the names of their modules."""


def blocks_of(paths: Iterable[Path], registries: Iterable[AnyRegistry]) -> list[type[Spec]]:
    """Return the blocks in files, file by file and in their order.

    They are the classes of any kind of block that a file holds or imports from elsewhere than
    fedsim. A class whose name begins with an underscore is none, nor is one that is only there
    for others of the file to be made from.

    Raises:
        BlockError: a file cannot be read or run, or holds no block.
    """
    open_to = [each for each in registries if each.base]
    found: list[type[Spec]] = []
    for path in paths:
        blocks = list(_offer(Plugin.at(path).module(), open_to))
        if not blocks:
            bases = ", ".join(each.base.__name__ for each in open_to if each.base)
            raise BlockError(
                f"the plugin {path} holds no block: none of its classes is a subclass of any of"
                f" {bases} (a class whose name begins with an underscore is left out)"
            )
        found += blocks
    return found


def _offer(module: ModuleType, registries: Iterable[AnyRegistry]) -> Iterator[type[Spec]]:
    """Yield the blocks in the module of a plugin."""
    classes = [
        value
        for value in dict.fromkeys(each for each in vars(module).values() if isinstance(each, type))
        if not value.__module__.startswith(_OWN) and not value.__name__.startswith("_")
    ]
    for registry in registries:
        for model in filter(registry.admits, classes):
            below = (each for each in classes if each is not model)
            if registry.names_of(model) or not any(issubclass(each, model) for each in below):
                yield model


def text_of(model: type) -> bytes:
    """Return the text of the file that a class is from.

    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    plugin = _run.get(model.__module__)
    if plugin:
        return plugin.text
    file = getattr(sys.modules.get(model.__module__), "__file__", None)
    if file is None:
        raise FileNotFoundError(f"{model.__module__} is no file")
    return Path(file).read_bytes()


def dump(value: object) -> bytes:
    """Return a pickle that brings along the plugins whose classes are in it."""
    stream = BytesIO()
    _Pickler(stream).dump(value)
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:  # noqa: ANN401 - as pickle has it
        """Say how what a plugin defines is found again; leave all else to pickle."""
        if isinstance(value, type | FunctionType) and value.__module__ in _run:
            return _find, (_run[value.__module__], value.__qualname__)
        return NotImplemented


def _find(plugin: Plugin, name: str) -> Any:  # noqa: ANN401 - a class or a function
    """Return what a plugin defines under a name."""
    get: Callable[[object], Any] = attrgetter(name)
    return get(plugin.module())


# Blocks within a value, and the code of those that are not fedsim's.

_PACKAGE = f"{__name__.partition('.')[0]}."


def specs_in(value: object) -> Iterator[Spec]:
    """Yield every block in a value, the outer ones first."""
    inner: Iterable[object] = ()
    match value:
        case Spec():
            yield value
            fields = (getattr(value, name) for name in type(value).model_fields)
            inner = chain(fields, (value.model_extra or {}).values())
        case Mapping():
            inner = value.values()
        case list() | tuple():
            inner = value
    for each in inner:
        yield from specs_in(each)


def own_modules(value: object) -> dict[str, bytes]:
    """Return the texts of the modules, fedsim's own left out, whose classes are in a value.

    Raises:
        OSError: no file keeps a class, as it was typed in, or it cannot be read.
    """
    return {model.__module__: text_of(model) for model in own_classes(value)}


def own_classes(value: object) -> list[type[Spec]]:
    """Return the classes of the blocks in a value, fedsim's own left out, in their order."""
    classes = dict.fromkeys(model for each in specs_in(value) for model in type(each).__mro__)
    return [model for model in classes if issubclass(model, Spec) and _is_own(model)]


def _is_own(model: type) -> bool:
    return not model.__module__.startswith(_PACKAGE)
