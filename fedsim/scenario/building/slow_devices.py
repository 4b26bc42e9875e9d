"""Notes on slow devices in a fleet whose computing time is negligible."""

from collections.abc import Iterator

from fedsim.core.text import format_number
from fedsim.physics.devices import Device, DeviceLaw
from fedsim.scenario.building.deployment import Deployment

_LITTLE = 1e-3
"""Share of a round below which computing does not affect its duration."""


def slow_devices(deployment: Deployment, share: float) -> Iterator[tuple[str, str]]:
    """Yield notes on slow devices whose computing time is negligible, each a key and a sentence.

    These are devices with a slowdown or with a speed that differs from their preset, and different
    devices with one radio. An unchanged preset was not chosen for its speed.

    Args:
        deployment: the fleet.
        share: the share of computing in the time of the client that computes longest.
    """
    if not 0 < share < _LITTLE:
        return
    groups = deployment.groups
    kinds: dict[str, set[str]] = {}
    for group in groups:
        kinds.setdefault(group.radio.kind, set()).add(group.device.kind)
    places = [
        f"{group.place}.device"
        for group in groups
        if group.device.slowdown.kind != "none"
        or len(kinds[group.radio.kind]) > 1
        or _is_changed(group.device)
    ]
    if places:
        text = (
            f"computing takes at most {format_number(100 * share, '.2g')} % of the time: the speed"
            " of devices hardly affects the duration of a round"
        )
        yield ", ".join(places), text


def _is_changed(device: DeviceLaw) -> bool:
    """Return whether the speed of a device differs from the preset of its name."""
    if not isinstance(device, Device):
        return False
    if device.kind not in device.presets:
        return True
    preset = type(device).model_validate({"kind": device.kind})
    return any(getattr(preset, key) != getattr(device, key) for key in ("speed", "frequency"))
