"""Compile the kernels when kinrank is built, so that no first call waits for them.

`KINRANK_TARGETS` says for which processors: "native", the one at hand, is the default; or "none";
or names such as "x86-64-v3,x86-64-v4" for a wheel that others install (docs/maintainers.md).

python hatch_build.py [JOBS]    the same for a work tree; jobs are those of `kinrank warmup`
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # run by itself
    BuildHookInterface = object

SOURCES = Path(__file__).resolve().parent / "src"
MACHINE = SOURCES / "kinrank" / "machine"
HEAD = f"""
import logging, sys
sys.path.insert(0, {str(SOURCES)!r})
logging.basicConfig(level=logging.INFO, format="%(message)s")
from kinrank import compiling
jobs = sys.argv[1].split(",")
"""
COMPILE = HEAD + "done = compiling.warmup(jobs); print(done['compiled'], done['folder'])"
# For somebody at work on the kernels: what was edited comes first, and the first failure ends it.
CHECK = (
    HEAD
    + """
try:
    done = compiling.check_kernels(jobs, since=float(sys.argv[2]))
except compiling.KernelError as error:
    raise SystemExit(str(error))
print(done['compiled'], done['folder'])
"""
)
# In a new process: code that cannot be loaded must not be delivered.
LOAD = HEAD + "for kernel in compiling.kernels_of(jobs): kernel.compile()"


class MachineCode(BuildHookInterface):  # type: ignore[misc]
    """What `kinrank warmup` does, into a folder of the package.

    Nothing that goes wrong here stops an installation: kernels are then compiled at first calls.
    """

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return self.metadata.core.dependencies if targets() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folders = machine_code("all")
        if not folders:
            return
        for other in set(MACHINE.glob("kernels/*")) - folders:  # of earlier sources
            shutil.rmtree(other, ignore_errors=True)
        if version == "standard":
            for folder in folders:
                build_data["force_include"][str(folder)] = str(folder.relative_to(SOURCES))
            build_data |= {"pure_python": False, "infer_tag": True}
            if "native" not in targets():  # an index takes no plain `linux`
                from packaging.tags import sys_tags

                tags = [str(tag) for tag in sys_tags() if "manylinux_2_17_" in tag.platform]
                build_data |= {"tag": tags[0]} if tags else {}


def targets() -> list[str]:
    """Which processors to compile for."""
    names = os.environ.get("KINRANK_TARGETS", "native").split(",")
    return [name for name in map(str.strip, names) if name not in {"", "none"}]


def machine_code(jobs: str) -> set[Path]:
    """Compile; the folder of the code, or nothing where that failed."""
    folders = set()
    for target in targets():
        try:
            folders.add(compiled(jobs, target))
        except Exception as error:  # noqa: BLE001
            print(f"No machine code ({target}): kernels are compiled at first calls. {error}")
    return set(filter(Path.is_dir, folders))


def compiled(jobs: str, target: str) -> Path:
    """Compile for one kind of processors."""
    environment = {**os.environ, "KINRANK_CACHE": str(MACHINE)}
    if target != "native":
        environment |= {"NUMBA_CPU_NAME": target, "NUMBA_CPU_FEATURES": ""}

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code, jobs],
            env=environment, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    count, name = run(COMPILE).split(" ", 1)
    if int(count):
        try:
            run(LOAD)
        except BaseException:
            shutil.rmtree(name, ignore_errors=True)
            raise
    return Path(name)


def last_build() -> float:
    """When code was last compiled into the work tree; now, if never."""
    times = [path.stat().st_mtime for path in MACHINE.glob("kernels/*/*")]
    return max(times, default=time.time())


def check_work_tree(jobs: str) -> None:
    """Compile for the processor at hand; end at once if a kernel does not compile."""
    if "native" not in targets():
        return
    since = last_build()
    command = [sys.executable, "-c", CHECK, jobs, str(since)]
    environment = {**os.environ, "KINRANK_CACHE": str(MACHINE)}
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise SystemExit(1)


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else "all"
    check_work_tree(wanted)
    machine_code(wanted)
