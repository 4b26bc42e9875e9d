"""`identity_of`: a walk with the handlers of all types.

The handler of PyTorch is loaded only in a process that has loaded PyTorch itself; in others there
can be no tensors.
"""

import sys
from functools import lru_cache

from fedsim.blocks.identity import classes, code, containers
from fedsim.blocks.identity.walker import Library, ObjectIdentity, Unknown, Walk


def identity_of(*values: object) -> ObjectIdentity:
    """Return the identity of several objects together, in their order.

    Time and memory are linear in the size of the walked graph. No user-defined code is called.
    """
    walk = Walk(_library("torch" in sys.modules))
    try:
        walk.over([(str(number), value) for number, value in enumerate(values)])
    except Unknown as unknown:
        return ObjectIdentity(reason=f"{walk.place()}{unknown}")
    except Exception as error:  # noqa: BLE001 - objects may raise anything when they are looked at
        return ObjectIdentity(
            reason=f"{walk.place()}cannot be read: {type(error).__name__}: {error}"
        )
    return ObjectIdentity(walk.digest())


@lru_cache(maxsize=2)
def _library(torch_is_loaded: bool) -> Library:  # noqa: FBT001 - what the cache goes by
    kinds = (
        containers.open_container,
        code.open_node,
        classes.open_class,
        containers.open_array,
        classes.open_instance,
    )
    bases = {**containers.BASES, **containers.ARRAY_BASES}
    if not torch_is_loaded:
        return Library(kinds, bases, lambda _, attributes: attributes)
    from fedsim.blocks.identity import tensors  # noqa: PLC0415 - loads PyTorch

    return Library((tensors.open_node, *kinds), {**bases, **tensors.BASES}, tensors.attributes_of)
