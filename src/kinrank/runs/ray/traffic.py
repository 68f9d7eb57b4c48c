"""What moved between machines, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kinrank.runs.ray.tasks import Answer


@dataclass
class Traffic:
    """One stage. Bytes that were stored for tasks to read, that came back, and that blocks read.

    tasks : blocks that were worked on; retried : blocks that were begun again
    sent : bytes of arrays stored for this stage and not before; each node that reads one whole from
        the object store or from a URL gets it once
    returned : bytes that tasks sent back or wrote
    looked : blocks whose reading was measured; read, whole, own : sums over these of the bytes in
        pages that the block touched, of all that it might have read, and of the block's own share
    """

    tasks: int = 0
    retried: int = 0
    sent: int = 0
    returned: int = 0
    looked: int = 0
    rows: int = 0
    read: int = 0
    whole: int = 0
    own: float = 0.0

    def count(self, answer: Answer, rows: int, share: float) -> None:
        """One finished block of so many rows, ``share`` of all."""
        self.tasks += 1
        self.returned += answer.written + sum(array.nbytes for array in answer.arrays)
        if answer.whole and answer.read:
            self.looked += 1
            self.rows += rows
            self.read += answer.read
            self.whole += answer.whole
            self.own += share * answer.whole

    def summary(self) -> dict[str, Any]:
        """As the report shows it; what a block reads outside itself is a mean over blocks."""
        known: dict[str, Any] = {
            "tasks": self.tasks,
            "retried": self.retried,
            "sent_bytes": self.sent,
            "returned_bytes": self.returned,
        }
        if self.looked:
            outside = max(0.0, self.read - self.own)
            per_row = self.own / max(1, self.rows)
            known |= {
                "block_rows": round(self.rows / self.looked),
                "block_bytes": round(self.own / self.looked),
                "outside_bytes": round(outside / self.looked),
                "outside_rows": round(outside / self.looked / per_row) if per_row else 0,
                "whole_bytes": round(self.whole / self.looked),
            }
        return known


@dataclass
class Report:
    """Nodes, stages and what they moved; ``summary`` is plain data, ``str`` a table."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    stages: dict[str, Traffic] = field(default_factory=dict)

    def stage(self, name: str) -> Traffic:
        """The count of a stage."""
        return self.stages.setdefault(name, Traffic())

    def summary(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "nodes": self.nodes,
            "stages": {name: stage.summary() for name, stage in self.stages.items()},
        }

    def __str__(self) -> str:
        titles = ("stage", "tasks", "sent", "returned", "a block reads", "outside", "of")
        lines: list[tuple[str, ...]] = [titles]
        for name, stage in self.stages.items():
            known = stage.summary()
            read = [
                size_text(known[key]) if key in known else "-"
                for key in ("block_bytes", "outside_bytes", "whole_bytes")
            ]
            moved = (size_text(known["sent_bytes"]), size_text(known["returned_bytes"]))
            lines.append((name, str(stage.tasks), *moved, *read))
        widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if at else cell.ljust(width)
                for at, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        )


def size_text(size: float) -> str:
    """Bytes for people: 12 kB, 3.4 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
