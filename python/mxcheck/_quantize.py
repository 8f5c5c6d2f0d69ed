"""Blocks with a scale each: reference/quantize."""

import ctypes
from dataclasses import dataclass, replace
from typing import Any, Optional, Sequence, Tuple, Union

from ._arrays import View, count_of, is_writable, matrix_of, new_buffer, result, view_of
from ._errors import UsageError
from ._formats import _lines, check_bytes, formats, recipes, words_pointer
from ._library import call
from ._names import InALine, block_name, encoded, format_name, told, whole
from ._packed import TensorScale, is_packed_type, pack, packing_of, unpack


@dataclass(repr=False)
class Quantized(InALine):
    """Codes and scales of a matrix, and what they are.

    codes: of the matrix's shape, one a byte (e5m6: two); packed, of half its columns. scales: compact, a matrix of blocks; in other layouts,
    and with padding, a vector of bytes. tensor_scale: of recipes with two levels of scales, whose blocks have E4M3 scales: a float, or FP32
    of each row, as the recipe stores it.
    """

    codes: Any
    scales: Any
    format: str
    recipe: str
    block: str
    layout: str
    offsets: Optional[Tuple[int, ...]] = None
    tensor_scale: Any = None
    packed: bool = False

    def __post_init__(self) -> None:
        self.packed = bool(self.packed) or is_packed_type(self.codes)
        self.format, self.block = format_name(self.format), block_name(self.block)

    def unpacked(self) -> "Quantized":
        """The same with one code a byte."""
        if self.packed and self.format != "e2m1":
            raise UsageError(f"codes is packed, two a byte: {self.format} has one code a byte")
        return replace(self, codes=unpack(self.codes), packed=False) if self.packed else self

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


def scale_format_of(recipe: Any) -> str:
    """Format of a recipe's scales: "e8m0", "fp32", or "e4m3" of two levels."""
    return {"fp32": "fp32", "e4m3": "e4m3"}.get(_lines("recipe", recipe)["rule"], "e8m0")


def quantize(x: Any, format: Any = None, recipe: str = "rceil", block: Any = None, layout: str = "compact",
             offsets: Optional[Sequence[int]] = None, pad: int = 0, threads: int = 0, engine: str = "auto",
             out: Optional[Quantized] = None, tensor_scale: Any = None, packed: Union[None, bool, str] = None,
             words: Any = None) -> Quantized:
    """A matrix to codes and scales, with the reference's bits.

    x: FP32, BF16 or FP16, rows x cols (a vector is one row); rows may lie apart. format: "e4m3" (the default; of recipes of two levels
    "e2m1"), "float8_e4m3fn", torch.float8_e4m3fn and the like. block: 1x32 (the default; of two levels 1x16), 32x1, 32x32, 1x128, 128x1,
    128x128, row, 16x16, or (rows, columns).
    layout of the scales: compact, tcgen05, deepgemm, whose other bytes become `pad`. offsets: where experts begin, and the rows' end:
    blocks restart there. engine: "auto" takes the SIMD library (kernels/cpu) where it offers the request (e4m3 and e5m2 of FP32 and BF16
    under rceil, floor, ocp, torchao and te), some ten times as fast, with a sample checked by the reference, and the reference elsewhere;
    "reference" never, "simd" only. out: what an earlier call returned, whose codes and scales are written again instead of new ones: of
    large tensors new memory costs about half of what quantizing does.
    tensor_scale: of recipes of two levels (nvfp4, nvfp4_te ...): None for that of x's amax, "row" for one of each row, or what is given
    instead, a number or one for each row, as the recipe stores it. packed: True gives e2m1 codes two a byte, the even column in the low
    nibble, as torch.float4_e2m1fn_x2 where torch has it and as uint8 elsewhere; "uint8" as that, False one a byte. None: of torch tensors
    under recipes of two levels, and where format is torch.float4_e2m1fn_x2, True; else False.
    words: of recipes of two levels, stochastic rounding: 32 random bits for each element, as of mxcheck.cast, or what
    mxcheck.ordered_words gives for a published kernel.
    UsageError for what does not fit, InputError for a NaN that the recipe refuses.
    """
    view = view_of(x)
    rows, cols = matrix_of(view.shape, "x")
    pointer, count = _offsets_of(offsets)
    whole(pad, "pad", 0, 255)
    scale_format = scale_format_of(recipe)
    two_levels = scale_format == "e4m3"
    asked = format
    format = format_name(("e2m1" if two_levels else "e4m3") if format is None else format)
    block = block_name(("1x16" if two_levels else "1x32") if block is None else block)
    sizes = _sizes(format, recipe, block, layout, rows, cols, pointer, count)
    info = formats(format)
    packing = packing_of(packed, asked, info.name, two_levels, view.kind, cols)
    if not two_levels and tensor_scale is not None:
        raise UsageError(f"tensor_scale is given, and recipe {recipe} has one level of scales: those of two are {', '.join(recipes(2))}")
    if not two_levels and words is not None:
        raise UsageError(f"words are given, and recipe {recipe} rounds to nearest: recipes of two levels take words, {', '.join(recipes(2))}")
    if out is not None:
        _check_out(out, two_levels, packing)
        read = (rows - 1) * view.row_stride + cols if sizes[0] else 0
        source = view, read * (4 if view.format == "fp32" else 2)
        codes_at = _target(out.codes, "out.codes", sizes[0], info.name, [source])
        scales_at = _target(out.scales, "out.scales", sizes[1], scale_format, [source, (view_of(out.codes, codes=True), sizes[0])])
    else:
        codes, codes_at = new_buffer(sizes[0])
        scales, scales_at = new_buffer(sizes[1])
    what = (view.format.encode(), view.pointer, rows, cols, view.row_stride, info.name.encode(), recipe.encode(), block.encode(),
            layout.encode(), pointer, count, pad, _thread_count(threads), encoded(engine, "engine"))
    outer: Any = None
    if two_levels:
        given = TensorScale(tensor_scale, rows)
        buffer, outer_at, outer = given.result(rows, view.kind)
        tensor = given.of.encode(), given.pointer or None
        if words is None:
            call("mxcheck_c_quantize_two_levels", *what, *tensor, codes_at, scales_at, outer_at)
        else:
            call("mxcheck_c_quantize_stochastic", *what, *tensor, words_pointer(words, rows * cols), codes_at, scales_at, outer_at)
        outer = ctypes.c_float.from_address(outer_at).value if outer is None else outer
    else:
        call("mxcheck_c_quantize", *what, codes_at, scales_at)
    where = None if pointer is None else tuple(pointer)
    if out is not None:
        return Quantized(out.codes, out.scales, info.name, recipe, block, layout, where)
    shape = (sizes[2], sizes[3]) if layout == "compact" else (sizes[1],)
    made = (pack(codes, codes_at, view.shape, packing, view.kind) if packing
            else result(codes, view.shape, info.name, info.code_bytes, view.kind))
    return Quantized(made, result(scales, shape, scale_format, 4 if scale_format == "fp32" else 1, view.kind), info.name, recipe, block,
                     layout, where, outer, bool(packing))


