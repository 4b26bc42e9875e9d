"""Identity of functions, methods and modules: code, and everything that it reads from outside.

A function is identified by its byte code, constants, defaults, closure, and the present values of
the globals that its code names. This is exact only as far as the code shows what it reads. Code
that reads files, the environment, or attributes by computed names (`open`, `os.environ`, `eval`,
...) is therefore `Unknown`, even if a particular use is harmless: the test is by name, and errs to
that side.
"""

import builtins
import dis
import sys
from collections.abc import Iterator, Mapping
from datetime import date
from functools import lru_cache
from importlib.machinery import ExtensionFileLoader
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

from fedsim.blocks.identity.packages import is_known
from fedsim.blocks.identity.walker import Parts, Unknown, View, Walk, WalkedNode, name_parts

_DESCRIPTORS = (
    WrapperDescriptorType,
    MethodDescriptorType,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
)

_FROM_ELSEWHERE = frozenset(
    {"__import__", "breakpoint", "compile", "eval", "exec", "globals", "input", "open"}
)
"""Built-in functions that read input which the code does not show."""

_SOURCES = """
    __annotations__ __doc__ __globals__ _getframe environ f_globals f_locals from_file fromfile
    fromregex genfromtxt get_type_hints getenv import_module iterdir listdir loadmat loadtxt
    load_state_dict_from_url memmap open open_memmap read_bytes read_csv read_excel read_feather
    read_fwf read_hdf read_json read_parquet read_pickle read_sql read_table read_text scandir
"""
_ELSEWHERE = frozenset(_SOURCES.split())
"""Attributes that do."""

_LOADERS = frozenset({"imread", "load", "load_file"})
"""Functions of installed packages that read files."""

_MODULES = """
    aiohttp ctypes dbm gc glob http httpx importlib inspect mmap multiprocessing requests runpy
    secrets shelve socket sqlite3 subprocess tempfile time urllib urllib3
"""
_OUTSIDE = frozenset(_MODULES.split())
"""Modules that read input which the code does not show, or ask the clock."""

_CLOCKS = frozenset({"now", "today", "utcnow"})
"""Methods of dates that ask the clock. Objects of simulations have a `now` of their own, so these
count only where the code has a class of dates, or a module of such."""

_GENERATORS = frozenset({"Generator", "Random", "RandomState", "SeedSequence", "default_rng"})
"""What makes random generators; code with none of them draws from the global one of a module."""

_BY_NAME = frozenset({"getattr", "setattr", "delattr", "vars", "dir", "__dict__"})
"""Names by which code can read attributes whose names it does not contain."""


_GLOBAL = frozenset(
    {"DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL"}
)
"""Instructions whose argument is the name of a global."""


class Names(NamedTuple):
    """The names by which code reads from outside.

    Attributes:
        of_globals: names of globals and built-ins.
        of_attributes: names of attributes, of any object.
        imported: modules imported while the code runs.
    """

    of_globals: tuple[str, ...]
    of_attributes: frozenset[str]
    imported: tuple[str, ...]


def open_node(value: object, walk: Walk) -> WalkedNode | None:  # noqa: PLR0911 - one a kind
    """Return the node of a function, a method or a module; None for other objects."""
    match value:
        case FunctionType():
            return WalkedNode("function", _function(value, walk))
        case CellType():
            return WalkedNode("cell", _cell(value))
        case MethodType():
            parts = name_parts(function=value.__func__, of=value.__self__)
            return WalkedNode("method", parts, kept=False)
        case BuiltinFunctionType() | MethodWrapperType():
            parts = name_parts(name=value.__name__, of=value.__self__)
            return WalkedNode("built-in method", parts, kept=False)
        case _ if isinstance(value, _DESCRIPTORS):
            parts = name_parts(name=value.__name__, of=value.__objclass__)
            return WalkedNode("descriptor", parts, kept=False)
        case ModuleType():
            return _module(View(value, None))
        case View():
            return _module(value)
        case _ if type(value).__name__ == "CPUDispatcher" and is_known(type(value).__module__):
            compiled: Any = value
            parts = name_parts(function=compiled.py_func, options=compiled.targetoptions)
            return WalkedNode("compiled by numba", parts)
    return None


def _function(function: FunctionType, walk: Walk) -> Parts:
    """Yield the parts of a function."""
    yield "name", function.__name__
    code = function.__code__
    if walk.plain.encode(code) is None:
        raise Unknown("a function whose code holds objects")
    yield "code", code
    yield "defaults", function.__defaults__
    yield "kwdefaults", function.__kwdefaults__
    yield "attributes", dict(function.__dict__)
    cells = function.__closure__ or ()
    yield from zip(code.co_freevars, cells, strict=True)
    module = function.__module__
    if is_known(module):  # its globals are identified by the version of the package
        walk.plain.packages.add(module.partition(".")[0])
        yield "module", module
        return
    yield from _globals(function, walk)


def _globals(function: FunctionType, walk: Walk) -> Parts:
    """Yield the present values of the globals that a function reads.

    Raises:
        Unknown: the function reads input that its code does not show.
    """
    read, around = _names(function.__code__), function.__globals__
    for name in read.of_globals:
        if name in around:
            if name == "__builtins__" or _reads_files(around[name]):
                raise Unknown(f"a function that uses {name}, by which it reads from elsewhere")
            yield name, _describe(around[name], read, walk)
        elif name in _FROM_ELSEWHERE:
            raise Unknown(f"a function that uses {name}, by which it reads from elsewhere")
        elif hasattr(_builtins(around), name):
            yield name, getattr(_builtins(around), name)
        else:
            # A name that is defined nowhere yet. It is part of the identity, too: once it is
            # defined, the function does something else.
            yield f"no {name}", None
    for name in read.imported:
        yield name, _import(name, read, walk)
    if elsewhere := read.of_attributes & _ELSEWHERE:
        raise Unknown(f"a function that uses {min(elsewhere)}, by which it reads from elsewhere")


