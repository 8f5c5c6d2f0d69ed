"""Products of matrices under a named contract: reference/matmul."""

import ctypes
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ._arrays import View, count_of, new_buffer, result, view_of
from ._errors import UsageError
from ._formats import _lines, check_bytes
from ._library import call, text
from ._names import encoded, format_name, number, one_of, told, whole
from ._operands import _UNSIGNED, Operand, Side, side_of
from ._quantize import Quantized, _offsets_of, _thread_count


class _Product(ctypes.Structure):
    """mxcheck_c_product."""

    _fields_ = [("size", ctypes.c_int64), ("contract", ctypes.c_char_p), ("a", ctypes.POINTER(Operand)), ("b", ctypes.POINTER(Operand)),
                ("groups", ctypes.c_char_p), ("offsets", ctypes.c_void_p), ("offset_count", ctypes.c_int64), ("c", ctypes.c_void_p),
                ("output", ctypes.c_char_p), ("threads", ctypes.c_int64), ("alpha", ctypes.c_double)]


# Bytes of an element of D, and what may hold its bits.
_OUTPUTS = {"fp32": 4, "bf16": 2, "fp16": 2}
_NAMES_OF = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16"}
_BITS = {4: ("uint32", "int32"), 2: ("uint16", "int16")}


def contracts() -> List[str]:
    """Names of sums; a contract is one of them with what is done on top, as "sm90_fp8+promote128"."""
    return text("mxcheck_c_names", b"contracts").split()


def contract(name: str) -> Dict[str, str]:
    """A contract by its text: the formats of its operands and of scales of its own, D's format, promotion, and the evidence for it."""
    return dict(_lines("contract", name))


def _operand_format(x: Any, format: Any) -> str:
    """The format of an operand's elements."""
    if isinstance(x, Quantized) or format is not None:
        return format_name(x.format if isinstance(x, Quantized) else format)
    found = view_of(x, "a", codes=True).format
    return format_name(_UNSIGNED.get(found, found))


def _require_contract(contract: Any, a: Any, scaled: bool, format_a: Any) -> str:
    """The contract's text. There is no default: which order of sums, and which precision between them, is what a product is checked for."""
    if contract is not None:
        return str(encoded(contract, "contract"), "utf-8")
    format = _operand_format(a, format_a)
    interval = a.block.split("x")[-1] if isinstance(a, Quantized) and a.block != "row" else "128"  # of k, for a scale
    likely = []
    for name in contracts():
        row = _lines("contract", name)
        if format in row["operands"].split() and (scaled or not row["scales"]):
            promotes = scaled and not row["scales"] and name not in ("exact", "ieee_fp32")
            likely.append(f"{name}+promote{interval}" if promotes else name)
    raise UsageError(f"contract is missing: it says which sums the kernel makes, and nothing is taken for granted. For operands in {format}"
                     f"{' with scales' if scaled else ''} there are {', '.join(likely) or 'none'} (docs/contracts.md)")


def _height(block: str) -> int:
    """Rows of a block; 1 of whole rows."""
    return 1 if block == "row" else int(block.split("x")[0])


