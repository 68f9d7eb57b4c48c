"""`kinrank project`: learn a projection from vectors, and project vectors by it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kinrank.cli.files import ask, ask_array, ask_json, ask_out, ask_threads
from kinrank.cli.report import running
from kinrank.cli.tables import ask_column, read_vectors
from kinrank.io import load_array, save_npy


@click.command()
@ask_array("--gallery", "Vectors to learn from, those that will be searched.")
@ask_array("--map", "A projection that was saved, instead of --gallery.", to="map_file")
@ask_array("--apply", "Vectors to project; --out then gets these.", to="vectors")
@ask_out(
    "The projection (safetensors; ONNX by the ending .onnx), or with --apply an npy file of the "
    "projected vectors.",
    required=True,
)
@ask_column
@ask("--kind", "pairs, views, or a power of whitening from 0 to 0.5.", default="pairs")
@ask_array("--ids", "Labels of the gallery, where there are some: rows of one label are pairs.")
@ask_threads
@ask_json()
def project(
    gallery: str | None,
    map_file: str | None,
    vectors: str | None,
    column: str | None,
    out: Path,
    kind: str,
    ids: str | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Learn a projection that makes plain search better, without labels.

    `kinrank project --gallery g.npy --out map.safetensors` learns it. `kinrank project --map
    map.safetensors --apply q.npy --out projected.npy` projects vectors, for any search by cosine.
    """
    from kinrank import Projection

    if (gallery is None) == (map_file is None):
        raise click.UsageError("Give either --gallery to learn from, or --map.")
    if map_file is not None and ids is not None:
        raise click.UsageError("--ids goes with --gallery.")
    with running():
        if map_file is not None:
            projection = Projection.load(map_file)
        else:
            assert gallery is not None
            labels = None if ids is None else load_array(ids)
            projection = Projection.fit(
                read_vectors(gallery, column), labels, kind=kind, threads=threads
            )
        if vectors is not None:
            save_npy(out, projection.transform(read_vectors(vectors, column)))
        elif out.suffix == ".onnx":
            projection.to_onnx(out)
        else:
            projection.save(out)
    if as_json:
        summary = {"kind": projection.kind, "reason": projection.reason}
        sizes = {"width": projection.width, "dims": projection.dims}
        click.echo(json.dumps({**summary, **sizes, "output": str(out)}))
        return
    sentence = f"{projection.width} dimensions to {projection.dims}: {out}"
    click.echo(f"{projection.reason}\n{sentence}".strip(), err=True)
