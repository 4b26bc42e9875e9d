"""By what an object that Python hands over is known: a digest, or the reason why it has none.

Two different objects never share a digest. All that can be walked is walked: code with its
constants, closures, defaults and the globals that it reads; classes with their bodies and bases;
instances by their exact class, their `__dict__` and their slots; containers with their order;
arrays and tensors by type, shape and bytes. What belongs to an installed package or to Python
itself is known by its name and the package's version. Whatever cannot be covered for certain, such
as an open file, an iterator, a lock or an object of an unknown extension type, has no digest.

A digest is the same in every process and under every hash seed.
"""

from fedsim.blocks.identity.kinds import identity_of
from fedsim.blocks.identity.packages import versions
from fedsim.blocks.identity.walker import ObjectIdentity

__all__ = ["ObjectIdentity", "identity_of", "versions"]
