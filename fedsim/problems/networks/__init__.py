"""PyTorch modules of architectures that PyTorch's own layers in a row are not.

This package loads PyTorch; nothing outside does at import.
"""