def _reads_files(value: Any) -> bool:  # noqa: ANN401 - whatever a global is
    """Return whether a global is a known function or module that reads files or the environment."""
    name, module = (getattr(value, each, None) for each in ("__name__", "__module__"))
    by_name = isinstance(name, str) and name in _ELSEWHERE | _LOADERS and is_known(module)
    return by_name or _is_outside(module)


def _is_outside(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _OUTSIDE


def _builtins(around: Mapping[str, Any]) -> object:
    found = around.get("__builtins__", builtins)
    if isinstance(found, dict):
        return builtins if found is vars(builtins) else SimpleNamespace(**found)
    return found if isinstance(found, ModuleType) else builtins


def _describe(value: object, read: Names, walk: Walk) -> object:
    """Return a global; for a module, the view of it that the code may read."""
    if (asked := read.of_attributes & _CLOCKS) and _has_dates(value):
        raise Unknown(f"a function that uses dates and {min(asked)}: it asks the clock")
    if not isinstance(value, ModuleType):
        return value
    if _is_outside(value.__name__) or (value is sys and "modules" in read.of_attributes):
        raise Unknown(f"a function that uses {value.__name__}, by which it reads from elsewhere")
    if is_known(value.__name__):
        walk.plain.packages.add(value.__name__.partition(".")[0])
        if _draws_globally(value, read):
            raise Unknown(f"a function that draws from the global generator of {value.__name__}")
        if loads := read.of_attributes & _LOADERS:
            raise Unknown(f"a function that uses {value.__name__} and {min(loads)}: it reads files")
        return View(value, read.of_attributes)
    # Of a user's module only the attributes that the code names are walked: walking the whole
    # module would make unrelated edits change the digest, or find something `Unknown` that is never
    # used.
    every = not _BY_NAME.isdisjoint({*read.of_attributes, *read.of_globals})
    return View(value, None if every else read.of_attributes)


def _has_dates(value: object) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__ in {"datetime", "pandas"}
    return isinstance(value, type) and issubclass(value, date)


def _draws_globally(module: ModuleType, read: Names) -> bool:
    """Return whether code draws from a generator of a whole module, which anyone may have used."""
    draws = module.__name__ in ("random", "numpy.random") or (
        module.__name__ == "numpy" and "random" in read.of_attributes
    )
    return draws and _GENERATORS.isdisjoint(read.of_attributes)


def _import(name: str, read: Names, walk: Walk) -> object:
    """Return a module that is imported while the code runs.

    Raises:
        Unknown: it is a user's module that has not been imported so far.
    """
    if name.startswith("."):
        raise Unknown(f"a function that imports {name} while it runs")
    module = sys.modules.get(name)
    if module is not None:
        return _describe(module, read, walk)
    if not is_known(name):
        raise Unknown(f"a function that imports {name} while it runs")
    walk.plain.packages.add(name.partition(".")[0])
    return name


def _module(view: View) -> WalkedNode:
    """Return the node of a module."""
    module, names = view
    parts = _foreign(module, names) if is_known(module.__name__) else _own(module, names)
    return WalkedNode(f"module {module.__name__}", parts)


def _own(module: ModuleType, names: frozenset[str] | None) -> Parts:
    """Yield attributes of a user's module: those of the given names, or all."""
    if isinstance(getattr(module, "__loader__", None), ExtensionFileLoader):
        raise Unknown(f"the extension module {module.__name__}, whose code cannot be read")
    inside = vars(module)
    wanted = {name for name in inside if not _is_machinery(name)} if names is None else names
    for name in sorted(wanted & inside.keys()):
        value = inside[name]
        # A nested module is viewed by the same names: `a.b.c` reads both `b` and `c`.
        yield name, View(value, names) if isinstance(value, ModuleType) else value
    if names is not None and "__getattr__" in inside:
        yield "__getattr__", inside["__getattr__"]


def _foreign(module: ModuleType, names: frozenset[str] | None) -> Parts:
    """Yield user-defined functions that replace attributes of a known module (monkey patches)."""
    inside = vars(module)
    for name in sorted((names or frozenset()) & inside.keys()):
        value = inside[name]
        if is_foreign(value):
            yield name, value
        elif isinstance(value, ModuleType):
            yield name, View(value, names)


def is_foreign(value: object) -> bool:
    """Return whether a value is a user-defined function."""
    return isinstance(value, FunctionType) and not is_known(value.__module__)


def _is_machinery(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name != "__getattr__"


def _cell(cell: CellType) -> Parts:
    try:
        yield "", cell.cell_contents
    except ValueError:  # the cell is still empty
        return


@lru_cache(maxsize=1024)
def _names(code: CodeType) -> Names:
    """Return the names that code reads from outside, nested functions included."""
    of_globals, of_attributes, imported = set[str](), set[str](), set[str]()
    for each in _codes(code):
        level = 0
        before: Any = None
        for step in dis.get_instructions(each):
            name = step.argval
            if step.opname in _GLOBAL:
                of_globals.add(name)
            elif step.opname == "IMPORT_NAME":
                # The level of a relative import is the constant loaded before; `before` tracks it.
                level = before if isinstance(before, int) else 0
                imported.add("." * level + name)
            elif step.opname == "IMPORT_FROM" or step.opname.startswith(
                ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")
            ):
                of_attributes.add(name)
            if step.opname.startswith(("LOAD_CONST", "LOAD_SMALL_INT")):
                before = step.argval if isinstance(step.argval, int) else before
    return Names(tuple(sorted(of_globals)), frozenset(of_attributes), tuple(sorted(imported)))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
