"""Running the command, here or in a process of its own."""

import json
import sys
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from kinrank.cli.app import app

RNG = np.random.default_rng(0)
QUERIES, GALLERY = RNG.normal(size=(4, 6)) / 5, RNG.normal(size=(30, 6)) / 5
# The command in a process of its own, with the fake method registered there. A parent that runs in
# the background may have had SIGINT turned off, and children inherit that.
SCRIPT = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "import sys; sys.path.insert(0, {tests!r}); from kinrank import registry; "
    "registry._METHODS['fake'] = 'fakes:Fake'; from kinrank.cli import main; main()"
)


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args], prog_name="kinrank")


def process(*args):
    script = SCRIPT.format(tests=str(Path(__file__).parent))
    return [sys.executable, "-c", script, *map(str, args)]


def parameters(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["parameters"]
