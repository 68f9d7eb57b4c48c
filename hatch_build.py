"""Compile the kernels when kinrank is built, so that no first call waits for them.

`KINRANK_TARGETS` says for which processors: "native" (the one at hand, the default), "none", or
names such as "x86-64-v3,x86-64-v4" for a wheel that others install. docs/maintainers.md has more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path(__file__).parent / "src"
MACHINE = SOURCES / "kinrank" / "machine"
COMPILE = f"""
import logging, sys
sys.path.insert(0, {str(SOURCES)!r})
logging.basicConfig(level=logging.INFO, format="%(message)s")
from kinrank import compiling
from kinrank.kernels import jit
print(jit.kernel_folder())
compiling.warmup()
"""


class MachineCode(BuildHookInterface):
    """What `kinrank warmup` does, into a folder of the package.

    Nothing that goes wrong here stops an installation: kernels are then compiled at the first call.
    """

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return self.metadata.core.dependencies if targets() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folders = {folder for target in targets() if (folder := compiled(target)) is not None}
        if not folders:
            return
        for other in set(MACHINE.glob("kernels/*")) - folders:  # of earlier sources
            shutil.rmtree(other, ignore_errors=True)
        if version == "standard":
            for folder in folders:
                build_data["force_include"][str(folder)] = str(folder.relative_to(SOURCES))
            build_data |= {"pure_python": False, "infer_tag": True}


def targets() -> list[str]:
    """Which processors to compile for."""
    names = os.environ.get("KINRANK_TARGETS", "native").split(",")
    return [name for name in map(str.strip, names) if name not in {"", "none"}]


def compiled(target: str) -> Path | None:
    """The folder with the code for a processor; None if there is none, for whatever reason."""
    environment = {**os.environ, "KINRANK_CACHE": str(MACHINE)}
    if target != "native":
        environment |= {"NUMBA_CPU_NAME": target, "NUMBA_CPU_FEATURES": ""}
    try:
        done = subprocess.run(
            [sys.executable, "-c", COMPILE],
            env=environment, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        folder = Path(done.stdout.splitlines()[0])
        next(folder.glob("*.nbc"))
    except Exception as error:  # noqa: BLE001
        print(f"No machine code for {target}: kernels are compiled at first calls ({error!r})")
        return None
    return folder
