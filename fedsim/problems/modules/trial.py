"""The trial of a module: whether clients that share only the flat model can train it.

A module is user-defined code: it may raise any exception, and keep any state between two calls. An
unusable module is refused with the reason and a remedy.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from fedsim.core.blocks.wording import first_line
from fedsim.core.errors import DataError
from fedsim.problems.modules.module import (
    layers_of,
    operations_of,
    statistics_of,
    trained_parameters,
)
from fedsim.problems.modules.seeding import own_streams

TRIED = 2
"""The number of rows in a trial; a single row would hide dependence between rows."""

_ROUNDED = 1e-3
"""The largest relative difference between a row's outputs in float32 that counts as rounding."""

_COMPILED = "OptimizedModule"
"""The class of the result of `torch.compile`. It has no public name, and takes 2 s to import."""


def check_nature(module: nn.Module) -> None:
    """Check that a module's parameters can be replaced by others.

    Raises:
        DataError: they cannot.
    """
    for part in module.modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise _unfit("is compiled by torch.jit, which keeps its parameters; give the module")
        if type(part).__name__ == _COMPILED:
            raise _unfit("is compiled (torch.compile); give the module that was compiled")
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if value.is_complex():
            raise _unfit(f"has complex numbers in {name}; models are real: keep two parts")
        if value.is_meta:
            raise _unfit(
                f"is on the device meta, where {name} holds no numbers; make it on the CPU"
            )
    if not sum(part.numel() for _, part in trained_parameters(module)):
        text = f"the module {type(module).__name__} has no parameter that is trained"
        raise DataError("loss.model", text)


def copy_module(module: nn.Module) -> nn.Module:
    """Return a separate copy of a module.

    Raises:
        DataError: it cannot be copied.
    """
    try:
        return deepcopy(module)
    except Exception as error:  # a module may hold anything
        text = (
            f"cannot be copied, and each thread takes a module of its own: {first_line(error)} "
            "(old torch.nn.utils.weight_norm: take torch.nn.utils.parametrizations.weight_norm)"
        )
        raise _unfit(text) from error


def settle(module: nn.Module, rows: Tensor) -> None:
    """Initialise the shapes of a module's lazy parameters, by a call on rows of zeros.

    Raises:
        DataError: the module fails on them.
    """
    try:
        module(rows)
    except Exception as error:  # the code of a user's module may raise anything
        raise _failing(module, rows, error) from error


