"""Laws of loss by their probabilities, which need not be such as a scenario may have."""

from fedsim.physics.packet_loss import GilbertElliottLoss, IndependentLoss


def Independent(rate: float) -> IndependentLoss:  # noqa: N802 - stands for the class
    return IndependentLoss.model_construct(rate=rate)


def GilbertElliott(  # noqa: N802 - stands for the class
    p: float, r: float, h: float = 0.0, k: float = 1.0
) -> GilbertElliottLoss:
    return GilbertElliottLoss.model_construct(p=p, r=r, h=h, k=k)
