"""The wording of values, names and lists of names in messages."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from pathlib import Path, PurePath
from traceback import extract_tb
from typing import NamedTuple, ParamSpec, TypeVar

_LONGEST = 60
_BEGUN = 3  # the fewest characters of a name that another one is suggested for as its beginning
_FEW = 6  # the largest number of suggested names

ALL_LISTED = 12
"""The largest number of accepted names that are listed beside a suggestion."""

LEAST_PER_CENT = 10
"""A share from this number to 100 is taken for per cent: 1.5 is rather 150 % than 1.5 %."""


def no_share(name: str, value: float) -> str:
    """Return a message on a share outside 0 to 1, which may have been meant in per cent.

    >>> no_share("test_accuracy", 85)
    'got 85, but test_accuracy is at most 1 (100 %); give 0.85 for 85 %'
    """
    bound = "at most 1 (100 %)" if value > 1 else "at least 0"
    text = f"got {value:g}, but {name} is {bound}"
    if LEAST_PER_CENT <= value <= 100:
        return f"{text}; give {value / 100:g} for {value:g} %"
    return f"{text}; give a share, such as 0.85 or 85 %"


def printable(text: str, longest: int = _LONGEST) -> str:
    r"""Return `text` on one line, shortened, with unprintable characters escaped.

    Example:
        >>> printable("a\nb")
        'a\\nb'
    """
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return line if len(line) <= longest else line[: longest - 3] + "..."


def first_line(error: BaseException) -> str:
    r"""Return the first line of an error's message, or the name of its class if it is empty.

    If the error comes from the user's code, the file and line follow.

    Example:
        >>> first_line(ValueError("too long\nat all")), first_line(KeyError())
        ('too long', 'KeyError')
    """
    lines = str(error).strip().splitlines()
    line = user_line(error)
    if lines and line is not None and lines[0].startswith(line.place):
        return lines[0]  # `put_line_first` was called
    return (lines[0] if lines else type(error).__name__) + place_of(error)


def named_line(error: BaseException) -> str:
    r"""Return the class of an error, the first line of its message, and the user's line.

    Example:
        >>> named_line(ValueError("too long\nat all")), named_line(KeyError())
        ('ValueError: too long', 'KeyError')
    """
    text = first_line(error)
    name = type(error).__name__
    return text if text.startswith(name) else f"{name}: {text}"


def place_of(error: BaseException) -> str:
    """Return the place in the user's code where an error was raised: " (train.py, line 12)".

    This is the innermost line of the traceback outside Python, fedsim and installed packages. The
    text is empty if there is none.
    """
    line = user_line(error)
    return f" ({Path(line.file).name}, line {line.number})" if line else ""


class UserLine(NamedTuple):
    """A line of the user's code in which an error was raised.

    Attributes:
        file: its absolute path.
        number: the number of the line, from 1.
        function: the function that contains the line.
        source: the text of the line; empty if the file cannot be read.
    """

    file: str
    number: int
    function: str
    source: str

    @property
    def place(self) -> str:
        """The file's name and the number, such as "mine.py:12"."""
        return f"{Path(self.file).name}:{self.number}"


def user_line(error: BaseException) -> UserLine | None:
    """Return the innermost line of a traceback in the user's code; see `place_of`."""
    marked: UserLine | None = vars(error).get(_LINE)
    if marked is not None:
        return marked
    for frame in reversed(extract_tb(error.__traceback__)):
        if _is_own(Path(frame.filename)):
            return UserLine(frame.filename, frame.lineno or 0, frame.name, frame.line or "")
    return None


_LINE = "user_line"


def put_line_first(error: Exception) -> None:
    """Begin the message of an error with the user's line that raised it, if there is one.

    The error stays the same object, with its class and its chain. If the message is not its only
    argument, as with a `KeyError`, the line becomes a note. The line is also stored in the error,
    because another process receives errors without their tracebacks.
    """
    line = user_line(error)
    if line is None or _LINE in vars(error):
        return
    vars(error)[_LINE] = line
    text = f"{line.place} `{line.source}`" if line.source else line.place
    # Only the message may be changed; other arguments may be read by the user's code.
    if len(error.args) == 1 and error.args[0] == str(error):
        error.args = (f"{text}: {error}",)
    elif error.args or str(error):
        error.add_note(text)
    else:
        error.args = (text,)


def said_by(error: BaseException) -> str:
    """Return the class and message of an error, without the line that `put_line_first` added."""
    line = user_line(error)
    text = str(error)
    if line is not None and text.startswith(line.place):
        text = text.removeprefix(line.place).removeprefix(f" `{line.source}`").removeprefix(": ")
    return f"{type(error).__name__}: {text}".removesuffix(": ")


def _is_own(path: Path) -> bool:
    """Return whether a file belongs to none of Python, fedsim and the installed packages."""
    installed = not {"site-packages", "dist-packages"}.isdisjoint(path.parts)
    rooms = Path(__file__).parents[2], Path(os.__file__).parent
    return path.is_absolute() and not installed and not any(r in path.parents for r in rooms)


def show(value: object) -> str:
    """Return a value in the notation of a scenario file.

    Example:
        >>> show("5 apples"), show(True), show(1e-3), show({"up": 5})
        ('"5 apples"', 'true', '0.001', 'a block of keys')
    """
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{printable(value)}"'
        case Mapping():
            return "a block of keys"
        case Sequence():
            return "a list"
        case _:
            return printable(repr(value))


