import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from kinrank import FileFormatError, InvalidInputError, datasets
from kinrank.features import (
    Descriptor,
    ImageList,
    collect,
    extract,
    extract_to_file,
    find_images,
    from_dataset,
    load_model,
    pca_whitening,
)
from kinrank.progress import listen
from picture_files import tiny_network, two_halves, write_bad, write_odd

RNG = np.random.default_rng(0)


def noise(width, height):
    return Image.fromarray(RNG.integers(0, 256, (height, width, 3)).astype(np.uint8))


@pytest.fixture
def network(tmp_path):
    return load_model(tiny_network(tmp_path / "tiny.onnx"), size=16)


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    for number in range(23):
        (folder / f"class {number % 3}").mkdir(parents=True, exist_ok=True)
        noise(20 + number, 30 - number).save(folder / f"class {number % 3}" / f"{number}.png")
    return folder


def read(path):
    with np.load(path) as file:
        return dict(file)


def by_hand(file, network, box=None):
    """GeM of the tiny network with numpy alone."""
    image = Image.open(file).convert("RGB")
    if box is not None:
        image = image.crop(box)
    pixels = np.asarray(image.resize((16, 16), Image.Resampling.BILINEAR)) / 255
    values = (pixels - network.preprocessing.mean) / network.preprocessing.std
    mean = np.maximum(values.mean(axis=2), 0)
    row = np.array([np.mean(mean**3) ** (1 / 3), np.mean((2 * mean) ** 3) ** (1 / 3)])
    return row / np.linalg.norm(row)


def test_rows_are_those_worked_out_by_hand(pictures, network):
    found = extract(pictures, network, batch=4)
    assert found.features.shape == (23, 2)
    assert found.failures == ()
    for name, row in zip(found.names, found.features, strict=True):
        np.testing.assert_allclose(row, by_hand(pictures / name, network), atol=1e-5)
    assert found.labels.tolist() == [name.partition("/")[0] for name in found.names]
    np.testing.assert_array_equal(found.owners, np.arange(23))


def test_the_same_rows_for_any_number_of_threads(pictures, network):
    one = extract(pictures, network, batch=4, threads=1)
    many = extract(pictures, network, batch=4, threads=5)
    np.testing.assert_array_equal(one.features, many.features)


def test_a_file_of_rows(pictures, network, tmp_path):
    out = tmp_path / "f.npz"
    summary = extract_to_file(collect(str(pictures)), network, out, batch=4, part=6)
    content = read(out)
    recipe = str(content.pop("recipe"))
    assert {name: array.shape for name, array in content.items()} == summary.arrays
    assert (summary.n_images, summary.n_reused, summary.failures) == (23, 0, ())
    in_memory = extract(pictures, network, batch=4)
    assert recipe == in_memory.recipe
    np.testing.assert_array_equal(content["features"], in_memory.features)
    np.testing.assert_array_equal(content["names"], in_memory.names)
    np.testing.assert_array_equal(content["labels"], in_memory.labels)
    assert not out.with_name("f.npz.parts").exists()


def test_kinds_of_pictures_and_bad_ones(tmp_path, network):
    folder = tmp_path / "mixed"
    folder.mkdir()
    write_odd(folder)
    good = len(list(folder.iterdir()))
    bad = write_bad(folder)
    (folder / "notes.txt").write_text("not looked at")
    found = extract(folder, network)
    assert len(found.features) == good
    assert [name for name, _ in found.failures] == sorted(bad)
    assert found.labels is None
    assert not {name for name, _ in found.failures} & set(found.names)


def test_files_of_different_sizes_keep_their_proportions(pictures, tmp_path):
    network = load_model(tiny_network(tmp_path / "t.onnx"), size=None, resize="none")
    together = extract(pictures, network, batch=23)
    for name, row in zip(together.names, together.features, strict=True):
        alone = extract([pictures / name], network)
        np.testing.assert_allclose(row, alone.features[0], atol=1e-6)


