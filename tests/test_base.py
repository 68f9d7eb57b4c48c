"""What works with the base alone, numpy and numba: scipy is an extra."""

import subprocess
import sys

CODE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "scipy":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())

import numpy as np
import kinrank
from kinrank.compat import compute_jaccard_distance
from kinrank.registry import untrained_methods

random = np.random.default_rng(0)
rows = np.repeat(random.normal(size=(12, 16)), 10, axis=0) + 0.4 * random.normal(size=(120, 16))
labels = np.repeat(np.arange(12), 10)
queries, gallery = rows[::10], np.delete(rows, np.s_[::10], axis=0)
found = np.delete(labels, np.s_[::10])
small = {
    "cas": {"k1": 6, "k2": 3}, "cdm": {"steps": 2, "pool": 20}, "sg": {"m": 20},
    "fsr": {"k1": 8, "rank": 5}, "egt": {"k1": 8, "dialect": "layer6"},
}
for name in untrained_methods():
    ranking = kinrank.rerank(queries, gallery, name, 10, **small.get(name, {}))
    scores = kinrank.evaluate.retrieval(ranking, labels[::10], found)
    assert scores.ap.mean() > 0.5, name
for options in ({"symmetric": False}, {"solver": "dense"}, {"divergence": "similarity"}):
    kinrank.CAS(k1=6, k2=3, geodesic=True, **options).rerank(queries, gallery, 10)

index = kinrank.CAS(k1=6, k2=3).fit(gallery[:90])
index.add(gallery[90:])
index.save(sys.argv[1])
again = kinrank.open(sys.argv[1]).search(queries, 5)
assert (again.indices == index.search(queries, 5).indices).all()

distances = compute_jaccard_distance(gallery, k1=6, k2=3)
assert distances.shape == (108, 108)
assert kinrank.tune(queries, gallery, budget=1.0).params
try:
    kinrank.jaccard_graph(gallery, k1=6, k2=3)
except kinrank.OptionalDependencyError as error:
    assert "kinrank[scipy]" in str(error)
else:
    raise AssertionError
assert not any(name.partition(".")[0] == "scipy" for name in sys.modules)
print("done")
"""


def test_everything_but_matrices_of_scipy_works_without_it(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", CODE, str(tmp_path / "index")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "done", done.stderr
