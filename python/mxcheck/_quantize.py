"""Blocks with a scale each: reference/quantize."""

import ctypes
from dataclasses import dataclass, field
from typing import Any, Optional, Sequence, Tuple

from ._arrays import View, count_of, is_writable, matrix_of, new_buffer, result, view_of
from ._errors import UsageError
from ._formats import _lines, check_bytes, formats
from ._library import call
from ._names import InALine, block_name, encoded, format_name, told, whole


@dataclass(repr=False)
class Quantized(InALine):
    """Codes and scales of a matrix, and what they are.

    codes: of the matrix's shape, one a byte (e5m6: two). scales: compact, a matrix of blocks; in other layouts, and with padding, a
    vector of bytes.
    """

    codes: Any
    scales: Any
    format: str
    recipe: str
    block: str
    layout: str
    offsets: Optional[Tuple[int, ...]] = field(default=None)

    def __post_init__(self) -> None:
        self.format, self.block = format_name(self.format), block_name(self.block)

    def dequantize(self, dtype: Any = "fp32") -> Any:
        """The same as mxcheck.dequantize."""
        return dequantize(self, dtype)


def _offsets_of(offsets: Optional[Sequence[int]]) -> Tuple[Any, int]:
    if offsets is None:
        return None, 0
    try:
        values = [whole(offset, "an offset") for offset in offsets]
    except TypeError:
        raise UsageError(f"offsets are {told(offsets)}: a sequence of whole numbers is needed, as [0, 128, 256]") from None
    return (ctypes.c_int64 * len(values))(*values), len(values)


def _sizes(format: str, recipe: str, block: str, layout: str, rows: int, cols: int, offsets: Any, count: int) -> Any:
    sizes = (ctypes.c_int64 * 4)()
    call("mxcheck_c_quantize_sizes", encoded(format, "format"), encoded(recipe, "recipe"), encoded(block, "block"), encoded(layout, "layout"),
         rows, cols, offsets, count, sizes)
    return sizes


def _thread_count(threads: int) -> int:
    return whole(threads, "threads", 0, 2**31 - 1)


def _refuse_gaps(view: View, what: str) -> None:
    if len(view.shape) == 2 and view.shape[0] > 1 and view.row_stride != view.shape[1]:
        raise UsageError(f"{what} has gaps between rows: make it contiguous")


def _target(x: Any, what: str, size: int, format: str, sources: Sequence[Tuple[View, int]]) -> int:
    """Where a result of so many bytes of a format is to be written; sources, with their bytes, must lie elsewhere."""
    view = view_of(x, what, codes=True, is_read=False)
    _refuse_gaps(view, what)
    check_bytes(view, size, what)
    info = formats(format)
    names = {info.name, info.dtype} | (set() if format == "fp32" else {"uint8", "int8"} if info.code_bytes == 1 else {"uint16", "int16"})
    if view.format not in names:
        raise UsageError(f"{what} is of {view.format}: {info.dtype} is written" + (", or integers of its size" if len(names) > 2 else ""))
    if not is_writable(x):
        raise UsageError(f"{what} cannot be written to: torch tensors, numpy arrays and mxcheck.Values of writable memory can")
    if any(view.pointer < source.pointer + there and source.pointer < view.pointer + size for source, there in sources):
        raise UsageError(f"{what} lies in the memory that is read: the result needs its own")
    return view.pointer


