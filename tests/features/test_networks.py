import sys

import numpy as np
import pytest

from kinrank import FileFormatError, InvalidInputError, KinrankWarning, UnknownNameError
from kinrank._onnx_file import decode, encode, layer_names, varint, with_output
from kinrank.errors import OptionalDependencyError
from kinrank.features import Preprocessing, load_model
from picture_files import tiny_network

BATCH = np.random.default_rng(0).normal(size=(3, 3, 4, 5)).astype(np.float32)
MEAN = BATCH.mean(axis=1)
EXPECTED = np.maximum(np.stack([MEAN, 2 * MEAN], axis=1), 0)


@pytest.fixture
def tiny(tmp_path):
    return tiny_network(tmp_path / "tiny.onnx")


def test_a_tiny_network_gives_what_was_worked_out(tiny):
    network = load_model(tiny, "imagenet")
    np.testing.assert_allclose(network(BATCH), EXPECTED, atol=1e-6)
    assert network.batch_size is None
    assert network.name == "tiny"


def test_inner_layers(tiny):
    before = load_model(tiny, layer="maps")(BATCH)
    np.testing.assert_allclose(before[:, 0], MEAN, atol=1e-6)
    vector = load_model(tiny, layer="vector")(BATCH)
    np.testing.assert_allclose(vector, EXPECTED.max(axis=(2, 3)), atol=1e-6)
    with pytest.raises(InvalidInputError, match="one of the 4 of the network, such as vector"):
        load_model(tiny, layer="vectors")


def test_layers_can_be_listed_and_added(tiny):
    model = tiny.read_bytes()
    assert layer_names(model) == ["maps", "positive", "peak", "vector"]
    assert with_output(model, "maps").startswith(model)


def test_a_network_of_fixed_batch_size_is_filled_up(tmp_path):
    network = load_model(tiny_network(tmp_path / "t.onnx", batch=4), "imagenet")
    assert network.batch_size == 4
    np.testing.assert_allclose(network(BATCH), EXPECTED, atol=1e-6)


def test_a_network_of_fixed_size_is_believed(tmp_path):
    file = tiny_network(tmp_path / "t.onnx", side=32)
    with pytest.warns(KinrankWarning, match=r"has no description \(t.json\)"):
        network = load_model(file)
    assert network.preprocessing.input_size == (32, 32)
    assert load_model(file, mean=(0, 0, 0)).preprocessing.input_size == (32, 32)
    with pytest.raises(InvalidInputError, match=r"`size` must be 32 x 32 .*got \(256, 128\)"):
        load_model(file, "person")
    with pytest.raises(InvalidInputError, match="got pictures of many sizes"):
        load_model(file, "retrieval")


def test_channels_last(tmp_path):
    network = load_model(tiny_network(tmp_path / "t.onnx", channels_last=True), layout="nhwc")
    got = network(np.ascontiguousarray(BATCH.transpose(0, 2, 3, 1)))
    np.testing.assert_allclose(got, EXPECTED, atol=1e-6)
    with pytest.raises(InvalidInputError, match="must take 3 channels"):
        load_model(tiny_network(tmp_path / "u.onnx", channels_last=True, side=8), "imagenet")


def test_the_description_beside_the_file(tiny):
    tiny.with_suffix(".json").write_text('{"preset": "person", "layer": "vector", "std": [1,1,1]}')
    described = load_model(tiny).preprocessing
    assert described == Preprocessing(size=(256, 128), layer="vector", std=(1, 1, 1))
    # A preset is instead of it, options go before both.
    assert load_model(tiny, "imagenet").preprocessing.layer is None
    assert load_model(tiny, size=64).preprocessing.size == 64
    tiny.with_suffix(".json").write_text("{}}")
    with pytest.raises(FileFormatError, match=r"tiny\.json must be a description"):
        load_model(tiny)


