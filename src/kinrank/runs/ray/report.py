"""What moved between machines, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kinrank.progress import format_bytes, format_seconds
from kinrank.runs.ray.tasks import Answer


@dataclass
class Traffic:
    """One stage. Bytes that were stored for tasks to read, that came back, and that blocks read.

    tasks : blocks that were worked on; retried : blocks that were begun again
    sent : bytes of arrays stored for this stage and not before; each node that reads one whole from
        the object store or from a URL gets it once
    returned : bytes that tasks sent back or wrote
    seconds : processor time of the tasks
    looked : blocks whose reading was measured; rows, read, whole, share : sums over these of their
        rows, of the bytes in pages that the block touched, of all that it might have read, and of
        the block's own share
    """

    tasks: int = 0
    retried: int = 0
    sent: int = 0
    returned: int = 0
    seconds: float = 0.0
    looked: int = 0
    rows: int = 0
    read: int = 0
    whole: int = 0
    share: float = 0.0

    def count(self, answer: Answer, rows: int, share: float) -> None:
        """One finished block of so many rows, ``share`` of all."""
        self.tasks += 1
        self.seconds += answer.seconds
        self.returned += answer.written + sum(array.nbytes for array in answer.arrays)
        if answer.whole and answer.read:
            self.looked += 1
            self.rows += rows
            self.read += answer.read
            self.whole += answer.whole
            self.share += share * answer.whole

    def summary(self) -> dict[str, float]:
        """As the report shows it; what a block reads outside itself is a mean over blocks."""
        facts: dict[str, float] = {
            "tasks": self.tasks,
            "retried": self.retried,
            "cpu_seconds": self.seconds,
            "sent_bytes": self.sent,
            "returned_bytes": self.returned,
        }
        if self.looked:
            outside = max(0.0, self.read - self.share) / self.looked
            per_row = self.share / max(1, self.rows)
            facts |= {
                "block_rows": round(self.rows / self.looked),
                "block_bytes": round(self.share / self.looked),
                "outside_bytes": round(outside),
                "outside_rows": round(outside / per_row) if per_row else 0,
                "whole_bytes": round(self.whole / self.looked),
            }
        return facts


@dataclass
class Report:
    """Nodes, stages and what they moved; ``summary`` is plain data, ``str`` a table."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    stages: dict[str, Traffic] = field(default_factory=dict)

    def stage(self, name: str) -> Traffic:
        return self.stages.setdefault(name, Traffic())

    def summary(self) -> dict[str, Any]:
        stages = {name: traffic.summary() for name, traffic in self.stages.items()}
        return {"nodes": self.nodes, "stages": stages}

    def __str__(self) -> str:
        titles = ("stage", "tasks", "cpu", "sent", "returned", "a block reads", "outside", "of")
        lines: list[tuple[str, ...]] = [titles]
        for name, traffic in self.stages.items():
            facts = traffic.summary()
            sizes = ("sent", "returned", "block", "outside", "whole")
            texts = (
                format_bytes(facts[f"{size}_bytes"]) if f"{size}_bytes" in facts else "-"
                for size in sizes
            )
            seconds = format_seconds(traffic.seconds)
            lines.append((name, str(traffic.tasks), seconds, *texts))
        return "\n".join(
            f"{line[0]:<14}" + "".join(f"{cell:>14}" for cell in line[1:]) for line in lines
        )
