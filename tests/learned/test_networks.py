"""The networks compute what the publications say."""

import numpy as np
import pytest
import torch
from torch.nn import functional

import kinrank
from kinrank.learned.fitting import build
from kinrank.learned.gss import GalleryGraph, GSSNetwork, GSSTask, embed, multiply, sparse
from kinrank.learned.networks import (
    CSANetwork,
    LAttQENetwork,
    SSRNetwork,
    _around,
    _order,
    contrastive,
)
from kinrank.learned.recipes import CSARecipe, GSSRecipe, LAttQERecipe, SSRRecipe
from kinrank.parallel import Runner
from row_data import unit

RUN = Runner.of(1)


def points(n, width, seed=0):
    return unit(np.random.default_rng(seed).normal(size=(n, width)) + 0.3).astype(np.float32)


def stirred(network, seed=1):
    """The same network with random numbers in every layer."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return network


def by_row(ranking):
    """The distances in the order of the gallery."""
    return np.take_along_axis(ranking.distances, np.argsort(ranking.indices, axis=1), axis=1)


def dense_graph(rows, k):
    """A, one entry after another."""
    n = len(rows)
    similarity = rows @ rows.T
    near = np.argsort(-similarity - 9 * np.eye(n), axis=1)[:, 1 : k + 1]
    w = np.zeros((n, n))
    for i in range(n):
        for j in near[i]:
            w[i, j] = w[j, i] = max(similarity[i, j], 0)
    w += np.eye(n)
    root = 1 / np.sqrt(w.sum(axis=1))
    return root[:, None] * w * root[None], w


# GSS


def test_gss_graph_is_the_dense_one():
    rows = points(40, 6)
    dense = sparse(GalleryGraph(rows, 4, RUN).matrix, torch.device("cpu")).to_dense()
    np.testing.assert_allclose(dense, dense_graph(rows, 4)[0], atol=1e-6)


def test_gss_with_identity_weights_is_one_smoothing_step():
    rows = points(40, 6)
    graph = GalleryGraph(rows, 4, RUN)
    network = GSSNetwork(6, decay=0.0)
    with torch.no_grad():
        for layer in (network.first, network.second):
            layer.weight.copy_(torch.eye(6))
    _, smoothed = embed(network, graph.smoothed, lambda h: multiply(graph.matrix, h, RUN))
    np.testing.assert_allclose(smoothed, unit(dense_graph(rows, 4)[0] @ rows), atol=1e-6)
    # And with the second layer: another step through the nonlinearity, added.
    network.decay = 0.3
    _, both = embed(network, graph.smoothed, lambda h: multiply(graph.matrix, h, RUN))
    a = dense_graph(rows, 4)[0]
    elu = lambda x: np.where(x > 0, x, np.expm1(x))  # noqa: E731
    first = a @ rows
    np.testing.assert_allclose(both, unit(first + 0.3 * elu(a @ elu(first))), atol=1e-5)


def test_gss_begins_next_to_the_identity_and_ranks_as_the_smoothed_vectors(half):
    queries, gallery = (unit(part).astype(np.float32) for part in half[2][:2])
    fitted = kinrank.GSS(k1=4, kq=3, decay=0.0, epochs=1, rate=1e-12, penalty=0.0).fit(gallery)
    a, w = dense_graph(gallery, 4)
    ranked = fitted.search(queries)
    for q, query in enumerate(queries):
        s = gallery @ query
        near = np.argsort(-s)[:3]
        weight = np.zeros(len(gallery))
        weight[near] = np.maximum(s[near], 0)
        degree = 1 + weight.sum()
        moved = (weight / np.sqrt(degree * w.sum(axis=1))) @ gallery + query / degree
        scores = unit(a @ gallery) @ unit(moved)
        np.testing.assert_allclose(-ranked.distances[q], np.sort(scores)[::-1], atol=2e-4)


def test_gss_batches_compute_what_the_whole_graph_does():
    rows = points(60, 5)
    graph = GalleryGraph(rows, 3, RUN)
    recipe = GSSRecipe(k1=3, batch=17)
    network = stirred(build(recipe, 5))
    task = GSSTask(network, graph, recipe)
    some = task._rows(17, [0, 1, 0])
    assert len(np.unique(some)) == 17
    device = torch.device("cpu")
    whole = network(
        torch.from_numpy(graph.smoothed), sparse(graph.matrix, device), torch.arange(60)
    )
    torch.testing.assert_close(task._embedded(some), whole[some])


def test_gss_loss_is_the_mean_over_all_pairs():
    rows = points(30, 5)
    graph, recipe = GalleryGraph(rows, 3, RUN), GSSRecipe(k1=3, penalty=1e-3)
    network = build(recipe, 5)
    task = GSSTask(network, graph, recipe)
    h = task._embedded(np.arange(30)).detach().numpy()
    assert task.beta == pytest.approx(np.quantile(h @ h.T, 0.98), abs=1e-6)
    pairs = [-0.5 * (max(float(a @ b), 0) - task.beta) ** 2 for a in h for b in h]
    weights = (network.first.weight.detach(), network.second.weight.detach())
    squares = sum(float(weight.square().sum()) for weight in weights)
    (loss,) = task.losses(0)
    assert float(loss.detach()) == pytest.approx(np.mean(pairs) + 1e-3 * squares / 2, rel=1e-4)


def test_gss_learns_to_separate(half):
    gallery = unit(half[2][1]).astype(np.float32)
    graph, recipe = GalleryGraph(gallery, 3, RUN), GSSRecipe(k1=3)
    task = GSSTask(build(recipe, gallery.shape[1]), graph, recipe)
    (before,) = task.losses(0)
    before.backward()
    with torch.no_grad():
        for parameter in task.network.parameters():
            parameter.sub_(0.01 * parameter.grad)
    (after,) = task.losses(0)
    assert float(after.detach()) < float(before.detach())


# LAttQE


def test_lattqe_with_uniform_attention_is_aqe(half, saved):
    queries, gallery, *_ = half[2]
    network = LAttQENetwork(LAttQERecipe(kqe=6), gallery.shape[1])
    with torch.no_grad():
        network.ranks.fill_(1e6)  # so large that the rows make no difference to the tokens
    path = saved("lattqe", network)
    for more in ({}, {"dba": True, "kdba": 4}, {"dba": True, "kdba": 4, "order": "augmented"}):
        found = kinrank.LAttQE(weights=path, kqe=6, **more).rerank(queries, gallery)
        expected = kinrank.AQE(kqe=6, **more).rerank(queries, gallery)
        np.testing.assert_allclose(by_row(found), by_row(expected), atol=2e-6)


def test_lattqe_begins_with_the_similarity_as_weight():
    rows = points(7, 8)
    network = LAttQENetwork(LAttQERecipe(kqe=6), 8)
    with torch.no_grad():
        network.ranks.zero_()
    weights = network(torch.from_numpy(rows[None])).detach().numpy()[0]
    np.testing.assert_allclose(weights, rows @ rows[0], atol=1e-6)


def test_lattqe_the_query_itself_always_has_weight_one():
    network = stirred(LAttQENetwork(LAttQERecipe(kqe=6), 8))
    weights = network(torch.from_numpy(points(14, 8).reshape(2, 7, 8)))
    torch.testing.assert_close(weights[:, 0], torch.ones(2))
    assert float(weights.detach().abs().max()) <= 1 + 1e-6
    assert float(weights.detach()[:, 1:].std()) > 1e-3


# CSA


def test_csa_is_permutation_equivariant():
    network = stirred(CSANetwork(CSARecipe(anchors=9, m=12, width=12, heads=3)))
    affinity = torch.randn(2, 13, 9, generator=torch.Generator().manual_seed(3))
    order = torch.randperm(13, generator=torch.Generator().manual_seed(4))
    tokens = network(affinity).detach()
    torch.testing.assert_close(network(affinity[:, order]).detach(), tokens[:, order])
    assert float((tokens[:, order] - tokens).abs().max()) > 1e-2


def test_csa_attention_is_the_formula():
    network = stirred(CSANetwork(CSARecipe(anchors=5, m=6, width=8, heads=2, blocks=1)))
    affinity = torch.randn(1, 7, 5, generator=torch.Generator().manual_seed(3))
    p = {name: value.detach().numpy() for name, value in network.named_parameters()}

    def norm(x, name):
        centred = x - x.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
        return scaled * p[f"blocks.0.{name}.weight"] + p[f"blocks.0.{name}.bias"]

    x = affinity.numpy()[0] @ p["embed.weight"].T + p["embed.bias"]
    q, k, v = np.split(norm(x, "norm_attention") @ p["blocks.0.qkv.weight"].T, 3, axis=1)
    mixed = np.zeros_like(x)
    for head in (slice(0, 4), slice(4, 8)):
        logits = q[:, head] @ k[:, head].T / 2.0
        share = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        mixed[:, head] = share @ v[:, head]
    x = x + mixed @ p["blocks.0.join.weight"].T + p["blocks.0.join.bias"]
    inner = norm(x, "norm_inner") @ p["blocks.0.widen.weight"].T + p["blocks.0.widen.bias"]
    inner = functional.gelu(torch.from_numpy(inner)).numpy()
    x = x + inner @ p["blocks.0.narrow.weight"].T + p["blocks.0.narrow.bias"]
    np.testing.assert_allclose(network(affinity).detach().numpy()[0], x, atol=1e-5)


def test_csa_affinities_are_similarities_to_the_query_and_its_nearest():
    network = CSANetwork(CSARecipe(anchors=5, m=8, width=12, heads=3))
    rows = points(9, 6)
    affinity = network.affinity(torch.from_numpy(rows[None]), 8).numpy()[0]
    np.testing.assert_allclose(affinity, rows @ rows[:5].T, atol=1e-6)
    few = network.affinity(torch.from_numpy(rows[None, :3]), 2).numpy()[0]
    np.testing.assert_allclose(few[:, :3], rows[:3] @ rows[:3].T, atol=1e-6)
    assert not few[:, 3:].any()


# SSR


def test_ssr_leaves_everything_in_place_before_it_has_learned():
    network = SSRNetwork(SSRRecipe(m=6, hidden=8))
    rows = torch.from_numpy(points(7, 5)[None])
    torch.testing.assert_close(network(rows), rows)


def test_ssr_takes_the_similarities_in_the_published_order():
    rows = points(5, 4).astype(np.float64)
    s = rows @ rows.T
    similarity = torch.from_numpy(s[None])
    around = _around(similarity, _order(similarity)).numpy()[0]
    for i in range(5):
        order = sorted(range(1, 5), key=lambda j: -s[i, j])
        expected = [s[i, 0], *(s[i, j] for j in order), *(s[0, j] for j in order)]
        np.testing.assert_allclose(around[i], expected)


@pytest.mark.parametrize("k", [1, 4, 7])
def test_ssr_synthetic_step_against_finite_differences(k):
    """The step is the gradient of <made, similarities> by the vectors, ``made`` held fixed."""
    rows = 1.7 * np.random.default_rng(2).normal(size=(k + 1, 5))
    network = stirred(SSRNetwork(SSRRecipe(m=k, hidden=8))).double()
    start = torch.from_numpy(rows[None])

    def similarities(values):
        unit_rows = functional.normalize(values, dim=-1)
        return unit_rows @ unit_rows.transpose(1, 2)

    order = _order(similarities(start))
    made = network.of_query(_around(similarities(start), order)).detach()

    def value(array):
        return float((_around(similarities(torch.from_numpy(array[None])), order) * made).sum())

    numeric = np.zeros_like(rows)
    for place in np.ndindex(rows.shape):
        for sign in (1, -1):
            moved = rows.copy()
            moved[place] += sign * 1e-6
            numeric[place] += sign * value(moved) / 2e-6
    step = network.step(network.of_query, start).detach().numpy()[0]
    np.testing.assert_allclose(step, numeric, rtol=1e-5, atol=1e-7)
    assert np.abs(step).max() > 1e-3


def test_ssr_moves_the_query_first_and_then_its_nearest():
    network = stirred(SSRNetwork(SSRRecipe(m=4, hidden=8, steps=1, step_size=0.5)))
    rows = torch.from_numpy(points(5, 6)[None])
    query = rows[:, :1] - 0.5 * network.step(network.of_query, rows)[:, :1]
    between = torch.cat([query, rows[:, 1:]], dim=1)
    nearest = rows[:, 1:] - 0.5 * network.step(network.of_nearest, between)[:, 1:]
    torch.testing.assert_close(network(rows), torch.cat([query, nearest], dim=1))


def test_ssr_computes_wide_vectors_in_the_space_they_span():
    network = stirred(SSRNetwork(SSRRecipe(m=6, hidden=8, steps=2, step_size=0.1)))
    wide = torch.from_numpy(points(14, 40).reshape(2, 7, 40))
    direct = functional.normalize(network(wide), dim=-1)
    expected = (direct[:, :1] * direct).sum(dim=-1)[:, 1:]
    torch.testing.assert_close(network.scores(wide, 6), expected, atol=1e-5, rtol=1e-4)


# The loss


def test_contrastive_by_hand():
    similarity = torch.tensor([[0.9, 0.5, 0.1, -0.2], [0.3, 0.2, 0.1, 0.0]])
    right = torch.tensor([[True, False, True, False], [False, True, False, False]])
    wrong = torch.tensor([[False, True, False, False], [False, False, False, False]])
    s = np.exp(2 * similarity.numpy())
    first = np.mean([-np.log(s[0, j] / (s[0, j] + s[0, 1])) for j in (0, 2)])
    expected = (first + 0) / 2  # nothing is wrong in the second list
    assert float(contrastive(similarity, right, wrong, 2.0)) == pytest.approx(expected, rel=1e-5)
