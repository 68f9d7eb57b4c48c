"""Uploaded pictures, described by the network that the index was made with."""

import numpy as np
import pytest
from PIL import Image

import kinrank
from cli_helpers import run
from kinrank.io import load_array
from kinrank.serve import Settings
from kinrank.serve.load import open_service
from picture_files import tiny_network
from serve_process import serving

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
    with pytest.warns(kinrank.KinrankWarning, match="got another in"):
        assert open_service(path, Settings()).describer is None
    network.unlink()
    with pytest.warns(kinrank.KinrankWarning, match="got no file"):
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
        assert "`pool` must go with a model" in run(*command, "--pool", "gem").stderr
