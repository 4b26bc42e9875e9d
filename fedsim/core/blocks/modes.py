"""Blocks with a mode: a key that sets the values of others."""

from collections.abc import Mapping

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from fedsim.core.blocks.spec import Spec


class Moded(Spec):
    """A block whose mode sets the values of other keys, where the block does not give them.

    What the mode sets is not written, so that another mode, such as that of an override, sets its
    own.
    """

    @classmethod
    def implied(cls, block: Mapping[str, object]) -> Mapping[str, object]:
        """Return what the mode of a block sets, by key.

        Args:
            block: as it is given, or as it is written; nothing of it has been validated.

        Returns:
            Values in the notation in which a block is written, such as "1 s" and not "1000 ms".
        """
        raise NotImplementedError

    @model_validator(mode="before")
    @classmethod
    def _fill_in_implied(cls, block: object) -> object:
        return {**cls.implied(block), **block} if isinstance(block, Mapping) else block

    @model_serializer(mode="wrap")
    def _without_implied(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        written: dict[str, object] = write(self)
        implied = self.implied(written)
        return {
            key: value
            for key, value in written.items()
            if key not in implied or value != implied[key]
        }
