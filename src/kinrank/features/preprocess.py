"""What a network wants to see: size, crop, range, mean, channel order. A small description.

The description can lie next to a model (``net.onnx``, ``net.json``), be one of the presets, or be
given by options; every field left out has the value of ``Preprocessing()``, which is that of most
networks trained on ImageNet.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kinrank.errors import FileFormatError, InvalidInputError, UnknownNameError
from kinrank.options import check_options
from kinrank.reading import read_json, reading
from kinrank.validation import check_float, check_int

Size = tuple[int, int]
Box = tuple[float, float, float, float]
Three = tuple[float, float, float]

MAX_SIDE = 16384
MAX_INPUT_PIXELS = 1 << 26  # 64 million: what a network gets, not what a file may hold


def check_side(name: str, size: Any) -> tuple[int, ...] | int | None:
    """A height and a width, or one number for both."""
    if not isinstance(size, (tuple, list)):
        return None if size is None else check_int(name, size, 1, MAX_SIDE)
    if len(size) != 2:
        raise InvalidInputError(f"`{name}` must be a height and a width, got {size!r}.")
    return tuple(check_int(name, side, 1, MAX_SIDE) for side in size)


def check_three(name: str, values: Any) -> tuple[float, ...]:
    """A number for each of red, green and blue."""
    if not isinstance(values, (tuple, list)) or len(values) != 3:
        raise InvalidInputError(f"`{name}` must be three numbers, got {values!r}.")
    return tuple(check_float(name, value, -1e6, 1e6) for value in values)


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """From a picture to the input of a network: (pixel / 255 * pixel_max - mean) / std.

    Parameters
    ----------
    size : height and width, or one number for both; None with resize="none"
    resize : "stretch" to ``size``; "shortest" or "longest", the side that gets ``size`` while
        proportions stay (longest never enlarges, as is usual in retrieval); "none"
    crop : height and width cut out of the middle afterwards; None for all of it
    filter : how pixels are interpolated, antialiased when shrinking
    pixel_max : what a white pixel is before mean and std, 1 or 255
    mean, std : of red, green, blue, in this order whatever ``channels`` says
    channels : "rgb", or "bgr" as OpenCV has them
    layout : "nchw", or "nhwc" for networks that come from TensorFlow; maps come back so too
    layer : the value of the network to take; its first output if None
    """

    size: Size | int | None = field(default=224, metadata={"check": check_side})
    resize: Literal["stretch", "shortest", "longest", "none"] = "stretch"
    crop: Size | int | None = field(default=None, metadata={"check": check_side})
    filter: Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"] = "bilinear"
    pixel_max: float = field(default=1.0, metadata={"above": (0, math.inf)})
    mean: Three = field(default=(0.485, 0.456, 0.406), metadata={"check": check_three})
    std: Three = field(default=(0.229, 0.224, 0.225), metadata={"check": check_three})
    channels: Literal["rgb", "bgr"] = "rgb"
    layout: Literal["nchw", "nhwc"] = "nchw"
    layer: str | None = None

    def __post_init__(self) -> None:
        for name, value in check_options(type(self), vars(self)).items():
            object.__setattr__(self, name, value)
        if min(self.std) <= 0:
            raise InvalidInputError(f"`std` must be positive, got {self.std}.")
        if (self.size is None) != (self.resize == "none"):
            raise InvalidInputError(
                f"`size` must be given unless resize is 'none', got {self.size} "
                f"with resize={self.resize!r}."
            )
        if self.resize in ("shortest", "longest") and not isinstance(self.size, int):
            raise InvalidInputError(
                f"`size` must be one number for resize={self.resize!r}, got {self.size}."
            )
        if self.crop is not None and self.resize in ("stretch", "shortest"):
            crop = _pair(self.crop)
            whole = _pair(self.size)
            if crop[0] > whole[0] or crop[1] > whole[1]:
                raise InvalidInputError(f"`crop` must be at most `size` {whole}, got {crop}.")
        if self.layer is not None and not isinstance(self.layer, str):
            raise InvalidInputError(f"`layer` must be a name, got {self.layer!r}.")

    @property
    def input_size(self) -> Size | None:
        """Height and width that every picture ends up with; None where they differ."""
        if self.resize in ("none", "longest") or (self.resize == "shortest" and self.crop is None):
            return None
        return _pair(self.size if self.crop is None else self.crop)

    def geometry(self, width: int, height: int, scale: float = 1.0) -> tuple[Size, Box]:
        """What becomes of a picture of ``width`` x ``height`` pixels.

        Returns
        -------
        target : (width, height) of the result
        source : left, top, right, bottom of the part of the picture that it shows, in pixels
        """
        full_w, full_h = self._resized(width, height, scale)
        if self.crop is None:
            target = (full_w, full_h)
        else:
            crop_h, crop_w = (max(1, round(side * scale)) for side in _pair(self.crop))
            target = (min(crop_w, full_w), min(crop_h, full_h))
        if target[0] * target[1] > MAX_INPUT_PIXELS:
            raise InvalidInputError(
                f"the picture must give at most {MAX_INPUT_PIXELS:,} pixels, got "
                f"{target[0]} x {target[1]} from {width} x {height}."
            )
        left = round((full_w - target[0]) / 2)
        top = round((full_h - target[1]) / 2)
        across = width / full_w
        down = height / full_h
        right = (left + target[0]) * across
        bottom = (top + target[1]) * down
        return target, (left * across, top * down, min(width, right), min(height, bottom))

    def _resized(self, width: int, height: int, scale: float) -> Size:
        if self.resize == "stretch":
            high, wide = _pair(self.size)
            return max(1, round(wide * scale)), max(1, round(high * scale))
        short = min(width, height)
        long = max(width, height)
        if self.resize == "shortest":
            least = max(1, round(_pair(self.size)[0] * scale))
            sides = least, least * long // short  # rounded down, as torchvision does
        else:
            most = round(long * scale)
            if self.resize == "longest":
                most = min(most, round(_pair(self.size)[0] * scale))
            most = max(1, most)
            sides = max(1, round(most * short / long)), most
        return sides if width <= height else (sides[1], sides[0])

    def describe(self) -> dict[str, Any]:
        """The fields as plain data, for a JSON file."""
        return dataclasses.asdict(self)


FIELDS = tuple(item.name for item in dataclasses.fields(Preprocessing))

PRESETS: dict[str, dict[str, Any]] = {
    "imagenet": {"size": 256, "resize": "shortest", "crop": 224},
    "retrieval": {"size": 1024, "resize": "longest"},
    # torchreid and most person networks.
    "person": {"size": (256, 128), "resize": "stretch"},
    # fast-reid's exported networks subtract the mean themselves.
    "fast-reid": {
        "size": (256, 128),
        "resize": "stretch",
        "filter": "bicubic",
        "pixel_max": 255.0,
        "mean": (0.0,) * 3,
        "std": (1.0,) * 3,
    },
    # (x - 127) / 128, what the weights were trained with; ImageNet's mean costs several points.
    "efficientnet-lite": {
        "size": 224,
        "resize": "stretch",
        "filter": "bicubic",
        "pixel_max": 255.0,
        "mean": (127.0,) * 3,
        "std": (128.0,) * 3,
    },
}


def preset(name: str) -> Preprocessing:
    """The preprocessing of a preset."""
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return Preprocessing(**PRESETS[name])


def from_mapping(values: Mapping[str, Any], base: Preprocessing | None = None) -> Preprocessing:
    """``base``, or the default, with the fields of ``values`` in place of its own."""
    for name in values:
        if name not in FIELDS:
            raise UnknownNameError("preprocessing", name, FIELDS)
    fields: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}
    return dataclasses.replace(base or Preprocessing(), **fields)


def read_description(file: Path) -> dict[str, Any]:
    """The fields in a JSON file; ``preset`` may stand for those that it does not give itself."""
    what = "a description of a preprocessing"
    with reading(file, what):
        content = read_json(file, what)
        if not isinstance(content, dict):
            raise FileFormatError(f"{file} must be a JSON object, got {type(content).__name__}.")
        start = content.pop("preset", None)
        if start is not None and start not in PRESETS:
            raise UnknownNameError("preset", start, PRESETS)
        fields = {**PRESETS.get(start, {}), **content}
        from_mapping(fields)
    return fields


def _pair(size: Size | int | None) -> Size:
    assert size is not None
    return (size, size) if isinstance(size, int) else size
