"""What numba has no words for: sums of rows in the processor's vectors, and looking ahead.

    add_rows         y[j] += sum over e of weights[e] x[ids[e]], rows of a fixed width
    diffusion_step   a step of the diffusion of many rows side by side
    fetch            ask the memory for entries of an array that are read soon

numba compiles a loop that adds rows to a row so that it loads and stores the sum at every entry,
since the sum might be among the rows that are read. Here it stays in registers, which is two to
eight times as fast. Each of the three is a Python function that says what is computed (and runs
where numba is switched off), and an ``_emit`` function that writes the same as LLVM instructions
when numba compiles a call of it. The terms of a row are added in their order.
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
_INT64 = ir.IntType(64)
_INT32 = ir.IntType(32)
_FUSED = ("contract",)  # allows one instruction for a product and a sum
_CACHE_LINE = 16  # numbers of 4 bytes that the memory hands over together
_ADDRESS = ir.PointerType(ir.IntType(8))
# Of LLVM's prefetch: for reading, to be kept in all caches, of data (and not of instructions).
_READ_SOON = [ir.Constant(_INT32, number) for number in (0, 3, 1)]


class _RowLoop(NamedTuple):
    """Writes a loop over entries [begin, end), each of which names a row of a matrix.

    builder : of LLVM, it appends instructions to the function that is compiled
    width : how many float32 a row of the matrix has; begin, end : int64
    ids : the address of an int32 array, the row of the matrix that each entry names
    matrix : the address of the float32 matrix, (n, width)
    """

    builder: Any
    width: int
    begin: Any
    end: Any
    ids: Any
    matrix: Any

    def row_address(self, pointer: Any, row: Any) -> Any:
        """The address of row number ``row`` of a matrix that begins at ``pointer``."""
        offset = self.builder.mul(row, ir.Constant(_INT64, self.width))
        kind = ir.PointerType(ir.VectorType(_FLOAT, self.width))
        return self.builder.bitcast(self.builder.gep(pointer, [offset]), kind)

    def shuffled(self, a: Any, b: Any, elements: Any) -> Any:
        """The vector of some elements of the vectors a and b, counted through both: a, then b."""
        mask = ir.Constant(ir.VectorType(_INT32, len(elements)), list(elements))
        return self.builder.shuffle_vector(a, b, mask)

    def repeated(self, number: Any, width: int) -> Any:
        """A vector of ``width`` times the same number."""
        empty = ir.Constant(ir.VectorType(_FLOAT, width), ir.Undefined)
        single = self.builder.insert_element(empty, number, ir.Constant(_INT32, 0))
        return self.shuffled(single, empty, [0] * width)

    def sums(self, starts: list[Any], weights: list[Any]) -> list[Any]:
        """For each of ``starts``, the vector plus the sum over entries of a weight times the row.

        starts : vectors; one that is narrower than a row of the matrix takes the row's first part
        weights : for each of ``starts`` the address of a float32 array, a weight for each entry
        """
        entry_block = self.builder.block
        builder = self.builder
        test_block, loop_block, exit_block = (builder.append_basic_block() for _ in range(3))
        builder.branch(test_block)
        builder.position_at_end(test_block)
        entry = builder.phi(_INT64)
        totals = [builder.phi(start.type) for start in starts]
        builder.cbranch(builder.icmp_signed("<", entry, self.end), loop_block, exit_block)
        builder.position_at_end(loop_block)
        row = builder.zext(builder.load(builder.gep(self.ids, [entry])), _INT64)
        values = builder.load(self.row_address(self.matrix, row), align=4)
        new_totals = []
        for total, weight in zip(totals, weights, strict=True):
            width = total.type.count
            factor = self.repeated(builder.load(builder.gep(weight, [entry])), width)
            term = builder.fmul(factor, self.shuffled(values, values, range(width)), flags=_FUSED)
            new_totals.append(builder.fadd(total, term, flags=_FUSED))
        entry.add_incoming(self.begin, entry_block)
        entry.add_incoming(builder.add(entry, ir.Constant(_INT64, 1)), loop_block)
        for total, start, end in zip(totals, starts, new_totals, strict=True):
            total.add_incoming(start, entry_block)
            total.add_incoming(end, loop_block)
        builder.branch(test_block)
        builder.position_at_end(exit_block)
        return totals


def _zeros(width: int) -> Any:
    """A vector of zeros."""
    return ir.Constant(ir.VectorType(_FLOAT, width), [0.0] * width)


def generated(emit: Function) -> Any:
    """A decorator: calls of the function are compiled by ``emit``; without numba it runs as it is.

    emit : gets a builder, the function's first argument, which must be a constant (a width), and
        its other arguments as LLVM values, the address of the first element for an array
    """

    def numba_type(argument: Any) -> Any:
        if isinstance(argument, types.Array):
            return argument
        return types.int64 if isinstance(argument, types.Integer) else types.float32

    def typed_call(_context: Any, width: Any, *arguments: Any) -> Any:
        """What ``intrinsic`` asks for: the types of a call, and what writes its code.

        width : a literal type, the constant; arguments : types
        """

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            # An array as the address of its first element, a number as it is.
            operands = [
                context.make_array(kind)(context, builder, value).data
                if isinstance(kind, types.Array)
                else value
                for kind, value in zip(signature.args, values, strict=True)
            ]
            emit(builder, width.literal_value, *operands[1:])
            return context.get_dummy_value()

        return types.void(width, *map(numba_type, arguments)), generate

    def decorate(function: Function) -> Function:
        if config.DISABLE_JIT:
            return function
        given = inspect.signature(function)
        context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        whole = given.replace(parameters=[context, *given.parameters.values()])
        typed_call.__signature__ = whole  # type: ignore[attr-defined] # numba asks for it
        return cast("Function", intrinsic(prefer_literal=True)(typed_call))

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
    out_row: Any,
) -> None:
    """``add_rows`` as LLVM instructions."""
    rows = _RowLoop(builder, width, begin, end, ids, x)
    address = rows.row_address(out, out_row)
    (total,) = rows.sums([builder.load(address, align=4)], [weights])
    builder.store(total, address, align=4)


@generated(_emit_sum)
def add_rows(width, begin, end, ids, weights, x, out, out_row):
    """out[out_row] += sum of weights[e] x[ids[e]] over the entries [begin, end).

    width : a constant, the number of columns of x and out
    ids, weights : int32 and float32, the row of x and the weight of each entry
    x, out : (n, width) float32, which may be the same array
    """
    for e in range(begin, end):
        out[out_row] += weights[e] * x[ids[e], :width]


def _emit_diffusion_step(
    builder: Any,
    lanes: int,
    begin: Any,
    end: Any,
    ids: Any,
    s: Any,
    b: Any,
    b_factor: Any,
    back: Any,
    b_back: Any,
    current: Any,
    following: Any,
    row: Any,
) -> None:
    """``diffusion_step`` as LLVM instructions."""
    rows = _RowLoop(builder, 2 * lanes, begin, end, ids, current)
    last = builder.load(rows.row_address(following, row), align=4)
    last_u = rows.shuffled(last, last, range(lanes))
    returned = builder.fmul(rows.repeated(back, 2 * lanes), last)
    both, b_u = rows.sums([returned, _zeros(lanes)], [s, b])
    b_u = builder.fmul(rows.repeated(b_factor, lanes), b_u)
    b_u = builder.fadd(b_u, builder.fmul(rows.repeated(b_back, lanes), last_u))
    b_u = rows.shuffled(_zeros(lanes), b_u, range(2 * lanes))
    builder.store(builder.fadd(both, b_u), rows.row_address(following, row), align=4)


@generated(_emit_diffusion_step)
def diffusion_step(lanes, begin, end, ids, s, b, b_factor, back, b_back, current, following, row):
    """One row of u <- S u and r <- S r + b_factor B u for ``lanes`` vectors u and r side by side.

    S and B are n x n matrices on one pattern. To the new u and r are added ``back`` times those of
    the row one step before the current ones, and to r ``b_back`` times that u.
    lanes : a constant; begin, end : the entries of the row
    ids, s, b : int32 columns and float32 values of all entries, of S and of B
    current, following : (n, 2 lanes) float32, before and after the step: u in the first half of a
        row, r in the second; ``following`` comes with those of one step before the current ones
    row : the row of ``following`` that is written
    """
    last_u = following[row, :lanes].copy()
    both = back * following[row]
    b_u = np.zeros(lanes, np.float32)
    for e in range(begin, end):
        both += s[e] * current[ids[e]]
        b_u += b[e] * current[ids[e], :lanes]
    both[lanes:] += b_factor * b_u + b_back * last_u
    following[row] = both


def _emit_fetch(builder: Any, count: int, array: Any, first: Any) -> None:
    """``fetch`` as LLVM instructions: one for each line of the cache."""
    kind = ir.FunctionType(ir.VoidType(), [_ADDRESS, *(_INT32,) * len(_READ_SOON)])
    name = "llvm.prefetch.p0i8"
    prefetch = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    for offset in {*range(0, count, _CACHE_LINE), count - 1}:
        address = builder.gep(array, [builder.add(first, ir.Constant(_INT64, offset))])
        builder.call(prefetch, [builder.bitcast(address, _ADDRESS), *_READ_SOON])


@generated(_emit_fetch)
def fetch(count, array, first):
    """Ask the memory for array[first : first + count], which is read soon; computes nothing.

    count : a constant
    """
