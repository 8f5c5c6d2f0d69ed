"""`mxcheck identify` on tensors of the caller's: the same answers, from the same program."""

import json
import re
import tempfile
from pathlib import Path
from typing import Any, Dict

from .. import _safetensors
from .._errors import Error, UsageError
from .._names import block_name, format_name, whole
from .._quantize import Quantized
from .._tool import run_tool
from ._report import Identified, identified


def identify_dump(a: Any = None, b: Any = None, d: Any = None, scale_a: Any = None, scale_b: Any = None, *, scale_k: int = 0,
                  format_a: Any = "", format_b: Any = "", x: Any = None, codes: Any = None, scales: Any = None, words: Any = None, format: Any = "",
                  block: Any = "", logits: Any = None, experts: Any = None, weights: Any = None, order: bool = False) -> Identified:
    """What tensors of a run follow: `mxcheck identify` on them, by the names of its options.

    a, b, d (and scale_a, scale_b): a product, m x k, n x k, m x n; a and b may be what mxcheck.quantize returned. x, codes (and scales):
    a cast, a quantization; words: random words of a stochastic cast, of x's shape. logits, experts, weights: a router. Formats that the tensors' types do not say: format_a, format_b, format.
    order: the tree of summation of the product's contract too. UsageError and InputError for what does not fit together.
    """
    for name, operand in (("a", a), ("b", b)):
        if isinstance(operand, Quantized) and operand.layout != "compact":
            raise UsageError(f"{name} has scales in layout {operand.layout}: quantize it with layout compact")
    if isinstance(a, Quantized):
        a, scale_a, format_a = a.codes, a.scales, a.format
    if isinstance(b, Quantized):
        b, scale_b, format_b = b.codes, b.scales, b.format
    given: Dict[str, Any] = {"a": a, "b": b, "d": d, "scale_a": scale_a, "scale_b": scale_b, "x": x, "codes": codes, "scales": scales, "words": words,
                             "logits": logits, "experts": experts, "weights": weights}
    given = {name: tensor for name, tensor in given.items() if tensor is not None}
    if not given:
        raise UsageError("nothing to identify: a, b and d, or x and codes, or logits, experts and weights are needed")
    arguments = ["--order"] if order else []
    for flag, value in (("--scale-k", str(whole(scale_k, "scale_k")) if scale_k else ""), ("--block", block_name(block) if block else "")):
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
            text = re.sub(r"--([a-z][a-z-]*)", lambda flag: flag.group(1).replace("-", "_"), str(error))  # options are arguments here
            raise type(error)(text.replace(path.name + ":", "")) from None
    # Of a remark about the file, which the caller has not, what is before it.
    answer["remarks"] = [remark.split(f"; {path}")[0].replace("--", "") for remark in answer.get("remarks", [])]
    return identified(answer, "the dump", has_probes=False)