def quantize(x: Any, format: Any = "e4m3", recipe: str = "rceil", block: Any = "1x32", layout: str = "compact",
             offsets: Optional[Sequence[int]] = None, pad: int = 0, threads: int = 0, engine: str = "auto",
             out: Optional[Quantized] = None) -> Quantized:
    """A matrix to codes and scales, with the reference's bits.

    x: FP32, BF16 or FP16, rows x cols (a vector is one row); rows may lie apart. format: "e4m3", "float8_e4m3fn", torch.float8_e4m3fn and the
    like. block: 1x32, 32x1, 32x32, 1x128, 128x1, 128x128, row, or (rows, columns).
    layout of the scales: compact, tcgen05, deepgemm, whose other bytes become `pad`. offsets: where experts begin, and the rows' end:
    blocks restart there. engine: "auto" takes the SIMD library (kernels/cpu) where it offers the request (e4m3 and e5m2 of FP32 and BF16
    under rceil, floor, ocp, torchao and te), some ten times as fast, with a sample checked by the reference, and the reference elsewhere;
    "reference" never, "simd" only. out: what an earlier call returned, whose codes and scales are written again instead of new ones: of
    large tensors new memory costs about half of what quantizing does. UsageError for what does not fit, InputError for a NaN that the recipe refuses.
    """
    view = view_of(x)
    rows, cols = matrix_of(view.shape, "x")
    pointer, count = _offsets_of(offsets)
    whole(pad, "pad", 0, 255)
    format, block = format_name(format), block_name(block)
    sizes = _sizes(format, recipe, block, layout, rows, cols, pointer, count)
    info = formats(format)
    fp32 = _lines("recipe", recipe)["rule"] == "fp32"
    if out is not None and not isinstance(out, Quantized):
        raise UsageError(f"out is a {type(out).__name__}: what mxcheck.quantize returned is needed")
    if out is None:
        codes, codes_at = new_buffer(sizes[0])
        scales, scales_at = new_buffer(sizes[1])
    else:
        read = (rows - 1) * view.row_stride + cols if sizes[0] else 0
        source = view, read * (4 if view.format == "fp32" else 2)
        codes_at = _target(out.codes, "out.codes", sizes[0], info.name, [source])
        scales_at = _target(out.scales, "out.scales", sizes[1], "fp32" if fp32 else "e8m0",
                            [source, (view_of(out.codes, codes=True), sizes[0])])
    call("mxcheck_c_quantize", view.format.encode(), view.pointer, rows, cols, view.row_stride, info.name.encode(), recipe.encode(),
         block.encode(), layout.encode(), pointer, count, pad, _thread_count(threads), encoded(engine, "engine"), codes_at, scales_at)
    where = None if pointer is None else tuple(pointer)
    if out is not None:
        return Quantized(out.codes, out.scales, info.name, recipe, block, layout, where)
    shape = (sizes[2], sizes[3]) if layout == "compact" else (sizes[1],)
    return Quantized(result(codes, view.shape, info.name, info.code_bytes, view.kind),
                     result(scales, shape, "fp32" if fp32 else "e8m0", 4 if fp32 else 1, view.kind), info.name, recipe, block, layout, where)


def dequantize(q: Quantized, dtype: Any = "fp32", threads: int = 0, engine: str = "auto", out: Any = None) -> Any:
    """Values of codes and scales, each code times its scale, rounded once to "fp32" or "bf16"; of the codes' shape and kind.

    engine: as of mxcheck.quantize; the SIMD library has e4m3 and e5m2 with E8M0 scales. out: a tensor of the result's bytes, which is
    written and returned.
    InputError for a code wider than its format, UsageError for scales of another size than the shape, block and layout have.
    """
    if not isinstance(q, Quantized):
        raise UsageError(f"q is a {type(q).__name__}: what mxcheck.quantize returns is needed")
    codes = view_of(q.codes, "codes", codes=True)
    scales = view_of(q.scales, "scales", codes=True)
    rows, cols = matrix_of(codes.shape, "codes")
    pointer, count = _offsets_of(q.offsets)
    sizes = _sizes(q.format, q.recipe, q.block, q.layout, rows, cols, pointer, count)
    for view, size, what, tensor in ((codes, sizes[0], "codes", q.codes), (scales, sizes[1], "scales", q.scales)):
        _refuse_gaps(view, what)
        check_bytes(view, size, what)
    dtype = format_name(dtype, "dtype", ("fp32", "bf16"))
    each = {"fp32": 4, "bf16": 2}[dtype]
    if out is None:
        buffer, values_at = new_buffer(count_of(codes.shape) * each)
    else:
        values_at = _target(out, "out", count_of(codes.shape) * each, dtype, [(codes, sizes[0]), (scales, sizes[1])])
    fp32 = _lines("recipe", q.recipe)["rule"] == "fp32"
    call("mxcheck_c_dequantize", q.format.encode(), q.block.encode(), q.layout.encode(), b"fp32" if fp32 else b"e8m0", codes.pointer,
         scales.pointer, rows, cols, pointer, count, _thread_count(threads), encoded(engine, "engine"), dtype.encode(), values_at)
    return out if out is not None else result(buffer, codes.shape, dtype, each, codes.kind)
