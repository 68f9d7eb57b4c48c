"""What numba has no words for: sums of rows in the processor's vectors, and looking ahead.

numba compiles a loop that adds rows to a row so that it loads and stores the sum at every entry,
since the sum might be among the rows that are read. Here it stays in registers, which is two to
eight times as fast. The code is made of LLVM's vectors, which suit every processor; the Python
functions say what it does. The terms of a row are added in their order.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple, cast

import numpy as np
from llvmlite import ir
from numba.core import config, types
from numba.extending import intrinsic

from kinrank.kernels.jit import Function

_FLOAT = ir.FloatType()
_INT = ir.IntType(64)
_PLACE = ir.IntType(32)
_FUSED = ("contract",)
_LINE = 16  # numbers of 4 bytes that come together
_ADDRESS = ir.PointerType(ir.IntType(8))
_READ_SOON = [ir.Constant(_PLACE, number) for number in (0, 3, 1)]  # to read, keep, data


class _Rows(NamedTuple):
    """A loop over the entries [begin, end) of a sparse row, which name rows of a matrix."""

    builder: Any
    width: int
    begin: Any
    end: Any
    ids: Any
    matrix: Any

    def place(self, pointer: Any, row: Any) -> Any:
        """Where a row of a matrix is."""
        at = self.builder.mul(row, ir.Constant(_INT, self.width))
        kind = ir.PointerType(ir.VectorType(_FLOAT, self.width))
        return self.builder.bitcast(self.builder.gep(pointer, [at]), kind)

    def shuffled(self, a: Any, b: Any, places: Any) -> Any:
        """Some places of two vectors that follow each other."""
        chosen = ir.Constant(ir.VectorType(_PLACE, len(places)), list(places))
        return self.builder.shuffle_vector(a, b, chosen)

    def everywhere(self, number: Any, width: int) -> Any:
        """A vector of one number."""
        empty = ir.Constant(ir.VectorType(_FLOAT, width), ir.Undefined)
        first = self.builder.insert_element(empty, number, ir.Constant(_PLACE, 0))
        return self.shuffled(first, empty, [0] * width)

    def sums(self, starts: list[Any], weights: list[Any]) -> list[Any]:
        """``starts`` plus the rows times their weights; a narrow one takes a row's first part."""
        before = self.builder.block
        builder = self.builder
        head, body, after = (builder.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        entry = builder.phi(_INT)
        totals = [builder.phi(start.type) for start in starts]
        builder.cbranch(builder.icmp_signed("<", entry, self.end), body, after)
        builder.position_at_end(body)
        row = builder.zext(builder.load(builder.gep(self.ids, [entry])), _INT)
        values = builder.load(self.place(self.matrix, row), align=4)
        more = []
        for total, weight in zip(totals, weights, strict=True):
            width = total.type.count
            factor = self.everywhere(builder.load(builder.gep(weight, [entry])), width)
            term = builder.fmul(factor, self.shuffled(values, values, range(width)), flags=_FUSED)
            more.append(builder.fadd(total, term, flags=_FUSED))
        entry.add_incoming(self.begin, before)
        entry.add_incoming(builder.add(entry, ir.Constant(_INT, 1)), body)
        for total, start, end in zip(totals, starts, more, strict=True):
            total.add_incoming(start, before)
            total.add_incoming(end, body)
        builder.branch(head)
        builder.position_at_end(after)
        return totals


def _zeros(width: int) -> Any:
    return ir.Constant(ir.VectorType(_FLOAT, width), [0.0] * width)


def _generated(emit: Function) -> Any:
    """Compile calls of a function by ``emit``, which gets a builder, the width and the arguments.

    The width must be a constant; of an array ``emit`` gets the address.
    """

    def kind_of(argument: Any) -> Any:
        if isinstance(argument, types.Array):
            return argument
        return types.int64 if isinstance(argument, types.Integer) else types.float32

    def typed(_context: Any, width: Any, *arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            plain = [
                context.make_array(kind)(context, builder, value).data
                if isinstance(kind, types.Array)
                else value
                for kind, value in zip(signature.args, values, strict=True)
            ]
            emit(builder, width.literal_value, *plain[1:])
            return context.get_dummy_value()

        return types.void(width, *map(kind_of, arguments)), generate

    def decorate(function: Function) -> Function:
        if config.DISABLE_JIT:
            return function
        given = inspect.signature(function)
        context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        whole = given.replace(parameters=[context, *given.parameters.values()])
        typed.__signature__ = whole  # type: ignore[attr-defined] # numba asks for it
        return cast("Function", intrinsic(prefer_literal=True)(typed))

    return decorate


def _emit_sum(
    builder: Any,
    width: int,
    begin: Any,
    end: Any,
    ids: Any,
    weights: Any,
    x: Any,
    out: Any,
    at: Any,
) -> None:
    rows = _Rows(builder, width, begin, end, ids, x)
    place = rows.place(out, at)
    (total,) = rows.sums([builder.load(place, align=4)], [weights])
    builder.store(total, place, align=4)


@_generated(_emit_sum)
def add_rows(width, begin, end, ids, weights, x, out, at):
    """out[at] += sum of weights[e] x[ids[e]] over the entries [begin, end); rows of ``width``."""
    for e in range(begin, end):
        out[at] += weights[e] * x[ids[e], :width]


def _emit_diffusion_step(
    builder: Any,
    lanes: int,
    begin: Any,
    end: Any,
    ids: Any,
    s: Any,
    b: Any,
    b_factor: Any,
    now: Any,
    then: Any,
    at: Any,
) -> None:
    rows = _Rows(builder, 2 * lanes, begin, end, ids, now)
    both, b_u = rows.sums([_zeros(2 * lanes), _zeros(lanes)], [s, b])
    b_u = builder.fmul(rows.everywhere(b_factor, lanes), b_u)
    b_u = rows.shuffled(_zeros(lanes), b_u, range(2 * lanes))
    builder.store(builder.fadd(both, b_u), rows.place(then, at), align=4)


@_generated(_emit_diffusion_step)
def diffusion_step(lanes, begin, end, ids, s, b, b_factor, now, then, at):
    """Row ``at`` of u <- S u and r <- S r + b_factor B u, from ``now`` to ``then``.

    begin, end, ids, s, b : the entries of the row in S and B, which share a pattern
    now, then : (n, 2 lanes), u in the first half of a row and r in the second
    """
    both = np.zeros(2 * lanes, np.float32)
    b_u = np.zeros(lanes, np.float32)
    for e in range(begin, end):
        both += s[e] * now[ids[e]]
        b_u += b[e] * now[ids[e], :lanes]
    both[lanes:] += b_factor * b_u
    then[at] = both


def _emit_fetch(builder: Any, count: int, array: Any, at: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [_ADDRESS, *(_PLACE,) * len(_READ_SOON)])
    name = "llvm.prefetch.p0i8"
    ask = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    for more in {*range(0, count, _LINE), count - 1}:
        place = builder.gep(array, [builder.add(at, ir.Constant(_INT, more))])
        builder.call(ask, [builder.bitcast(place, _ADDRESS), *_READ_SOON])


@_generated(_emit_fetch)
def fetch(count, array, at):
    """Ask the memory for ``count`` entries of an array, a few, that are read soon."""
