"""Blocks with a mode: a key whose value sets defaults for other keys."""

from collections.abc import Mapping

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from fedsim.core.blocks.spec import Spec


class Moded(Spec):
    """A block whose mode sets the keys that the block omits.

    These values are not written to files. An override that changes the mode therefore also changes
    them.
    """

    @classmethod
    def implied(cls, block: Mapping[str, object]) -> Mapping[str, object]:
        """Return the values that the mode of a block sets, by key.

        Args:
            block: the block, as read or as about to be written. Nothing in it has been validated.

        Returns:
            Values in the notation in which fedsim writes a block, such as "1 s" and not "1000 ms":
            they are compared with written values.
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
