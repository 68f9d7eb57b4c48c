"""Uploaded pictures, described by the network that the index was made with."""

import io
import json
import tempfile
import time

import numpy as np
import pytest
from PIL import Image

import kinrank
from cli_helpers import run
from kinrank.io import load_array
from kinrank.serve import Settings
from kinrank.serve.describe import DigitDescriber
from kinrank.serve.load import open_service
from kinrank.serve.problems import Problem
from picture_files import png_with_size, tiny_network, two_halves
from serve_process import ask, serving

MODEL = "efficientnet-lite0"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    (root / "files").mkdir()
    for at in range(24):
        pixels = np.kron(random.integers(0, 255, (4, 4, 3)), np.ones((16, 16, 1))).astype(np.uint8)
        Image.fromarray(pixels).save(root / "files" / f"{at:02d}.png")
    done(run("extract", root / "files", "--out", root / "f.npz", "--pool", "rmac", "--levels", 2))
    build(root, root / "an.index")
    return root


def build(root, out, *more, file="f.npz"):
    source = root / file
    done(run("index", "build", "--gallery", f"{source}:features", "--ids", f"{source}:names",
             "--out", out, "--k1", 5, "--k2", 2, *more))  # fmt: skip


def done(result):
    assert result.exit_code == 0, result.output


def test_the_index_knows_its_model(photos):
    served = (photos / "an.index", "--images", photos / "files")
    with serving(*served) as server, kinrank.Client(server.url) as client:
        assert client.info()["model"] == MODEL
        found = client.search_image(photos / "files" / "07.png", k=3)
        assert found.ids[0, 0] == "07.png"
        with pytest.raises(kinrank.KinrankError, match="could not be read"):
            client.search_image(b"no picture")


def test_pictures_become_rows(photos, tmp_path):
    path = tmp_path / "an.index"
    path.write_bytes((photos / "an.index").read_bytes())
    file = photos / "files" / "07.png"
    with serving(path, "--writable") as server, kinrank.Client(server.url) as client:
        assert client.add_image(file, "new/7.png", label="seven") == 25
        found = client.search_image(file, k=2)
        assert set(found.ids[0]) == {"07.png", "new/7.png"}
        assert ask(server, "GET", "/v1/items?search=seven")[2]["items"][0]["id"] == "new/7.png"
        other = (photos / "files" / "08.png").read_bytes()
        assert client.add_image(other, "new/7.png", update=True) == 25
        assert set(client.search_image(other, k=2).ids[0]) == {"08.png", "new/7.png"}
        for picture, one, words in (
            (file, "07.png", "more than once"),
            (file, None, "the ids of this index are text"),
            (b"no picture", "x", "could not be read"),
        ):
            with pytest.raises(kinrank.KinrankError, match=words):
                client.add_image(picture, one)
        status, _, content = ask(server, "POST", "/v1/items", b"a", Content_Type="text/plain")
        assert (status, "image/*" in content["detail"]) == (415, True)
    assert "new/7.png" in kinrank.open(path)


