"""Plugins: Python files with user-defined blocks.

A process runs a plugin once, as a module. The module's name contains a digest of the file's path
and text, so two files of the same name become two modules. Other processes receive the text
together with the classes (`dump`). They do not need the file, and later edits to it have no effect
on the run.
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
from weakref import WeakKeyDictionary

from fedsim.core.blocks.catalogue import INSTALLED, AnyRegistry, load_installed
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import BlockError

_OWN = f"{__name__.partition('.')[0]}."


@dataclass(frozen=True)
class Plugin:
    """A file with blocks.

    Attributes:
        file: the absolute path.
        text: the content of the file, as it was read.
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
        """The name of the module."""
        stem = re.sub(r"\W", "_", Path(self.file).stem)
        digest = sha256(self.file.encode() + b"\0" + self.text).hexdigest()
        return f"fedsim_plugin_{stem}_{digest[:12]}"

    def module(self) -> ModuleType:
        """Return the module. The first call runs the file.

        Raises:
            BlockError: running it fails; the message names the line.
        """
        if self.name not in _run:
            _run[self.name] = self
            # In `sys.modules` before it runs, as in an import: dataclasses look up their module
            # there.
            module = sys.modules[self.name] = ModuleType(self.name)
            module.__file__ = self.file
            try:
                with redirect_stdout(sys.stderr):  # standard output is the command's
                    exec(compile(self.text, self.file, "exec"), vars(module))  # noqa: S102 - its purpose
            except (Exception, SystemExit) as error:
                del sys.modules[self.name], _run[self.name]
                raise BlockError(self._report_failure(error)) from error
        return sys.modules[self.name]

    def _report_failure(self, error: BaseException) -> str:
        """Return a message with the error and the line of the plugin that raised it."""
        what = f"{type(error).__name__}: {error}".strip(": ")
        if isinstance(error, SyntaxError) and error.filename == self.file:
            number, what = error.lineno, f"{type(error).__name__}: {error.msg}"
        else:
            # The innermost frame in the file is the user's, though a library may have raised it.
            frames = [
                frame for frame in extract_tb(error.__traceback__) if frame.filename == self.file
            ]
            number = frames[-1].lineno if frames else None
        if not number:
            return f"the plugin {self.file} cannot be used: {what}"
        lines = self.text.decode(errors="replace").splitlines()
        line = lines[number - 1].strip() if number <= len(lines) else ""
        return f"the plugin {self.file} cannot be used, line {number}: {what}\n    {line}"


_run: dict[str, Plugin] = {}
"""The plugins that this process has run, by module name."""

_offered: WeakKeyDictionary[type, tuple[Plugin, str]] = WeakKeyDictionary()
"""The plugin that offers each block, and the block's name there; includes imported classes."""


def blocks_of(paths: Iterable[Path], registries: Iterable[AnyRegistry]) -> list[type[Spec]]:
    """Return the blocks that files define, in the order of the files and within them.

    A file's blocks are its classes of any kind of block, defined there or imported from outside
    fedsim. Classes whose name begins with an underscore are left out. So are base classes of other
    classes in the file that have no kind.

    Raises:
        BlockError: a file cannot be read or run, or has no block.
    """
    open_to = [registry for registry in registries if registry.base]
    found: list[type[Spec]] = []
    for path in paths:
        plugin = Plugin.at(path)
        blocks = list(_offer(plugin.module(), open_to))
        if not blocks:
            bases = ", ".join(registry.base.__name__ for registry in open_to if registry.base)
            raise BlockError(
                f"the plugin {path} has no block: none of its classes is a subclass of any of"
                f" {bases} (a class whose name begins with an underscore is left out)"
            )
        found += blocks
        for name, value in vars(plugin.module()).items():
            if isinstance(value, type) and value in blocks:
                _offered[value] = plugin, name
    return found