def test_scales_regions_and_whitening(pictures, network):
    rmac = Descriptor(pool="rmac", levels=2)
    rows = extract(pictures, network, rmac).features
    regional = extract(pictures, network, Descriptor(pool="rmac", levels=2, regional=True))
    assert regional.features.shape == (23 * 5, 2)
    np.testing.assert_array_equal(regional.owners, np.repeat(np.arange(23), 5))
    sums = regional.features.reshape(23, 5, 2).sum(axis=1)
    np.testing.assert_allclose(sums / np.linalg.norm(sums, axis=1, keepdims=True), rows, atol=1e-6)
    scaled = extract(pictures, network, Descriptor(pool="mac", scales=(1, 0.5)))
    parts = [extract(pictures, network, Descriptor(pool="mac", scales=(s,))) for s in (1, 0.5)]
    sums = parts[0].features + parts[1].features
    expected = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    np.testing.assert_allclose(scaled.features, expected, atol=1e-6)
    plain = extract(pictures, network).features
    whitening = pca_whitening(plain + RNG.normal(size=plain.shape))
    white = extract(pictures, network, Descriptor(whitening=whitening, dims=1)).features
    np.testing.assert_allclose(white, whitening.apply(plain, 1), atol=1e-6)


def test_a_network_that_ends_with_vectors(pictures, tmp_path):
    file = tiny_network(tmp_path / "t.onnx", batch=4)
    network = load_model(file, size=16, layer="vector")
    vectors = extract(pictures, network, batch=7).features
    maps = extract(pictures, load_model(file, size=16), Descriptor(pool="mac")).features
    np.testing.assert_allclose(vectors, maps, atol=1e-6)
    with pytest.raises(InvalidInputError, match="`pool` must be 'none' for a layer of vectors"):
        extract(pictures, network, Descriptor(pool="gem"))
    with pytest.raises(InvalidInputError, match="`pool` must be a pooling for a map"):
        extract(pictures, load_model(file, size=16), Descriptor(pool="none"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pool": "max"}, "Did you mean 'mac'"),
        ({"scales": ()}, "`scales` must be 1 to 16"),
        ({"scales": (0.0,)}, "`scales` must be a number"),
        ({"regional": True}, "`regional` works with pool='rmac' only"),
        ({"dims": 3}, "`dims` needs a whitening"),
        ({"levels": 0}, "`levels` must be"),
    ],
)
def test_descriptors_that_cannot_be(fields, message):
    with pytest.raises(ValueError, match=message):
        Descriptor(**fields)


# Which pictures


def test_a_folder_without_pictures_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("no")
    with pytest.raises(FileFormatError, match="holds no pictures"):
        find_images(tmp_path)
    with pytest.raises(FileNotFoundError):
        find_images(tmp_path / "nowhere")
    with pytest.raises(InvalidInputError, match="at least one file"):
        extract([])


