"""ONNX files without the package `onnx`: write a network, read names, add an output.

They are protocol buffers. A message is a row of fields, each a key (number * 8 + kind) and a value:
a varint (kind 0), eight bytes (1), a length and as many bytes (2), or four bytes (5). Fields may
repeat, and a message given in two pieces is the two of them joined, which is how a network gets
another output. The numbers of the fields are those of the format's public definition (onnx.proto,
version 8 of the intermediate representation).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

OPSET = 13
IR_VERSION = 8
_FLOAT = 1
_VARINT = 0
_BYTES = 2
_FIXED = {1: 8, 5: 4}  # kind -> bytes
_MAX_SHIFT = 63
# Numbers of fields: ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto.
_MODEL = {"ir_version": 1, "producer_name": 2, "graph": 7, "opset_import": 8}
_GRAPH = {"node": 1, "name": 2, "initializer": 5, "input": 11, "output": 12}
_NODE = {"input": 1, "output": 2, "name": 3, "op_type": 4, "attribute": 5}
_ATTRIBUTE = {"name": 1, "i": 3, "s": 4, "ints": 8, "type": 20}
_ATTRIBUTE_TYPES = {"i": 2, "s": 3, "ints": 7}
_TENSOR = {"dims": 1, "data_type": 2, "name": 8, "raw_data": 9}

Attribute = int | str | Sequence[int]
Shapes = Mapping[str, Sequence[int | str]]


@dataclass
class OnnxGraph:
    """A network in the making: nodes in order of computation, and weights by name."""

    name: str
    nodes: list[bytes] = field(default_factory=list)
    weights: list[bytes] = field(default_factory=list)

    def weight(self, name: str, values: npt.NDArray[Any]) -> str:
        """Add an array of weights, kept as float32; returns its name."""
        raw = np.ascontiguousarray(values, "<f4").tobytes()
        dims = values.shape
        tensor = _message(_TENSOR, dims=dims, data_type=_FLOAT, name=name, raw_data=raw)
        self.weights.append(tensor)
        return name

    def node(self, kind: str, inputs: Iterable[str], output: str, **attributes: Attribute) -> str:
        """Add an operation; returns the name of its output."""
        named = {"input": list(inputs), "output": output, "name": output, "op_type": kind}
        attribute = [_attribute(*pair) for pair in attributes.items()]
        self.nodes.append(_message(_NODE, **named, attribute=attribute))
        return output

    def model(self, inputs: Shapes, outputs: Shapes) -> bytes:
        """The file: the graph with its inputs and outputs, name -> sizes or their names."""
        graph = _message(
            _GRAPH,
            node=self.nodes,
            name=self.name,
            initializer=self.weights,
            input=[_value(*pair) for pair in inputs.items()],
            output=[_value(*pair) for pair in outputs.items()],
        )
        opset = encode(2, OPSET)  # of the operators without a domain
        return _message(
            _MODEL, ir_version=IR_VERSION, producer_name="kinrank", graph=graph, opset_import=opset
        )


def layer_names(model: bytes) -> list[str]:
    """The names of all values that the network computes, in order; a ValueError if it is none."""
    names = []
    for graph in _messages(memoryview(model), _MODEL["graph"]):
        for node in _messages(graph, _GRAPH["node"]):
            names += [bytes(name).decode() for name in _messages(node, _NODE["output"])]
    return names


def with_output(model: bytes, name: str) -> bytes:
    """The same network with the value ``name`` as one more output."""
    return model + encode(_MODEL["graph"], encode(_GRAPH["output"], encode(1, name)))


def varint(number: int) -> bytes:
    """A whole number, seven bits to a byte, the lowest first."""
    number &= (1 << 64) - 1  # negative numbers are written as 64 bits
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode(number: int, value: int | str | bytes) -> bytes:
    """One field: a whole number, text, or bytes (a message is bytes too)."""
    if isinstance(value, int):
        return varint(number << 3 | _VARINT) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | _BYTES) + varint(len(raw)) + raw


def decode(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message, (number, value); a ValueError if the bytes are not a message."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _read_varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _read_varint(message, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise ValueError(f"a field of kind {kind}")
        if at + size > len(message):
            raise ValueError("a field that is longer than the message")
        yield key >> 3, message[at : at + size]
        at += size


def _messages(message: memoryview, number: int) -> Iterator[memoryview]:
    """The values of the fields ``number`` that are bytes."""
    return (v for n, v in decode(message) if n == number and isinstance(v, memoryview))


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message) or shift > _MAX_SHIFT:
            raise ValueError("a number without an end")
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def _message(numbers: Mapping[str, int], **values: Any) -> bytes:
    """A message of named fields, in this order; a list or tuple is a field that repeats."""
    repeated = {n: v if isinstance(v, (list, tuple)) else [v] for n, v in values.items()}
    return b"".join(encode(numbers[name], value) for name in repeated for value in repeated[name])


def _attribute(name: str, value: Attribute) -> bytes:
    kind = "i" if isinstance(value, int) else "s" if isinstance(value, str) else "ints"
    return _message(_ATTRIBUTE, name=name, **{kind: value}, type=_ATTRIBUTE_TYPES[kind])


def _value(name: str, shape: Sequence[int | str]) -> bytes:
    """ValueInfoProto: a name, and a tensor type of float32 with its sizes."""
    sizes = b"".join(encode(1, encode(1 if isinstance(s, int) else 2, s)) for s in shape)
    tensor = encode(1, _FLOAT) + encode(2, sizes)
    return encode(1, name) + encode(2, encode(1, tensor))