def _offer(module: ModuleType, registries: Iterable[AnyRegistry]) -> Iterator[type[Spec]]:
    """Yield the blocks in the module of a plugin."""
    classes = [
        value
        for value in dict.fromkeys(
            member for member in vars(module).values() if isinstance(member, type)
        )
        if not value.__module__.startswith(_OWN) and not value.__name__.startswith("_")
    ]
    for registry in registries:
        for model in filter(registry.admits, classes):
            below = (other for other in classes if other is not model)
            if registry.names_of(model) or not any(issubclass(other, model) for other in below):
                yield model


def text_of(model: type) -> bytes:
    """Return the text of the file that defines a class.

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


def dump(value: object, *, script: bool = True) -> bytes:
    """Return a pickle that contains the plugins of the classes in it.

    Args:
        value: the object to pickle.
        script: whether the process that will unpickle it imports the running script, if any.

    Raises:
        pickle.PicklingError: among other reasons, a class or function is defined in that script and
            cannot be imported, or was typed into a shell, where no other process finds it.
    """
    stream = BytesIO()
    _Pickler(stream, script=script and has_script()).dump(value)
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    def __init__(self, stream: BytesIO, *, script: bool) -> None:
        super().__init__(stream)
        self._script = script

    def reducer_override(self, value: Any) -> Any:
        """Pickle classes and functions of plugins as plugin and name; leave the rest to pickle."""
        if not isinstance(value, type | FunctionType):
            return NotImplemented
        if value.__module__ in _run:
            return _find, (_run[value.__module__], value.__qualname__)
        if isinstance(value, type) and value in _offered:
            return _find_offered, _offered[value]
        if isinstance(value, type) and value in INSTALLED:
            return load_installed, (INSTALLED[value],)
        if value.__module__ == "__main__" and not self._script:
            name = value.__qualname__
            text = f"{name} is of the script or was typed in, where workers do not find it"
            raise pickle.PicklingError(text)
        return NotImplemented


def has_script() -> bool:
    """Return whether other processes can import `__main__`: a script, or a package's module."""
    main = sys.modules["__main__"]
    script = getattr(main, "__file__", None)
    return main.__spec__ is not None or (script is not None and Path(script).exists())


def _find(plugin: Plugin, name: str) -> Any:
    """Return the class or function of a plugin by its qualified name."""
    get: Callable[[object], Any] = attrgetter(name)
    return get(plugin.module())


def _find_offered(plugin: Plugin, name: str) -> type:
    """Return a block that a plugin offers, and register the offer in this process."""
    model: type = _find(plugin, name)
    _offered[model] = plugin, name
    return model


# Blocks within a value, and the source text of the user-defined ones.

_PACKAGE = f"{__name__.partition('.')[0]}."


def specs_in(value: object) -> Iterator[Spec]:
    """Yield every block in a value, outer blocks first."""
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
    """Return the source texts of all user-defined blocks in a value, by module name.

    These are plugins and modules outside fedsim. Classes passed in Python are left out, because no
    text determines them.
    """
    texts = dict[str, bytes]()
    for model in dict.fromkeys(type(spec) for spec in specs_in(value)):
        texts |= _texts(model) or {}
    return texts


def is_handed_over(model: type) -> bool:
    """Return whether a class of blocks was passed in Python, so that no text determines it.

    The text of a plugin determines its classes. The text of an installed package determines the
    classes that have an entry point.
    """
    return _is_own(model) and _texts(model) is None


def _texts(model: type) -> dict[str, bytes] | None:
    """Return the texts that determine a class, by module name; None if there is no such text."""
    plugin = _offered[model][0] if model in _offered else _run.get(model.__module__)
    if plugin is None and model not in INSTALLED:
        return None
    texts = {} if plugin is None else {plugin.name: plugin.text}
    try:
        bases = [base for base in model.__mro__ if issubclass(base, Spec) and _is_own(base)]
        return texts | {base.__module__: text_of(base) for base in bases}
    except OSError:  # a base class was typed in, or its file cannot be read
        return None


def _is_own(model: type) -> bool:
    return not model.__module__.startswith(_PACKAGE)
