"""What PyTorch computes with here."""

from collections.abc import Mapping

import torch


def platform(device: str) -> Mapping[str, str]:
    """Return the version of PyTorch and what computes, which decide the last bits of results.

    Args:
        device: as the loss has it; there is such a one.
    """
    if device == "cpu":
        name = f"cpu, {torch.backends.cpu.get_cpu_capability()}"
    else:
        name = f"{device}, {torch.cuda.get_device_name()}"
    return {"torch": torch.__version__, "device": name}
