import numpy as np
import pytest
from PIL import Image

from kinrank.features import Preprocessing
from kinrank.features.images import UnreadableError, large_files, read_image, to_input
from picture_files import BLUE, RED, two_halves, write_bad, write_odd

AS_IS = Preprocessing(size=None, resize="none", pixel_max=255, mean=(0,) * 3, std=(1,) * 3)


@pytest.fixture(autouse=True)
def quiet():
    with large_files():
        yield


def left_and_right(image):
    pixels = np.asarray(image).astype(int)
    return pixels[15, 5], pixels[15, -5]


def test_every_kind_of_file_becomes_rgb(tmp_path):
    write_odd(tmp_path)
    grey = [np.asarray(two_halves().convert("L"))[0, place] for place in (0, -1)]
    for file in sorted(tmp_path.iterdir()):
        image = read_image(file)
        assert (image.mode, image.size) == ("RGB", (40, 30)), file.name
        colours = [RED, BLUE]
        if file.stem.startswith(("grey", "float")):
            colours = [(value,) * 3 for value in grey]
        if file.stem == "bits":
            continue  # dithered
        for got, expected in zip(left_and_right(image), colours, strict=True):
            np.testing.assert_allclose(got, expected, atol=12, err_msg=file.name)


def test_sixteen_bits_are_scaled_and_not_cut(tmp_path):
    ramp = np.linspace(0, 65535, 64).astype(np.uint16).reshape(1, 64).repeat(8, axis=0)
    Image.fromarray(ramp).save(tmp_path / "ramp.png")
    pixels = np.asarray(read_image(tmp_path / "ramp.png"))[0, :, 0].astype(int)
    np.testing.assert_allclose(pixels, np.linspace(0, 255, 64), atol=1)


def test_transparent_parts_are_white(tmp_path):
    image = two_halves().convert("RGBA")
    image.putalpha(
        Image.fromarray(np.where(np.arange(40) < 20, 0, 255).astype(np.uint8)[None].repeat(30, 0))
    )
    image.save(tmp_path / "a.png")
    image.quantize(16).save(tmp_path / "b.png")
    for name in ("a.png", "b.png"):
        left, right = left_and_right(read_image(tmp_path / name))
        np.testing.assert_allclose(left, 255, atol=3)
        np.testing.assert_allclose(right, BLUE, atol=12)


def test_animated_files_show_their_first_frame(tmp_path):
    write_odd(tmp_path)
    left, _ = left_and_right(read_image(tmp_path / "animated.gif"))
    np.testing.assert_allclose(left, RED, atol=12)


def test_bad_files_are_said_to_be_bad(tmp_path):
    for name, why in write_bad(tmp_path).items():
        with pytest.raises(UnreadableError, match=why) as caught:
            read_image(tmp_path / name)
        assert str(caught.value)
        assert str(tmp_path) not in str(caught.value)
    with pytest.raises(UnreadableError, match="No such file"):
        read_image(tmp_path / "missing.jpg")
    with pytest.raises(UnreadableError, match="directory"):
        read_image(tmp_path)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(tmp_path, orientation):
    upright = two_halves(48, 32)
    how = Image.Transpose
    stored = {
        2: how.FLIP_LEFT_RIGHT, 3: how.ROTATE_180, 4: how.FLIP_TOP_BOTTOM, 5: how.TRANSPOSE,
        6: how.ROTATE_90, 7: how.TRANSVERSE, 8: how.ROTATE_270,
    }.get(orientation)  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = upright if stored is None else upright.transpose(stored)
    image.save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(np.asarray(read_image(tmp_path / "a.png")), np.asarray(upright))


def test_a_broken_exif_block_turns_nothing(tmp_path):
    two_halves().save(tmp_path / "a.jpg", exif=b"Exif\0\0MM\0*\0\0\0\xff")
    assert read_image(tmp_path / "a.jpg").size == (40, 30)


