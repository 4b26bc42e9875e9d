"""The classes of a method's messages, which are numbered for the wire."""

from collections.abc import Iterator
from types import UnionType
from typing import ClassVar, Never, Protocol, Union, get_args, get_origin, get_type_hints

from fedsim.ports import Beacon, Message


class Speaker(Protocol):
    """The part of a method that is used here; see `fedsim.algorithms.Algorithm`."""

    messages: ClassVar[tuple[type[Message], ...]]

    def handle(self, client: Never, message: Never) -> object:
        """Answer a message at a client; each has classes of its own."""
        ...


def register_messages(method: type[Speaker]) -> tuple[type[Message], ...]:
    """Return the classes of a method's messages, in the order of their numbers.

    They are its `messages`; where it has none, they are what its `handle` is annotated with, by
    name, which is an order that both ends find.

    Raises:
        TypeError: it has no `messages`, and its annotations name none.
    """
    if method.messages:
        return method.messages
    found = annotated_messages(method)
    if not found:
        raise TypeError(
            f"{method.__name__} does not declare its messages, so they cannot be numbered:"
            " add `messages: ClassVar = (Model, Gradient)` with their classes, or annotate what"
            " `handle` takes and returns with them"
        )
    return found


def annotated_messages(method: type[Speaker]) -> tuple[type[Message], ...]:
    """Return the classes of messages in the annotations of `handle`, by name, once each.

    Empty where they cannot be read, or name no class more special than `Message`.
    """
    try:
        hints = get_type_hints(method.handle)
    except (NameError, TypeError, AttributeError):  # of a function's own names, or of none
        return ()
    hints.pop("client", None)
    found = {kind for hint in hints.values() for kind in _classes(hint)}
    return tuple(sorted(found - {Message, Beacon}, key=_name))


def check(method: type[Speaker]) -> None:
    """Check the messages that a method has registered.

    Raises:
        TypeError: one of them is no class of messages, or is there twice; or `handle` is
            annotated with another one.
    """
    seen = set[type[Message]]()
    given: tuple[object, ...] = method.messages
    for kind in given:
        if not (isinstance(kind, type) and issubclass(kind, Message)) or kind is Beacon:
            raise TypeError(f"{method.__name__}.messages has {kind!r}, no message of a method")
        if kind in seen:
            raise TypeError(f"{method.__name__}.messages has {kind.__name__} twice")
        seen.add(kind)
    for kind in annotated_messages(method) if method.messages else ():
        if kind not in seen:
            name, known = kind.__name__, ", ".join(one.__name__ for one in method.messages)
            raise TypeError(
                f"{method.__name__}.handle speaks of {name}, and `messages` has {known}; add {name}"
            )


def _name(kind: type[Message]) -> tuple[str, str]:
    return kind.__qualname__, kind.__module__


def _classes(hint: object) -> Iterator[type[Message]]:
    """Yield the classes of messages in an annotation."""
    if get_origin(hint) in (Union, UnionType):
        for part in get_args(hint):
            yield from _classes(part)
    elif isinstance(hint, type) and issubclass(hint, Message):
        yield hint
