"""`mxcheck identify` on tensors of the caller's: the same answers, from the same program."""

import json
import os
import struct
import subprocess
import tempfile
from typing import Any, Dict, List, Optional, Tuple

from .._arrays import view_of
from .._errors import OF_EXIT_CODE, Error, InternalError, UsageError
from .._formats import formats
from .._quantize import Quantized
from ..candidates.gating import tool_path
from ._report import Candidate, Identified
from ._tree import Tree, leaves, parse_tree
from ._trees import _bytes_of

# Types of a tensor, by the names that numpy, torch and mxcheck.Values have, to those of safetensors; all else is codes.
_TYPES = {"float32": "F32", "fp32": "F32", "float16": "F16", "fp16": "F16", "half": "F16", "bfloat16": "BF16", "bf16": "BF16", "int32": "I32",
          "int64": "I64", "uint8": "U8", "uint16": "U16", "int16": "U16"}


def run(arguments: List[str]) -> Dict[str, Any]:
    """What the command prints with --json. Its errors are this package's; the exit code of an answer is not one."""
    done = subprocess.run([tool_path(), "identify", "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        text = done.stderr.decode(errors="replace").strip().replace("mxcheck: error: ", "") or f"mxcheck identify ended with {done.returncode}"
        raise OF_EXIT_CODE.get(done.returncode, InternalError)(text)
    return json.loads(done.stdout.decode())


def _type_of(x: Any, name: str) -> Tuple[str, str]:
    """safetensors' type, and the format of codes or ""."""
    type_ = view_of(x, name, codes=True).format
    if type_ in _TYPES:
        return _TYPES[type_], ""
    if "e8m0" in type_:
        return "U8", ""
    try:
        info = formats(type_)
    except Error:
        raise UsageError(f"{name} is of {type_}: codes, values or scales are needed") from None
    return ("U8" if info.code_bytes == 1 else "U16"), info.name


def _write(path: str, x: Any, name: str) -> str:
    """One tensor, row-major; returns the format that its type says."""
    type_, format_ = _type_of(x, name)
    data = _bytes_of(x)
    header = json.dumps({"t": {"dtype": type_, "shape": list(view_of(x, name, codes=True).shape), "data_offsets": [0, len(data)]}}).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)
    return format_


def _first(closest: Dict[str, Any]) -> str:
    first = closest["first"]
    return (f"first in {first['part']} at ({first['row']}, {first['column']}): {closest['name']} gives {first['expected']}, the dump "
            f"{first['observed']}")


def identified(answer: Dict[str, Any]) -> Identified:
    """The command's JSON as what mxcheck.identify returns."""
    found = Identified(answer["explaining"], answer["compared"],
                       [] if answer["explained"] else [Candidate(one["name"], one["equal"], _first(one)) for one in answer["closest"]])
    found.notes = [f"that is also {words}" for words in answer["also"]]
    order = answer.get("order")
    if order is not None:
        root = parse_tree(order["tree"]) if order["tree"] else None
        exact = {name: (order["compared"], order["compared"]) for name in order["arithmetic"]}
        found.tree = Tree(root, 0 if root is None else len(leaves(root)), order["masks"], exact or None, order["why_not"])
    return found


def identify_dump(a: Any = None, b: Any = None, d: Any = None, scale_a: Any = None, scale_b: Any = None, *, scale_k: int = 0,
                  format_a: str = "", format_b: str = "", x: Any = None, codes: Any = None, scales: Any = None, format: str = "",
                  block: str = "", logits: Any = None, experts: Any = None, weights: Any = None, order: bool = False) -> Identified:
    """What tensors of a run follow: `mxcheck identify` on them, by the names of its options.

    a, b, d (and scale_a, scale_b): a product, m x k, n x k, m x n; a and b may be what mxcheck.quantize returned. x, codes (and scales):
    a cast, a quantization. logits, experts, weights: a router. Formats that the tensors' types do not say: format_a, format_b, format.
    order: the tree of summation of the product's contract too. UsageError and InputError for what does not fit together.
    """
    for name, operand in (("a", a), ("b", b)):
        if isinstance(operand, Quantized) and operand.layout != "compact":
            raise UsageError(f"{name} has scales in layout {operand.layout}: quantize it with layout compact")
    if isinstance(a, Quantized):
        a, scale_a, format_a = a.codes, a.scales, a.format
    if isinstance(b, Quantized):
        b, scale_b, format_b = b.codes, b.scales, b.format
    given: Dict[str, Any] = {"a": a, "b": b, "d": d, "scale-a": scale_a, "scale-b": scale_b, "x": x, "codes": codes, "scales": scales,
                             "logits": logits, "experts": experts, "weights": weights}
    stated: Dict[str, Optional[str]] = {"a": format_a, "b": format_b, "codes": format}
    flag_of = {"a": "format-a", "b": "format-b", "codes": "format"}
    with tempfile.TemporaryDirectory(prefix="mxcheck-") as folder:
        arguments = []
        for name, tensor in given.items():
            if tensor is None:
                continue
            path = os.path.join(folder, name.replace("-", "_") + ".safetensors")
            said = _write(path, tensor, name.replace("-", "_"))
            arguments += [f"--{name}", path]
            format_ = stated.get(name) or (said if name in flag_of else "")
            if format_:
                arguments += [f"--{flag_of[name]}", formats(format_).name]
        if scale_k:
            arguments += ["--scale-k", str(int(scale_k))]
        if block:
            arguments += ["--block", block]
        if order:
            arguments.append("--order")
        try:
            return identified(run(arguments))
        except Error as error:
            raise type(error)(str(error).replace(folder + os.sep, "").replace(".safetensors", "")) from None
