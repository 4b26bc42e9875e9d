"""The walk over an object that its digest is made of.

Every value is one of three sorts. A *plain* value (a number, a text, a tuple of such, code, what an
installed package names) is written down. A *node* (everything that has an identity of its own) gets
a number when it is met first; met again, its number is written. So cycles end, shared parts differ
from equal copies, and each part is visited once. What is neither is `Unknown`.

Every token carries its length and every node its end, so that two different walks never write the
same bytes. The walk keeps its own stack: nothing that is nested deeply exhausts Python's.
"""

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from fedsim.blocks.identity.packages import needs_version, versions
from fedsim.blocks.identity.plain import PlainWriter

Parts: TypeAlias = Iterator[tuple[str, object]]
"""What a node is made of: each part with what it is called."""


def name_parts(**parts: object) -> Parts:
    """Return some parts with what they are called."""
    return iter(parts.items())


class ObjectIdentity(NamedTuple):
    """By what an object is known.

    Attributes:
        digest: SHA-256 in hexadecimal; empty where there is none.
        reason: why there is none; empty where there is one.
    """

    digest: str = ""
    reason: str = ""


class Unknown(Exception):
    """A part cannot be covered for certain; the text says what it is."""


class WalkedNode(NamedTuple):
    """How a node is walked.

    Attributes:
        kind: its sort, which tells it apart from nodes of the same parts.
        parts: what it is made of.
        kept: whether it has an identity of its own; False of what is made anew at every access,
            such as a bound method.
    """

    kind: str
    parts: Parts
    kept: bool = True


class View(NamedTuple):
    """What code sees of a module: of a user's own all names that the code has, if they are there.

    Attributes:
        module: of a user, or of a package, of which only what a user has put there is seen.
        names: of attributes; None for all.
    """

    module: ModuleType
    names: frozenset[str] | None


Opened: TypeAlias = Callable[[object, "Walk"], WalkedNode | None]
"""Returns how a value is walked; None for another function to say."""


Content: TypeAlias = Callable[[Any, "Walk"], Parts]
"""Yields what an object holds as the built-in type, or the array, that its class is made from."""


class Library(NamedTuple):
    """What a walk knows of types.

    Attributes:
        kinds: what says how a value is walked, in the order in which they are asked.
        bases: types whose content is known, from which classes may be made.
        attributes: returns the attributes of an instance as they are to be compared.
    """

    kinds: tuple[Opened, ...]
    bases: Mapping[type, Content]
    attributes: Callable[[object, dict[str, object]], dict[str, object]]


class InstanceLayout(NamedTuple):
    """What all instances of a class have in common.

    Attributes:
        content: yields what they hold as the built-in type that the class is made from.
        slots: their slots, by name.
        patches: what a user has put into the class, where it is of a package.
    """

    content: Content
    slots: tuple[tuple[str, Any], ...]
    patches: tuple[tuple[str, object], ...]


class Walk:
    """One walk.

    Args:
        library: what is known of types.

    Attributes:
        library: the same.
        layouts: what was found of classes whose instances have been met.
        plain: what writes plain values down, and knows which packages were named.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.plain = PlainWriter()
        self.layouts: dict[type, InstanceLayout] = {}
        self._hash = sha256()
        self._numbers: dict[object, int] = {}
        self._kept: list[object] = []  # else another object could have the `id` of one that is gone
        self._stack: list[tuple[str, Parts]] = []

    def over(self, parts: list[tuple[str, object]]) -> None:
        """Walk over some parts.

        Raises:
            Unknown: one cannot be covered; `place` says where.
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
            self._stack.append((name, iter(())))  # which names it where it is `Unknown`
            node = self._enter(value)
            self._stack.pop()
            if node is not None:
                self._stack.append((name, node.parts))

    def place(self) -> str:
        """Return where the walk is, as what stands before a reason."""
        names = [name for name, _ in self._stack if name and not name.isdecimal()]
        return f"{'.'.join(names)} is " if names else "it is "

    def digest(self) -> str:
        """Return the digest of all that was walked, and of the versions of what was named."""
        named = {top for top in self.plain.packages if needs_version(top)}
        for each in versions(named):
            self._write(b"v", each.encode())
        return self._hash.hexdigest()

    def number(self, key: object, value: object) -> int | None:
        """Return the number of what was met before under a key; None where it is met first.

        The value is held from then on, so that no other object gets its `id`.
        """
        found = self._numbers.get(key)
        if found is None:
            self._numbers[key] = len(self._numbers)
            self._kept.append(value)
        return found

    def _enter(self, value: object) -> WalkedNode | None:
        """Write a value down; return how it is walked where that is not all."""
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
    """Return what sort of thing a value is, for people to read."""
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else _full(kind)
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _full(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
