"""Training: it learns, stops, goes on, and ends the same."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors import safe_open

import kinrank
from cli_helpers import run
from kinrank import evaluate, learned
from kinrank.learned.data import TrainingLists, labelled, queries_and_gallery, split
from kinrank.learned.fitting import build
from kinrank.learned.loop import Checkpoint, Progress, fit
from kinrank.learned.recipes import CSARecipe, LAttQERecipe, SSRRecipe
from kinrank.parallel import Runner
from learned_models import SUPERVISED, TINY

RUN = Runner.of(1)


def arrays(path):
    with safe_open(path, "numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@pytest.fixture(scope="module")
def models(half, tmp_path_factory):
    """One small model of each method, and its card."""
    folder = tmp_path_factory.mktemp("models")
    rows, labels, test = half
    made = {}
    for name, sizes in TINY.items():
        given = (test[1],) if name == "gss" else (rows, labels)
        path = folder / f"{name}.safetensors"
        made[name] = (path, learned.train(name, *given, out=path, threads=1, **sizes))
    return made


@pytest.mark.parametrize("name", TINY)
def test_a_trained_model_ranks_and_says_what_it_is(models, half, name):
    path, card = models[name]
    queries, gallery, *labels = half[2]
    assert learned.read_card(path) == card
    assert (card.method, card.dimension) == (name, gallery.shape[1])
    assert card.parameters["epochs"] == TINY[name]["epochs"]
    assert card.size == sum(array.size for array in arrays(path).values())
    assert not path.with_name(path.name + ".checkpoint").exists()
    ranking = kinrank.rerank(queries, gallery, name, weights=path)
    assert evaluate.reid(ranking, *labels).mAP > 0.3
    if name == "gss":
        assert card.data == {"rows": len(gallery)}
        return
    assert card.data["rows"] + card.data["held-out rows"] == len(half[0])
    assert card.data["identities"] + card.data["held-out identities"] == 24
    assert 0 < card.metrics["mAP none"] < 1
    assert card.metrics["mAP"] >= card.metrics["mAP none"] - 0.05


def test_learning_helps_on_identities_that_were_not_seen(half, tmp_path):
    """Half of the directions are noise, which only labels tell."""
    rows, labels, (queries, gallery, *truth) = half
    out = tmp_path / "model.safetensors"
    learned.train("lattqe", rows, labels, out=out, kqe=8, pool=60, epochs=15, batch=16, threads=1)
    before = evaluate.reid(evaluate.Plain(metric="cosine").rerank(queries, gallery), *truth).mAP
    after = evaluate.reid(kinrank.rerank(queries, gallery, "lattqe", weights=out), *truth).mAP
    assert after > before + 0.02


@pytest.mark.parametrize("name", TINY)
def test_the_same_seed_gives_the_same_file(models, half, tmp_path, name):
    path, _ = models[name]
    given = (half[2][1],) if name == "gss" else half[:2]
    again, other = tmp_path / "again.safetensors", tmp_path / "other.safetensors"
    torch.manual_seed(99)  # of no importance
    learned.train(name, *given, out=again, threads=1, **TINY[name])
    assert again.read_bytes() == path.read_bytes()
    learned.train(name, *given, out=other, threads=1, seed=1, **TINY[name])
    assert any((arrays(path)[key] != array).any() for key, array in arrays(other).items())


def test_gss_without_weights_trains_the_same_weights_itself(models, half):
    queries, gallery, *_ = half[2]
    itself = kinrank.rerank(queries, gallery, "gss", 20, **TINY["gss"])
    file = kinrank.rerank(queries, gallery, "gss", 20, weights=models["gss"][0])
    np.testing.assert_array_equal(itself.indices, file.indices)
    np.testing.assert_array_equal(itself.distances, file.distances)


def test_the_process_is_left_as_it_was(half, tmp_path):
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    learned.train("ssr", *half[:2], out=tmp_path / "m.safetensors", threads=1, **TINY["ssr"])
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)


# Going on


def wait_for(condition, process, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def test_killed_and_started_again_is_as_never_stopped(half, tmp_path):
    rows, labels, _ = half
    np.save(tmp_path / "x.npy", rows)
    np.save(tmp_path / "y.npy", labels)
    sizes = {"m": 24, "hidden": 24, "epochs": 15, "patience": 15}
    given = ["--features", tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--threads", 1]
    given += [word for name, value in sizes.items() for word in (f"--{name}", value)]
    out = tmp_path / "stopped.safetensors"
    words = [sys.executable, "-m", "kinrank", "train", "ssr", *map(str, given), "--out", str(out)]
    kept = tmp_path / "stopped.safetensors.checkpoint"
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_for(kept.exists, process)
        os.kill(process.pid, signal.SIGKILL)
    assert kept.exists()
    assert not out.exists()
    again = run("train", "ssr", *given, "--out", out)  # no second process loads torch for it
    assert again.exit_code == 0, again.output
    assert not kept.exists()
    whole = tmp_path / "whole.safetensors"
    learned.train("ssr", rows, labels, out=whole, threads=1, **sizes)
    assert whole.read_bytes() == out.read_bytes()


@pytest.mark.parametrize("name", TINY)
def test_stopped_and_gone_on_with_is_as_never_stopped(models, half, tmp_path, name):
    given = (half[2][1],) if name == "gss" else half[:2]
    call = {"out": tmp_path / "m.safetensors", "threads": 1, **TINY[name]}
    with pytest.raises(KeyboardInterrupt):
        learned.train(name, *given, on_epoch=stop_after(2), **call)
    seen = []
    learned.train(name, *given, on_epoch=lambda state: seen.append(state.epoch), **call)
    assert seen[0] == 2  # the first of them was kept
    assert call["out"].read_bytes() == models[name][0].read_bytes()


def stop_after(epoch):
    def stop(state):
        if state.epoch == epoch:
            raise KeyboardInterrupt

    return stop


def test_a_checkpoint_of_another_training_is_refused(half, tmp_path):
    rows, labels, _ = half
    out, kept = tmp_path / "m.safetensors", tmp_path / "state"
    call = {"out": out, "checkpoint": kept, "threads": 1, **TINY["ssr"]}
    with pytest.raises(KeyboardInterrupt):
        learned.train("ssr", rows, labels, on_epoch=stop_after(2), **call)
    assert kept.exists()
    for other in ({"rate": 1e-2}, {"seed": 3}):
        with pytest.raises(kinrank.InvalidInputError, match=r"another training.*--fresh"):
            learned.train("ssr", rows, labels, **{**call, **other})
    with pytest.raises(kinrank.InvalidInputError, match="another training"):
        learned.train("ssr", rows[1:], labels[1:], **call)
    learned.train("ssr", rows, labels, **call)
    assert not kept.exists()
    kept.write_bytes(b"not a checkpoint")
    with pytest.raises(kinrank.FileFormatError, match="must be"):
        learned.train("ssr", rows, labels, **call)
    learned.train("ssr", rows, labels, fresh=True, **call)


# The loop


class Walk:
    """A task whose score is written down beforehand."""

    steps = 2

    def __init__(self, scores):
        self.network = torch.nn.Linear(1, 1)
        self._scores = iter(scores)

    def losses(self, epoch):
        for _ in range(self.steps):
            yield self.network(torch.ones(1, 1)).square().sum()

    def score(self):
        return next(self._scores)


def test_the_best_weights_are_kept_and_patience_ends_it():
    state = fit(Walk([0.3, 0.5, 0.4, 0.5, 0.1]), epochs=9, patience=3, rate=0.1)
    assert (state.epoch, state.best_epoch, state.best_score) == (4, 1, 0.5)
    state = fit(Walk([0.6, 0.5, 0.4]), epochs=2, patience=9, rate=0.1)
    assert (state.epoch, state.best_epoch, state.best_score) == (2, 0, 0.6)
    state = fit(Walk([None] * 4), epochs=3, patience=9, rate=0.1)
    assert (state.epoch, state.best_epoch) == (3, 3)


def test_a_training_that_explodes_is_an_error():
    class Explosion(Walk):
        def losses(self, epoch):
            yield self.network(torch.ones(1, 1)).sum() * torch.inf

    with pytest.raises(kinrank.InvalidInputError, match="choose a smaller `rate`"):
        fit(Explosion([0.1] * 9), epochs=2, patience=2, rate=0.1)


def test_checkpoints_keep_every_bit(tmp_path):
    network = build(SSRRecipe(m=4, hidden=3), 5)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    network(torch.randn(2, 5, 5)).square().sum().backward()
    optimizer.step()
    checkpoint = Checkpoint(tmp_path / "c", "me")
    state = Progress(epoch=3, history=[(0.1, 0.2)], best_epoch=1, best_score=1 / 3)
    checkpoint.save(state, network, optimizer)
    other = build(SSRRecipe(m=4, hidden=3, seed=9), 5)
    again = torch.optim.Adam(other.parameters(), lr=0.1)
    assert checkpoint.load(other, again) == state
    for a, b in zip(network.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(
        optimizer.state_dict()["state"].values(), again.state_dict()["state"].values(), strict=True
    ):
        assert all(torch.equal(a[key], b[key]) for key in a)


def test_wider_networks_learn_more_slowly():
    recipe = LAttQERecipe(rate=1e-3)
    assert recipe.rate_for(64) == recipe.rate_for(256) == 1e-3
    assert recipe.rate_for(1024) == pytest.approx(2.5e-4)
    assert SSRRecipe(rate=1e-3).rate_for(1024) == 1e-3


# The data


def test_identities_are_never_on_both_sides(people):
    rows, labels = people
    learn, held = split(labelled(rows, labels), 0.3, 0)
    assert not set(learn.labels) & set(held.labels)
    assert learn.identities + held.identities == 40
    assert held.identities == 12
    queries, gallery = queries_and_gallery(held, 0)
    assert len(queries) + len(gallery) == len(held)
    assert set(queries.labels) == set(gallery.labels) == set(held.labels)


def test_lists_have_the_query_first_and_mark_right_and_wrong(people):
    rows, labels = people
    cams = np.arange(len(rows)) % 3
    data = labelled(rows, labels, cams)
    lists = TrainingLists(
        data, CSARecipe(anchors=8, m=12, drop=0.3, width=12, heads=3, batch=7), RUN
    )
    batch = next(lists.batches(0))
    assert batch[0].shape == batch[1].shape == (7, 13)
    for ids, right, wrong in zip(*batch, strict=True):
        assert len(set(ids)) == 13
        full = lists.ids[ids[0]].tolist()
        assert ids.tolist() == sorted(ids.tolist(), key=full.index)
        same, camera = labels[ids] == labels[ids[0]], cams[ids] == cams[ids[0]]
        np.testing.assert_array_equal(right, same & ~camera)
        np.testing.assert_array_equal(wrong, ~same)
    assert next(lists.batches(0))[0].tobytes() == batch[0].tobytes()
    assert next(lists.batches(1))[0].tobytes() != batch[0].tobytes()


@pytest.mark.parametrize("name", SUPERVISED)
def test_cameras_change_what_is_learned(models, half, tmp_path, name):
    rows, labels, _ = half
    out = tmp_path / "cams.safetensors"
    cams = np.arange(len(rows)) % 2
    learned.train(name, rows, labels, cams=cams, out=out, threads=1, **TINY[name])
    assert any((arrays(models[name][0])[k] != a).any() for k, a in arrays(out).items())


# The command


def test_the_command_trains_and_prints_the_card(half, tmp_path):
    np.save(tmp_path / "x.npy", half[0])
    np.save(tmp_path / "y.npy", half[1])
    out = tmp_path / "m.safetensors"
    args = ["train", "ssr", "--features", tmp_path / "x.npy", "--labels", tmp_path / "y.npy",
            "--out", out, "--m", 8, "--hidden", 8, "--epochs", 2, "--threads", 1]  # fmt: skip
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    card = json.loads(result.stdout)
    assert (card["method"], card["parameters"]["m"], card["data"]["rows"]) == ("ssr", 8, 190)
    assert "epoch   1: loss" in result.stderr
    shown = run(*args)
    assert "Held-out mAP" in shown.stdout
    assert f"Written to {out}" in shown.stdout
    help_text = " ".join(run("train", "ssr", "--help").stdout.split())
    assert "Parameters of ssr:" in help_text
    assert "--step-size" in help_text
    assert "--anchors" not in help_text
    ranked = run("rerank", "--method", "ssr", "--weights", out, "--query", tmp_path / "x.npy",
                 "--gallery", tmp_path / "x.npy", "--out", tmp_path / "r.npz", "-k", 5)  # fmt: skip
    assert ranked.exit_code == 0, ranked.output
