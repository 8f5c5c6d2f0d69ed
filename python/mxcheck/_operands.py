"""Operands of products: codes with scales as a call of the library takes them."""

import ctypes
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ._arrays import View, count_of, matrix_of, new_buffer, result, view_of
from ._errors import UsageError
from ._formats import check_bytes, formats
from ._library import call
from ._names import block_name, encoded, known, one_of, told, whole
from ._quantize import Quantized, _offsets_of, scale_format_of

# The formats that integers hold where nothing is said: as the command line has them.
_UNSIGNED = {"uint8": "e4m3", "uint16": "bf16", "int16": "bf16", "uint32": "fp32"}


class Operand(ctypes.Structure):
    """mxcheck_c_operand."""

    _fields_ = [("size", ctypes.c_int64), ("format", ctypes.c_char_p), ("codes", ctypes.c_void_p), ("rows", ctypes.c_int64),
                ("cols", ctypes.c_int64), ("block", ctypes.c_char_p), ("scale_type", ctypes.c_char_p), ("scales", ctypes.c_void_p),
                ("scale_cols", ctypes.c_int64), ("transposed", ctypes.c_int64)]


@dataclass
class Side:
    """One operand of a call, or a stack of them, and what its pointers keep alive."""

    operand: Operand
    kind: str
    count: Optional[int] = None  # matrices of a stack
    code_step: int = 0  # bytes from one to the next
    scale_step: int = 0
    keeps: List[Any] = field(default_factory=list)

    def at(self, n: int) -> Operand:
        """The n-th of the stack."""
        if n == 0:
            return self.operand
        one = Operand.from_buffer_copy(self.operand)
        one.codes += n * self.code_step
        if one.scales:
            one.scales += n * self.scale_step
        return one


def _refuse_row_gaps(view: View, what: str) -> None:
    if len(view.shape) == 2 and view.shape[0] > 1 and view.row_stride != view.shape[1]:
        raise UsageError(f"{what} has gaps between rows: make it contiguous")


def _converted(scales: int, block: str, from_: str, to: str, shape: Tuple[int, int], offsets: Any, count: int, pad: int) -> Tuple[Any, int, Any]:
    """Scales at an address from one layout to another: memory, its address, and sizes as mxcheck_c_scale_layout gives them."""
    sizes = (ctypes.c_int64 * 4)()
    arguments = (encoded(block, "block"), encoded(from_, "layout"), encoded(to, "layout"), *shape, offsets, count, pad)
    call("mxcheck_c_scale_layout", *arguments, None, None, sizes)
    buffer, pointer = new_buffer(sizes[1])
    if scales and pointer:
        call("mxcheck_c_scale_layout", *arguments, scales, pointer, sizes)
    return buffer, pointer, sizes


def scale_sizes(block: str, layout: str, shape: Tuple[int, int], offsets: Any, count: int) -> Any:
    """Bytes in the layout, bytes compact, compact rows and columns."""
    return _converted(0, block, layout, "compact", shape, offsets, count, 0)[2]


def scale_layout(scales: Any, shape: Tuple[int, int], block: Any = "1x32", layout: str = "tcgen05", to: str = "compact",
                 offsets: Optional[Sequence[int]] = None, pad: int = 0) -> Any:
    """Scale bytes (E8M0, UE4M3) of a matrix of `shape` (rows, cols) from one layout to another; of the scales' kind.

    block: a name (mxcheck.quantize) or ROWSxCOLS, as "1x16" or (1, 16). Compact scales are a matrix of blocks, others a vector of bytes, where those
    that are no scale become `pad`. offsets: where experts begin, each of which has a layout of its own. UsageError for blocks of several
    rows and columns, which are compact alone, and for scales of another size.
    """
    view = view_of(scales, "scales", codes=True)
    _refuse_row_gaps(view, "scales")
    whole(pad, "pad", 0, 255)
    block = block_name(block)
    try:
        rows, cols = shape
    except (TypeError, ValueError):
        raise UsageError(f"shape is {told(shape)}: the matrix's rows and columns are needed, as (4, 128)") from None
    rows, cols = whole(rows, "shape", 0), whole(cols, "shape", 0)
    pointer, count = _offsets_of(offsets)
    check_bytes(view, scale_sizes(block, layout, (rows, cols), pointer, count)[0], "scales")
    buffer, _, sizes = _converted(view.pointer, block, layout, to, (rows, cols), pointer, count, pad)
    wanted = (sizes[2], sizes[3]) if to == "compact" else (sizes[1],)
    return result(buffer, wanted, "e8m0" if view.format in ("e8m0", "float8_e8m0fnu") else "uint8", 1, view.kind)


