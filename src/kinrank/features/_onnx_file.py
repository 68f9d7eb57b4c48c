"""ONNX files without the package `onnx`: write a network, read names, add an output.

The numbers are those of the fields in the format's public definition (onnx.proto, version 8 of the
intermediate representation).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kinrank.features import _protobuf as proto

OPSET, IR_VERSION = 13, 8
_FLOAT = 1
# Numbers of fields: ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto, ValueInfoProto.
_MODEL = {"ir_version": 1, "producer_name": 2, "graph": 7, "opset_import": 8}
_GRAPH = {"node": 1, "name": 2, "initializer": 5, "input": 11, "output": 12}
_NODE = {"input": 1, "output": 2, "name": 3, "op_type": 4, "attribute": 5}
_ATTRIBUTE = {"name": 1, "i": 3, "s": 4, "ints": 8, "type": 20}
_TENSOR = {"dims": 1, "data_type": 2, "name": 8, "raw_data": 9}
_ATTRIBUTE_INT, _ATTRIBUTE_STRING, _ATTRIBUTE_INTS = 2, 3, 7

Attribute = int | str | Sequence[int]


@dataclass
class OnnxGraph:
    """A network in the making: nodes in order of computation, and weights by name."""

    name: str
    nodes: list[bytes] = field(default_factory=list)
    weights: list[bytes] = field(default_factory=list)

    def weight(self, name: str, values: npt.NDArray[np.float32]) -> str:
        """Add an array of weights; returns its name."""
        shape = b"".join(proto.field(_TENSOR["dims"], int(size)) for size in values.shape)
        raw = np.ascontiguousarray(values, "<f4").tobytes()
        self.weights.append(
            shape
            + proto.field(_TENSOR["data_type"], _FLOAT)
            + proto.field(_TENSOR["name"], name)
            + proto.field(_TENSOR["raw_data"], raw)
        )
        return name

    def node(self, kind: str, inputs: Iterable[str], output: str, **attributes: Attribute) -> str:
        """Add an operation; returns the name of its output."""
        parts = [proto.field(_NODE["input"], name) for name in inputs]
        parts.append(proto.field(_NODE["output"], output))
        parts.append(proto.field(_NODE["name"], output))
        parts.append(proto.field(_NODE["op_type"], kind))
        for name, value in attributes.items():
            parts.append(proto.field(_NODE["attribute"], _attribute(name, value)))
        self.nodes.append(b"".join(parts))
        return output

    def model(
        self,
        inputs: Mapping[str, Sequence[int | str]],
        outputs: Mapping[str, Sequence[int | str]],
    ) -> bytes:
        """The file: the graph with its inputs and outputs, name -> sizes or their names."""
        parts = [proto.field(_GRAPH["node"], node) for node in self.nodes]
        parts.append(proto.field(_GRAPH["name"], self.name))
        parts += [proto.field(_GRAPH["initializer"], weight) for weight in self.weights]
        for kind, values in (("input", inputs), ("output", outputs)):
            parts += [proto.field(_GRAPH[kind], _value(*pair)) for pair in values.items()]
        version = proto.field(2, OPSET)  # of the operators without a domain
        return (
            proto.field(_MODEL["ir_version"], IR_VERSION)
            + proto.field(_MODEL["producer_name"], "kinrank")
            + proto.field(_MODEL["graph"], b"".join(parts))
            + proto.field(_MODEL["opset_import"], version)
        )


def layer_names(model: bytes) -> list[str]:
    """The names of all values that the network computes, in order.

    Raises
    ------
    ValueError
        If the bytes are not a network.
    """
    names = []
    for graph in proto.messages(memoryview(model), _MODEL["graph"]):
        for node in proto.messages(graph, _GRAPH["node"]):
            names += [bytes(name).decode() for name in proto.messages(node, _NODE["output"])]
    return names


def with_output(model: bytes, name: str) -> bytes:
    """The same network with the value ``name`` as one more output."""
    output = proto.field(_GRAPH["output"], proto.field(1, name))
    return model + proto.field(_MODEL["graph"], output)


def _attribute(name: str, value: Attribute) -> bytes:
    named = proto.field(_ATTRIBUTE["name"], name)
    if isinstance(value, int):
        kind, content = _ATTRIBUTE_INT, proto.field(_ATTRIBUTE["i"], value)
    elif isinstance(value, str):
        kind, content = _ATTRIBUTE_STRING, proto.field(_ATTRIBUTE["s"], value)
    else:
        kind = _ATTRIBUTE_INTS
        content = b"".join(proto.field(_ATTRIBUTE["ints"], number) for number in value)
    return named + content + proto.field(_ATTRIBUTE["type"], kind)


def _value(name: str, shape: Sequence[int | str]) -> bytes:
    """ValueInfoProto: a name, and a tensor type of float32 with its sizes."""
    sizes = b"".join(proto.field(1, proto.field(1 if isinstance(s, int) else 2, s)) for s in shape)
    tensor = proto.field(1, _FLOAT) + proto.field(2, sizes)
    return proto.field(1, name) + proto.field(2, proto.field(1, tensor))
