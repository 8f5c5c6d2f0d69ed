"""Tensors by name in a .safetensors file, as the program reads and writes them; large ones are copied once, to the file."""

import ctypes
import json
import mmap
import struct
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from ._arrays import Values, View, count_of, result, view_of
from ._errors import InputError, UsageError
from ._formats import check_bytes, formats
from ._names import told

# Names of types of PyTorch, numpy and formats, to those of files; codes are written as the unsigned integers that they are.
_TYPES = {"float32": "F32", "fp32": "F32", "bfloat16": "BF16", "bf16": "BF16", "float16": "F16", "half": "F16", "fp16": "F16",
          "float64": "F64", "fp64": "F64", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "U16", "uint32": "U32", "int32": "I32",
          "int64": "I64"}
_BYTES = {"F32": 4, "BF16": 2, "F16": 2, "F64": 8, "U8": 1, "I8": 1, "U16": 2, "U32": 4, "I32": 4, "I64": 8}
_FORMATS = {"F32": "fp32", "BF16": "bf16", "F16": "fp16", "F64": "fp64", "U8": "uint8", "I8": "int8", "U16": "uint16", "U32": "uint32",
            "I32": "int32", "I64": "int64"}


def _type_of(name: str, what: str) -> str:
    if name in _TYPES:
        return _TYPES[name]
    try:
        return "U8" if formats(name).code_bytes == 1 else "U16"
    except UsageError:
        raise UsageError(f"{what} is of {name}: values, codes (one a byte) and integers of {', '.join(sorted(_TYPES))} are taken") from None


def format_of(x: Any, what: str) -> str:
    """The format of codes that the tensor's type says; "" of values and integers."""
    name = view_of(x, what, codes=True).format
    return "" if name in _TYPES else formats(name).name


def viewed(tensors: Mapping[str, Any]) -> List[Tuple[str, str, View, int]]:
    """Name, type, view and bytes of each."""
    found = []
    for name, x in tensors.items():
        if not isinstance(name, str) or not name:
            raise UsageError(f"a tensor is called {told(name)}: a name is needed")
        view = view_of(x, name, codes=True)
        type_ = _type_of(view.format, name)
        size = count_of(view.shape) * _BYTES[type_]
        check_bytes(view, size, name)
        found.append((name, type_, view, size))
    return found


def rows_of(view: View, type_: str, size: int) -> Iterator[memoryview]:
    """The bytes of a tensor; rows that lie apart one by one."""
    rows = view.shape[0] if len(view.shape) == 2 and view.row_stride != view.shape[1] else 1
    for i in range(rows if size else 0):
        row = (ctypes.c_char * (size // rows)).from_address(view.pointer + i * view.row_stride * _BYTES[type_])
        yield memoryview(row).cast("B")


def write(path: Path, tensors: Mapping[str, Any]) -> None:
    """A file of tensors of any kind that mxcheck takes; rows may lie apart."""
    head: Dict[str, Any] = {}
    found, at = viewed(tensors), 0
    for name, type_, view, size in found:
        head[name] = {"dtype": type_, "shape": list(view.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, type_, view, size in found:
            for row in rows_of(view, type_, size):
                file.write(row)


def read(path: Path) -> Tuple[Dict[str, Values], Dict[str, str]]:
    """Tensors, whose memory is the file's own pages, and the metadata. What the program wrote: sizes are looked at, no more."""
    with open(path, "rb") as file:
        pages = memoryview(mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE))
    size = struct.unpack("<Q", pages[:8])[0]
    head = json.loads(bytes(pages[8 : 8 + size]))
    metadata = head.pop("__metadata__", {})
    tensors = {}
    for name, row in head.items():
        first, last = row["data_offsets"]
        if last - first != count_of(row["shape"]) * _BYTES[row["dtype"]] or 8 + size + last > len(pages):
            raise InputError(f"{path}: tensor {name} has {last - first} bytes, not those of its shape")
        tensors[name] = Values(pages[8 + size + first : 8 + size + last], tuple(row["shape"]), _FORMATS[row["dtype"]])
    return tensors, metadata


def as_kind(x: Values, kind: str, format: str = "") -> Any:
    """A tensor that was read, as torch's, numpy's or mxcheck.Values; format: of codes, where it is known."""
    return result(x.data, x.shape, format or x.dtype, _BYTES[_TYPES[x.dtype]], kind)
