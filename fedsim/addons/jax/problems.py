"""JAX functions as the problem of a scenario, and the model of a run as their parameters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from fedsim.core.blocks.wording import named_line
from fedsim.core.errors import DataError
from fedsim.problems import Source
from fedsim.problems.data.files import GivenRows
from fedsim.problems.losses import GivenFunctions
from fedsim.problems.passed import PassedFunctions
from fedsim.results.result import Result
from fedsim.scenario import ProblemSpec
from fedsim.scenario.passed import passed_problem, passed_rows

Rows: TypeAlias = Sequence[Any] | Source | Mapping[str, Any]
"""(X, y), (X, y, clients), or a source as in a scenario."""

RowLoss: TypeAlias = Callable[[Any, Any], Any]
"""A function of outputs and targets that returns the loss of each row, shape (b,)."""


def problem(
    init: Callable[[Any], Any],
    apply: Callable[[Any, Any], Any],
    loss: Literal["cross-entropy", "squared"] | RowLoss = "cross-entropy",
    *,
    data: Rows,
    test: Rows | None = None,
    split: Mapping[str, Any] | str | None = None,
    shape: Sequence[int] | None = None,
    **of_the_loss: Any,
) -> ProblemSpec:
    """Return pure functions of JAX as the `problem` of a scenario.

    Args:
        init: a function of a random key that returns the initial parameters, a tree of arrays. All
            are trained; the model has them in the order of `jax.flatten_util.ravel_pytree`.
        apply: a function of parameters and inputs, shape (b, ...), that returns outputs, shape
            (b, C) for C classes, or (b, 1) or (b,). It is deterministic and row by row.
        loss: "cross-entropy", "squared" ((o - y)^2/2 with one output), or a function of outputs and
            targets that returns each row's loss, shape (b,). Its targets are classes, whole
            numbers, if there are several outputs, and else numbers, like the outputs of shape (b,).
        data: the clients' rows: arrays (X, y) or (X, y, clients); or a source, as in a scenario.
        test: test rows in the same forms; or {"fraction": 0.2}.
        split: the assignment of rows to clients; by default the clients of the rows if they have
            them (`groups`), and otherwise contiguous blocks in fleet order (`contiguous`).
        shape: the shape of a row's input to `apply`; by default that of the data.
        of_the_loss: other keys of the loss `jax`: l2, scale, numbers, outputs.

    Raises:
        DataError: rows or functions cannot be used, or a key or value of the loss is invalid.

    Example:
        >>> init = lambda key: {"w": jax.random.normal(key, (3, 2))}
        >>> made = problem(init, lambda p, x: x @ p["w"], data=(np.eye(3), [0, 1, 1]))
        >>> made.loss.kind
        'jax'
    """
    _check_callable(init=init, apply=apply)
    rows = _rows(data)
    row = tuple(shape or (rows.row if isinstance(rows, GivenRows) else ()))
    if not row:
        raise DataError("loss.row", "give `shape`, that of a row's input, as for (X, y)")
    keys = _loss_keys(loss, _count_outputs(init, apply, row)) | of_the_loss
    passed = PassedFunctions(init, apply, None if isinstance(loss, str) else loss)
    whole = {"kind": "jax", "model": _model(passed, row), **keys}
    return passed_problem(whole, rows, test, split, _rows)


def _model(passed: PassedFunctions, row: tuple[int, ...]) -> GivenFunctions:
    """Return the block of the functions."""
    name = getattr(passed.apply, "__name__", type(passed.apply).__name__)
    return GivenFunctions.of_code(passed, name=name, row=row)


def _check_callable(**functions: object) -> None:
    """Check that functions can be called.

    Raises:
        DataError: one cannot.
    """
    for name, function in functions.items():
        if not callable(function):
            text = f"{name} is a function of JAX's arrays; got {type(function).__name__}"
            raise DataError(f"loss.{name}", text)


def _loss_keys(loss: str | RowLoss, outputs: int) -> dict[str, Any]:
    """Return the keys of the loss that follow from the arguments.

    Raises:
        DataError: the loss is cross-entropy, but there is one output.
    """
    if loss == "squared" or (outputs == 1 and not isinstance(loss, str)):
        return {"criterion": "squared"}
    if outputs == 1:
        text = "cross-entropy needs an output for each class, and there is one output"
        raise DataError("loss.criterion", f"{text}; use squared, or a custom loss")
    criterion = loss if isinstance(loss, str) else "cross-entropy"
    return {"criterion": criterion, "outputs": outputs}


def parameters(
    init: Callable[[Any], Any],
    result: Result,
    variant: str | None = None,
    seed: int | None = None,
    round: int | Literal["best"] | None = None,  # noqa: A002 - as the column is called
    *,
    client: int | None = None,
) -> Any:
    """Return the model of a run as a tree of parameters.

    Args:
        init: the function that was passed to `problem`.
        result: the result of the run.
        variant: of the run; the first one of the scenario if None.
        seed: of the run; may be left out where the variant has one only.
        round: the round, or "best"; the last one if None; see `Result.model`.
        client: the number of a client, for its own model; None for the server's.

    Raises:
        DataError: the model does not fit these parameters.
        ValueError: there is no such run, or the model was not stored.

    Example:
        >>> import fedsim
        >>> init = lambda key: {"w": jnp.zeros((3, 2))}
        >>> made = problem(init, lambda p, x: x @ p["w"], data=(np.eye(3), [0, 1, 1]))
        >>> method, fleet = {"kind": "gd", "step_size": 0.1}, [{"count": 1}]
        >>> result = fedsim.run(
        ...     {"problem": made, "algorithm": method, "fleet": fleet, "stop": {"rounds": 2}}
        ... )
        >>> parameters(init, result)["w"].shape
        (3, 2)
    """
    model = result.model(variant, seed, round, client=client).ravel()
    flat, unravel = ravel_pytree(init(jax.random.key(0)))
    if flat.size != len(model):
        text = f"got an init of {flat.size} numbers, and a model of {len(model)}"
        raise DataError("init", f"{text}; expected the one that the run had")
    return unravel(jnp.asarray(model, dtype=flat.dtype))


def _count_outputs(
    init: Callable[[Any], Any], apply: Callable[[Any, Any], Any], row: tuple[int, ...]
) -> int:
    """Return the number of outputs per row, from shapes alone.

    Raises:
        DataError: the functions fail, or return another shape.
    """
    try:
        tree = jax.eval_shape(init, jax.random.key(0))
    except Exception as error:  # noqa: BLE001 - the code of a user's functions
        raise DataError("loss.init", f"init(key) fails: {named_line(error)}") from None
    try:
        found = jax.eval_shape(apply, tree, jnp.zeros((2, *row)))
    except Exception as error:  # noqa: BLE001 - likewise
        text = f"apply(parameters, inputs) fails on inputs of shape (2, {', '.join(map(str, row))})"
        raise DataError("loss.apply", f"{text}: {named_line(error)}") from None
    shape = getattr(found, "shape", None)
    if shape == (2,):
        return 1
    if shape is None or len(shape) != 2 or shape[0] != 2:
        seen = type(found).__name__ if shape is None else shape
        raise DataError("loss.apply", f"of 2 rows it is to return shape (2, C) or (2,); got {seen}")
    return int(shape[1])


def _rows(data: Rows) -> Source | Mapping[str, Any]:
    """Return rows as a block.

    Raises:
        DataError: they are invalid.
    """
    if isinstance(data, Source | Mapping):
        return data
    return passed_rows(data, np.asarray, "or a source of a scenario")
