"""The walk over an object graph that computes its digest.

Every value is of one of three sorts. A *plain* value (a number, a text, a tuple of plain values,
code, an object that an installed package names) is written directly. A *node* (an object with an
identity of its own) gets a number on the first visit; on a later visit only its number is written.
So cycles end, shared parts differ from equal copies, and each part is visited once. Any other value
is `Unknown`.

Every token has its length as a prefix and every node an end mark, so that two different graphs
never write the same bytes. The walk has an explicit stack, since deeply nested objects would
exhaust that of Python.
"""

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from fedsim.blocks.identity.packages import needs_version, versions
from fedsim.blocks.identity.plain import PlainWriter

Parts: TypeAlias = Iterator[tuple[str, object]]
"""The parts of a node: pairs of name and value."""


def name_parts(**parts: object) -> Parts:
    """Return the keyword arguments as parts."""
    return iter(parts.items())


class ObjectIdentity(NamedTuple):
    """The identity of an object: a digest, or the reason why there is none.

    Attributes:
        digest: SHA-256 in hexadecimal, or empty.
        reason: why there is no digest; empty if there is one.
    """

    digest: str = ""
    reason: str = ""


class Unknown(Exception):
    """A part cannot be covered for certain; the text names it."""


class WalkedNode(NamedTuple):
    """A node: its kind and its parts.

    Attributes:
        kind: of the object, which distinguishes nodes with the same parts.
        parts: of the object.
        kept: whether the object has an identity of its own; False for objects that Python creates
            anew at every access, such as bound methods.
    """

    kind: str
    parts: Parts
    kept: bool = True


class View(NamedTuple):
    """A module restricted to the attributes that some code names.

    Attributes:
        module: a user's module, or one of a package, of which only monkey patches are walked.
        names: of attributes; None for all.
    """

    module: ModuleType
    names: frozenset[str] | None


Opened: TypeAlias = Callable[[object, "Walk"], WalkedNode | None]
"""Returns the node of a value; None if the function does not handle its type."""


Content: TypeAlias = Callable[[Any, "Walk"], Parts]
"""Yields the content of an object as an instance of a built-in type or array."""


class Library(NamedTuple):
    """The handlers of types in a walk.

    Attributes:
        kinds: functions that open nodes, tried in this order.
        bases: for each built-in base type, the function that yields an object's content.
        attributes: returns the attributes of an instance in the form to be compared.
    """

    kinds: tuple[Opened, ...]
    bases: Mapping[type, Content]
    attributes: Callable[[object, dict[str, object]], dict[str, object]]


class InstanceLayout(NamedTuple):
    """The layout that all instances of a class share.

    Attributes:
        content: yields an instance's content as the built-in base type.
        slots: the slots of the class, by name.
        patches: user-defined functions in a class of a package.
    """

    content: Content
    slots: tuple[tuple[str, Any], ...]
    patches: tuple[tuple[str, object], ...]


class Walk:
    """One walk.

    Args:
        library: the handlers of types.

    Attributes:
        library: the handlers of types.
        layouts: of the classes whose instances have been visited.
        plain: encodes plain values, and collects the packages that were named.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.plain = PlainWriter()
        self.layouts: dict[type, InstanceLayout] = {}
        self._hash = sha256()
        self._numbers: dict[object, int] = {}
        self._kept: list[object] = []  # keeps objects alive: a freed one's `id` could be reused
        self._stack: list[tuple[str, Parts]] = []

    def over(self, parts: list[tuple[str, object]]) -> None:
        """Walk over some parts, depth first.

        Raises:
            Unknown: a part cannot be covered; `place` returns where.
        """
        self._stack = [("", iter(parts))]
        while self._stack:
            part = next(self._stack[-1][1], None)
            if part is None:
                self._stack.pop()
                self._hash.update(b")")
                continue
            name, value = part
            self._write(b"n", name.encode("utf-8", "surrogatepass"))
            self._stack.append((name, iter(())))  # for `place`, if the value is `Unknown`
            node = self._enter(value)
            self._stack.pop()
            if node is not None:
                self._stack.append((name, node.parts))

    def place(self) -> str:
        """Return the current position, as the beginning of a message."""
        names = [name for name, _ in self._stack if name and not name.isdecimal()]
        return f"{'.'.join(names)} is " if names else "it is "

    def digest(self) -> str:
        """Return the digest of the walk, and of the versions of all packages named in it."""
        named = {top for top in self.plain.packages if needs_version(top)}
        for each in versions(named):
            self._write(b"v", each.encode())
        return self._hash.hexdigest()

    def number(self, key: object, value: object) -> int | None:
        """Return the number of a visited key; None on the first visit, which assigns one.

        The value is kept alive, so that no other object gets its `id`.
        """
        found = self._numbers.get(key)
        if found is None:
            self._numbers[key] = len(self._numbers)
            self._kept.append(value)
        return found

    def _enter(self, value: object) -> WalkedNode | None:
        """Write a value; return its node if it has parts to be visited."""
        if (plain := self.plain.encode(value)) is not None:
            self._write(b"p", plain)
            return None
        key = (id(value.module), value.names) if isinstance(value, View) else id(value)
        known = self._numbers.get(key)
        if known is not None:
            self._write(b"@", str(known).encode())
            return None
        for kind in self.library.kinds:
            if (node := kind(value, self)) is not None:
                break
        else:
            raise Unknown(f"{describe(value)}, which cannot be compared for certain")
        if node.kept:
            self.number(key, value)
        else:
            self._kept.append(value)
        self._write(b"(", node.kind.encode())
        return node

    def _write(self, tag: bytes, content: bytes | memoryview) -> None:
        self._hash.update(b"%b%d:" % (tag, len(content)))
        self._hash.update(content)


def describe(value: Any) -> str:  # noqa: ANN401 - anything
    """Return the type of a value with its article, for messages."""
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else _full(kind)
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _full(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
