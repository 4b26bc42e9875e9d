"""PyTorch's own random streams, of CPU and GPU: seeded for a while, and restored.

`torch.manual_seed` does more: it seeds the streams of all devices, which nothing restores.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def own_streams(seed: int | None = None) -> Iterator[None]:
    """Let draws within the context leave PyTorch's streams as they were before it.

    Args:
        seed: that the streams begin with; None to go on from where they are.
    """
    gpu_in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    used = [torch.cuda.current_device()] if gpu_in_use else []
    with torch.random.fork_rng(devices=used):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
            if torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
                torch.cuda.manual_seed(seed)  # later, where no GPU has been used yet
        yield