def _quantized(q: Quantized, name: str, transposed: bool) -> Side:
    if scale_format_of(q.recipe) == "e4m3":
        raise UsageError(f"{name} has two levels of scales, of which a contract has the blocks' alone: give {name}.unpacked().codes with "
                         f"scale_{name}={name}.scales, and the tensors' scales as alpha")
    q = q.unpacked() if q.format == "e2m1" else q
    codes = view_of(q.codes, f"{name}.codes", codes=True)
    scales = view_of(q.scales, f"{name}.scales", codes=True)
    rows, cols = matrix_of(codes.shape, f"{name}.codes")
    pointer, count = _offsets_of(q.offsets)
    info = formats(q.format)
    fp32 = scale_format_of(q.recipe) == "fp32"
    if fp32 and q.layout != "compact":
        raise UsageError(f"{name} has FP32 scales in layout {q.layout}: they are compact alone")
    sizes = scale_sizes(q.block, q.layout, (rows, cols), pointer, count)
    needed = 4 * sizes[1] if fp32 else sizes[0]
    for view, size, what, tensor in ((codes, rows * cols * info.code_bytes, "codes", q.codes), (scales, needed, "scales", q.scales)):
        _refuse_row_gaps(view, f"{name}.{what}")
        check_bytes(view, size, f"{name}.{what}")
    keeps: List[Any] = [codes, scales]
    scales_at = scales.pointer
    if q.layout != "compact":
        buffer, scales_at, _ = _converted(scales_at, q.block, q.layout, "compact", (rows, cols), pointer, count, 0)
        keeps.append(buffer)
    operand = Operand(ctypes.sizeof(Operand), info.name.encode(), codes.pointer, rows, cols, q.block.encode(), b"fp32" if fp32 else b"e8m0",
                      scales_at, sizes[3], transposed)
    return Side(operand, codes.kind, keeps=keeps)


def _plain(x: Any, name: str, transposed: bool, format: Any) -> Side:
    view = view_of(x, name, codes=True)
    stacked = len(view.shape) == 3
    rows, cols = view.shape[1:] if stacked else matrix_of(view.shape, name)
    info = formats(format if format is not None else _UNSIGNED.get(view.format, view.format))
    _refuse_row_gaps(view, name)
    check_bytes(view, count_of(view.shape) * info.code_bytes, name)
    operand = Operand(ctypes.sizeof(Operand), info.name.encode(), view.pointer, rows, cols, b"none", None, None, 0, transposed)
    return Side(operand, view.kind, view.shape[0] if stacked else None, rows * cols * info.code_bytes, keeps=[view])


def _natural_block(contract: Dict[str, str], name: str, transposed: bool) -> str:
    """The block of scales that has not been stated: one scale for every scale_terms products of the contract's sum, or every interval of promotion."""
    terms = int(contract["scale_terms"]) or int(contract["promotion"])
    if terms == 0:
        raise UsageError(f"scale_{name}: contract {contract['name']} takes no scales without a block; +promoteN adds up every N of k times them, "
                         f"and block_{name} says of which elements each is")
    return f"{terms}x1" if transposed else f"1x{terms}"


def _put_scales(side: Side, x: Any, name: str, block: Any, layout: str, contract: Dict[str, str], offsets: Any, count: int) -> None:
    """Scales of a plain operand."""
    operand, what = side.operand, f"scale_{name}"
    view = view_of(x, what, codes=True)
    if block is not None:
        block = block_name(block, f"block_{name}")
    else:
        block = _natural_block(contract, name, bool(operand.transposed))
    if len(view.shape) == 2:
        _refuse_row_gaps(view, what)
    fp32 = view.format in ("fp32", "float32")
    if fp32 and layout != "compact":
        raise UsageError(f"{what} is FP32 in layout {layout}: such scales are compact alone")
    shape = (operand.rows, operand.cols)
    sizes = scale_sizes(block, layout, shape, offsets, count)
    each = 4 * sizes[1] if fp32 else sizes[0]
    stack = () if side.count is None else (side.count,)
    wanted = stack + ((sizes[2], sizes[3]) if layout == "compact" else (sizes[0],))
    if tuple(view.shape) != wanted:
        raise UsageError(f"{what} is of shape {tuple(view.shape)}: {wanted} is needed, of blocks {block} in layout {layout}")
    check_bytes(view, each * (side.count if side.count is not None else 1), what)
    side.keeps.append(view)
    operand.scales = view.pointer
    if layout != "compact":
        if side.count is not None:
            raise UsageError(f"{what} is of a stack of matrices: its layout must be compact")
        buffer, operand.scales, _ = _converted(view.pointer, block, layout, "compact", shape, offsets, count, 0)
        side.keeps.append(buffer)
    narrow = contract["scales"].split()[0] if contract["scales"] else "e8m0"
    operand.block, operand.scale_cols, side.scale_step = encoded(block, f"block_{name}"), sizes[3], each
    operand.scale_type = b"fp32" if fp32 else narrow.encode()


def side_of(x: Any, name: str, transposed: bool, contract: Dict[str, str], scales: Any, block: Any, layout: str,
            format: Any, offsets: Any, count: int) -> Side:
    """An operand of either kind. `offsets`: of a plain operand's blocks, where they restart."""
    if isinstance(x, Quantized):
        for value, what in ((scales, "scale"), (block, "block"), (format, "format")):
            if value is not None:
                raise UsageError(f"{what}_{name} is given, and {name} is what mxcheck.quantize returned, which has its own")
        return _quantized(x, name, transposed)
    one_of(layout, "layout", known("layouts"))
    side = _plain(x, name, transposed, format)
    if scales is not None:
        _put_scales(side, scales, name, block, layout, contract, offsets, count)
    elif block is not None:
        raise UsageError(f"block_{name} is given without scale_{name}")
    return side
