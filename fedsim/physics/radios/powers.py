"""The power of a radio beyond idle power while messages are in progress.

Between two messages a radio rests (`RadioLaw.resting`), or is in a stage before that (`States`).
While a message is in progress, from its first bit to its last, the radio is connected, and for a
part of that time its bits are on the air: they take as long there as the radio's own rate says,
though the message may take longer, because a link behind the radio is slow, or shared.

A radio that states powers of its directions draws `send` or `receive` on the air, and connected
power for the rest of the message: that of its first stage, such as a tail, or `base` where that is
more; on the air it draws no less than that. Without such a stage it waits as it rests. A radio that
states energies per bit draws `base` all the time, which is its connected power (Huang et al.,
MobiSys 2012, equation 1), and pays for bits and not for time on the air.

Both directions at once: connected power is drawn once, and each direction adds what it takes on the
air beyond that.
"""

from typing import NamedTuple

from fedsim.physics.radios.base import RadioLaw


class RadioPowers(NamedTuple):
    """The powers of one kind of radio, beyond what it draws at rest.

    Pairs are (down, up).

    Attributes:
        held: while a message is in progress in either direction, W.
        per_bit: the energy of a bit, J/bit.
        on_air: while bits are on the air, beyond `held`, W.
    """

    held: float
    per_bit: tuple[float, float]
    on_air: tuple[float, float]


def powers_of(law: RadioLaw) -> RadioPowers:
    """Return the powers of a radio.

    Example:
        >>> from fedsim.physics.radios import Radio
        >>> powers = powers_of(Radio.model_validate({"kind": "wifi-6"}))
        >>> powers.held, [round(watts, 3) for watts in powers.on_air]
        (0.141, [0.222, 1.599])
    """
    draw, rest = law.draw, law.waiting
    per_bit = draw.energy_down, draw.energy_up
    base = max(draw.base - rest, 0.0)
    if not (draw.send or draw.receive):
        return RadioPowers(base, per_bit, (0.0, 0.0))
    held = max(base, law.states.stages[0].power if law.states.stateful else 0.0)
    down, up = (max(draw.base + own - rest - held, 0.0) for own in (draw.receive, draw.send))
    return RadioPowers(held, per_bit, (down, up))
