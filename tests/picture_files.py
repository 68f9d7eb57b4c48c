"""Picture files of every kind, good and bad, and tiny networks."""

import struct
import zlib

import numpy as np
from PIL import Image

from kinrank._onnx_file import OnnxGraph

RED, BLUE = (200, 30, 10), (10, 40, 220)


def two_halves(width=40, height=30):
    """Red on the left, blue on the right."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2], pixels[:, width // 2 :] = RED, BLUE
    return Image.fromarray(pixels)


def png_with_size(width, height):
    """A PNG file of a few bytes that claims to be of any size: a decompression bomb."""

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * 1000)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def write_bad(folder):
    """Files that cannot be read -> what is said of them."""
    two_halves(200, 200).save(folder / "good.jpg")
    whole = (folder / "good.jpg").read_bytes()
    (folder / "truncated.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "text.jpg").write_text("this is no picture")
    (folder / "zero.png").write_bytes(b"")
    (folder / "bomb.png").write_bytes(png_with_size(50_000, 50_000))
    (folder / "just_too_large.png").write_bytes(png_with_size(14_000, 13_000))
    ramp = np.add.outer(np.arange(300), np.arange(300)).astype(np.uint8)
    Image.fromarray(ramp).save(folder / "broken.png")
    broken = bytearray((folder / "broken.png").read_bytes())
    broken[200:400] = b"\xff" * 200
    (folder / "broken.png").write_bytes(bytes(broken))
    (folder / "good.jpg").unlink()
    return {
        "bomb.png": "decompression bomb",
        "broken.png": "broken data",
        "text.jpg": "not a picture",
        "truncated.jpg": "truncated",
        "just_too_large.png": "decompression bomb",
        "zero.png": "an empty file",
    }


def write_odd(folder):
    """Files of unusual kinds that can be read."""
    image = two_halves()
    image.convert("L").save(folder / "grey.png")
    image.convert("1").save(folder / "bits.png")
    image.quantize(8).save(folder / "palette.png")
    image.convert("CMYK").save(folder / "cmyk.jpg", quality=95)
    image.convert("YCbCr").save(folder / "ycbcr.jpg", quality=95)
    image.save(folder / "rgb.bmp")
    image.save(folder / "rgb.webp", lossless=True)
    deep = (np.asarray(image.convert("L")).astype(np.uint16) * 257).copy()
    Image.fromarray(deep).save(folder / "grey16.png")
    Image.fromarray(deep.astype(np.int32)).save(folder / "grey32.tif")
    Image.fromarray((deep / 65535).astype(np.float32)).save(folder / "float.tif")
    transparent = image.convert("RGBA")
    transparent.putalpha(255)
    transparent.save(folder / "rgba.png")
    frames = [image, image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
    frames[0].save(folder / "animated.gif", save_all=True, append_images=frames[1:], duration=10)


def tiny_network(path, *, batch="n", side=None, channels_last=False):
    """Two maps, the mean of the channels and twice it, and their maximum as a vector.

    ``maps`` is 1x1 convolutions with known weights; ``vector`` its global maximum.
    """
    graph = OnnxGraph("tiny")
    weight = np.array([[1, 1, 1], [2, 2, 2]], np.float32).reshape(2, 3, 1, 1) / 3
    high, wide = (side, side) if side else ("height", "width")
    shape = (batch, high, wide, 3) if channels_last else (batch, 3, high, wide)
    inner = graph.node("Transpose", ("x",), "nchw", perm=(0, 3, 1, 2)) if channels_last else "x"
    graph.node("Conv", (inner, graph.weight("w", weight)), "maps", kernel_shape=(1, 1))
    graph.node("Relu", ("maps",), "positive")
    last = "positive"
    if channels_last:
        last = graph.node("Transpose", ("positive",), "nhwc", perm=(0, 2, 3, 1))
    graph.node("GlobalMaxPool", ("positive",), "peak")
    graph.node("Flatten", ("peak",), "vector", axis=1)
    sizes = (batch, high, wide, 2) if channels_last else (batch, 2, high, wide)
    path.write_bytes(graph.model({"x": shape}, {last: sizes}))
    return path
