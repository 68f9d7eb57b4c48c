"""The networks that need no file, against the package that has their code."""

import hashlib
import pickle

import numpy as np
import pytest

from kinrank import FileFormatError
from kinrank.errors import OptionalDependencyError
from kinrank.features import MODELS, Descriptor, extract, load_model, models, registry
from kinrank.features._torch_file import read_state
from kinrank.features.registry import cached, convert


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KINRANK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def torch_twin(info):
    """The same network by torch, with the code of the package efficientnet_lite_pytorch."""
    from importlib.util import find_spec
    from pathlib import Path

    import torch
    from efficientnet_lite_pytorch import EfficientNet

    weights = Path(find_spec(info.package).origin).parent / info.weights
    net = EfficientNet.from_name(info.name)
    net.load_state_dict(torch.load(weights, weights_only=True))
    net.forward = net.extract_features  # the map, not the classes
    return net.eval()


@pytest.mark.parametrize("name", models())
def test_onnx_and_torch_agree(name):
    info = MODELS[name]
    network = load_model(name)
    side = info.preprocessing["size"]
    batch = np.random.default_rng(0).normal(size=(2, 3, side, side)).astype(np.float32)
    twin = load_model(torch_twin(info), **info.preprocessing)
    maps, expected = network(batch), twin(batch)
    assert maps.shape == (2, info.dims, -(-side // 32), -(-side // 32))
    np.testing.assert_allclose(maps, expected, atol=1e-4)


def test_rows_of_pictures_agree_too(tmp_path):
    from picture_files import two_halves

    for number in range(3):
        two_halves(200 + 50 * number, 150).save(tmp_path / f"{number}.jpg")
    info = MODELS["efficientnet-lite0"]
    twin = load_model(torch_twin(info), **info.preprocessing)
    for descriptor in (Descriptor(pool="gem"), Descriptor(pool="rmac")):
        rows = [extract(tmp_path, net, descriptor).features for net in (info.name, twin)]
        np.testing.assert_allclose(rows[0], rows[1], atol=1e-4)
        np.testing.assert_allclose(np.linalg.norm(rows[0], axis=1), 1, rtol=1e-5)


def test_the_registry_says_licence_size_and_checksum():
    assert models() == ["efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2"]
    for info in MODELS.values():
        content = convert(info)
        assert len(content) == info.size
        assert hashlib.sha256(content).hexdigest() == info.sha256
        assert info.licence == "Apache-2.0"


def test_converted_once_and_again_if_it_is_damaged(cache, monkeypatch):
    info = MODELS["efficientnet-lite0"]
    file = cached(info)
    assert file.parent == cache
    assert hashlib.sha256(file.read_bytes()).hexdigest() == info.sha256
    assert [path.name for path in cache.iterdir()] == [file.name]
    with monkeypatch.context() as patch:
        patch.setattr(registry, "convert", lambda _info: pytest.fail("was converted twice"))
        assert cached(info) == file
    content = bytearray(file.read_bytes())
    content[5000] ^= 1
    file.write_bytes(bytes(content))
    assert cached(info).read_bytes() != bytes(content)


def test_any_size_will_do():
    network = load_model("efficientnet-lite0")
    batch = np.zeros((1, 3, 101, 77), np.float32)
    assert network(batch).shape == (1, 1280, 4, 3)
    assert load_model("efficientnet-lite0", layer="block_10")(batch).shape[1] == 112


def test_without_the_package_the_cure_is_said(monkeypatch):
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    with pytest.raises(OptionalDependencyError, match=r"kinrank\[efficientnet\]"):
        load_model("efficientnet-lite0")


def test_a_cache_that_cannot_be_written_is_an_error_of_its_file(cache):
    cache.write_text("a file where a folder should be")
    with pytest.raises(OSError, match="cache"):
        load_model("efficientnet-lite0")


# The reader of weights


def legacy(tensors, storages):
    import io

    stream = io.BytesIO()
    for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
        pickle.dump(part, stream, protocol=2)
    stream.write(tensors)
    pickle.dump(list(storages), stream, protocol=2)
    for values in storages.values():
        stream.write(len(values).to_bytes(8, "little") + values.tobytes())
    return stream.getvalue()


def test_weights_are_those_that_torch_reads(tmp_path):
    import torch

    state = {
        "plain": torch.arange(6.0).reshape(2, 3),
        "turned": torch.arange(6.0).reshape(2, 3).T,
        "part": torch.arange(10.0)[3:7],
        "count": torch.tensor(5),
    }
    file = tmp_path / "w.pth"
    torch.save(state, file, _use_new_zipfile_serialization=False)
    read = read_state(file)
    assert list(read) == list(state)
    for name, tensor in state.items():
        np.testing.assert_array_equal(read[name], tensor.numpy())


def test_a_file_that_calls_something_is_not_run(tmp_path):
    file, trace = tmp_path / "w.pth", tmp_path / "trace"

    class Evil:
        def __reduce__(self):
            return (open, (str(trace), "w"))

    file.write_bytes(legacy(pickle.dumps({"a": Evil()}, protocol=2), {}))
    with pytest.raises(FileFormatError, match="which was not run"):
        read_state(file)
    assert not trace.exists()
    for content in (b"", b"zip?", pickle.dumps(1), legacy(pickle.dumps({}), {})[:-3]):
        file.write_bytes(content)
        with pytest.raises(FileFormatError, match="must be a dictionary of tensors"):
            read_state(file)
