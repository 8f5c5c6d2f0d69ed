"""Tensors of the caller's kind: numpy (with ml_dtypes), torch on the CPU, or bytes that say what they are (Values), which is also
what lists of numbers and tensors of any other library (DLPack) are answered with."""

import array
import ctypes
import mmap
import struct
import sys
from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Tuple

from . import _dlpack
from ._errors import EnvironmentError_, UsageError
from ._names import format_name, told, whole

# Names of value types that PyTorch, numpy and ml_dtypes use, to those of formats.
_FORMATS = {"float32": "fp32", "fp32": "fp32", "bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "half": "fp16", "fp16": "fp16"}
_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
# Bytes of an element; others have one.
_WIDTHS = {**{name: _BYTES[format_] for name, format_ in _FORMATS.items()}, "e5m6": 2, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4,
           "uint64": 8, "int64": 8, "float64": 8, "fp64": 8}
_INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
_TAKEN = "numpy arrays, torch tensors on the CPU, lists of numbers, what has __dlpack__ and mxcheck.Values are taken"
PACKED = "float4_e2m1fn_x2"  # torch's name: two codes a byte, the even column in the low nibble
_TORCH_CODES = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "e8m0": "float8_e8m0fnu", PACKED: PACKED}


@dataclass
class Values:
    """A tensor as bytes: row-major, without gaps.

    data: anything with the buffer protocol; shape; dtype: the name of a format ("fp32", "bf16", "e4m3", "e8m0" ...), or of an integer.
    tolist() has its numbers.
    """

    data: Any
    shape: Tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        try:
            self.shape = tuple(whole(extent, "shape", 0) for extent in self.shape)
        except TypeError:
            raise UsageError(f"shape is {told(self.shape)}: a tuple of extents is needed, as (2, 32)") from None
        if self.dtype not in _INTEGERS and self.dtype not in ("fp64", "float64"):
            try:
                name = format_name(self.dtype, "dtype")
            except UsageError as error:
                raise UsageError(f"{error}, and of integers {', '.join(_INTEGERS)}") from None
            self.dtype = self.dtype if isinstance(self.dtype, str) else name
        try:
            memoryview(self.data).release()
        except TypeError:
            raise UsageError(f"data is {told(self.data)}: bytes are needed, as array.array('f', ...); lists of numbers need no mxcheck.Values") from None

    def tobytes(self) -> bytes:
        return memoryview(self.data).cast("B").tobytes()

    def tolist(self) -> Any:
        """Numbers, nested by the shape: values as floats, integers and codes as integers. UsageError where data has another size."""
        name = self.dtype if self.dtype in _WIDTHS or self.dtype in _INTEGERS else format_name(self.dtype)
        size, needed = memoryview(self.data).nbytes, count_of(self.shape) * _WIDTHS.get(name, 1)
        if size != needed:
            raise UsageError(f"data has {size} bytes: shape {self.shape} of {self.dtype} has {needed}")
        numbers: Any = _numbers(self.tobytes(), self.dtype)
        for axis in range(len(self.shape) - 1, 0, -1):
            extent = self.shape[axis]
            numbers = [numbers[i * extent : (i + 1) * extent] for i in range(count_of(self.shape[:axis]))]
        return numbers if self.shape else numbers[0]

    def __repr__(self) -> str:
        each = _WIDTHS.get(self.dtype, 1)
        first = _numbers(bytes(memoryview(self.data).cast("B")[: 4 * each]), self.dtype)
        shown = ", ".join(f"{one:.6g}" if isinstance(one, float) else str(one) for one in first[:3])
        more = ", ..." if len(first) > 3 else ""
        return f"mxcheck.Values({self.dtype} {' x '.join(map(str, self.shape)) or 'scalar'} [{shown}{more}])"