def test_what_is_no_network_is_refused(tmp_path):
    (tmp_path / "a.onnx").write_bytes(b"")
    (tmp_path / "b.onnx").write_bytes(b"no network at all" * 10)
    for name in ("a.onnx", "b.onnx"):
        with pytest.raises((FileFormatError, InvalidInputError), match=name):
            load_model(tmp_path / name, "imagenet")
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "c.onnx")
    with pytest.raises(UnknownNameError, match="Did you mean 'efficientnet-lite"):
        load_model("efficientnet-lite")
    with pytest.raises(UnknownNameError, match="`preset` must be one of"):
        load_model("efficientnet-lite0", "persons")
    with pytest.raises(UnknownNameError, match="Did you mean 'size'"):
        load_model("efficientnet-lite0", sise=3)


def test_the_key_follows_the_file_and_the_weights_beside_it(tiny):
    key = load_model(tiny, "imagenet").key
    assert load_model(tiny, "person").key == key
    tiny.with_name("tiny.onnx.data").write_bytes(b"weights")
    other = load_model(tiny, "imagenet").key
    assert other != key
    tiny.with_name("tiny.onnx.data").write_bytes(b"other weights")
    assert load_model(tiny, "imagenet").key not in (key, other)


def test_without_onnxruntime_the_cure_is_said(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(OptionalDependencyError, match=r"kinrank\[images\]"):
        load_model(tiny, "imagenet")


def test_numbers_and_fields_of_the_wire_format():
    assert varint(1) == b"\x01"
    assert varint(300) == b"\xac\x02"
    message = encode(1, 150) + encode(2, "testing") + encode(3, b"\x01\x02") + encode(4, -1)
    found = [(n, v if isinstance(v, int) else bytes(v)) for n, v in decode(memoryview(message))]
    assert found == [(1, 150), (2, b"testing"), (3, b"\x01\x02"), (4, 2**64 - 1)]
    for broken in (b"\x08", b"\x12\x05ab", b"\x0b", b"\xff" * 20):
        with pytest.raises(ValueError, match=r"a (field|number)"):
            list(decode(memoryview(broken)))


# Torch


@pytest.fixture
def module():
    import torch

    net = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 1, bias=False), torch.nn.ReLU())
    with torch.no_grad():
        net[0].weight[:] = torch.tensor([1.0, 2.0]).reshape(2, 1, 1, 1) / 3
    return net


def test_a_torch_module(module):
    network = load_model(module, size=32)
    np.testing.assert_allclose(network(BATCH), EXPECTED, atol=1e-6)
    assert network.preprocessing.size == 32
    inner = load_model(module, layer="0")(BATCH)
    np.testing.assert_allclose(inner[:, 0], MEAN, atol=1e-6)
    with pytest.raises(InvalidInputError, match="`layer` must be one of the 2"):
        load_model(module, layer="head")
    with pytest.raises(InvalidInputError, match=r"must be a torch\.nn\.Module, got list"):
        load_model([1])


def test_a_torch_module_that_gives_no_tensor_or_leaves_its_layer_out():
    import torch

    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = torch.nn.Identity(), torch.nn.Identity()

        def forward(self, x):
            return {"maps": self.used(x)}

    with pytest.raises(InvalidInputError, match="must give a tensor, got dict"):
        load_model(Odd())(BATCH)
    np.testing.assert_array_equal(load_model(Odd(), layer="used")(BATCH), BATCH)
    with pytest.raises(InvalidInputError, match="Odd does not run this `layer`"):
        load_model(Odd(), layer="idle")(BATCH)


def test_the_key_of_a_torch_module_follows_its_weights(module):
    key = load_model(module).key
    assert load_model(module).key == key
    module[0].weight.data += 1
    assert load_model(module).key != key


def test_a_torch_module_by_name(tmp_path, monkeypatch):
    code = "import torch\ndef build():\n    return torch.nn.MaxPool2d(2)\n"
    (tmp_path / "my_net.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    assert load_model("my_net:build")(BATCH).shape == (3, 3, 2, 2)
    with pytest.raises(InvalidInputError, match="names Python code that cannot be loaded"):
        load_model("my_net:other")


def test_without_torch_the_cure_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(OptionalDependencyError, match=r"kinrank\[torch\]"):
        load_model(object())
