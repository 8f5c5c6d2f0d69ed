"""Products of matrices under a named contract: reference/matmul."""

import ctypes
import struct
from typing import Any, List, Optional, Sequence, Tuple

from ._arrays import View, count_of, matrix_of, new_buffer, result, view_of
from ._errors import UsageError
from ._formats import _bytes, _lines, check_bytes, formats
from ._library import call, text
from ._quantize import Quantized, _offsets_of, _sizes, _thread_count


class _Operand(ctypes.Structure):
    """mxcheck_c_operand."""

    _fields_ = [("size", ctypes.c_int64), ("format", ctypes.c_char_p), ("codes", ctypes.c_void_p), ("rows", ctypes.c_int64),
                ("cols", ctypes.c_int64), ("block", ctypes.c_char_p), ("scale_type", ctypes.c_char_p), ("scales", ctypes.c_void_p),
                ("scale_cols", ctypes.c_int64), ("transposed", ctypes.c_int64)]


class _Product(ctypes.Structure):
    """mxcheck_c_product."""

    _fields_ = [("size", ctypes.c_int64), ("contract", ctypes.c_char_p), ("a", ctypes.POINTER(_Operand)), ("b", ctypes.POINTER(_Operand)),
                ("groups", ctypes.c_char_p), ("offsets", ctypes.c_void_p), ("offset_count", ctypes.c_int64), ("c", ctypes.c_void_p),
                ("output", ctypes.c_char_p), ("threads", ctypes.c_int64), ("alpha", ctypes.c_double)]


# Bytes of an element of D.
_OUTPUTS = {"fp32": 4, "bf16": 2, "fp16": 2}


def contracts() -> List[str]:
    """Names of sums; a contract is one of them with what is done on top, as "sm90_fp8+promote128"."""
    return text("mxcheck_c_names", b"contracts").split()


def _quantized(q: Quantized, name: str, transposed: bool) -> Tuple[_Operand, View, Any]:
    if q.layout != "compact":
        raise UsageError(f"{name} has scales in layout {q.layout}: quantize it with layout compact")
    codes = view_of(q.codes, f"{name}.codes", codes=True)
    scales = view_of(q.scales, f"{name}.scales", codes=True)
    rows, cols = matrix_of(codes.shape, f"{name}.codes")
    pointer, count = _offsets_of(q.offsets)
    sizes = _sizes(q.format, q.recipe, q.block, q.layout, rows, cols, pointer, count)
    for view, size, what, tensor in ((codes, sizes[0], "codes", q.codes), (scales, sizes[1], "scales", q.scales)):
        if len(view.shape) == 2 and view.shape[0] > 1 and view.row_stride != view.shape[1]:
            raise UsageError(f"{name}.{what} has gaps between rows: make it contiguous")
        check_bytes(tensor, view, size, f"{name}.{what}")
    fp32 = _lines("recipe", q.recipe)["rule"] == "fp32"
    operand = _Operand(ctypes.sizeof(_Operand), q.format.encode(), codes.pointer, rows, cols, q.block.encode(),
                       b"fp32" if fp32 else b"e8m0", scales.pointer, sizes[3], transposed)
    return operand, codes, scales


def _plain(x: Any, name: str, transposed: bool) -> Tuple[_Operand, View, Any]:
    view = view_of(x, name, codes=True)
    info = formats(view.format)
    rows, cols = matrix_of(view.shape, name)
    if len(view.shape) == 2 and rows > 1 and view.row_stride != cols:
        raise UsageError(f"{name} has gaps between rows: make it contiguous")
    check_bytes(x, view, rows * cols * info.code_bytes, name)
    return _Operand(ctypes.sizeof(_Operand), info.name.encode(), view.pointer, rows, cols, b"none", None, None, 0, transposed), view, None


def _operand_of(x: Any, name: str, transposed: bool) -> Tuple[_Operand, View, Any]:
    """The operand, its codes, and what else must stay alive."""
    return _quantized(x, name, transposed) if isinstance(x, Quantized) else _plain(x, name, transposed)


def _fp32(value: float, name: str) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except (struct.error, OverflowError, TypeError):
        raise UsageError(f"{name} is {value!r}: a number in the range of FP32 is needed") from None