def _numbers(data: bytes, dtype: str) -> List[Any]:
    """The numbers of bytes: of values floats, of codes and integers integers."""
    name = _FORMATS.get(dtype, dtype)
    if name == "bf16":
        return array.array("f", b"".join(b"\0\0" + data[i : i + 2] for i in range(0, len(data) - 1, 2))).tolist()
    if name == "fp16":
        return list(struct.unpack(f"={len(data) // 2}e", data[: len(data) & ~1]))
    letter = {"fp32": "f", "fp64": "d", "float64": "d"}.get(name)
    if letter is None:
        letter = {1: "B", 2: "H", 4: "I", 8: "Q"}[_WIDTHS.get(name, 1)]
        letter = letter.lower() if name.startswith("int") else letter
    each = array.array(letter).itemsize
    return array.array(letter, data[: len(data) // each * each]).tolist()


@dataclass
class View:
    """A tensor that a call reads: a pointer, and what keeps it alive."""

    pointer: int
    shape: Tuple[int, ...]
    format: str
    row_stride: int  # elements
    kind: str  # "numpy", "torch", "values"
    owner: Any
    size: int  # bytes of its elements


def count_of(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


class _PyBuffer(ctypes.Structure):
    """Py_buffer of CPython's buffer protocol, by which a read-only buffer has an address too."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


def _pointer_of(buffer: Any) -> Tuple[int, Any]:
    """The address of a buffer's bytes, and what keeps it."""
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise UsageError("the buffer has gaps: it must be row-major without any")
    if view.nbytes == 0:
        return 0, view
    found = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(found), 0)
    pointer = found.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(found))  # the view itself keeps the memory
    return pointer, view


def _is_a(x: Any, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(x, getattr(loaded, name))


def _rows(x: Any, shape: Tuple[int, ...], strides: Optional[Sequence[int]], what: str) -> int:
    """Elements from row to row of a matrix or vector whose rows have no gaps."""
    cols = shape[-1] if shape else 1
    if strides is None or count_of(shape) == 0:
        return cols
    if len(shape) > 2:
        wanted = 1
        for extent, stride in zip(reversed(shape), reversed(strides)):
            if extent > 1 and stride != wanted:
                raise UsageError(f"{what} has {len(shape)} dimensions and gaps between them: make it contiguous")
            wanted *= extent
        return cols
    if cols > 1 and strides[-1] != 1:
        raise UsageError(f"{what} has gaps between columns: make it contiguous along its last dimension")
    if len(shape) < 2 or shape[0] <= 1:
        return cols
    if strides[0] < cols:
        raise UsageError(f"{what} has rows {strides[0]} elements apart and {cols} wide: they must not overlap or run backwards")
    return strides[0]


def _torch_view(x: Any, what: str, codes: bool, packed: bool) -> View:
    torch = sys.modules["torch"]
    if x.device.type != "cpu":
        raise UsageError(f"{what} is on {x.device}: the reference computes on the CPU; give {what}.cpu()")
    if x.requires_grad:
        raise UsageError(f"{what} requires a gradient, which the reference does not have: give {what}.detach()")
    if x.layout != torch.strided:
        raise UsageError(f"{what} is {x.layout}: a dense tensor is needed")
    name = str(x.dtype).rsplit(".", 1)[-1]
    if name == PACKED and not packed:
        raise UsageError(f"{what} is {x.dtype}, two codes in a byte: give one code a byte, as uint8 with format e2m1, as mxcheck.Values, or as "
                         "unpacked() of a mxcheck.Quantized has")
    return View(x.data_ptr(), tuple(x.shape), name if codes else _value_format(name, what), _rows(x, tuple(x.shape), x.stride(), what),
                "torch", x, x.numel() * x.element_size())


def _numpy_view(x: Any, what: str, codes: bool) -> View:
    if not x.dtype.isnative:
        raise UsageError(f"{what} is of {x.dtype}, whose bytes are swapped: give {what}.astype({what}.dtype.newbyteorder('='))")
    name = x.dtype.name
    strides = None
    if count_of(x.shape) != 0:
        if any(stride % x.itemsize for stride in x.strides):
            raise UsageError(f"{what} has strides that are no multiple of its elements' size")
        strides = [stride // x.itemsize for stride in x.strides]
    if x.dtype.hasobject or x.dtype.kind in "OSUMm" or x.dtype.names is not None or name.startswith("void"):
        raise UsageError(f"{what} is of {x.dtype}: a type of numbers is needed")
    pointer = x.__array_interface__["data"][0]
    return View(pointer, tuple(x.shape), name if codes else _value_format(name, what), _rows(x, tuple(x.shape), strides, what), "numpy", x,
                x.size * x.itemsize)


def _value_format(name: str, what: str) -> str:
    if name not in _FORMATS:
        hint = f"; of numpy {what}.astype('float32') has that, of torch {what}.float()" if name == "float64" else ""
        raise UsageError(f"{what} is of {name}: float32, bfloat16 and float16 are taken{hint}")
    return _FORMATS[name]


def view_of(x: Any, what: str = "x", codes: bool = False, is_read: bool = True, packed: bool = False) -> View:
    """A tensor's memory. `codes`: of any type; otherwise of FP32, BF16 or FP16. is_read: what does not begin at a multiple of its
    elements' size is copied; otherwise, and where it can't be, it is refused. packed: of two codes a byte too."""
    view = _view_of(x, what, codes, packed)
    width = _WIDTHS.get(view.format, 1)
    if view.pointer % width == 0 or count_of(view.shape) == 0:
        return view
    copied: Any = None
    if is_read and isinstance(x, Values):
        copied = Values(bytearray(memoryview(x.data).cast("B")), x.shape, x.dtype)
    elif is_read and view.kind != "values":
        copied = x.clone() if view.kind == "torch" else x.copy()
    if copied is None:
        raise UsageError(f"{what} begins at an address that is no multiple of {width}, its elements' size: give a copy")
    return _view_of(copied, what, codes, packed)


def _view_of(x: Any, what: str, codes: bool, packed: bool) -> View:
    if _is_a(x, "torch", "Tensor"):
        return _torch_view(x, what, codes, packed)
    if _is_a(x, "numpy", "ndarray"):
        return _numpy_view(x, what, codes)
    if isinstance(x, Values):
        pointer, keeper = _pointer_of(x.data)
        format_ = x.dtype if codes else _value_format(x.dtype, what)
        if not codes:
            needed = count_of(x.shape) * _BYTES[format_]
            if memoryview(x.data).nbytes != needed:
                raise UsageError(f"{what} has {memoryview(x.data).nbytes} bytes: {x.shape} of {format_} are {needed}")
        return View(pointer, x.shape, format_, x.shape[-1] if x.shape else 1, "values", keeper, memoryview(x.data).nbytes)
    if hasattr(x, "__dlpack__"):
        capsule, pointer, shape, strides, name = _dlpack.read(x, what)
        return View(pointer, shape, name if codes else _value_format(name, what), _rows(x, shape, strides, what), "values", capsule,
                    count_of(shape) * _WIDTHS.get(name, 1))
    if isinstance(x, (list, tuple)):
        return _view_of(_of_list(x, what, codes), what, codes, packed)
    if type(x).__module__ == "mxcheck._quantize":
        raise UsageError(f"{what} is a mxcheck.Quantized: its tensors are .codes and .scales")
    raise UsageError(f"{what} is a {type(x).__module__}.{type(x).__name__}: {_TAKEN}")


def _of_list(x: Any, what: str, codes: bool) -> Values:
    """FP32 values of nested lists of numbers, all rows of one length."""
    shape: List[int] = []
    flat: List[Any] = list(x)
    extent = len(flat)
    while True:
        shape.append(extent)
        if not flat or not isinstance(flat[0], (list, tuple)):
            break
        lengths = {len(row) if isinstance(row, (list, tuple)) else -1 for row in flat}
        if len(lengths) > 1:
            raise UsageError(f"{what} is a list of rows of different lengths: a matrix is needed")
        extent = lengths.pop()
        flat = [one for row in flat for one in row]
    for one in flat:
        if not isinstance(one, (int, float)) or isinstance(one, bool):
            raise UsageError(f"{what} is a list of {type(one).__module__}.{type(one).__name__}: {_TAKEN}")
    if codes and flat and all(isinstance(one, int) for one in flat):
        raise UsageError(f"{what} is a list of whole numbers, which may be values or codes: write values as 1.0, and give codes as "
                         "mxcheck.Values(bytes([...]), shape, 'e4m3')")
    return Values(array.array("f", flat), tuple(shape), "fp32")


def matrix_of(shape: Tuple[int, ...], what: str) -> Tuple[int, int]:
    """Rows and columns; a vector is one row."""
    if len(shape) == 2:
        return shape[0], shape[1]
    if len(shape) == 1:
        return 1, shape[0]
    raise UsageError(f"{what} has {len(shape)} dimensions: 1 or 2 are taken")


# From here on memory is the kernel's own, in large pages: a bytearray is written with zeros first, by one thread, and pages of 4 KiB
# cost more to be had than quantization takes (docs/performance.md).
_LARGE = 4 << 20


def is_writable(x: Any) -> bool:
    """True if a call may write to x, of the kinds that view_of takes. DLPack says so too late: its tensors are not written."""
    if _is_a(x, "torch", "Tensor"):
        return True
    if _is_a(x, "numpy", "ndarray"):
        return bool(x.flags.writeable)
    return isinstance(x, Values) and not memoryview(x.data).readonly


def new_buffer(size: int) -> Tuple[Any, int]:
    """Zeros to be written to, and their address."""
    if size < _LARGE:
        buffer = bytearray(size)
        return buffer, ctypes.addressof(ctypes.c_char.from_buffer(buffer)) if size else 0
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise EnvironmentError_(f"there are no {size} bytes of memory: {error.strerror}") from None
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            pages.madvise(mmap.MADV_HUGEPAGE)
        except OSError:  # a kernel without them
            pass
    view = memoryview(pages)
    return view, ctypes.addressof(ctypes.c_char.from_buffer(view))


def result(buffer: Any, shape: Tuple[int, ...], format_: str, bytes_each: int, kind: str) -> Any:
    """A buffer as the caller's kind: FP8 and E8M0 codes of torch in its types where it has them, other codes as unsigned integers."""
    if kind == "torch":
        torch = sys.modules["torch"]
        of_values = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64", "int32": "int32",
                     "int64": "int64"}.get(format_)
        name = of_values or {1: "uint8", 2: "int16", 4: "int32"}.get(bytes_each, "int64")
        flat = torch.frombuffer(buffer, dtype=getattr(torch, name)) if len(buffer) else torch.empty(0, dtype=getattr(torch, name))
        exact = getattr(torch, _TORCH_CODES.get(format_, ""), None)
        return (flat.view(exact) if exact is not None else flat).reshape(shape)
    if kind == "numpy":
        numpy = sys.modules["numpy"]
        if format_ == "bf16" and "ml_dtypes" in sys.modules:
            return numpy.frombuffer(buffer, dtype=sys.modules["ml_dtypes"].bfloat16).reshape(shape)
        name = {"fp32": "float32", "fp16": "float16", "fp64": "float64", "int32": "int32", "int64": "int64"}.get(format_, {1: "uint8", 2: "uint16", 4: "uint32"}.get(bytes_each, "uint64"))
        return numpy.frombuffer(buffer, dtype=name).reshape(shape)
    return Values(buffer, shape, format_)