def _check_out(out: Any, two_levels: bool, packing: str) -> None:
    if not isinstance(out, Quantized):
        raise UsageError(f"out is a {type(out).__name__}: what mxcheck.quantize returned is needed")
    if two_levels or packing:
        raise UsageError("out is given, and the result has " + ("a tensor's scale" if two_levels else "packed codes") +
                         ": out is for codes that are one a byte under one level of scales")


def _stored_scale(q: Quantized, two_levels: bool, rows: int) -> TensorScale:
    """The tensor's scale of a result with two levels, which may be NaN or infinite as its tensor was."""
    if two_levels != (q.tensor_scale is not None):
        raise UsageError(f"tensor_scale is {told(q.tensor_scale)}: recipe {q.recipe} has " +
                         ("two levels of scales, and its results have one, or one for each row" if two_levels else "one level of scales"))
    scale = TensorScale(q.tensor_scale, rows)
    if two_levels and scale.keeps is None:
        raise UsageError(f"tensor_scale is {told(q.tensor_scale)}: a number, or one for each row, is needed")
    return scale


def dequantize(q: Quantized, dtype: Any = "fp32", threads: int = 0, engine: str = "auto", out: Any = None) -> Any:
    """Values of codes and scales, each code times its scales, rounded once to "fp32" or "bf16"; of the codes' shape and kind (packed codes:
    twice the columns).

    engine: as of mxcheck.quantize; the SIMD library has e4m3 and e5m2 with E8M0 scales. out: a tensor of the result's bytes, which is
    written and returned.
    InputError for a code wider than its format, UsageError for scales of another size than the shape, block and layout have.
    """
    if not isinstance(q, Quantized):
        raise UsageError(f"q is a {type(q).__name__}: what mxcheck.quantize returns is needed")
    q = q.unpacked()
    codes = view_of(q.codes, "codes", codes=True)
    scales = view_of(q.scales, "scales", codes=True)
    rows, cols = matrix_of(codes.shape, "codes")
    pointer, count = _offsets_of(q.offsets)
    sizes = _sizes(q.format, q.recipe, q.block, q.layout, rows, cols, pointer, count)
    for view, size, what in ((codes, sizes[0], "codes"), (scales, sizes[1], "scales")):
        _refuse_gaps(view, what)
        check_bytes(view, size, what)
    dtype = format_name(dtype, "dtype", ("fp32", "bf16"))
    each = {"fp32": 4, "bf16": 2}[dtype]
    scale_format = scale_format_of(q.recipe)
    outer = _stored_scale(q, scale_format == "e4m3", rows)
    if out is None:
        buffer, values_at = new_buffer(count_of(codes.shape) * each)
    else:
        values_at = _target(out, "out", count_of(codes.shape) * each, dtype, [(codes, sizes[0]), (scales, sizes[1])])
    how = pointer, count, _thread_count(threads), encoded(engine, "engine"), dtype.encode(), values_at
    if scale_format == "e4m3":
        call("mxcheck_c_dequantize_two_levels", q.format.encode(), q.recipe.encode(), q.block.encode(), q.layout.encode(), codes.pointer,
             scales.pointer, outer.of.encode(), outer.pointer or None, rows, cols, *how)
    else:
        call("mxcheck_c_dequantize", q.format.encode(), q.block.encode(), q.layout.encode(), scale_format.encode(), codes.pointer,
             scales.pointer, rows, cols, *how)
    return out if out is not None else result(buffer, codes.shape, dtype, each, codes.kind)
