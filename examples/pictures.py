"""From pictures to a ranking: describe them by a network, then re-rank.

pip install 'kinrank[efficientnet]'; python examples/pictures.py [FOLDER]

FOLDER has a folder of pictures for each class; without one, simple pictures are drawn.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import kinrank
from kinrank import features


def draw(folder: Path) -> None:
    """Shapes in every colour and place: three classes of thirty."""
    rng = np.random.default_rng(0)
    for name, corners in (("triangle", 3), ("square", 4), ("hexagon", 6)):
        (folder / name).mkdir()
        for number in range(30):
            picture = Image.new("RGB", (96, 96), tuple(rng.integers(120, 255, 3).tolist()))
            circle = (*rng.integers(38, 58, 2).tolist(), int(rng.integers(22, 36)))
            ink = tuple(rng.integers(0, 110, 3).tolist())
            turn = int(rng.integers(0, 360))
            ImageDraw.Draw(picture).regular_polygon(circle, corners, rotation=turn, fill=ink)
            picture.save(folder / name / f"{number:02d}.png")


with tempfile.TemporaryDirectory() as temporary:
    folder = Path(sys.argv[1] if sys.argv[1:] and Path(sys.argv[1]).is_dir() else temporary)
    if str(folder) == temporary:
        draw(folder)
    photos = features.extract(folder, "efficientnet-lite0", features.Descriptor(pool="gem"))

print(f"{len(photos.names)} pictures, {photos.features.shape[1]} numbers each")
is_query = np.arange(len(photos.names)) % 5 == 0
queries, gallery = photos.features[is_query], photos.features[~is_query]
labels = np.asarray(photos.labels)

for title, method in (("plain search", kinrank.evaluate.Plain()), ("CAS", kinrank.CAS(k1=15))):
    ranking = method.rerank(queries, gallery)
    found = kinrank.evaluate.retrieval(ranking, labels[is_query], labels[~is_query], k=(10,))
    print(
        f"{title:<12} mAP {100 * found.mAP:.1f}, of the first ten {found.precision[10]:.0%} right"
    )
