"""Jensen-Shannon terms in the processor's vectors.

numba works through the polynomial of ``measures.xlog2x`` one vector at a time, and every step of it
waits for the one before. Here the steps of several vectors follow each other, which takes half the
time. The bits are the same: products and sums are rounded one by one.

As in ``kernels/gather.py``, a Python function says what is computed, and an ``_emit`` function
writes the same as LLVM instructions when numba compiles a call of it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kinrank.kernels.gather import generated
from kinrank.kernels.measures import COEFFICIENTS, ROOT_HALF, xlog2x

WIDTH = 16  # numbers of a vector
PARALLEL = 4  # vectors that are computed step by step together
TERMS = WIDTH * PARALLEL  # terms that are computed at a time
ENTRIES = 8  # of a row that are computed step by step together with WIDTH rows

_FLOAT = ir.FloatType()
_DOUBLE = ir.DoubleType()
_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)
_FLOATS = ir.VectorType(_FLOAT, WIDTH)
_DOUBLES = ir.VectorType(_DOUBLE, WIDTH)
_INTS = ir.VectorType(_INT32, WIDTH)
_MANTISSA_BITS = 23


def _ints(number: int) -> Any:
    """A vector of the same integer."""
    return ir.Constant(_INTS, [number] * WIDTH)


def _floats(number: Any) -> Any:
    """A vector of the same float32."""
    return ir.Constant(_FLOATS, [float(number)] * WIDTH)


def _address(builder: Any, array: Any, entry: Any, kind: Any = _FLOATS) -> Any:
    """The address of the vector that begins at an entry of an array; kind : its type."""
    return builder.bitcast(builder.gep(array, [entry]), ir.PointerType(kind))


def _repeated(builder: Any, number: Any) -> Any:
    """A vector of the same float32, which is not known before."""
    empty = ir.Constant(_FLOATS, ir.Undefined)
    single = builder.insert_element(empty, number, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(single, empty, _ints(0))


def _xlog2x(builder: Any, vectors: list[Any]) -> list[Any]:
    """``measures.xlog2x`` of each number of some vectors, a step of all vectors after the other."""
    shift = _ints(_MANTISSA_BITS)
    exponents = []
    for x in vectors:
        above = builder.sub(builder.bitcast(x, _INTS), _ints(int(ROOT_HALF)))
        exponents.append(builder.ashr(above, shift))
    mantissas = []
    for x, exponent in zip(vectors, exponents, strict=True):
        bits = builder.sub(builder.bitcast(x, _INTS), builder.shl(exponent, shift))
        mantissas.append(builder.fsub(builder.bitcast(bits, _FLOATS), _floats(1)))
    sums = [_floats(COEFFICIENTS[-1]) for _ in vectors]
    for coefficient in COEFFICIENTS[-2::-1]:
        products = [builder.fmul(m, y) for m, y in zip(mantissas, sums, strict=True)]
        sums = [builder.fadd(_floats(coefficient), y) for y in products]
    products = [builder.fmul(m, y) for m, y in zip(mantissas, sums, strict=True)]
    logarithms = [
        builder.fadd(builder.sitofp(exponent, _FLOATS), y)
        for exponent, y in zip(exponents, products, strict=True)
    ]
    return [builder.fmul(x, y) for x, y in zip(vectors, logarithms, strict=True)]


def _emit_pair_terms(builder: Any, count: int, begin: Any, u: Any, v: Any, terms: Any) -> None:
    """``pair_terms`` as LLVM instructions."""
    entries = [builder.add(begin, ir.Constant(_INT64, offset)) for offset in range(0, count, WIDTH)]
    us = [builder.load(_address(builder, u, entry), align=4) for entry in entries]
    vs = [builder.load(_address(builder, v, entry), align=4) for entry in entries]
    both = _xlog2x(builder, [builder.fadd(*pair) for pair in zip(us, vs, strict=True)])
    fus = _xlog2x(builder, us)
    fvs = _xlog2x(builder, vs)
    for entry, fu, fv, f_both in zip(entries, fus, fvs, both, strict=True):
        term = builder.fsub(builder.fadd(fu, fv), f_both)
        builder.store(term, _address(builder, terms, entry), align=4)


@generated(_emit_pair_terms)
def pair_terms(count, begin, u, v, terms):
    """terms[t] = f(u[t]) + f(v[t]) - f(u[t] + v[t]) for t from ``begin`` on, f(x) = x log2 x.

    count : how many, a constant, TERMS; u, v, terms : float32, at least as long as begin + count
    0 where one of both is 0.
    """
    for t in range(begin, begin + count):
        terms[t] = xlog2x(u[t]) + xlog2x(v[t]) - xlog2x(u[t] + v[t])


def _emit_lane_sums(
    builder: Any,
    step: int,
    count: Any,
    ids: Any,
    values: Any,
    entropies: Any,
    u: Any,
    fu: Any,
    sums: Any,
) -> None:
    """``lane_sums`` as LLVM instructions: a loop over ``step`` entries at a time."""
    entry_block = builder.block
    test_block, loop_block, exit_block = (builder.append_basic_block() for _ in range(3))
    builder.branch(test_block)
    builder.position_at_end(test_block)
    begin = builder.phi(_INT64)
    total = builder.phi(_DOUBLES)
    builder.cbranch(builder.icmp_signed("<", begin, count), loop_block, exit_block)
    builder.position_at_end(loop_block)
    both = []
    entropy_sums = []
    for offset in range(step):
        entry = builder.add(begin, ir.Constant(_INT64, offset))
        column = builder.zext(builder.load(builder.gep(ids, [entry])), _INT64)
        place = builder.mul(column, ir.Constant(_INT64, WIDTH))
        v = _repeated(builder, builder.load(builder.gep(values, [entry])))
        fv = _repeated(builder, builder.load(builder.gep(entropies, [entry])))
        both.append(builder.fadd(builder.load(_address(builder, u, place), align=4), v))
        fus = builder.load(_address(builder, fu, place), align=4)
        entropy_sums.append(builder.fadd(fus, fv))
    new_total = total
    for entropy_sum, f_both in zip(entropy_sums, _xlog2x(builder, both), strict=True):
        term = builder.fsub(entropy_sum, f_both)
        new_total = builder.fadd(new_total, builder.fpext(term, _DOUBLES))
    begin.add_incoming(ir.Constant(_INT64, 0), entry_block)
    begin.add_incoming(builder.add(begin, ir.Constant(_INT64, step)), loop_block)
    total.add_incoming(ir.Constant(_DOUBLES, [0.0] * WIDTH), entry_block)
    total.add_incoming(new_total, loop_block)
    builder.branch(test_block)
    builder.position_at_end(exit_block)
    builder.store(total, _address(builder, sums, ir.Constant(_INT64, 0), _DOUBLES), align=8)


@generated(_emit_lane_sums)
def lane_sums(step, count, ids, values, entropies, u, fu, sums):
    """The sums of f(u) + f(v) - f(u + v) of one row v with WIDTH rows u, f(x) = x log2 x.

    step : a constant, ENTRIES; count : how many entries the row has, a multiple of it
    ids, values, entropies : its columns, its values v, and f(v)
    u, fu : (n_columns, WIDTH) float32, the other rows side by side, and f(u)
    sums : (WIDTH,) float64, the output
    """
    sums[:] = 0.0
    for begin in range(0, count, step):
        for e in range(begin, begin + step):
            both = u[ids[e]] + values[e]
            for lane in range(WIDTH):
                sums[lane] += fu[ids[e], lane] + entropies[e] - xlog2x(both[lane])
