"""The block of a Flower app, which is a problem."""

from pathlib import Path

from fedsim.flower.block import AppBlock
from fedsim.flower.problem import FlowerProblem, problem_of


class App(AppBlock):
    """The clients of a Flower app, which train by their own code.

    A subclass has the app itself, and a kind by which scenarios name it:

        class Digits(App):
            kind: Literal["digits"] = "digits"
            client_app: ClassVar = app

            def initial_arrays(self):
                return Net().state_dict()
    """

    def problem(self, clients: int | None, seed: int, folder: Path) -> FlowerProblem:  # noqa: ARG002
        """Return what the clients minimise.

        Raises:
            DataError: the app cannot be used so.
        """
        return problem_of(self, clients, seed)
