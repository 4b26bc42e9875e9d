"""Differential privacy: clipped replies, noise, and the epsilon that a run has spent."""

from fedsim.protocol.privacy.blocks import AdaptiveClip, AnyPrivacy, Privacy

__all__ = ["AdaptiveClip", "AnyPrivacy", "Privacy"]