def _check_restarts(q: Quantized, name: str, groups: Optional[str], offsets: Optional[Tuple[int, ...]]) -> None:
    """Blocks of several rows restart where experts begin: an operand's must where the product's do, and nowhere else."""
    own = q.offsets is not None and len(q.offsets) > 2
    rows = matrix_rows(q)
    if _height(q.block) == 1:
        return
    if groups is None:
        if own:
            raise UsageError(f"{name} has blocks that restart at experts: groups='rows' or 'depth' is needed")
    elif offsets is None or len(offsets) < 2:
        return  # the call says so
    elif groups == "depth" or name == "a":
        if tuple(q.offsets or (0, rows)) != offsets:
            raise UsageError(f"{name} has blocks of several rows that restart elsewhere than the product's experts: quantize it with "
                             f"offsets={list(offsets)}")
    else:  # weights of experts, one below the other
        n = max(1, rows // (len(offsets) - 1))
        if q.offsets != tuple(range(0, rows + 1, n)) and (own or n % _height(q.block)):
            raise UsageError(f"b has blocks of {_height(q.block)} rows that run across experts of {n} or restart elsewhere: quantize it with "
                             f"offsets=range(0, {rows + 1}, {n})")


def matrix_rows(q: Quantized) -> int:
    shape = tuple(q.codes.shape)
    return int(shape[0]) if len(shape) == 2 else 1


class _Call:
    """A product's struct, and all that it points to."""

    def __init__(self, a: Any, b: Any, contract: Any, dtype: Any, alpha: float = 1.0, c: Any = None, groups: Optional[str] = None,
                 offsets: Optional[Sequence[int]] = None, transpose_a: bool = False, transpose_b: bool = False, threads: int = 0, scale_a: Any = None,
                 scale_b: Any = None, block_a: Any = None, block_b: Any = None, layout: str = "compact",
                 format_a: Any = None, format_b: Any = None) -> None:
        scaled = scale_a is not None or scale_b is not None or isinstance(a, Quantized)
        contract = _require_contract(contract, a, scaled, format_a)
        row = _lines("contract", contract)
        self.dtype = row["output"] if dtype is None else format_name(dtype, "dtype", _OUTPUTS)
        if groups is not None:
            one_of(groups, "groups", ("rows", "depth", "none"))
        if groups is None and offsets is not None:
            raise UsageError("offsets divide groups: give groups='rows' or groups='depth' too")
        if groups is not None and offsets is None and isinstance(a, Quantized):
            offsets = a.offsets
        self._offsets, count = _offsets_of(offsets if groups is not None else None)
        restarts_b = (self._offsets, count) if groups == "depth" else (None, 0)
        self._sides = (side_of(a, "a", bool(transpose_a), row, scale_a, block_a, layout, format_a, self._offsets, count),
                       side_of(b, "b", bool(transpose_b), row, scale_b, block_b, layout, format_b, *restarts_b))
        known = None if self._offsets is None else tuple(self._offsets)
        for x, name in ((a, "a"), (b, "b")):
            if isinstance(x, Quantized):
                _check_restarts(x, name, groups, known)
        self.stack = self._stack_of(groups)
        self._set_shape(groups, count)
        self.kind = self._sides[0].kind
        self._c = None if c is None else self._view_of_c(c)
        operands = [ctypes.pointer(side.operand) for side in self._sides]
        self.product = _Product(ctypes.sizeof(_Product), encoded(contract, "contract"), *operands,
                                encoded("none" if groups is None else groups, "groups"), ctypes.cast(self._offsets, ctypes.c_void_p), count,
                                None if self._c is None else self._c.pointer, self.dtype.encode(), _thread_count(threads), number(alpha, "alpha"))

    def _stack_of(self, groups: Optional[str]) -> Optional[int]:
        counts = [side.count for side in self._sides]
        if counts == [None, None]:
            return None
        if counts[0] != counts[1]:
            raise UsageError(f"a has {counts[0] or 'no'} matrices in a stack, b has {counts[1] or 'no'}: as many are needed")
        if groups is not None:
            raise UsageError("groups are of matrices, not of stacks of them")
        return counts[0]

    def _set_shape(self, groups: Optional[str], count: int) -> None:
        a, b = (side.operand for side in self._sides)
        m = a.cols if a.transposed else a.rows
        n = b.cols if b.transposed else b.rows
        if groups == "rows" and count > 1:
            if self._sides[1].scale_step and n // (count - 1) % _height(b.block.decode()):
                raise UsageError(f"b has blocks {b.block.decode()} that run across experts of {n // (count - 1)} rows: give what mxcheck.quantize "
                                 "makes of it with offsets")
            n //= count - 1
        self.shape: Tuple[int, ...] = (count - 1, m, n) if groups == "depth" and count > 1 else (m, n)
        if self.stack is not None:
            self.shape = (self.stack, m, n)

    def _view_of_c(self, c: Any) -> View:
        view = view_of(c, "c", codes=True)
        named = _NAMES_OF.get(view.format, view.format)
        each = _OUTPUTS[self.dtype]
        if (named != self.dtype and view.format not in _BITS[each]) or view.shape != self.shape:
            raise UsageError(f"c is {view.shape} of {view.format}: it must be of d's shape and type, {self.shape} of {self.dtype}, or its bits")
        if len(view.shape) == 2 and view.shape[0] > 1 and view.row_stride != view.shape[1]:
            raise UsageError("c has gaps between rows: make it contiguous")
        check_bytes(view, count_of(self.shape) * each, "c")
        return view

    def compute(self) -> Any:
        each = _OUTPUTS[self.dtype]
        buffer, d_at = new_buffer(count_of(self.shape) * each)
        step = count_of(self.shape[1:]) * each
        for n in range(1 if self.stack is None else self.stack):
            operands = [side.at(n) for side in self._sides]  # kept while the call reads them
            self.product.a, self.product.b = (ctypes.pointer(operand) for operand in operands)
            if self._c is not None:
                self.product.c = (self._c.pointer or 0) + n * step
            call("mxcheck_c_matmul", ctypes.addressof(self.product), d_at + n * step)
        return result(buffer, self.shape, self.dtype, each, self.kind)


def matmul(a: Any, b: Any, contract: Optional[str] = None, dtype: Any = "fp32", alpha: float = 1.0, c: Any = None, groups: Optional[str] = None,
           offsets: Optional[Sequence[int]] = None, transpose_a: bool = False, transpose_b: bool = False, threads: int = 0, *, scale_a: Any = None,
           scale_b: Any = None, block_a: Any = None, block_b: Any = None, layout: str = "compact",
           format_a: Any = None, format_b: Any = None) -> Any:
    """D = alpha A B^T + C under a contract, every output to the bit; of a's kind.

    a: m x k, b: n x k (k x m and k x n with transpose_a, transpose_b): what mxcheck.quantize returned, or codes and values, whose format
    is that of their type (uint8: e4m3) unless format_a, format_b say it. scale_a, scale_b: of such, E8M0 bytes (UE4M3 where the contract has
    those) or FP32, of blocks block_a, block_b of the tensor's rows and columns, ("1x32", "128x128", "32x1" ...; without them 1 x as many
    products as the contract has a scale for), compact as a matrix of blocks, or a vector of bytes in `layout` (tcgen05, deepgemm).
    A stack of matrices (3 dimensions, of both) gives a stack.

    contract: which sums (docs/contracts.md); UsageError names those of these operands where none is given. dtype of D: fp32, bf16, fp16, None for the contract's own; c is of D's type (or its bits) and shape. groups: "rows" (rows offsets[e] to
    offsets[e + 1] of a times the e-th of the experts' matrices, one below the other in b) or "depth" (both transposed; D is experts x m x n,
    each of its own rows of k); offsets are a's where it was quantized with them. UsageError for what does not fit or a contract that there
    is not, InputError for a code wider than its format.
    """
    return _Call(a, b, contract, dtype, alpha, c, groups, offsets, transpose_a, transpose_b, threads, scale_a, scale_b, block_a, block_b, layout,
                 format_a, format_b).compute()


def mma(a: Any, b: Any, contract: Optional[str] = None, c: Any = None, dtype: Any = None, *, scale_a: Any = None, scale_b: Any = None,
        block_a: Any = None, block_b: Any = None, layout: str = "compact", format_a: Any = None,
        format_b: Any = None, groups: Optional[str] = None, offsets: Optional[Sequence[int]] = None, transpose_a: bool = False,
        transpose_b: bool = False, threads: int = 0) -> Any:
    """D = A B^T + C as a tensor core's instructions give it: mxcheck.matmul whose sums start from C and whose D is of the contract's type.

    c: m x n of D's type (or its bits), what each sum starts from where the contract does not promote, and what is added where it does. dtype:
    another type of D, rounded at the end. The rest as of mxcheck.matmul.
    """
    contract = _require_contract(contract, a, scale_a is not None or isinstance(a, Quantized), format_a)
    row = _lines("contract", contract)
    starts = c is not None and row["promotion"] == "0" and "+from_c" not in contract
    return matmul(a, b, contract + "+from_c" if starts else contract, dtype, 1.0, c, groups, offsets, transpose_a, transpose_b, threads,
                  scale_a=scale_a, scale_b=scale_b, block_a=block_a, block_b=block_b, layout=layout, format_a=format_a, format_b=format_b)


def explain(a: Any, b: Any, place: Tuple[int, int], contract: Optional[str] = None, dtype: Any = "fp32", alpha: float = 1.0, c: Any = None,
            groups: Optional[str] = None, offsets: Optional[Sequence[int]] = None, transpose_a: bool = False, transpose_b: bool = False,
            expert: int = 0, *, scale_a: Any = None, scale_b: Any = None, block_a: Any = None, block_b: Any = None,
            layout: str = "compact", format_a: Any = None, format_b: Any = None) -> List[str]:
    """How one output of matmul comes about: a line for every step. place: (row, column), of `expert`'s matrix where groups are "depth", of
    the first of a stack. An output of mma is that of contract + "+from_c" where c is given."""
    made = _Call(a, b, contract, dtype, alpha, c, groups, offsets, transpose_a, transpose_b, 1, scale_a, scale_b, block_a, block_b, layout,
                 format_a, format_b)
    try:
        i, j = place
    except (TypeError, ValueError):
        raise UsageError(f"place is {told(place)}: a row and a column are needed, as (0, 3)") from None
    # Twice the work of one call, once for the size: an output is a few microseconds.
    lines = ctypes.c_int64()
    arguments = (ctypes.addressof(made.product), whole(expert, "expert"), whole(i, "place"), whole(j, "place"))
    call("mxcheck_c_explain", *arguments, None, 0, ctypes.addressof(lines))
    buffer = ctypes.create_string_buffer(lines.value + 1)
    call("mxcheck_c_explain", *arguments, ctypes.addressof(buffer), len(buffer), ctypes.addressof(lines))
    return buffer.value.decode().splitlines()