def test_boxes(tmp_path):
    two_halves().save(tmp_path / "a.png")
    cut = read_image(tmp_path / "a.png", (18.4, 2, 30.6, 12))
    assert cut.size == (13, 10)
    np.testing.assert_array_equal(np.asarray(cut)[0, 0], RED)
    np.testing.assert_array_equal(np.asarray(cut)[0, 5], BLUE)
    assert read_image(tmp_path / "a.png", (-5, -5, 500, 500)).size == (40, 30)
    with pytest.raises(UnreadableError, match=r"box .* lies outside of 40 x 30"):
        read_image(tmp_path / "a.png", (50, 0, 60, 10))


def test_boxes_are_those_of_the_upright_picture(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    two_halves().transpose(Image.Transpose.ROTATE_90).save(tmp_path / "a.png", exif=exif)
    cut = np.asarray(read_image(tmp_path / "a.png", (0, 0, 20, 30)))
    assert (cut == RED).all()


def test_large_jpeg_files_are_decoded_smaller(tmp_path):
    two_halves(1600, 1200).save(tmp_path / "a.jpg")
    want = Preprocessing(size=100)
    small = read_image(tmp_path / "a.jpg", want=want)
    assert small.size == (400, 300)  # a quarter is still at least twice what is wanted
    assert read_image(tmp_path / "a.jpg").size == (1600, 1200)
    values = [to_input(image, want) for image in (small, read_image(tmp_path / "a.jpg"))]
    assert np.abs(values[0] - values[1]).mean() < 0.02
    # What a box is cut from keeps its pixels.
    assert read_image(tmp_path / "a.jpg", (0, 0, 1600, 1200), want).size == (1600, 1200)


# The input of a network


def test_values_and_layout():
    image = two_halves(4, 2)
    plain = to_input(image, AS_IS)
    assert plain.shape == (3, 2, 4)
    assert plain.dtype == np.float32
    assert plain.flags.c_contiguous
    np.testing.assert_array_equal(plain[:, 0, 0], RED)
    bgr = Preprocessing(**{**AS_IS.describe(), "channels": "bgr"})
    np.testing.assert_array_equal(to_input(image, bgr)[:, 0, 0], RED[::-1])
    nhwc = Preprocessing(**{**AS_IS.describe(), "layout": "nhwc"})
    np.testing.assert_array_equal(to_input(image, nhwc), plain.transpose(1, 2, 0))


def test_mean_and_std_are_those_of_rgb_even_for_bgr():
    image = two_halves(4, 2)
    mean, std = (0.4, 0.5, 0.6), (0.1, 0.2, 0.3)
    expected = (np.array(RED) / 255 - mean) / std
    for channels, order in (("rgb", [0, 1, 2]), ("bgr", [2, 1, 0])):
        want = Preprocessing(size=None, resize="none", mean=mean, std=std, channels=channels)
        np.testing.assert_allclose(to_input(image, want)[:, 0, 0], expected[order], rtol=1e-5)


def test_efficientnet_gets_minus_127_over_128():
    from kinrank.features import preset

    got = to_input(two_halves(224, 224), preset("efficientnet-lite"))
    np.testing.assert_allclose(got[:, 0, 0], (np.array(RED) - 127) / 128, atol=1e-6)


@pytest.mark.parametrize("size", [(500, 375), (375, 500), (257, 256), (1000, 300)])
def test_resize_and_crop_are_those_of_two_steps(size):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 16, 3)).astype(np.uint8)
    image = Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)
    want = Preprocessing(**{**AS_IS.describe(), "size": 256, "resize": "shortest", "crop": 224})
    got = to_input(image, want)
    assert got.shape == (3, 224, 224)
    short, long = min(size), max(size)
    other = 256 * long // short
    whole = image.resize(
        (other, 256) if size[0] > size[1] else (256, other), Image.Resampling.BILINEAR
    )
    left, top = round((whole.width - 224) / 2), round((whole.height - 224) / 2)
    expected = np.asarray(whole.crop((left, top, left + 224, top + 224))).transpose(2, 0, 1)
    assert np.abs(got - expected).max() <= 1