class _Call:
    """A product's struct, and all that it points to."""

    def __init__(self, a: Any, b: Any, contract: str, dtype: str, alpha: float, c: Any, groups: Optional[str],
                 offsets: Optional[Sequence[int]], transpose_a: bool, transpose_b: bool, threads: int) -> None:
        if dtype not in _OUTPUTS:
            raise UsageError(f"dtype is {dtype!r}: {', '.join(_OUTPUTS)} are offered")
        operand_a, self.a, self._scales_a = _operand_of(a, "a", transpose_a)
        operand_b, self.b, self._scales_b = _operand_of(b, "b", transpose_b)
        if groups is not None and offsets is None and isinstance(a, Quantized):
            offsets = a.offsets
        self._offsets, count = _offsets_of(offsets if groups is not None else None)
        m = operand_a.cols if transpose_a else operand_a.rows
        n = operand_b.cols if transpose_b else operand_b.rows
        if groups == "rows" and count > 1:
            n //= count - 1
        self.shape: Tuple[int, ...] = (count - 1, m, n) if groups == "depth" and count > 1 else (m, n)
        self.dtype = dtype
        self._c = None if c is None else self._view_of_c(c)
        self.product = _Product(ctypes.sizeof(_Product), _bytes(contract, "contract"), ctypes.pointer(operand_a), ctypes.pointer(operand_b),
                                _bytes("none" if groups is None else groups, "groups"), ctypes.cast(self._offsets, ctypes.c_void_p), count,
                                None if self._c is None else self._c.pointer, dtype.encode(), _thread_count(threads), _fp32(alpha, "alpha"))

    def _view_of_c(self, c: Any) -> View:
        view = view_of(c, "c")
        if view.format != self.dtype or view.shape != self.shape:
            raise UsageError(f"c is {view.shape} of {view.format}: it must be of d's shape and type, {self.shape} of {self.dtype}")
        if len(view.shape) == 2 and view.shape[0] > 1 and view.row_stride != view.shape[1]:
            raise UsageError("c has gaps between rows: make it contiguous")
        return view


def matmul(a: Any, b: Any, contract: str = "exact", dtype: str = "fp32", alpha: float = 1.0, c: Any = None, groups: Optional[str] = None,
           offsets: Optional[Sequence[int]] = None, transpose_a: bool = False, transpose_b: bool = False, threads: int = 0) -> Any:
    """D = alpha A B^T + C under a contract, every output to the bit; of a's kind.

    a: m x k, b: n x k (k x m and k x n with transpose_a, transpose_b): what mxcheck.quantize returned, or codes and values without
    scales. dtype of D: fp32, bf16, fp16; c is of D's type and shape. groups: "rows" (rows offsets[e] to offsets[e + 1] of a times the
    e-th of the experts' matrices, one below the other in b) or "depth" (both transposed; D is experts x m x n, each of its own rows of
    k); offsets are a's where it was quantized with them. UsageError for what does not fit or a contract that there is not.
    """
    made = _Call(a, b, contract, dtype, alpha, c, groups, offsets, transpose_a, transpose_b, threads)
    each = _OUTPUTS[dtype]
    buffer, d_at = new_buffer(count_of(made.shape) * each)
    call("mxcheck_c_matmul", ctypes.addressof(made.product), d_at)
    return result(buffer, made.shape, dtype, each, made.a.kind)


def explain(a: Any, b: Any, place: Tuple[int, int], contract: str = "exact", dtype: str = "fp32", alpha: float = 1.0, c: Any = None,
            groups: Optional[str] = None, offsets: Optional[Sequence[int]] = None, transpose_a: bool = False, transpose_b: bool = False,
            expert: int = 0) -> List[str]:
    """How one output of matmul comes about: a line for every step. place: (row, column), of `expert`'s matrix where groups are "depth"."""
    made = _Call(a, b, contract, dtype, alpha, c, groups, offsets, transpose_a, transpose_b, 1)
    try:
        i, j = (int(at) for at in place)
    except (TypeError, ValueError):
        raise UsageError(f"place is {place!r}: a row and a column are needed") from None
    # Twice the work of one call, once for the size: an output is a few microseconds.
    lines = ctypes.c_int64()
    arguments = (ctypes.addressof(made.product), int(expert), i, j)
    call("mxcheck_c_explain", *arguments, None, 0, ctypes.addressof(lines))
    buffer = ctypes.create_string_buffer(lines.value + 1)
    call("mxcheck_c_explain", *arguments, ctypes.addressof(buffer), len(buffer), ctypes.addressof(lines))
    return buffer.value.decode().splitlines()
