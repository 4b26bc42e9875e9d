"""Laws of availability by their figures in SI units, however small."""

from fedsim.physics.availability import BernoulliAvailability, MarkovAvailability


def Bernoulli(share: float) -> BernoulliAvailability:  # noqa: N802 - stands for the class
    return BernoulliAvailability.in_si(share=share)


def Markov(  # noqa: N802 - stands for the class
    on: float, off: float, amplitude: float = 0.0, phase: float = 0.0, period: float = 86400.0
) -> MarkovAvailability:
    return MarkovAvailability.model_construct(
        on=on, off=off, amplitude=amplitude, phase=phase, period=period
    )
