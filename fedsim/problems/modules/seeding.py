"""Contexts that set and restore PyTorch's random streams, default type and gradient mode.

`torch.manual_seed` does more: it seeds the streams of all devices, which nothing restores.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


@contextmanager
def own_streams(seed: int | None = None) -> Iterator[None]:
    """Restore PyTorch's streams after the context, so that draws within it have no effect.

    Args:
        seed: the initial seed of the streams; None to continue from their current state.
    """
    gpu_in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    used = [torch.cuda.current_device()] if gpu_in_use else []
    with torch.random.fork_rng(devices=used):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
            if torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
                torch.cuda.manual_seed(seed)  # delayed if no GPU has been used yet
        yield


@contextmanager
def single_precision() -> Iterator[None]:
    """Make float32 the default type of tensors within the context."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def with_gradients(function: Function) -> Function:
    """Return a function that computes gradients even if its caller has disabled them.

    The caller may be within `torch.no_grad()` or `torch.inference_mode()`; threads never are.
    """
    wrapped: Function = torch.inference_mode(mode=False)(function)
    return wrapped