class ModuleTrial:
    """A copy of a module in float32 on the CPU, for trials within `own_streams`.

    Args:
        module: the module as built.
        rows: zeros, shape (TRIED, ...).
        outputs: the number of outputs that the module has to have.
        row_losses: maps outputs and a number of rows b to losses, shape (b,) or ().
        statistics: whether those of batch normalisation may change, as a part of the model.
    """

    def __init__(
        self,
        module: nn.Module,
        rows: Tensor,
        outputs: int,
        row_losses: Callable[[Tensor, int], Tensor],
        *,
        statistics: bool = False,
    ) -> None:
        self._statistics = statistics
        self._module = copy_module(module).to(device="cpu", dtype=torch.float32)
        self._rows, self._outputs, self._row_losses = rows, outputs, row_losses
        self._state = {name: each.clone() for name, each in self._module.state_dict().items()}
        self._parameters = list(self._module.parameters())
        self._layers = layers_of(self._module)

    def loss(self) -> Tensor:
        """Return the mean loss of the rows, shape ()."""
        return self._mean_loss(self._rows)

    def operations(self, numbers: Sequence[int]) -> float:
        """Return the operations of loss and gradient per row, in one batch.

        Args:
            numbers: the rows, if rows are item numbers; if empty, rows of zeros are used.
        """
        rows = torch.tensor(numbers).unsqueeze(1) if numbers else self._rows
        return operations_of(lambda: self._mean_loss(rows)) / len(rows)

    def _mean_loss(self, rows: Tensor) -> Tensor:
        count = len(rows)
        try:
            outputs = self._module(rows)
            return self._row_losses(check_result(outputs, count, self._outputs), count).mean()
        except DataError:
            raise
        except Exception as error:  # the code of a user's module may raise anything
            raise _failing(self._module, rows, error) from error

    def check_outputs(self) -> None:
        """Check that the module runs and returns outputs.

        Raises:
            DataError: it does not.
        """
        with torch.no_grad():
            self._outputs_of(self._rows)

    def some_outputs(self, count: int) -> Tensor:
        """Return the outputs of distinct rows, shape (count, outputs) or (count,)."""
        with torch.no_grad():
            return self._outputs_of(self._distinct_rows(count))

    def mixes(self) -> bool:
        """Return whether outputs of rows depend on other rows, in evaluation mode."""
        rows = self._distinct_rows(2 * TRIED)
        with self._in_use():
            parts = torch.cat([self._outputs_of(half) for half in (rows[:TRIED], rows[TRIED:])])
            return _differ(parts, self._outputs_of(rows))

    def trains_otherwise(self) -> bool:
        """Return whether outputs differ between training and evaluation, for example by dropout."""
        rows = self._distinct_rows(2 * TRIED)
        with own_streams(1), torch.no_grad():
            training = self._outputs_of(rows)
        with self._in_use():
            return _differ(training, self._outputs_of(rows))

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        self._module.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self._module.train()

    def _distinct_rows(self, count: int) -> Tensor:
        """Return distinct rows: numbers from 0 to 1, or zeros and ones for integer features."""
        shape, generator = (count, *self._rows.shape[1:]), torch.Generator().manual_seed(0)
        if self._rows.is_floating_point():
            return torch.rand(shape, generator=generator, dtype=torch.float32, device="cpu")
        tokens = torch.randint(0, 2, shape, generator=generator, device="cpu")
        try:
            with torch.no_grad():
                self._module(tokens)
        except Exception:  # noqa: BLE001 - the code of a user's module; it may know no token but 0
            return torch.zeros_like(tokens)
        return tokens

    def _outputs_of(self, rows: Tensor) -> Tensor:
        try:
            outputs = self._module(rows)
        except DataError:
            raise
        except Exception as error:  # the code of a user's module may raise anything
            raise _failing(self._module, rows, error) from error
        return check_result(outputs, len(rows), self._outputs)

    def draws(self) -> bool:
        """Return whether a loss draws random numbers.

        Raises:
            DataError: the module cannot be used.
        """
        stream = torch.random.get_rng_state()
        first = self.loss().detach()
        drawn = not torch.equal(stream, torch.random.get_rng_state())
        # From the same state of the stream, the loss has to be the same.
        torch.random.set_rng_state(stream)
        again = self.loss().detach()
        self._check_unchanged()
        if not torch.equal(first.nan_to_num(), again.nan_to_num()):
            raise _unfit(
                "gives another loss for the same rows and random numbers: it stores what it "
                "has computed, or draws from another stream than PyTorch's"
            )
        return drawn

    def check_other_rows(self) -> None:
        """Check that rows other than zeros change no state either, such as a running mean."""
        if not self._rows.is_floating_point():
            return
        ramp = torch.linspace(0, 0.9, self._rows.numel(), dtype=torch.float32, device="cpu")
        self._rows += ramp.view(self._rows.shape)
        self.loss()
        self._rows.zero_()
        self._check_unchanged()

    def check_one_row(self) -> None:
        """Check that outputs keep the axis of rows for a single row, if the module accepts it."""
        self._module.eval()
        try:
            with torch.no_grad():
                found = self._module(self._rows[:1])
        except Exception:  # noqa: BLE001 - as some normalisations, which say so where it happens
            return
        finally:
            self._module.train()
        check_result(found, 1, self._outputs)

    def check_reached(self) -> None:
        """Check that the loss has a gradient."""
        if not self.loss().requires_grad:
            text = "the loss does not depend on any trained parameter of the module"
            raise DataError("loss.model", text)
        self._module.zero_grad()

    def takes_channels_last(self) -> bool:
        """Return whether images may be channels-last; modules that use `view` may not allow it."""
        rows, self._rows = self._rows, self._rows.to(memory_format=torch.channels_last)
        try:
            torch.autograd.backward(self.loss())
        except (DataError, RuntimeError):
            return False
        finally:
            self._rows = rows
        return True

    def _check_unchanged(self) -> None:
        """Check that forward passes have changed neither the state nor its names."""
        before, after = self._state, self._module.state_dict()
        if before.keys() != after.keys():
            other = sorted(before.keys() ^ after.keys())
            text = f"the module's state has other keys after a forward pass: {', '.join(other[:5])}"
            raise DataError("loss.model", f"{text}; make all parameters when it is made")
        changed = [name for name in before if not torch.equal(before[name], after[name])]
        if self._statistics:
            kept = {name.rpartition(".")[0] for name, _ in statistics_of(self._module)}
            changed = [name for name in changed if name.rpartition(".")[0] not in kept]
        if changed:
            parameters = dict(self._module.named_parameters())
            what = "parameter" if changed[0] in parameters else "buffer"
            raise DataError(
                "loss.model",
                f"a forward pass changes the {what} {changed[0]} of the module, as batch "
                "normalisation does with its running statistics and spectral normalisation with "
                "its vectors: clients share parameters only, and methods alone change them; take "
                "group norm, track_running_stats=False, or, for batch normalisation with a "
                "momentum, loss.statistics: local or averaged",
            )
        now = list(self._module.parameters())
        same = all(one is other for one, other in zip(self._parameters, now, strict=True))
        if not same or self._layers != layers_of(self._module):
            raise _unfit("makes or freezes parameters in its forward pass; do so when it is made")


def check_result(found: Any, rows: int, outputs: int) -> Tensor:
    """Return a module's result after checking that it has shape (rows, outputs).

    Raises:
        DataError: the result is something else.
    """
    shape = tuple(found.shape) if isinstance(found, Tensor) else None
    allowed = {(rows, outputs)} | ({(rows,)} if outputs == 1 else set())
    if isinstance(found, Tensor) and shape in allowed:
        return found
    seen = f"the shape {shape}" if shape is not None else _sort(found)
    count = f"{rows} row{'s' * (rows > 1)}"
    text = f"the module is to return outputs of shape (rows, {outputs}); of {count}: got {seen}"
    raise DataError("loss.model", text)


def _sort(found: object) -> str:
    """Describe the type of a module's result, and how to return outputs instead."""
    name = f"{'an' if type(found).__name__[:1] in 'aeiou' else 'a'} {type(found).__name__}"
    several = isinstance(found, tuple | list | dict) or hasattr(found, "logits")
    return f"{name}; wrap it in a module that returns the outputs alone" if several else name


def _differ(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() > _ROUNDED * other.abs().max())


def _failing(module: nn.Module, rows: Tensor, error: Exception) -> DataError:
    text = f"{type(module).__name__} fails on {TRIED} rows of zeros: {first_line(error)}"
    return _unfit(f"{text}; it is given the shape {tuple(rows.shape)}, {rows.dtype}")


def _unfit(text: str) -> DataError:
    return DataError("loss.model", f"the module {text}")
