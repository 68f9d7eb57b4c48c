import json

import pytest

from kinrank import FileFormatError, InvalidInputError, UnknownNameError
from kinrank.features import PRESETS, Preprocessing, preset
from kinrank.features.preprocess import from_mapping, read_description


@pytest.mark.parametrize(
    ("fields", "size", "target"),
    [
        ({"size": 224}, (640, 480), (224, 224)),
        ({"size": (256, 128)}, (60, 200), (128, 256)),
        ({"size": 256, "resize": "shortest"}, (640, 480), (341, 256)),
        ({"size": 256, "resize": "shortest"}, (480, 640), (256, 341)),
        ({"size": 256, "resize": "shortest", "crop": 224}, (640, 480), (224, 224)),
        ({"size": 1024, "resize": "longest"}, (2048, 1000), (1024, 500)),
        ({"size": 1024, "resize": "longest"}, (640, 480), (640, 480)),  # never enlarged
        ({"size": 1024, "resize": "longest"}, (5000, 1), (1024, 1)),
        ({"size": None, "resize": "none"}, (33, 44), (33, 44)),
        ({"size": None, "resize": "none", "crop": (20, 40)}, (33, 44), (33, 20)),
    ],
)
def test_geometry(fields, size, target):
    want = Preprocessing(**fields)
    got, (left, top, right, bottom) = want.geometry(*size)
    assert got == target
    assert 0 <= left < right <= size[0]
    assert 0 <= top < bottom <= size[1]
    assert left + right == pytest.approx(size[0], abs=size[0] / 100)  # in the middle
    if want.input_size is not None:
        assert want.input_size == target[::-1]


def test_scales_change_the_size():
    assert Preprocessing(size=224).geometry(640, 480, 0.5)[0] == (112, 112)
    longest = Preprocessing(size=1024, resize="longest")
    assert longest.geometry(2048, 1024, 0.5)[0] == (512, 256)
    assert longest.geometry(640, 480, 0.5)[0] == (320, 240)


def test_a_thin_picture_does_not_become_a_huge_input():
    with pytest.raises(InvalidInputError, match="at most 67,108,864 pixels"):
        Preprocessing(size=256, resize="shortest").geometry(1, 60_000)
    cropped = Preprocessing(size=256, resize="shortest", crop=224)
    assert cropped.geometry(1, 60_000)[0] == (224, 224)


def test_the_person_preset_is_that_of_the_usual_networks():
    person = preset("person")
    assert person.input_size == (256, 128)
    assert person.mean == (0.485, 0.456, 0.406)
    assert person.std == (0.229, 0.224, 0.225)
    assert (person.pixel_max, person.channels, person.resize) == (1, "rgb", "stretch")
    assert preset("fast-reid").input_size == (256, 128)
    assert preset("fast-reid").pixel_max == 255
    for name in PRESETS:
        assert isinstance(preset(name), Preprocessing)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": 0}, "`size` must be an integer between 1 and 16384, got 0"),
        ({"size": (1, 2, 3)}, "`size` must be a height and a width"),
        ({"size": None}, "`size` must be given unless"),
        ({"size": (2, 3), "resize": "longest"}, "`size` must be one number"),
        ({"size": 100, "crop": 224}, "`crop` must be at most `size`"),
        ({"resize": "shrink"}, "`resize` must be one of"),
        ({"filter": "cubic"}, "Did you mean 'bicubic'"),
        ({"mean": (1, 2)}, "`mean` must be three numbers"),
        ({"std": (1, 0, 1)}, "`std` must be positive"),
        ({"channels": "grb"}, "`channels` must be one of bgr, rgb"),
        ({"layer": 3}, "`layer` must be a name"),
    ],
)
def test_what_cannot_be_is_refused(fields, message):
    with pytest.raises((InvalidInputError, UnknownNameError), match=message):
        Preprocessing(**fields)


def test_a_description_is_read_and_written(tmp_path):
    file = tmp_path / "net.json"
    want = Preprocessing(size=(384, 128), filter="bicubic", layer="embedding", channels="bgr")
    file.write_text(json.dumps(want.describe()))
    assert from_mapping(read_description(file)) == want
    file.write_text(json.dumps({"preset": "person", "size": [384, 128]}))
    assert from_mapping(read_description(file)) == Preprocessing(size=(384, 128))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "must be a JSON object"),
        ("{", "must be a description of a preprocessing"),
        ('{"sise": 3}', "Did you mean 'size'"),
        ('{"size": "big"}', "`size` must be"),
        ('{"preset": "persons"}', "Did you mean 'person'"),
    ],
)
def test_a_wrong_description_is_refused(tmp_path, text, message):
    file = tmp_path / "net.json"
    file.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        read_description(file)
