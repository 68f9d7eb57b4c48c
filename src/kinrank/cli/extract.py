"""`kinrank extract`, `whiten` and `models`: pictures in, features out."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kinrank.cli.files import array_file, ask, ask_all, ask_array, ask_json, ask_out, ask_threads
from kinrank.cli.report import running, shown_warnings
from kinrank.cli.tables import ask_column, read_vectors
from kinrank.errors import InvalidInputError
from kinrank.io import load_array
from kinrank.progress import format_seconds

if TYPE_CHECKING:
    from kinrank.features import Descriptor, Summary

SHOWN_FAILURES = 20
PREPROCESSING = (
    ("size", "N|HxW", "Height and width of what the network sees."),
    ("resize", "stretch|shortest|longest|none", "How a picture gets that size."),
    ("crop", "N|HxW", "Cut this out of the middle afterwards."),
    ("filter", "NAME", "nearest, box, bilinear, hamming, bicubic or lanczos."),
    ("pixel_max", "NUMBER", "What white is before mean and std, 1 or 255."),
    ("mean", "R,G,B", "Subtracted from each channel."),
    ("std", "R,G,B", "Then divided by."),
    ("channels", "rgb|bgr", "The order that the network wants."),
    ("layout", "nchw|nhwc", "Where the network has its channels."),
    ("layer", "NAME", "The value or module to take.  [default: the first output]"),
)
_DESCRIPTOR = ("pool", "p", "levels", "scale_power", "regional", "dims")


@click.command()
@click.argument("images", metavar="IMAGES")
@ask(
    "--model",
    "A name of `kinrank models`, an ONNX file, or module:function for a torch module.",
    default="efficientnet-lite0",
)
@ask_out("An npz file.", required=True)
@ask("--pool", "mac, spoc, gem, rmac, or none.  [default: gem for maps]")
@ask("--p", "Power of GeM.", type=float, default=3.0)
@ask("--levels", "Levels of R-MAC.", type=int, default=3)
@ask("--scales", "Such as 1,0.707,0.5; averaged.", default="1")
@ask("--scale-power", "Of that mean.", type=float, default=1.0)
@ask("--regional", "A row for each region of R-MAC.", is_flag=True)
@ask_array("--whiten", "Of `kinrank whiten`, for rows.")
@ask_array("--region-whiten", "For regions of R-MAC.")
@ask("--dims", "Dimensions to keep of --whiten.  [default: all]", type=int)
@ask("--preset", "imagenet, retrieval, person, fast-reid or efficientnet-lite.")
@ask_all(
    *(
        ask(f"--{name.replace('_', '-')}", text, metavar=shown)
        for name, shown, text in PREPROCESSING
    )
)
@ask("--boxes/--no-boxes", "Cut queries to the boxes of the set.", default=True, show_default=False)
@ask("--batch", "Pictures at a time.", type=int, default=8)
@ask("--part", "Pictures kept at a time.", type=int, default=256)
@ask_threads
@ask("--strict", "Exit with 1 if a picture cannot be read.", is_flag=True)
@ask_json()
def extract(
    images: str,
    model: str,
    out: Path,
    preset: str | None,
    boxes: bool,
    batch: int,
    part: int,
    threads: int | None,
    strict: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Turn pictures into features.

    IMAGES is a folder, perhaps with a folder per class, or a data set as for `kinrank compare`. The
    file written holds `features`, `names` and `labels`; for a data set with two sides `query`,
    `gallery`, and their names and labels, in the order of the set: `kinrank rerank --query
    FILE:query --gallery FILE:gallery` takes it from there.

    What the network wants to see is known for named models, and lies next to an ONNX file (net.json
    for net.onnx), or is a preset, or is given by options.

    A run that was stopped or killed goes on where it was when it is started again. Pictures that
    cannot be read are listed at the end; in a data set they get a row of zeros, so that rows stay
    where they belong. With --strict the exit code is then 1.
    """
    # Here and not above, so that the other commands start without them.
    from kinrank.features import collect, extract_to_file, load_model

    wanted = {name: options[name] for name, *_ in PREPROCESSING if options[name] is not None}
    with running() as run:
        descriptor = _descriptor(options)
        sides = collect(images, boxes=boxes)
        fields = {name: _field(name, text) for name, text in wanted.items()}
        if ":" in model and not Path(model).exists():  # found from here, as by `python -m`
            sys.path.insert(0, str(Path.cwd()))
        network = load_model(model, preset, **fields)
        extracted = extract_to_file(
            sides, network, out, descriptor, batch=batch, part=part, threads=threads
        )
    summary = {
        "model": model,
        "preprocessing": network.preprocessing.describe(),
        "arrays": {name: list(shape) for name, shape in extracted.arrays.items()},
        "n_images": extracted.n_images,
        "n_reused": extracted.n_reused,
        "failures": [{"name": _shown(name), "reason": why} for name, why in extracted.failures],
        **run.summary(out),
    }
    if extracted.failures:
        _list_failures(extracted)
    if as_json:
        click.echo(json.dumps(summary))
    else:
        click.echo(_sentence(summary), err=True)
    if strict and extracted.failures:
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("features", type=array_file, metavar="FEATURES")
@ask_out("The whitening, safetensors.", required=True)
@ask("--dims", "Dimensions to keep.  [default: all]", type=int)
@ask_array(
    "--labels", "Learn from these labels what belongs together, instead of from the rows alone."
)
@ask_column
def whiten(
    features: str, out: Path, dims: int | None, labels: str | None, column: str | None
) -> None:
    """Fit a whitening to features, for `kinrank extract --whiten` and `kinrank rerank --whiten`.

    FEATURES is a file of vectors, such as train.npz:features; use other images than those that you
    will search. By principal components, or with --labels train.npz:labels as Mikolajczyk and Matas
    learn it. `kinrank project` fits to the gallery that will be searched.
    """
    from kinrank.features import learned_whitening, pca_whitening

    rows = read_vectors(features, column)
    with shown_warnings():
        if labels is None:
            fitted = pca_whitening(rows, dims)
        else:
            fitted = learned_whitening(rows, labels=load_array(labels), dims=dims)
    fitted.save(out)
    click.echo(f"{rows.shape[1]} dimensions to {fitted.dims}: {out}", err=True)


