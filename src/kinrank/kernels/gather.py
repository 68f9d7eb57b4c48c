"""Sums of weighted rows of a matrix, in the processor's vectors.

numba compiles a loop that adds rows to a row so that it loads and stores the sum at every entry,
since the sum might be among the rows that are read. Here it stays in registers, which is two to
eight times as fast. The code is made of LLVM's vectors, which suit every processor. A row's terms
are added in their order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import config, types
from numba.extending import intrinsic

_FLOAT, _INT, _PLACE = ir.FloatType(), ir.IntType(64), ir.IntType(32)
_FUSED = ("contract",)


class _Rows(NamedTuple):
    """A loop over the entries of a sparse row, and the rows of a matrix that they name."""

    builder: Any
    begin: Any
    end: Any
    ids: Any
    matrix: Any
    width: int

    def load(self, pointer: Any, row: Any) -> Any:
        """A row of a matrix."""
        return self.builder.load(self.place(pointer, row), align=4)

    def place(self, pointer: Any, row: Any) -> Any:
        """Where a row of a matrix is."""
        at = self.builder.mul(row, ir.Constant(_INT, self.width))
        kind = ir.PointerType(ir.VectorType(_FLOAT, self.width))
        return self.builder.bitcast(self.builder.gep(pointer, [at]), kind)

    def shuffled(self, a: Any, b: Any, places: Any) -> Any:
        """Some places of two vectors after each other."""
        chosen = ir.Constant(ir.VectorType(_PLACE, len(places)), list(places))
        return self.builder.shuffle_vector(a, b, chosen)

    def everywhere(self, number: Any, width: int) -> Any:
        """A vector of one number."""
        empty = ir.Constant(ir.VectorType(_FLOAT, width), ir.Undefined)
        first = self.builder.insert_element(empty, number, ir.Constant(_PLACE, 0))
        return self.shuffled(first, empty, [0] * width)

    def sums(self, starts: list[Any], weights: list[Any]) -> list[Any]:
        """``starts`` plus the rows times their weights; a narrow one takes a row's first part."""
        builder, before = self.builder, self.builder.block
        head, body, after = (builder.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        entry, totals = builder.phi(_INT), [builder.phi(start.type) for start in starts]
        builder.cbranch(builder.icmp_signed("<", entry, self.end), body, after)
        builder.position_at_end(body)
        row = builder.zext(builder.load(builder.gep(self.ids, [entry])), _INT)
        values, more = self.load(self.matrix, row), []
        for total, weight in zip(totals, weights, strict=True):
            width = total.type.count
            factor = self.everywhere(builder.load(builder.gep(weight, [entry])), width)
            part = self.shuffled(values, values, range(width))
            more.append(builder.fadd(total, builder.fmul(factor, part, _FUSED), flags=_FUSED))
        entry.add_incoming(self.begin, before)
        entry.add_incoming(builder.add(entry, ir.Constant(_INT, 1)), body)
        for total, start, end in zip(totals, starts, more, strict=True):
            total.add_incoming(start, before)
            total.add_incoming(end, body)
        builder.branch(head)
        builder.position_at_end(after)
        return totals


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    return context.make_array(kind)(context, builder, array).data


def _zeros(width: int) -> Any:
    return ir.Constant(ir.VectorType(_FLOAT, width), [0.0] * width)


@intrinsic(prefer_literal=True)
def add_rows(_context, width, begin, end, ids, weights, x, out, at):  # type: ignore[no-untyped-def]
    """out[at] += sum of weights[e] x[ids[e]] over the entries [begin, end); rows of ``width``."""
    kinds = (width, types.int64, types.int64, ids, weights, x, out, types.int64)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        pairs = zip(signature.args[3:7], args[3:7], strict=True)
        entries, factors, matrix, target = (_data(context, builder, *pair) for pair in pairs)
        rows = _Rows(builder, args[1], args[2], entries, matrix, width.literal_value)
        place = rows.place(target, args[7])
        (total,) = rows.sums([builder.load(place, align=4)], [factors])
        builder.store(total, place, align=4)
        return context.get_dummy_value()

    return types.void(*kinds), generate


@intrinsic(prefer_literal=True)
def walk_row(_context, lanes, begin, end, ids, w, b, pull, now, then, at):  # type: ignore[no-untyped-def]
    """A row of u <- S u and r <- S r + pull B u; u and r are halves of rows of 2 ``lanes``."""
    kinds = (lanes, types.int64, types.int64, ids, w, b, types.float32, now, then, types.int64)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        picked = (3, 4, 5, 7, 8)
        entries, s, starts, matrix, target = (
            _data(context, builder, signature.args[t], args[t]) for t in picked
        )
        half = lanes.literal_value
        rows = _Rows(builder, args[1], args[2], entries, matrix, 2 * half)
        both, pulled = rows.sums([_zeros(2 * half), _zeros(half)], [s, starts])
        pulled = builder.fmul(rows.everywhere(args[6], half), pulled)
        pulled = rows.shuffled(_zeros(half), pulled, range(2 * half))
        builder.store(builder.fadd(both, pulled), rows.place(target, args[9]), align=4)
        return context.get_dummy_value()

    return types.void(*kinds), generate


if config.DISABLE_JIT:  # the same in Python

    def add_rows(width, begin, end, ids, weights, x, out, at):  # type: ignore[no-untyped-def]
        """As above."""
        for e in range(begin, end):
            out[at] += weights[e] * x[ids[e], :width]

    def walk_row(lanes, begin, end, ids, w, b, pull, now, then, at):  # type: ignore[no-untyped-def]
        """As above."""
        both, pulled = np.zeros(2 * lanes, np.float32), np.zeros(lanes, np.float32)
        for e in range(begin, end):
            both += w[e] * now[ids[e]]
            pulled += b[e] * now[ids[e], :lanes]
        both[lanes:] += pull * pulled
        then[at] = both
