"""Packing: encoders of a sender's vectors for the wire, and the transport of messages."""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from fedsim.algorithms.messages import register_messages
from fedsim.core.ports import ClientId, Meaning, Packer
from fedsim.core.streams import stream
from fedsim.protocol.privacy.wrapper import private_types
from fedsim.protocol.reporting import message_types
from fedsim.protocol.transport import VALUES, ByteTransport, Carry, Transport, ValueTransport
from fedsim.scenario import Compression, Scenario
from fedsim.scenario.building.fit_messages import FIT_MESSAGES
from fedsim.scenario.building.inputs import Findings
from fedsim.wire import (
    PACKERS,
    ByClient,
    Compressor,
    Contract,
    Contractive,
    ErrorFeedback,
    ErrorFeedback21,
    Identity,
    Layered,
    Plain,
    ValueFormat,
)

_UNUSED = np.random.default_rng(0)  # for packers without random draws, as creating a stream is slow
Shapes = tuple[tuple[int, ...], ...]
"""The shapes of a model's layers, in order."""

_UNSAID: Mapping[str, Meaning] = MappingProxyType({})


def packer(
    spec: Compression,
    form: ValueFormat,
    seed: int,
    sender: ClientId,
    field: str = "",
    number: int = 0,
    receiver: ClientId | None = None,
    *,
    meanings: Mapping[str, Meaning] = _UNSAID,
    unbiased: bool = False,
    layers: Shapes = (),
    by_client: bool = False,
) -> Packer:
    """Return the packer of one field; random compressors draw from the stream "compressor".

    Args:
        spec: the compressor, and the kind of error feedback.
        form: the encoding of a value.
        seed: the seed of the run.
        sender: the client, or the server.
        field: the name of the vector.
        number: the number of the field, in the order of first packing.
        receiver: the receiver, if every receiver has its own packer.
        meanings: the meanings of fields. Exact fields are not compressed. The method itself stores
            the errors of differences; there, as under EF21, an unbiased compressor is made
            contractive.
        unbiased: whether differences have to be unbiased, and so keep their compressor.
        layers: the shapes of the model's layers.
        by_client: whether receivers may have different states under EF21.
    """
    meaning = meanings.get(field)
    if meaning is Meaning.EXACT:
        return _exactly(form)
    kept = meaning is Meaning.DIFFERENCE and not unbiased
    make: type[Plain | ErrorFeedback | ErrorFeedback21 | ByClient]
    make = Contractive if kept else PACKERS[spec.error_feedback]
    if make is ErrorFeedback21 and by_client:
        make = ByClient
    exact = isinstance(spec.compressor, Identity)
    if exact and issubclass(make, Plain):
        return _exactly(form)
    suffix = () if receiver is None else ("to", receiver)
    name = ("compressor", sender, *suffix, *([field] if field else []))
    rng = _UNUSED if exact else stream(seed, *name)
    compressor = _compressor(spec, layers)
    return make(compressor, form, rng, in_full=spec.if_longer == "plain", number=number)


@lru_cache
def _compressor(spec: Compression, layers: Shapes) -> Compressor:
    """Return the compressor of a link: that of the scenario, or one per layer."""
    layered = spec.by_layer and layers
    return Layered(of=spec.compressor, shapes=layers) if layered else spec.compressor


@lru_cache
def _exactly(form: ValueFormat) -> Packer:
    """Return a packer of uncompressed vectors; it has no state, so all senders share it."""
    return Plain(Identity(), form, _UNUSED)


def promise(spec: Compression, dimension: int, layers: Shapes = ()) -> Contract:
    """Return the contract of a link; feedback makes an unbiased compressor contractive."""
    contract = _compressor(spec, layers).contract(dimension)
    if contract.kind == "unbiased" and spec.error_feedback != "none":
        return Contract("contractive", contract.delta)
    return contract


# Select the message transport: in-memory values or encoded bytes.


def choose_transport(scenario: Scenario, carry: Carry, findings: Findings) -> Transport:
    """Return the transport of a method's messages; values if it cannot send bytes.

    Args:
        scenario: the scenario, with method and compressors.
        carry: "values" or "bytes".
        findings: collects a method whose messages cannot be encoded as bytes.
    """
    method, links = scenario.algorithm, (scenario.wire.up, scenario.wire.down)
    policy, data = scenario.participation, scenario.problem.data
    if scenario.secrecy is not None:
        if carry == "bytes":
            text = f"got {scenario.secrecy.kind}, whose messages have no encoding as bytes"
            findings.add("secrecy.kind", f"{text}; run it with carry: values")
        return ValueTransport(updates=any(link.error_feedback == "ef21" for link in links))
    more = FIT_MESSAGES if data is not None and data.exchanges_fit else ()
    if carry == "values":
        updates = any(link.error_feedback == "ef21" for link in links)
        own = private_types(method.messages, scenario.privacy)
        known = message_types(own, policy) if own else None
        return ValueTransport(None if known is None else (*known, *more), updates=updates)
    try:
        own = private_types(register_messages(type(method)), scenario.privacy)
        known = message_types(own, policy)
        return ByteTransport((*known, *more))
    except TypeError as error:
        findings.add("algorithm.kind", f"messages cannot be encoded as bytes: {error}")
        return VALUES
