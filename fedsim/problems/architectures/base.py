"""Base class of architectures: a frozen block that builds a PyTorch module.

PyTorch is imported only when a module is built.
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
    """Values computed from a block, which affect neither its equality nor its copies.

    They belong to one instance. A cache keyed by the block's fields would be wrong, since
    user-defined code may depend on other things.
    """

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        """Return whether `other` has this type; all instances count as equal."""
        return isinstance(other, Kept)

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, ()


class Architecture(Spec):
    """A network, as a block: builds a module for rows with given numbers of features and outputs.

    The trainable parameters of the module are the model: one flat vector in the order of
    `named_parameters()`. Frozen parameters (`requires_grad` is false) and buffers are the same at
    every node. They are not trained and never sent.
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
        """Whether outputs are predictions of targets; otherwise they are the losses of the rows."""
        return True

    @property
    def sampled(self) -> Sequence[int]:
        """The rows whose operations are counted, if rows are numbers of items and not features."""
        return ()

    _kept: "Kept" = PrivateAttr(default_factory=Kept)

    @property
    def kept(self) -> "Kept":
        """The values computed from this very block, for as long as it exists."""
        return self._kept

    @abstractmethod
    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the module, whose parameters are drawn from PyTorch's own seeded stream.

        It maps a batch of shape (b, *self.shape(features)) to outputs, shape (b, outputs).

        Args:
            features: the number of features per row.
            outputs: the number of classes, or 1.

        Raises:
            DataError: the module cannot be built for these numbers.
        """

    def shape(self, features: int) -> tuple[int, ...]:
        """Return the shape in which the features of a row are passed to the module.

        Raises:
            DataError: this number of features does not fill such a shape.
        """
        return (features,)

    def check(self, X: Features, outputs: int) -> None:
        """Check that rows can be passed to the module; by default only their number of features.

        Args:
            X: features, shape (n, d), dense.
            outputs: the number of classes, or 1.

        Raises:
            DataError: they cannot be passed.
        """

    def row_losses(self, outputs: "Tensor", targets: "Tensor", criterion: str) -> "Tensor":
        """Return the loss of each row, shape (b,), or their mean, shape ().

        Args:
            outputs: the outputs of the module, shape (b, outputs).
            targets: classes, shape (b,), whole numbers from 0; or numbers for `squared`, shape
                (b,).
            criterion: the loss to compute: `squared` or cross entropy.
        """
        from torch.nn import functional  # takes 1 s, and is an extra

        if criterion == "squared":
            return 0.5 * (outputs.reshape(targets.shape) - targets).square()
        return functional.cross_entropy(outputs, targets, reduction="none")

    @property
    def has_own_loss(self) -> bool:
        """Whether the loss of a row is simply that of the criterion."""
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
        """Return the rows' mean loss if it is computed directly; None if only row by row.

        It has to equal the mean of `row_losses`.
        """
        return None

    def singled_out(self, outputs: int) -> Sequence[int]:
        """Return classes that the loss treats specially, such as an ignored class."""
        return ()
