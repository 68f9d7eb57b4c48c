from dataclasses import asdict

import numpy as np
import pytest

from learned_models import WIDTH


@pytest.fixture(scope="session")
def people():
    """Forty identities of ten rows that half of the directions say nothing about."""
    rng = np.random.default_rng(5)
    labels = np.repeat(np.arange(40), 10)
    centres = rng.normal(size=(40, WIDTH))
    centres[:, WIDTH // 2 :] = 0
    rows = centres[labels] + 0.8 * rng.normal(size=(400, WIDTH))
    return rows.astype(np.float32), labels


@pytest.fixture(scope="session")
def half(people):
    """Rows and labels to train on; queries, gallery and their labels of other identities."""
    rows, labels = people
    train = labels < 24
    query = ~train & (np.arange(len(rows)) % 10 == 0)
    gallery = ~train & ~query
    test = (rows[query], rows[gallery], labels[query], labels[gallery])
    return rows[train], labels[train], test


@pytest.fixture
def saved(tmp_path):
    """Write a network with its model card, as training does."""
    from kinrank.learned import Card
    from kinrank.learned.network import size, to_arrays
    from kinrank.learned.recipes import save_weights

    def save(name, network, width=WIDTH):
        path = tmp_path / f"{name}.safetensors"
        parameters = asdict(network.recipe)
        card = Card(method=name, dimension=width, parameters=parameters, size=size(network))
        save_weights(path, to_arrays(network), card)
        return path

    return save
