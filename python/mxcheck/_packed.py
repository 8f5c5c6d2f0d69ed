"""E2M1 codes two a byte, the even column in the low nibble, as torch.float4_e2m1fn_x2 has them; and the tensor's scale of recipes with two
levels of scales, one or one a row."""

import ctypes
import sys
from typing import Any, Optional, Tuple, Union

from ._arrays import PACKED, count_of, new_buffer, result, view_of
from ._errors import UsageError
from ._formats import _refuse_gaps, check_bytes
from ._library import call
from ._names import number, told


def is_packed_type(value: Any) -> bool:
    """True of torch.float4_e2m1fn_x2, of its name, and of tensors of it."""
    return str(getattr(value, "dtype", value)).rsplit(".", 1)[-1] == PACKED


def _torch_has_pairs() -> bool:
    return hasattr(sys.modules.get("torch"), PACKED)


def packing_of(packed: Union[None, bool, str], asked: Any, format: str, two_levels: bool, kind: str, cols: int) -> str:
    """The type of packed codes: PACKED or "uint8"; "" of codes that are one a byte. asked: the format as the caller wrote it."""
    if not (packed is None or isinstance(packed, bool) or (isinstance(packed, str) and packed == "uint8")):
        raise UsageError(f"packed is {told(packed)}: True, False or 'uint8' is needed")
    if packed is None:
        packed = is_packed_type(asked) or (two_levels and format == "e2m1" and kind == "torch" and _torch_has_pairs())
    if not packed:
        return ""
    if format != "e2m1":
        raise UsageError(f"packed is {packed!r}: codes of {format} are one a byte, those of e2m1 alone are packed")
    if cols % 2:
        raise UsageError(f"x has {cols} columns, an odd number: codes that are two a byte need an even one; packed=False gives one a byte")
    return PACKED if packed is True and kind == "torch" and _torch_has_pairs() else "uint8"


def pack(codes: Any, pointer: int, shape: Tuple[int, ...], type_: str, kind: str) -> Any:
    """A tensor of packed codes of a matrix of this shape, from one a byte at `pointer`, which `codes` keeps."""
    count = count_of(shape)
    buffer, packed_at = new_buffer(count // 2)
    call("mxcheck_c_pack", b"e2m1", pointer, count, packed_at)
    del codes
    return result(buffer, (*shape[:-1], shape[-1] // 2), type_, 1, kind)


def unpack(packed: Any, what: str = "codes") -> Any:
    """Codes one a byte, of the packed tensor's kind and twice its columns."""
    view = view_of(packed, what, codes=True, packed=True)
    if view.format not in (PACKED, "uint8"):
        raise UsageError(f"{what} is of {view.format}: packed codes are uint8 or torch.{PACKED}")
    if not view.shape:
        raise UsageError(f"{what} is a scalar: a matrix of packed codes is needed")
    _refuse_gaps(view)
    check_bytes(view, count_of(view.shape), what)
    count = 2 * view.size
    buffer, codes_at = new_buffer(count)
    call("mxcheck_c_unpack", b"e2m1", view.pointer, count, codes_at)
    return result(buffer, (*view.shape[:-1], 2 * view.shape[-1]), "e2m1", 1, view.kind)


class TensorScale:
    """A tensor's scale as a call takes it: how many there are ("tensor", "row"), and their address; 0 where none is given. rows: as many may
    be given; None: any number."""

    def __init__(self, given: Any, rows: Optional[int] = None) -> None:
        self.of, self.pointer = "tensor", 0
        self.keeps: Any = None
        if isinstance(given, str):
            if given != "row":
                raise UsageError(f"tensor_scale is {given!r}: 'row', a number as the recipe stores it, or one for each row is needed")
            self.of = "row"
        elif isinstance(given, (list, tuple)) or getattr(given, "shape", ()) != ():
            self._take(given, rows)
        elif given is not None:
            self._set(number(given, "tensor_scale"))

    def _set(self, value: float) -> None:
        self.keeps = ctypes.c_float(value)
        self.pointer = ctypes.addressof(self.keeps)

    def _take(self, given: Any, rows: Optional[int]) -> None:
        view = view_of(given, "tensor_scale", codes=True)
        count = count_of(view.shape)
        if view.format not in ("fp32", "float32"):
            raise UsageError(f"tensor_scale is of {view.format}: FP32 is needed")
        _refuse_gaps(view)
        check_bytes(view, 4 * count, "tensor_scale")
        if count != 1 and rows is not None and count != rows:
            raise UsageError(f"tensor_scale has {count} numbers: one, or one for each of {rows} rows, is needed")
        self.of, self.pointer, self.keeps = "tensor" if count == 1 else "row", view.pointer, view

    def result(self, rows: int, kind: str) -> Tuple[Any, int, Optional[Any]]:
        """Memory for as many: it, its address, and the tensor of it; of one scale no tensor."""
        buffer, pointer = new_buffer(4 * (rows if self.of == "row" else 1))
        return buffer, pointer, result(buffer, (rows,), "fp32", 4, kind) if self.of == "row" else None
