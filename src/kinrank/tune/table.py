"""What tuning found, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kinrank.tune.choose import Curve
from kinrank.tune.tuning import Tuning

BAR = 30


def as_text(found: Tuning) -> str:
    """Parameters, diagnosis and curves, one line each."""
    return "\n".join([*_head(found), *(line for curve in found.curves for line in _lines(curve))])


def call(found: Tuning) -> str:
    """The method as it would be typed: ``cas(k1=20,k2=5)``."""
    params = ",".join(f"{name}={value}" for name, value in found.params.items())
    return f"{found.method}({params})"


def facts(found: Tuning) -> dict[str, str]:
    """What is worth knowing, name by name."""
    diagnosis = found.diagnosis
    low, middle, high = diagnosis.cluster_sizes
    seen = "all rows" if found.n_sampled >= found.n_rows else f"{found.n_sampled:,} rows at a time"
    gain = f"{100 * found.gain:+.1f} ± {100 * found.gain_error:.1f} points of mAP"
    return {
        "chosen": call(found),
        "verdict": f"re-ranking {diagnosis.verdict}",
        "because": diagnosis.reason,
        "expected gain": gain if diagnosis.helps else "none",
        "cluster sizes": f"{low} to {high}, half below {middle}" if high else "no clusters",
        "singletons": f"{diagnosis.singletons:.0%} of the rows, at most",
        "hubness": f"{diagnosis.hubness:.1f}",
        "dimension": f"{diagnosis.intrinsic_dimension:.0f}",
        "looked at": f"{found.n_pairs} splits of the features, {seen} of {found.n_rows:,}",
        "time": f"{found.seconds:.1f} s",
    }


def shown(value: Any) -> str:
    """A value of a parameter, short."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _head(found: Tuning) -> Iterator[str]:
    for name, text in facts(found).items():
        yield f"{name:<14}{text}"


def _lines(curve: Curve) -> Iterator[str]:
    """A small table with bars from the least to the largest agreement."""
    yield ""
    yield f"{curve.parameter:<10}{'agreement':>10}{'± to best':>11}   chosen: {shown(curve.chosen)}"
    low, high = min(curve.agreement), max(curve.agreement)
    for value, agreed, error in zip(curve.values, curve.agreement, curve.error, strict=True):
        length = round(BAR * (agreed - low) / (high - low)) if high > low else BAR
        line = f"{shown(value):<10}{100 * agreed:>10.1f}{100 * error:>11.1f}   {'█' * length}"
        yield line.rstrip()
