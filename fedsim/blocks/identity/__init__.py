"""Identity of Python objects: a digest of everything that can affect a run, or why there is none.

A finished run is reused only if its scenario has the same identity. So two objects that could
compute differently must never share a digest; two that compute the same may have different ones,
which costs a repeated run, but no wrong result. Hence the digest covers code with its constants,
closures, defaults and the globals that it reads; classes with their bodies and bases; instances by
their exact class, their `__dict__` and their slots; containers with their order; arrays and tensors
by type, shape and bytes. Objects of an installed package or of Python itself are identified by
their name and the package's version. An object that cannot be covered for certain, such as an open
file, an iterator, a lock or an instance of an unknown extension type, has no digest.

A digest is the same in every process and under every hash seed.
"""

from fedsim.blocks.identity.kinds import identity_of
from fedsim.blocks.identity.packages import versions
from fedsim.blocks.identity.walker import ObjectIdentity

__all__ = ["ObjectIdentity", "identity_of", "versions"]