def describe_passed(value: object) -> str:
    """Describe an object passed from Python in a few words: its class, shape and dtype, or length.

    Example:
        >>> describe_passed([1, 2]), describe_passed(int), describe_passed(0.5)
        ('a list of 2 things (int)', 'the class int', '0.5')
    """
    name = type(value).__name__
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, str | int | float | None):
        return show(value)
    shape, kind = (getattr(value, attribute, None) for attribute in ("shape", "dtype"))
    if isinstance(shape, Sequence):
        return f"{_article(name)} of the shape {tuple(shape)}, {kind}"
    if isinstance(value, list | tuple):
        kinds = ", ".join(sorted({type(item).__name__ for item in value})[:_FEW])
        return f"a {name} of {len(value)} things" + (f" ({kinds})" if kinds else "")
    return _article(name)


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def nearest(name: object, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the known name nearest to `name`, or an empty text.

    Names that begin with `name` go first: 'test_accuracy' for "test_acc", not 'test_auc'. If no
    name is similar, names that contain `name` are suggested: '5g-low' and others for "5g".
    """
    names = [f"'{each}'" for each in closest(name, known)]
    return f"; did you mean {join_names(names, 'or')}?" if names else ""


def closest(name: object, known: Iterable[str]) -> list[str]:
    """Return the known names that `nearest` suggests.

    >>> closest("algoritm", ["algorithm", "seed"])
    ['algorithm']
    >>> closest("test_acc", ["test_auc", "test_accuracy"])
    ['test_accuracy']
    """
    folded = {name.casefold(): name for name in known}
    # Comparing a long text with all names would take long.
    asked = str(name).casefold()[:_LONGEST]
    begun = [each for each in folded if each.startswith(asked)] if len(asked) >= _BEGUN else []
    close = _few(begun) or get_close_matches(asked, folded, n=1) or _longer(asked, folded)
    return [folded[each] for each in close]


def nearest_file(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'mine.csv'?" for the file with the nearest name, or an empty text.

    The names have to be alike without their suffixes: 'nofile.yaml' is not like 'e.yaml'.
    """
    stem = PurePath(name.casefold()).stem
    stems = {each: PurePath(each.casefold()).stem for each in known}
    return nearest(
        name,
        [
            each
            for each, other in stems.items()
            if (stem and other.startswith(stem)) or get_close_matches(stem, [other])
        ],
    )


def _longer(asked: str, known: Iterable[str]) -> list[str]:
    """Return the known names that contain another one, if they are few."""
    longer = [name for name in known if name.startswith(asked) or asked in name.split("-")]
    return _few(longer) if len(asked) > 1 else []


def _few(names: Sequence[str]) -> list[str]:
    """Return names that are suggested, without those that extend another one; none of many.

    Of '5g-low' and '5g-low-drx' the former is left.
    """
    shown = [
        name
        for name in names
        if not any(name.startswith((f"{other}-", f"{other}_")) for other in names)
    ]
    return shown if len(shown) <= _FEW else []


def unknown(name: object, known: Sequence[str], hint: str = "", command: str = "") -> str:
    """Return the message for an unknown name: the nearest known name, and the known names.

    Args:
        name: the unknown name.
        known: the accepted names.
        hint: replaces the suggestion of the nearest name.
        command: the command that lists the names. If there is a suggestion and there are many
            names, the message has this command in place of the names.
    """
    hint = hint or nearest(name, known)
    if hint and command and len(known) > ALL_LISTED:
        return f"got {show(name)}{hint} `{command}` lists all names"
    return f"got {show(name)}{hint or '.'} One of: {', '.join(known)}"


def listed(items: Sequence[object], most: int) -> str:
    """Return the first `most` of several things in words, and the number of the others.

    >>> listed([3, 5], 4), listed("abcdef", 4)
    ('3, 5', 'a, b, c, d and 2 more')
    """
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return f"{', '.join(map(str, items[:most]))}{more}"


def join_names(names: Sequence[str], last: str) -> str:
    """Return names as an enumeration in a sentence.

    Example:
        >>> join_names(("ef", "ef21", "none"), "or"), join_names(("ef",), "or")
        ('ef, ef21 or none', 'ef')
    """
    *others, final = names
    return f"{', '.join(others)} {last} {final}" if others else final


def format_path(path: Iterable[str | int]) -> str:
    """Return a key path in the notation of messages.

    Example:
        >>> format_path(("fleet", 0, "radio", "up"))
        'fleet.0.radio.up'
    """
    return ".".join(printable(str(part)) for part in path)


# Errors for options that were removed; user-defined classes used to be passed by them.

P = ParamSpec("P")
R = TypeVar("R")

_GONE = ("algorithms", "losses")


def reject_renamed(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that these former options raise an error that names `blocks`."""

    @wraps(function)
    def checked(*arguments: P.args, **options: P.kwargs) -> R:
        for name in _GONE:
            if name in options:
                text = f"has no {name}=[...] any more; write blocks=[...], for classes of any kind"
                raise TypeError(f"{function.__name__}() {text}")
        return function(*arguments, **options)

    return checked


def numbers_columns(titles: Sequence[str]) -> bool:
    """Return whether the cells of a line count from 0 or 1, like column names made by a program.

    >>> numbers_columns(["0", "1", "2"]), numbers_columns(["1", "2"]), numbers_columns(["0", "2"])
    (True, True, False)
    """
    return any(
        list(titles) == [str(start + place) for place in range(len(titles))] for start in (0, 1)
    )