def saved(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


@pytest.fixture(scope="module", params=["network", "digits"])
def describer(request, photos):
    if request.param == "digits":
        return DigitDescriber()
    return open_service(str(photos / "an.index"), Settings()).describer


def test_pictures_that_would_take_all_memory_are_refused_unread(describer):
    """By their head: nothing is decoded, so a few bytes stay a few bytes."""
    large = bytearray(saved(two_halves(), "JPEG", progressive=True))
    at = large.index(b"\xff\xc2") + 5
    large[at : at + 4] = (9000).to_bytes(2, "big") * 2
    blank = Image.new("RGB", (4200, 4200))
    for picture in (
        png_with_size(50_000, 50_000), png_with_size(14_000, 12_000), png_with_size(5_000, 4_000),
        bytes(large), saved(blank, "PNG"), saved(blank, "WEBP"), saved(blank, "GIF"),
        saved(Image.new("RGBA", (3200, 3200)), "PNG"),
        saved(Image.new("I;16", (2200, 2200)), "PNG"),
    ):  # fmt: skip
        begun = time.perf_counter()
        with pytest.raises(Problem, match="pixels"):
            describer.describe(picture)
        assert time.perf_counter() - begun < 1


def test_files_that_are_no_pictures_are_refused(describer):
    drawing = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(x) =\n"
    whole = [saved(two_halves(), kind) for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")]
    for picture in (b"", b"\xff", b"words", b"<svg/>", drawing, saved(two_halves(), "PPM"),
                    *(one[: len(one) // 3] for one in whole)):  # fmt: skip
        with pytest.raises(Problem, match="could not be read") as raised:
            describer.describe(picture)
        assert (raised.value.status, raised.value.kind) == (422, "unreadable-picture")
        assert tempfile.gettempdir() not in raised.value.detail
    random = np.random.default_rng(0)
    for at in range(180):
        damaged = bytearray(whole[at % len(whole)])
        for _ in range(random.integers(1, 6)):
            damaged[random.integers(0, len(damaged))] = random.integers(0, 256)
        try:
            assert np.isfinite(describer.describe(bytes(damaged))).all()
        except Problem as problem:
            assert problem.status == 422  # noqa: PT017  either is right


def test_pictures_of_any_shape_are_described(photos):
    describer = open_service(str(photos / "an.index"), Settings()).describer
    shapes = [(1, 60_000), (60_000, 1)]
    for picture in (*(two_halves(*shape) for shape in shapes), two_halves(7000, 2000)):
        for kind in ("PNG", "JPEG"):
            assert describer.describe(saved(picture, kind)).shape[0] == 1


def test_pictures_are_described_as_those_of_the_index_were(photos):
    service = open_service(str(photos / "an.index"), Settings())
    got = service.describer.describe((photos / "files" / "03.png").read_bytes())
    np.testing.assert_allclose(got, load_array(photos / "f.npz", "features")[3:4], atol=1e-6)


def test_what_made_the_vectors_stays_with_them(photos, tmp_path):
    found = kinrank.features.extract(photos / "files", MODEL)
    index = kinrank.CAS(k1=5, k2=2).fit(found.features, ids=found.names.tolist())
    index.recipe = found.recipe
    index.save(tmp_path / "an.index")
    with kinrank.open(tmp_path / "an.index", writable=True) as again:
        again.remove(["01.png"])
        again.save()
    assert kinrank.open(tmp_path / "an.index").recipe == found.recipe
    assert kinrank.features.Recipe.parse(found.recipe).model == MODEL
    # A plain array does not say how it was made; the user can.
    np.save(tmp_path / "g.npy", found.features)
    done(run("index", "build", "--gallery", tmp_path / "g.npy", "--out", tmp_path / "plain",
             "--k1", 5, "--k2", 2))  # fmt: skip
    assert kinrank.open(tmp_path / "plain").recipe is None
    done(run("index", "build", "--gallery", tmp_path / "g.npy", "--out", tmp_path / "told",
             "--k1", 5, "--k2", 2, "--model", MODEL, "--pool", "gem"))  # fmt: skip
    service = open_service(str(tmp_path / "told"), Settings())
    got = service.describer.describe((photos / "files" / "03.png").read_bytes())
    np.testing.assert_allclose(got, found.features[3:4], atol=1e-6)


def test_a_network_that_changed_is_not_used(photos, tmp_path):
    network = tiny_network(tmp_path / "net.onnx")
    network.with_suffix(".json").write_text('{"size": 16}')
    done(run("extract", photos / "files", "--model", network, "--out", tmp_path / "f.npz"))
    build(tmp_path, tmp_path / "an.index")
    path = str(tmp_path / "an.index")
    network.with_suffix(".json").unlink()  # the index knows what the network wants to see
    assert open_service(path, Settings()).describer.name == "net.onnx"
    network.write_bytes(network.read_bytes() + b"\x3a\x00")  # another graph name: none
    with pytest.warns(kinrank.KinrankWarning, match="is not the network that made the vectors"):
        assert open_service(path, Settings()).describer is None
    network.unlink()
    with pytest.warns(kinrank.KinrankWarning, match="is not there"):
        assert open_service(path, Settings()).describer is None


CODE = '{"model": "os:getcwd", "key": "", "preprocessing": {}, "descriptor": {}}'


@pytest.mark.parametrize("text", ["", "[]", '{"model": 1}', CODE, "[" * 100_000])
def test_a_recipe_runs_nothing(photos, tmp_path, text):
    index = kinrank.open(photos / "an.index")
    index.recipe = text
    index.save(tmp_path / "an.index")
    with pytest.warns(kinrank.KinrankWarning, match="cannot be described"):
        assert open_service(str(tmp_path / "an.index"), Settings()).describer is None


def test_another_width_is_refused(folder):
    result = run("serve", folder / "an.index", "--model", MODEL)
    assert result.exit_code == 2
    assert "(8 columns)" in result.stderr
    built = ["index", "build", "--gallery", folder / "labels.txt", "--out", "x"]
    for command in (["serve", folder / "an.index"], built):
        assert "`pool` needs a model" in run(*command, "--pool", "gem").stderr


def test_the_command_asks_with_a_picture(photos):
    pictures = sorted((photos / "files").rglob("*.*"))[:2]
    words = [word for picture in pictures for word in ("--image", picture)]
    result = run("index", "search", photos / "an.index", *words, "-k", 2, "--json")
    assert result.exit_code == 0, result.output
    records = json.loads(result.stdout)["results"]
    assert [record["query"] for record in records] == [str(p) for p in pictures for _ in range(2)]
    assert [record["id"] for record in records[::2]] == [picture.name for picture in pictures]
