"""Puts a mutant's code into functions that are there already, without importing anything again."""

import gc
from collections.abc import Iterator, Mapping
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FunctionType

Functions = Mapping[tuple[str, CodeType], list[FunctionType]]
"""The functions of a process, by their files and codes."""

_ANONYMOUS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


def functions_of(folder: Path) -> Functions:
    """Return all functions of this process that come from files of a folder."""
    found: dict[tuple[str, CodeType], list[FunctionType]] = {}
    gc.unfreeze()  # what is frozen is not among the objects below
    for each in gc.get_objects():
        # `isinstance` would ask for `__class__`, which objects of others compute and warn at.
        if type(each) is FunctionType and each.__code__.co_filename.startswith(f"{folder}/"):
            found.setdefault((each.__code__.co_filename, each.__code__), []).append(each)
    return found


def exchange(file: Path, before: str, after: str, functions: Functions) -> None:
    """Give the functions of a file the codes of another text of it, `same_at_import`."""
    for old, new in _pairs(_compiled(before, file), _compiled(after, file)):
        for function in functions.get((str(file), old), ()):
            function.__code__ = new


def same_at_import(before: str, after: str) -> bool:
    """Return whether two texts of a module differ inside functions alone.

    Defaults, decorators, constants and the bodies of classes are run when it is imported.
    """
    return _same(_compiled(before), _compiled(after))


def _compiled(text: str, file: Path | str = "") -> CodeType:
    return compile(text, str(file), "exec", dont_inherit=True)


def _nested(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    for pair in zip(_nested(old), _nested(new), strict=True):
        yield pair
        yield from _pairs(*pair)


def _closures(code: CodeType) -> list[object]:
    """Return what the functions within one take from around them: it cannot be exchanged."""
    return [code.co_freevars, [_closures(each) for each in _nested(code)]]


def _same(old: CodeType, new: CodeType) -> bool:
    if _closures(old) != _closures(new):
        return False
    if old.co_flags & CO_NEWLOCALS and old.co_name not in _ANONYMOUS:
        return True
    if (old.co_code, old.co_names) != (new.co_code, new.co_names):
        return False
    if len(old.co_consts) != len(new.co_consts):
        return False
    return all(
        _same(one, other)
        if isinstance(one, CodeType) and isinstance(other, CodeType)
        else repr(one) == repr(other)  # True is not 1 here, and -0.0 not 0.0
        for one, other in zip(old.co_consts, new.co_consts, strict=True)
    )
