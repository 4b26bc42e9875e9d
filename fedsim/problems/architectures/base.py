"""What every architecture is: a frozen block that makes a PyTorch module.

PyTorch is loaded where a module is made, and not before.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import PrivateAttr

from fedsim.blocks.spec import Spec
from fedsim.problems.samples import Features

if TYPE_CHECKING:
    from torch import Tensor, nn


class Kept(dict[object, Any]):
    """Something computed of a block; blocks are equal whatever was computed, and copies have none.

    It is not kept by what the block says: code of a user's own may read what is not in its keys.
    """

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        """Return whether other is of this sort."""
        return isinstance(other, Kept)

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, ()


class Architecture(Spec):
    """A network, as a block: what its module is for rows of some features and some outputs.

    The parameters that the module would train are the model, one flat vector in the order of
    `named_parameters()`. All else that it holds, parameters that are frozen (`requires_grad` is
    false) and buffers, is the same at every node, is not trained, and never travels.
    """

    source: ClassVar[str]
    """Where the architecture is from, for people to read."""

    tokens: ClassVar[bool] = False
    """Whether it takes whole numbers, such as those of characters, in place of real ones."""

    kind: str

    @property
    def whole_numbers(self) -> bool:
        """Whether its features are whole numbers."""
        return self.tokens

    _kept: "Kept" = PrivateAttr(default_factory=Kept)

    @property
    def kept(self) -> "Kept":
        """What was computed of this very block, for as long as there is it."""
        return self._kept

    @abstractmethod
    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the module, its parameters drawn from PyTorch's own stream, which is seeded.

        It maps a batch of shape (b, *self.shape(features)) to outputs, shape (b, outputs).

        Args:
            features: numbers a row.
            outputs: how many classes there are, or 1.

        Raises:
            DataError: it cannot be made for these.
        """

    def shape(self, features: int) -> tuple[int, ...]:
        """Return the shape that the features of a row are given to the module in.

        Raises:
            DataError: so many do not fill one.
        """
        return (features,)

    def check(self, X: Features, outputs: int) -> None:
        """See to it that rows can be given to the module; here that is all that `shape` asks for.

        Args:
            X: features, shape (n, d), dense.
            outputs: how many classes there are, or 1.

        Raises:
            DataError: they cannot.
        """

    def row_losses(self, outputs: "Tensor", targets: "Tensor", criterion: str) -> "Tensor":
        """Return the loss of each row, shape (b,), or their mean, shape ().

        Args:
            outputs: of the module.
            targets: classes, shape (b,), whole numbers from 0; or for `squared` numbers, (b,).
            criterion: what the loss was asked for.
        """
        from torch.nn import functional  # noqa: PLC0415 - takes 1 s, and is an extra

        if criterion == "squared":
            return 0.5 * (outputs.reshape(targets.shape) - targets).square()
        return functional.cross_entropy(outputs, targets, reduction="none")

    def mean_loss(
        self,
        outputs: "Tensor",  # noqa: ARG002 - one that takes a mean of its own needs them
        targets: "Tensor",  # noqa: ARG002 - likewise
        criterion: str,  # noqa: ARG002 - likewise
    ) -> "Tensor | None":
        """Return the mean of some rows' losses by a way of its own, which has to be `row_losses`'.

        None where there is no other way.
        """
        return None

    def singled_out(self, outputs: int) -> Sequence[int]:  # noqa: ARG002 - see `mean_loss`
        """Return classes that the loss treats in a way of their own: one that it ignores."""
        return ()
