"""Base class of architectures: a frozen block that builds a PyTorch module.

PyTorch is imported when a module is built, not before.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import PrivateAttr

from fedsim.core.blocks.spec import Spec
from fedsim.problems.samples import Features

if TYPE_CHECKING:
    from torch import Tensor, nn


class Kept(dict[object, Any]):
    """A value computed from a block; blocks are equal whatever it is, and copies have none.

    It is not cached by the block's fields: user-defined code may read what is not among them.
    """

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        """Return whether `other` is of this type."""
        return isinstance(other, Kept)

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, ()


class Architecture(Spec):
    """A network, as a block: builds a module for rows with given numbers of features and outputs.

    The parameters that the module would train are the model, one flat vector in the order of
    `named_parameters()`. All else that it holds, parameters that are frozen (`requires_grad` is
    false) and buffers, is the same at every node, is not trained, and never travels.
    """

    source: ClassVar[str]
    """Human-readable source of the architecture."""

    tokens: ClassVar[bool] = False
    """Whether features are integers, such as character indices, rather than real numbers."""

    kind: str

    @property
    def whole_numbers(self) -> bool:
        """Whether its features are integers."""
        return self.tokens

    @property
    def predicts(self) -> bool:
        """Whether outputs are predictions of targets, rather than the losses of the rows."""
        return True

    @property
    def sampled(self) -> Sequence[int]:
        """The rows whose operations are counted, where a row is the number of an item."""
        return ()

    _kept: "Kept" = PrivateAttr(default_factory=Kept)

    @property
    def kept(self) -> "Kept":
        """The value computed from this very block, for as long as the block exists."""
        return self._kept

    @abstractmethod
    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the module, its parameters drawn from PyTorch's own seeded stream.

        It maps a batch of shape (b, *self.shape(features)) to outputs, shape (b, outputs).

        Args:
            features: numbers per row.
            outputs: how many classes there are, or 1.

        Raises:
            DataError: the module cannot be built for these.
        """

    def shape(self, features: int) -> tuple[int, ...]:
        """Return the shape in which the features of a row are passed to the module.

        Raises:
            DataError: that many features do not fill such a shape.
        """
        return (features,)

    def check(self, X: Features, outputs: int) -> None:
        """Check that rows can be passed to the module; by default only what `shape` checks.

        Args:
            X: features, shape (n, d), dense.
            outputs: how many classes there are, or 1.

        Raises:
            DataError: they cannot be.
        """

    def row_losses(self, outputs: "Tensor", targets: "Tensor", criterion: str) -> "Tensor":
        """Return the loss of each row, shape (b,), or their mean, shape ().

        Args:
            outputs: the number of outputs of the module.
            targets: classes, shape (b,), whole numbers from 0; or for `squared` numbers, (b,).
            criterion: the loss to compute.
        """
        from torch.nn import functional  # takes 1 s, and is an extra

        if criterion == "squared":
            return 0.5 * (outputs.reshape(targets.shape) - targets).square()
        return functional.cross_entropy(outputs, targets, reduction="none")

    @property
    def has_own_loss(self) -> bool:
        """Whether the loss of a row is that of the criterion alone."""
        handed = getattr(self, "_handed", None)  # of a module that was passed in
        if handed is not None:
            return handed.loss is None and handed.wrap is None
        return type(self).row_losses is Architecture.row_losses

    def mean_loss(
        self,
        outputs: "Tensor",
        targets: "Tensor",
        criterion: str,
    ) -> "Tensor | None":
        """Return the rows' mean loss computed directly; it has to equal the mean of `row_losses`.

        None if the loss is only computed row by row.
        """
        return None

    def singled_out(self, outputs: int) -> Sequence[int]:
        """Return classes that the loss treats specially, such as an ignored class."""
        return ()