def test_importing_features_loads_nothing_heavy():
    code = (
        "import sys, kinrank.features; heavy = ['PIL', 'onnxruntime', 'torch', 'numba', 'scipy']; "
        "assert not [name for name in heavy if name in sys.modules]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_folder_with_a_comma_in_its_name(tmp_path):
    (tmp_path / "a,b=c").mkdir()
    two_halves().save(tmp_path / "a,b=c" / "d.png")
    assert collect(str(tmp_path / "a,b=c"))[""].names == ["d.png"]


def test_labels_are_the_first_folder(tmp_path):
    (tmp_path / "cat" / "black").mkdir(parents=True)
    two_halves().save(tmp_path / "cat" / "black" / "a.JPG", "JPEG")
    assert find_images(tmp_path).labels.tolist() == ["cat"]
    two_halves().save(tmp_path / "b.png")
    found = find_images(tmp_path)
    assert (found.names, found.labels) == (["b.png", "cat/black/a.JPG"], None)


def test_the_order_is_that_of_the_data_set(tmp_path):
    for name in ("a/x.png", "a b/x.png", "a-b/x.png", "a/y/z.png", "a/y.png", "B/x.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        two_halves().save(tmp_path / name)
    assert find_images(tmp_path).names == datasets.class_folder(tmp_path).query.paths


@pytest.fixture
def nobody():
    """Rights of a file mean nothing to root: be somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_folders_and_files_that_may_not_be_read(tmp_path, network, request):
    for name in ("open", "closed"):
        (tmp_path / "all" / name).mkdir(parents=True)
        two_halves().save(tmp_path / "all" / name / "a.png")
    two_halves().save(tmp_path / "all" / "open" / "secret.png")
    for path in (tmp_path, *tmp_path.parents):
        if Path(tempfile.gettempdir()) in path.parents:
            path.chmod(0o755)
    (tmp_path / "all" / "open" / "secret.png").chmod(0)
    (tmp_path / "all" / "closed").chmod(0)
    request.getfixturevalue("nobody")
    found = extract(tmp_path / "all", network)
    assert found.names.tolist() == ["open/a.png"]
    assert found.failures == (
        ("closed/", "Permission denied"),
        ("open/secret.png", "Permission denied"),
    )
    with pytest.raises(PermissionError):
        find_images(tmp_path / "all" / "closed")


def test_a_data_set_keeps_its_order_and_its_boxes(tmp_path, network):
    (tmp_path / "jpg").mkdir()
    for name in ("q1", "q2", "g1", "g2", "g3"):
        noise(40, 30).save(tmp_path / "jpg" / f"{name}.png")
    box = [5, 6, 25, 22]
    gnd = [
        {"easy": [0], "hard": [], "junk": [], "bbx": box},
        {"easy": [2], "hard": [1], "junk": [], "bbx": [0, 0, 40, 30]},
    ]
    names = {"imlist": ["g3.png", "g1.png", "g2.png"], "qimlist": ["q2.png", "q1.png"]}
    import json

    (tmp_path / "gnd.json").write_text(json.dumps({"gnd": gnd, **names}))
    (tmp_path / "jpg" / "g1.png").write_bytes(b"")
    out = tmp_path / "f.npz"
    sides = collect(str(tmp_path))
    summary = extract_to_file(sides, network, out)
    content = read(out)
    assert summary.arrays["query"] == (2, 2)
    assert content["query_names"].tolist() == names["qimlist"]
    assert content["gallery_names"].tolist() == names["imlist"]
    np.testing.assert_allclose(
        content["query"][0], by_hand(tmp_path / "jpg" / "q2.png", network, box), atol=1e-5
    )
    # A picture that cannot be read keeps its place.
    assert summary.failures == (("g1.png", "an empty file"),)
    assert content["gallery"][1].tolist() == [0, 0]
    assert np.linalg.norm(content["gallery"][2]) == pytest.approx(1)
    data = datasets.load(tmp_path, query=f"{out}:query", gallery=f"{out}:gallery")
    assert len(data.gallery.features) == 3
    whole = extract_to_file(collect(str(tmp_path), boxes=False), network, out)
    assert whole.n_reused == 0
    np.testing.assert_allclose(
        read(out)["query"][0], by_hand(tmp_path / "jpg" / "q2.png", network), atol=1e-5
    )


def test_a_data_set_of_people(tmp_path, network):
    for folder, names in {
        "query": ["0001_c1s1_000001_00.jpg", "0002_c2s1_000001_00.jpg"],
        "bounding_box_test": ["0001_c2s1_000002_00.jpg", "0002_c1s1_000002_00.jpg"],
    }.items():
        (tmp_path / folder).mkdir()
        for name in names:
            noise(64, 128).save(tmp_path / folder / name)
    out = tmp_path / "f.npz"
    extract_to_file(collect(str(tmp_path)), network, out)
    content = read(out)
    assert content["query_labels"].tolist() == [1, 2]
    assert content["gallery_cams"].tolist() == [2, 1]


def test_a_data_set_whose_queries_are_its_gallery_has_one_side(pictures):
    data = datasets.class_folder(pictures)
    sides = from_dataset(data)
    assert list(sides) == [""]
    assert sides[""].fixed
    with pytest.raises(InvalidInputError, match="does not say where its pictures are"):
        from_dataset(datasets.digits())


# Parts


def run(pictures, network, out, **options):
    computed = []
    with listen(lambda _stage, done, total: computed.append((done, total))):
        summary = extract_to_file(collect(str(pictures)), network, out, batch=2, part=4, **options)
    return summary, computed[-1][1]


class StoppedError(Exception):
    pass


def interrupt(pictures, network, out, after):
    def stop(_stage, done, _total):
        if done >= after:
            raise StoppedError

    with listen(stop), pytest.raises(StoppedError):
        extract_to_file(collect(str(pictures)), network, out, batch=2, part=4, threads=1)


def test_finished_parts_are_not_computed_again(pictures, network, tmp_path):
    run(pictures, network, tmp_path / "whole.npz")
    out = tmp_path / "f.npz"
    interrupt(pictures, network, out, after=14)
    assert not out.exists()
    parts = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "f.npz.parts").iterdir()}
    assert len(parts) == 3
    summary, computed = run(pictures, network, out)
    assert (summary.n_reused, computed) == (12, 11)
    assert out.read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert not (tmp_path / "f.npz.parts").exists()


def test_other_work_is_not_taken_for_finished(pictures, network, tmp_path):
    out = tmp_path / "f.npz"
    interrupt(pictures, network, out, after=14)
    for options in ({"descriptor": Descriptor(pool="mac")}, {"descriptor": Descriptor(p=2)}):
        sides = collect(str(pictures))
        job = extract_to_file(sides, network, tmp_path / "g.npz", batch=2, part=4, **options)
        assert job.n_reused == 0
    first = min(pictures.rglob("*.png"))
    two_halves().save(first)  # a changed picture changes its part, and no other
    summary, _ = run(pictures, network, out)
    assert summary.n_reused == 8
    other = load_model(network.preprocessing and tmp_path / "tiny.onnx", size=24)
    interrupt(pictures, network, out, after=14)
    assert run(pictures, other, out)[0].n_reused == 0


def test_a_damaged_part_is_computed_again(pictures, network, tmp_path):
    run(pictures, network, tmp_path / "whole.npz")
    out = tmp_path / "f.npz"
    interrupt(pictures, network, out, after=14)
    part = min((tmp_path / "f.npz.parts").iterdir())
    part.write_bytes(part.read_bytes()[:50])
    summary, _ = run(pictures, network, out)
    assert summary.n_reused == 8
    assert out.read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_foreign_files_in_the_folder_of_parts_are_left(pictures, network, tmp_path):
    (tmp_path / "f.npz.parts").mkdir()
    (tmp_path / "f.npz.parts" / "mine.txt").write_text("keep")
    run(pictures, network, tmp_path / "f.npz")
    assert [p.name for p in (tmp_path / "f.npz.parts").iterdir()] == ["mine.txt"]


def test_pictures_that_are_all_unusable(tmp_path, network):
    write_bad(tmp_path)
    for name in ("tiny.onnx",):
        assert (tmp_path / name).exists()
    with pytest.raises(InvalidInputError, match=r"None of the 6 pictures .*bomb\.png"):
        extract(tmp_path, network)
    with pytest.raises(InvalidInputError, match="None of the 6 pictures"):
        extract_to_file(collect(str(tmp_path)), network, tmp_path / "f.npz")
    assert not (tmp_path / "f.npz").exists()


def test_a_network_that_does_not_run_is_said_before_the_work(pictures, tmp_path):
    import torch

    network = load_model(torch.nn.Linear(3, 2), size=16)
    with pytest.raises(InvalidInputError, match=r"Linear could not be run on a batch of shape"):
        extract_to_file(collect(str(pictures)), network, tmp_path / "f.npz")
    assert not (tmp_path / "f.npz.parts").exists()


def test_a_picture_that_the_network_cannot_take_is_listed(pictures, tmp_path):
    import torch

    network = load_model(torch.nn.AvgPool2d(8), size=None, resize="none")
    Image.new("RGB", (3, 2)).save(pictures / "class 0" / "small.png")
    found = extract(pictures, network, batch=50)
    names = dict(found.failures)
    assert "AvgPool2d could not be run" in names["class 0/small.png"]
    assert len(found.features) + len(names) == 24


def test_too_little_room_is_said_before_the_work(pictures, network, tmp_path, monkeypatch):
    class Usage:
        free = 100

    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage)
    with pytest.raises(
        OSError, match=r"No space left on device: about 0\.0 MB are needed"
    ) as caught:
        extract_to_file(collect(str(pictures)), network, tmp_path / "f.npz")
    assert caught.value.filename == str(tmp_path / "f.npz")
    assert not (tmp_path / "f.npz.parts").exists()


def test_a_list_of_one_s_own(pictures, network):
    names = sorted(p.relative_to(pictures).as_posix() for p in pictures.rglob("*.png"))[:3]
    boxes = [None, (2, 2, 12, 12), None]
    listed = ImageList(root=pictures, names=names, boxes=boxes, cams=np.arange(3))
    found = extract(listed, network)
    assert found.cams.tolist() == [0, 1, 2]
    expected = by_hand(pictures / names[1], network, boxes[1])
    np.testing.assert_allclose(found.features[1], expected, atol=1e-5)
