"""Networks for images."""

from fedsim.problems.architectures.images.base import ImageNetwork
from fedsim.problems.architectures.images.convolutional import Convolutional, FemnistNetwork
from fedsim.problems.architectures.images.residual import ResidualNetwork

__all__ = ["Convolutional", "FemnistNetwork", "ImageNetwork", "ResidualNetwork"]
