"""What is changed: a selection of cosmic-ray's operators, and three that it lacks."""

from collections.abc import Iterable, Iterator
from typing import Any

import parso
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import get_operator
from parso.python.tree import ExprStmt, String
from parso.tree import NodeOrLeaf

Position = tuple[tuple[int, int], tuple[int, int]]

# An operator that puts anything in the place of anything mostly makes nonsense, which the first
# test notices; these make mistakes that somebody could have made.
_COMPARISONS = {
    "Lt": ("LtE", "GtE"), "LtE": ("Lt", "Gt"), "Gt": ("GtE", "LtE"), "GtE": ("Gt", "Lt"),
    "Eq": ("NotEq",), "NotEq": ("Eq",), "Is": ("IsNot",), "IsNot": ("Is",),
}  # fmt: skip
_ARITHMETIC = {
    "Add": ("Sub",), "Sub": ("Add",), "Mul": ("Div",), "Div": ("Mul",), "FloorDiv": ("Div",),
    "Mod": ("FloorDiv",), "Pow": ("Mul",), "RShift": ("LShift",), "LShift": ("RShift",),
    "BitOr": ("BitAnd",), "BitAnd": ("BitOr",), "BitXor": ("BitOr",),
}  # fmt: skip
_OTHERS = (
    "ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Not", "AddNot",
    "ReplaceUnaryOperator_Delete_Invert", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue",
    "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak", "ExceptionReplacer", "NumberReplacer", "ZeroIterationForLoop",
)  # fmt: skip


class DeleteStatement(Operator):  # type: ignore[misc]  # untyped there
    """Leaves out a statement that does something: a call, a raise, an assignment into an object."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Position]:
        """Yield where it stands."""
        if _acts(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Put `pass` in its place."""
        prefix = node.get_first_leaf().prefix
        return parso.parse(f"{prefix}pass")  # type: ignore[no-untyped-call]

    @classmethod
    def examples(cls) -> Iterable[Example]:
        """Return what it does."""
        return (Example("self.x = 1\n", "pass\n"), Example("f(x)\n", "pass\n"))


def _acts(node: NodeOrLeaf) -> bool:
    """Return whether a node is a simple statement that changes more than a local name."""
    parent = node.parent
    if parent is None or parent.type != "simple_stmt":
        return False
    if isinstance(node, ExprStmt):
        target = node.children[0]
        return node.children[1].type == "operator" and (
            node.children[1].value != "=" or target.type in {"atom_expr", "power"}
        )
    return node.type in {"atom_expr", "power", "await_expr", "raise_stmt", "del_stmt"}


class ReplaceString(Operator):  # type: ignore[misc]  # untyped there
    """Replaces a string that names something by another: a key, an event, a file; not prose."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Position]:
        """Yield where it stands."""
        if isinstance(node, String) and _names_something(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Put another name in its place."""
        node.value = '"mutant"'
        return node

    @classmethod
    def examples(cls) -> Iterable[Example]:
        """Return what it does."""
        return (Example('x["t"]', 'x["mutant"]'),)


def _names_something(node: String) -> bool:
    inside = node.value.strip("\"'")
    prose = " " in inside or not inside or node.value[0] not in "\"'"
    statement = node.search_ancestor("simple_stmt", "decorator")
    alone = node.parent is not None and node.parent.type in {"simple_stmt", "strings"}
    raised = statement is not None and statement.children[0].type == "raise_stmt"
    return not (prose or alone or raised)


class NegateMembership(Operator):  # type: ignore[misc]  # untyped there
    """Replaces `in` by `not in`."""

    def mutation_positions(self, node: Any) -> Iterator[Position]:
        """Yield where it stands."""
        within = node.parent is not None and node.parent.type == "comparison"
        if within and node.type == "keyword" and node.value == "in":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Negate it."""
        node.value = "not in"
        return node

    @classmethod
    def examples(cls) -> Iterable[Example]:
        """Return what it does."""
        return (Example("x in y", "x not in y"),)


def operators() -> dict[str, Operator]:
    """Return the operators by their names."""
    names = [
        *(f"ReplaceComparisonOperator_{a}_{b}" for a, bs in _COMPARISONS.items() for b in bs),
        *(f"ReplaceBinaryOperator_{a}_{b}" for a, bs in _ARITHMETIC.items() for b in bs),
        *_OTHERS,
    ]
    theirs = {name: get_operator(f"core/{name}")() for name in names}
    ours = (DeleteStatement, NegateMembership, ReplaceString)
    return {**theirs, **{one.__name__: one() for one in ours}}
