"""Registries: one per kind of block, with fedsim's own classes and the requirements on any class.

A registry is defined beside its classes, or refers to them by a table that imports each class when
it is chosen. A `fedsim.core.blocks.catalogue.BlockCatalogue` adds the classes of packages and
callers.

The base class of a kind states the requirements: its abstract methods, and the class attributes
that it declares without a value. Their docstrings explain each requirement, and appear in the error
about a class that lacks one.
"""

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from textwrap import dedent
from typing import Any, Generic, TypeVar, get_args

from pydantic import BaseModel
from pydantic.errors import PydanticUserError

from fedsim.core.blocks.on_demand import Named
from fedsim.core.blocks.spec import Spec

Block = TypeVar("Block", bound=Spec)
Block_co = TypeVar("Block_co", bound=Spec, covariant=True)


_registries: dict[object, "Registry[Any]"] = {}
"""All registries, by the base class of their blocks."""


def kinds_of(model: type[BaseModel], key: str = "kind") -> tuple[str, ...]:
    """Return the kinds of a class: the literals in the annotation of its field `key`."""
    field = model.model_fields.get(key)
    return () if field is None else tuple(map(str, get_args(field.annotation)))


@dataclass(frozen=True, eq=False)
class Registry(Generic[Block_co]):
    """A kind of block. Iteration yields fedsim's own classes, in the order of lists.

    Attributes:
        name: the name of one block, such as "packet loss".
        classes: fedsim's own classes; or a table of them by kind, which imports a class when it is
            looked up.
        base: the base class of user-defined classes; None if users cannot define any.
        plural: the plural of the name, used for the group of entry points; by default `name` and an
            s.
        title: the title of the table in `fedsim list`; by default the plural.
        key: the field that chooses the class of a block.
        names: returns the names of a class; by default the literals of the field `key`.
    """

    name: str
    classes: "tuple[type[Block_co], ...] | Named[type[Block_co]]"
    base: type[Spec] | None = None
    plural: str = ""
    title: str = ""
    key: str = "kind"
    names: Callable[[type[Spec]], tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        if self.base is not None:
            _registries[self.base] = self

    def __iter__(self) -> Iterator[type[Block_co]]:
        return iter(self.built_in)

    def __len__(self) -> int:
        return len(self.built_in)

    def __contains__(self, model: object) -> bool:
        if isinstance(self.classes, tuple):
            return model in self.classes
        return self.classes.has(model)

    @property
    def several(self) -> str:
        """The plural of the name."""
        return self.plural or f"{self.name}s"

    @property
    def command(self) -> str:
        """The command that lists these blocks."""
        return f"fedsim list {(self.title or self.several).replace(' ', '-')}"

    @property
    def group(self) -> str:
        """The group of entry points that add classes of this kind."""
        return f"fedsim.{self.several.replace(' ', '_')}"

    @property
    def one(self) -> str:
        """The name with its article."""
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"

    def names_of(self, model: type[Spec]) -> tuple[str, ...]:
        """Return the names of a class in a scenario; empty if the class declares no kind."""
        return self.names(model) if self.names else kinds_of(model, self.key)

    @cached_property
    def own(self) -> Mapping[str, type[Block_co]]:
        """Fedsim's own classes by name."""
        if isinstance(self.classes, tuple):
            return {name: model for model in self.classes for name in self.names_of(model)}
        return self.classes

    @cached_property
    def built_in(self) -> tuple[type[Block_co], ...]:
        """Fedsim's own classes. Reading this imports all of them."""
        return tuple(dict.fromkeys(self.own.values()))

    def where(self, question: Callable[[type[Block_co]], bool | str]) -> tuple[str, ...]:
        """Return the kinds of fedsim's own classes that satisfy a condition.

        Args:
            question: the condition. A class for which it returns a text satisfies it with a
                restriction, and the text is appended to the kind.
        """
        answers = {kind: question(model) for kind, model in self.own.items()}
        restrictions = {
            kind: f" {yes}" if isinstance(yes, str) else "" for kind, yes in answers.items()
        }
        return tuple(kind + restrictions[kind] for kind, yes in answers.items() if yes)

    def takes(self, value: object) -> bool:
        """Return whether a value is an instance of a block of this kind."""
        derived = self.base is not None and isinstance(value, self.base)
        # Fedsim's own classes need no common base, so the classes themselves are compared.
        return derived or any(cls in self for cls in type(value).__mro__)

    def admits(self, model: type) -> bool:
        """Return whether a class is derived from the base of this kind."""
        return self.base is not None and issubclass(model, self.base)


def kinds_where(
    base: Callable[..., Block], question: Callable[[type[Block]], bool | str]
) -> tuple[str, ...]:
    """Return `where` of a base class's registry, for modules that cannot import the registry."""
    return _registries[base].where(question)


def lacks(model: type[Spec], registry: Registry[Spec]) -> str:
    """Return why a class cannot be used as a block of its kind; empty if it can be used."""
    base = registry.base or Spec
    reasons = [*_check_name(model, registry), *_silent(model, base), *_incapable(model)]
    reasons += _unreadable(model)
    if not reasons:
        return ""
    return f"{model.__name__} cannot be used as {registry.one}: {'; '.join(reasons)}"


def _check_name(model: type[Spec], registry: Registry[Spec]) -> Iterator[str]:
    """Yield a fault if the field `kind` has no literal: a scenario could not name the class."""
    if not registry.names_of(model):
        name, key = _to_kind(model.__name__), registry.key
        yield (
            f"it has no `{key}` of its own by which a scenario could name it. It must have a"
            f' line such as {key}: Literal["{name}"] = "{name}"'
        )


def _to_kind(name: str) -> str:
    """Return the name of a class in the notation of a scenario: EveryOther becomes every-other."""
    starts = "".join(f"-{c.lower()}" if c.isupper() else c for c in name)
    return starts.strip("-_")


def _silent(model: type[Spec], base: type[Spec]) -> Iterator[str]:
    """Yield a fault per class attribute that the base declares and the class lacks."""
    for name, said in _declared_attributes(base).items():
        if not hasattr(model, name):
            yield f"it has no `{name}`. It must state {_clause(said) or 'it'}"


def _incapable(model: type[Spec]) -> Iterator[str]:
    """Yield a fault per abstract method or property that is missing or of the wrong sort."""
    for name, wanted in _requirements_of(model).items():
        member = inspect.getattr_static(model, name)
        if getattr(member, "__isabstractmethod__", False):
            says = "state " if isinstance(wanted, property) else ""
            must = f"{says}{_clause(inspect.getdoc(wanted) or 'be there')}"
            yield f"it has no `{name}`. It must {must}"
        # A property of the base may be a plain class attribute here, but not a method.
        elif not isinstance(wanted, property):
            yield from _misfit(name, getattr(model, name), wanted)
        elif callable(member):
            yield f"its `{name}` is a method, and is read as a value. Put @property above it"


def _unreadable(model: type[Spec]) -> Iterator[str]:
    """Yield a fault if the validator cannot be built, because a field's type has no text form."""
    try:
        model.model_rebuild()
    except PydanticUserError as error:
        yield f"its fields cannot be read from a file: {str(error).splitlines()[0]}"
    except NameError as error:
        yield f"the types of its fields are not known: {error}"


def _requirements_of(model: type[Spec]) -> dict[str, object]:
    """Return the abstract members of all bases of a class, by name."""
    asked: dict[str, object] = {}
    for base in reversed(model.__mro__[1:]):
        for name, member in list(vars(base).items()):  # a copy: access may complete the class
            if getattr(member, "__isabstractmethod__", False):
                asked[name] = getattr(base, name)
    return asked


def _misfit(name: str, own: object, wanted: object) -> Iterator[str]:
    """Yield a fault if a method's parameters differ from its base's, or it cannot be awaited."""
    if not callable(own) or not callable(wanted):
        yield f"its `{name}` is no method"
        return
    wanted_signature, signature = inspect.signature(wanted), inspect.signature(own)
    # Bound by name: the caller's arguments may be positional or keywords, so both must fit.
    try:
        signature.bind(*wanted_signature.parameters)
    except TypeError:
        yield f"its `{name}` takes {_list(signature)}, but is called with {_list(wanted_signature)}"
    # True > False: the base is a coroutine function, and the method is none.
    if inspect.iscoroutinefunction(wanted) > inspect.iscoroutinefunction(inspect.unwrap(own)):
        yield f"its `{name}` cannot be awaited. It must begin with async def"


def _list(signature: inspect.Signature) -> str:
    return f"({', '.join(signature.parameters)})"


@cache
def _declared_attributes(base: type[Spec]) -> dict[str, str]:
    """Return the docstrings of the class attributes that a base declares without a value.

    Cached, because it parses the source of the base, and is called for each class of a caller.
    """
    bare = {name for name in base.__class_vars__ if not hasattr(base, name)}
    declared: dict[str, str] = {}
    for cls in reversed(base.__mro__):
        if bare & set(inspect.get_annotations(cls)):
            declared |= {name: text for name, text in _attributes(cls).items() if name in bare}
    return declared


def _attributes(model: type) -> dict[str, str]:
    """Return the docstring below each annotated attribute of a class, by name.

    Python does not keep these docstrings, so the source is parsed.
    """
    (tree,) = ast.parse(dedent(inspect.getsource(model))).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    documented: dict[str, str] = {}
    for line, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            documented[line.target.id] = _docstring(below)
    return documented


def _docstring(line: ast.stmt | None) -> str:
    match line:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
        case _:
            return ""


def _clause(text: str) -> str:
    """Return the first paragraph of a docstring as part of a sentence."""
    first = " ".join(inspect.cleandoc(text).split("\n\n")[0].split()).rstrip(".")
    return first[:1].lower() + first[1:]
