"""`mxcheck identify` on tensors of the caller's: the same answers, from the same program."""

import ctypes
import json
import math
import re
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from .. import _safetensors
from .._errors import Error, UsageError
from .._names import block_name, format_name, told, whole
from .._packed import TensorScale, is_packed_type, unpack
from .._quantize import Quantized
from .._router import Routes
from .._tool import run_tool
from ._report import Identified, identified


def require_compact(q: Quantized, what: str) -> None:
    if q.layout != "compact" and not (q.layout == "tcgen05" and q.tensor_scale is not None):
        raise UsageError(f"{what} has scales in layout {q.layout}: quantize it with layout compact")


def _taken_apart(q: Quantized, what: str) -> Tuple[Any, Any, str]:
    require_compact(q, what)
    if q.tensor_scale is not None and what != "codes":
        raise UsageError(f"{what} has two levels of scales: a product's operands have one")
    return q.unpacked().codes, q.scales, q.format


def _tensor_scale_flag(tensor_scale: Any) -> List[str]:
    """A scale of one number; a row's scales are no option of the program."""
    if tensor_scale is None:
        return []
    given = TensorScale(tensor_scale)
    if given.of == "row":
        raise UsageError(f"tensor_scale is {told(tensor_scale)}: identify takes one of the whole tensor, none of each row")
    value = ctypes.c_float.from_address(given.pointer).value
    if not 0 < value < math.inf:
        raise UsageError(f"tensor_scale is {value:g}: a positive finite number is needed")
    return ["--tensor-scale", repr(value)]


def _refuse(given: str, **others: Any) -> None:
    """UsageError for arguments beside one that says as much."""
    for name, value in others.items():
        if value is not None and not (isinstance(value, str) and value == ""):
            raise UsageError(f"{name} is given, and {given}, which has its own: leave {name} out")


def identify_dump(a: Any = None, b: Any = None, d: Any = None, scale_a: Any = None, scale_b: Any = None, *, scale_k: int = 0,
                  format_a: Any = "", format_b: Any = "", x: Any = None, codes: Any = None, scales: Any = None, words: Any = None, format: Any = "",
                  block: Any = "", tensor_scale: Any = None, logits: Any = None, experts: Any = None, weights: Any = None, order: bool = False,
                  seed: Optional[int] = None, first_call: int = 0) -> Identified:
    """Names what tensors of a run follow: `mxcheck identify` on them, by the names of its options.

    a, b, d (and scale_a, scale_b): a product, m x k, n x k, m x n; a and b may be what mxcheck.quantize returned. x, codes (and scales):
    a cast, a quantization, codes may be what mxcheck.quantize returned; tensor_scale: of NVFP4, as any of the three numbers that recipes store,
    and scales are E4M3 then (codes one or two a byte); words: random words of a stochastic cast, of x's shape. seed, first_call:
    rng_state of NVFP4's codes that are rounded stochastically, for which every word order is tried (docs/nvfp4.md). logits, experts,
    weights: a router, experts may be what mxcheck.route returned. Formats that the tensors' types do not say: format_a, format_b, format.
    order: the tree of summation of the product's contract too. UsageError and InputError for what does not fit together.
    """
    if isinstance(a, Quantized):
        _refuse("a is a mxcheck.Quantized", scale_a=scale_a, format_a=format_a)
        a, scale_a, format_a = _taken_apart(a, "a")
    if isinstance(b, Quantized):
        _refuse("b is a mxcheck.Quantized", scale_b=scale_b, format_b=format_b)
        b, scale_b, format_b = _taken_apart(b, "b")
    if isinstance(codes, Quantized):
        _refuse("codes is a mxcheck.Quantized", scales=scales, format=format, block=block, tensor_scale=tensor_scale)
        block, tensor_scale = codes.block, codes.tensor_scale
        codes, scales, format = _taken_apart(codes, "codes")
    codes = unpack(codes) if is_packed_type(codes) else codes
    if isinstance(experts, Routes):
        _refuse("experts is a mxcheck.Routes", weights=weights)
        experts, weights = experts.experts, experts.weights
    given: Dict[str, Any] = {"a": a, "b": b, "d": d, "scale_a": scale_a, "scale_b": scale_b, "x": x, "codes": codes, "scales": scales, "words": words,
                             "logits": logits, "experts": experts, "weights": weights}
    given = {name: tensor for name, tensor in given.items() if tensor is not None}
    if not given:
        raise UsageError("nothing to identify: a, b and d, or x and codes, or logits, experts and weights are needed")
    arguments = (["--order"] if order else []) + _tensor_scale_flag(tensor_scale)
    for flag, value in (("--scale-k", str(whole(scale_k, "scale_k")) if scale_k else ""), ("--block", block_name(block) if block else ""),
                        ("--seed", "" if seed is None else str(whole(seed, "seed", 0, 2**64 - 1))),
                        ("--first-call", str(whole(first_call, "first_call", 0, 2**64 - 1)) if first_call else "")):
        arguments += [flag, value] if value else []
    with tempfile.TemporaryDirectory(prefix="mxcheck-") as folder:
        path = Path(folder) / "dump.safetensors"
        _safetensors.write(path, given)
        for name in given:
            arguments += ["--" + name.replace("_", "-"), f"{path}:{name}"]
        for name, flag, stated in (("a", "--format-a", format_a), ("b", "--format-b", format_b), ("codes", "--format", format)):
            if name in given:
                format_ = stated or _safetensors.format_of(given[name], name)
                arguments += [flag, format_name(format_, flag[2:].replace("-", "_"))] if format_ else []
        try:
            answer = json.loads(run_tool(["identify", "--json", *arguments], (0, 1), UsageError, hide=folder)[1])
        except Error as error:
            text = str(error).replace("; mxcheck identify --help says what for", "; help(mxcheck.identify_dump) says what for")
            text = re.sub(r"--([a-z][a-z-]*)", lambda flag: flag.group(1).replace("-", "_"), text)  # options are arguments here
            raise type(error)(text.replace(path.name + ":", "")) from None
    # A remark about the file, which the caller has not, ends before it.
    answer["remarks"] = [remark.split(f"; {path}")[0].replace("--", "") for remark in answer.get("remarks", [])]
    return identified(answer, "the dump", has_probes=False)
