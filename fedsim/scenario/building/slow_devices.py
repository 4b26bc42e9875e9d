"""Slow devices in a fleet whose computing takes next to no time."""

from collections.abc import Iterator

from fedsim.core.text import format_number
from fedsim.physics.devices import Device, DeviceLaw
from fedsim.scenario.building.deployment import Deployment

_LITTLE = 1e-3
"""Computing below this share of a round does not show in its duration."""


def slow_devices(deployment: Deployment, share: float) -> Iterator[tuple[str, str]]:
    """Yield slow devices whose computing takes next to no time, each a key and a sentence.

    These are devices with a slowdown or with another speed than that of their preset, and devices
    of one radio that differ. A preset that stands alone was not chosen for its speed.

    Args:
        deployment: the fleet.
        share: of the time in which the client that computes longest computes.
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
            f"computing is {format_number(100 * share, '.2g')} % of the time at most: how fast"
            " devices are hardly changes how long a round takes"
        )
        yield ", ".join(places), text


def _is_changed(device: DeviceLaw) -> bool:
    """Return whether a device has another speed than the preset of its name."""
    if not isinstance(device, Device):
        return False
    if device.kind not in device.presets:
        return True
    preset = type(device).model_validate({"kind": device.kind})
    return any(getattr(preset, key) != getattr(device, key) for key in ("speed", "frequency"))