@click.command(name="models")
@ask_json("Print a JSON list.")
def models_command(as_json: bool) -> None:
    """List the networks that need no file."""
    from kinrank.features import MODELS

    if as_json:
        rows = [asdict(info) for info in MODELS.values()]
        click.echo(json.dumps(rows, indent=2))
        return
    for info in MODELS.values():
        click.echo(
            f"{info.name}  {info.dims} dimensions  {info.size / 1e6:.1f} MB  {info.licence}  "
            f"sha256 {info.sha256[:16]}\n  {info.source}; package {info.package}"
        )


def _descriptor(options: dict[str, Any]) -> Descriptor:
    from kinrank import Projection
    from kinrank.features import Descriptor

    def load(name: str) -> Projection | None:
        return None if options[name] is None else Projection.load(options[name])

    return Descriptor(
        **{name: options[name] for name in _DESCRIPTOR},
        scales=_numbers("scales", options["scales"]),
        region_whitening=load("region_whiten"),
        whitening=load("whiten"),
    )


def _field(name: str, text: str) -> Any:
    """What was typed for a field of the preprocessing."""
    if name in ("size", "crop"):
        high, times, wide = text.lower().partition("x")
        if not high.isdecimal() or (times and not wide.isdecimal()):
            raise InvalidInputError(f"`{name}` must be N or HEIGHTxWIDTH, got {text!r}.")
        return (int(high), int(wide)) if times else int(high)
    if name in ("mean", "std"):
        return _numbers(name, text)
    return _numbers(name, text)[0] if name == "pixel_max" else text


def _numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError:
        raise InvalidInputError(f"`{name}` must be numbers with commas, got {text!r}.") from None


def _sentence(summary: dict[str, Any]) -> str:
    seconds = summary["seconds"]
    memory = summary["peak_memory_bytes"]
    computed = summary["n_images"] - summary["n_reused"]
    reused = f" ({summary['n_reused']:,} were finished before)" if summary["n_reused"] else ""
    peak = "" if memory is None else f", peak memory {memory / 1e6:,.0f} MB"
    return (
        f"{summary['n_images']:,} pictures{reused} by {summary['model']}: "
        f"{format_seconds(seconds)}, {computed / seconds:,.0f} a second{peak}, "
        f"written to {summary['output']}"
    )


def _list_failures(extracted: Summary) -> None:
    count = len(extracted.failures)
    click.echo(f"{count:,} of {extracted.n_images:,} pictures could not be used:", err=True)
    for name, why in extracted.failures[:SHOWN_FAILURES]:
        click.echo(f"  {_shown(name)}: {why}", err=True)
    if count > SHOWN_FAILURES:
        click.echo(f"  and {count - SHOWN_FAILURES:,} more; --json lists all", err=True)


def _shown(name: str) -> str:
    """A file name that can be printed whatever its bytes are."""
    return os.fsencode(name).decode(errors="replace")
