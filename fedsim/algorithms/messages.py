"""The message classes of a method. Their order gives their numbers on the wire."""

from collections.abc import Iterator
from types import UnionType
from typing import ClassVar, Never, Protocol, Union, get_args, get_origin, get_type_hints

from fedsim.core.ports import Beacon, Message, Silence


class Speaker(Protocol):
    """A method, as far as this module reads it; see `fedsim.algorithms.Algorithm`."""

    messages: ClassVar[tuple[type[Message], ...]]

    def handle(self, client: Never, message: Never) -> object:
        """Answer a message at a client."""
        ...


def register_messages(method: type[Speaker]) -> tuple[type[Message], ...]:
    """Return the message classes of a method, in the order of their numbers.

    They are its `messages`; if that is empty, the classes in the annotations of `handle`, sorted by
    name, so that sender and receiver find the same order.

    Raises:
        TypeError: the method has no `messages`, and its annotations name none.
    """
    if method.messages:
        return method.messages
    annotated = annotated_messages(method)
    if not annotated:
        raise TypeError(
            f"{method.__name__} does not declare its messages, so they cannot be numbered:"
            " add `messages: ClassVar = (Model, Gradient)` with their classes, or annotate the"
            " parameters and the result of `handle` with them"
        )
    return annotated


def annotated_messages(method: type[Speaker]) -> tuple[type[Message], ...]:
    """Return the message classes in the annotations of `handle`, sorted by name, once each.

    Empty if the annotations cannot be evaluated, or name no subclass of `Message`.
    """
    try:
        hints = get_type_hints(method.handle)
    except (NameError, TypeError, AttributeError):  # names local to a function, or undefined ones
        return ()
    hints.pop("client", None)
    kinds = {kind for hint in hints.values() for kind in _classes(hint)}
    return tuple(sorted(kinds - {Message, Beacon}, key=_name))


def annotated_replies(method: type[Speaker]) -> tuple[type[Message], ...]:
    """Return the message classes that `handle` returns by its annotations.

    Empty if it has none, or if it may return any message.
    """
    try:
        hint = get_type_hints(method.handle).get("return")
    except (NameError, TypeError, AttributeError):
        return ()
    kinds = set(_classes(hint)) - {Beacon}
    return () if Message in kinds else tuple(sorted(kinds, key=_name))


def returns_silence(method: type[Speaker]) -> bool:
    """Return whether `handle` may keep silent, by its annotations; True without any."""
    try:
        hint = get_type_hints(method.handle).get("return")
    except (NameError, TypeError, AttributeError):
        return True
    return hint is None or Silence in (hint, *get_args(hint))


def check(method: type[Speaker]) -> None:
    """Check the declared messages of a method.

    Raises:
        TypeError: an entry is no message class, or occurs twice; or an annotation of `handle`
            names a class that is not declared.
    """
    seen = set[type[Message]]()
    declared: tuple[object, ...] = method.messages
    for kind in declared:
        if not (isinstance(kind, type) and issubclass(kind, Message)) or kind is Beacon:
            raise TypeError(f"{method.__name__}.messages has {kind!r}, which is no message class")
        if kind in seen:
            raise TypeError(f"{method.__name__}.messages has {kind.__name__} twice")
        seen.add(kind)
    for kind in annotated_messages(method) if method.messages else ():
        if kind not in seen:
            name, known = kind.__name__, ", ".join(message.__name__ for message in method.messages)
            raise TypeError(
                f"{method.__name__}.handle is annotated with {name}, but `messages` has {known};"
                f" add {name}"
            )


def _name(kind: type[Message]) -> tuple[str, str]:
    return kind.__qualname__, kind.__module__


def _classes(hint: object) -> Iterator[type[Message]]:
    if get_origin(hint) in (Union, UnionType):
        for part in get_args(hint):
            yield from _classes(part)
    elif isinstance(hint, type) and issubclass(hint, Message):
        yield hint
