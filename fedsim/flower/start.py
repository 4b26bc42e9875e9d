"""What a Flower app begins with: the app itself, and the model that all start from."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common import GetParametersIns, parameters_to_ndarrays
from flwr.compat.common.recorddict_compat import (
    arrayrecord_to_parameters,
    getparametersins_to_recorddict,
)
from numpy.typing import NDArray

from fedsim.errors import DataError, Failed
from fedsim.flower.block import AppBlock
from fedsim.flower.calls import called
from fedsim.flower.contents import numpy_of
from fedsim.flower.layout import Arrays
from fedsim.flower.program import context_of, node_of


def client_app_of(app: AppBlock) -> tuple[ClientApp, bool]:
    """Return the app, and whether its clients are of the older interface."""
    given = type(app).client_app
    if isinstance(given, ClientApp):
        # An app does not say which it is; what it was made with decides how it is called.
        return given, getattr(given, "_call", None) is not None
    if callable(given):
        return ClientApp(client_fn=given), True
    text = f"{type(app).__name__} has no client_app; it is a ClientApp, or a client_fn(context)"
    raise DataError("loss.kind", text)


def start_of(app: AppBlock, client_app: ClientApp, clients: int, *, legacy: bool) -> Arrays:
    """Return the model to begin with, by name."""
    given = app.initial_arrays()
    if given is None and not legacy:
        text = f"{app.kind} does not say the model to start from; give it initial_arrays"
        raise DataError("loss.kind", text)
    if given is None:
        given = _parameters(app, client_app, clients)
    if isinstance(given, ArrayRecord):
        given = numpy_of(given)
    named = given.items() if isinstance(given, Mapping) else enumerate(given)
    arrays = {str(name): np.array(array) for name, array in named}
    return (
        dict(zip(map(str, range(len(arrays))), arrays.values(), strict=True)) if legacy else arrays
    )


def _parameters(app: AppBlock, client_app: ClientApp, clients: int) -> list[NDArray[Any]]:
    """Return what client 0 says of its parameters."""
    context = context_of(app, 0, clients)
    asked = getparametersins_to_recorddict(GetParametersIns({}))

    def call() -> RecordDict:
        message = Message(asked, dst_node_id=node_of(0), message_type="get_parameters")
        return client_app(message, context).content

    try:
        content = called("get_parameters of client 0", 0, call, app.limit)
    except Failed as error:
        raise DataError("loss.kind", str(error)) from None
    record = next(iter(content.array_records.values()))
    return parameters_to_ndarrays(arrayrecord_to_parameters(record, keep_input=True))
