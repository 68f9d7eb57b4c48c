"""Uploaded pictures, described by the network that the index was made with."""

import numpy as np
import pytest
from PIL import Image

import kinrank
from cli_helpers import run
from serve_process import serving


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    for at in range(24):
        pixels = np.kron(random.integers(0, 255, (4, 4, 3)), np.ones((16, 16, 1))).astype(np.uint8)
        (root / "files").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(root / "files" / f"{at:02d}.png")
    found = kinrank.features.extract(root / "files", "efficientnet-lite0")
    index = kinrank.CAS(k1=5, k2=2).fit(found.features, ids=found.names.tolist())
    index.save(root / "an.index")
    return root


def test_a_picture_finds_itself(photos):
    served = ("--images", photos / "files", "--model", "efficientnet-lite0")
    with serving(photos / "an.index", *served) as server, kinrank.Client(server.url) as client:
        assert client.info()["model"] == "efficientnet-lite0"
        found = client.search_image(photos / "files" / "07.png", k=3)
        assert found.ids[0, 0] == "07.png"
        with pytest.raises(kinrank.KinrankError, match="could not be read"):
            client.search_image(b"no picture")


def test_another_width_is_refused(photos, folder):
    result = run("serve", folder / "an.index", "--model", "efficientnet-lite0")
    assert result.exit_code == 2
    assert "(8 columns)" in result.stderr
