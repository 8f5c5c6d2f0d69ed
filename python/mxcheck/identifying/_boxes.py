"""Functions of the caller's: `mxcheck identify --box` asks, this process calls the function and answers."""

import contextlib
import importlib
import importlib.util
import io
import json
import subprocess
import sys
from typing import Any, Callable, Dict, IO, List, Optional, Sequence, Tuple

from .._arrays import Values, count_of, result
from .._errors import UsageError
from .._formats import formats as format_infos
from .._names import block_name, format_name, known, one_of, told, whole
from .._quantize import Quantized
from .._router import Routes
from .._safetensors import rows_of, viewed
from .._tool import error_of, tool_path
from ._dumps import require_compact
from ._report import Identified, identified
from ._tree import Tree
from ._two_levels import identify_two_levels


def _given(stream: IO[bytes], described: Dict[str, Any], arrays: str) -> Any:
    """A tensor of a call, as the function takes it."""
    shape = tuple(described["shape"])
    data = stream.read(described["bytes"])
    if arrays == "values":
        return Values(data, shape, described["dtype"])
    format_ = described["dtype"]
    made = result(bytearray(data), shape, format_, len(data) // max(1, count_of(shape)), arrays)
    own = _of_ml_dtypes(format_) if arrays == "numpy" and format_ in known("formats") else None
    return made if own is None else made.view(own)


def _in_kind(x: Values, arrays: str) -> Any:
    """A tensor of this package's as the function takes it."""
    data = x.tobytes()
    return _given(io.BytesIO(data), {"shape": x.shape, "dtype": x.dtype, "bytes": len(data)}, arrays)


def _of_ml_dtypes(format_: str) -> Any:
    """The type that numpy has of a format with ml_dtypes; None where it needs none, or there is none."""
    if format_ in ("fp32", "fp16") or not importlib.util.find_spec("ml_dtypes"):
        return None
    return getattr(importlib.import_module("ml_dtypes"), format_infos(format_).dtype, None)


def _arrays_of(arrays: Optional[str], handed: Sequence[str]) -> str:
    """The kind of arrays that a function is called with: where nothing is said "numpy", if it is installed and has a type for each of these formats."""
    if arrays is None:
        held = bool(importlib.util.find_spec("numpy")) and all(one in ("fp32", "fp16") or _of_ml_dtypes(one) is not None for one in handed)
        arrays = "numpy" if held else "values"
    if one_of(arrays, "arrays", ("values", "numpy", "torch")) == "values":
        return arrays
    try:
        importlib.import_module(arrays)
    except ImportError as error:
        raise UsageError(f"arrays is {arrays!r}, which cannot be imported: {error}; arrays='values' needs nothing") from None
    if arrays == "numpy" and "bf16" in handed and _of_ml_dtypes("bf16") is None:
        raise UsageError("arrays is 'numpy', which has BF16 with ml_dtypes alone: pip install ml_dtypes, or give arrays='torch' or 'values', or "
                         "formats without bf16")
    return arrays


def _parts(answer: Any) -> Sequence[Any]:
    """The tensors of an answer; what mxcheck.quantize and mxcheck.route return has two."""
    if isinstance(answer, Quantized):
        require_compact(answer, "the box's answer")
        if answer.tensor_scale is not None:
            raise UsageError("the box's answer has two levels of scales: levels=2 names its recipe")
        return answer.codes, answer.scales
    if isinstance(answer, Routes):
        return answer.experts, answer.weights
    return answer if isinstance(answer, (tuple, list)) else (answer,)


def _frame(answer: Any) -> bytes:
    """The answer of a function as a frame: a line that describes its tensors, and their bytes."""
    tensors, data = [], []
    for part in _parts(answer):
        if hasattr(part, "detach"):  # torch's and numpy's may be a view of a gradient's tensor, or transposed
            part = part.detach().contiguous()
        elif hasattr(part, "copy"):
            part = part.copy()
        for _, type_, view, size in viewed({"the box's answer": part}):
            tensors.append({"dtype": view.format, "shape": list(view.shape), "bytes": size})
            data += [bytes(row) for row in rows_of(view, type_, size)]  # now: a copy that was made here does not outlive the loop
    return b"".join([json.dumps({"tensors": tensors}).encode(), b"\n", *data])


def _ask(f: Callable[..., Any], arrays: Optional[str], arguments: List[str], extra: Sequence[Any] = ()) -> Dict[str, Any]:
    """The program's answer about f. What f raises passes, and ends the program; the program's errors are this package's."""
    kind = _arrays_of(arrays, [one for one in arguments if one in known("formats")])
    with subprocess.Popen([tool_path(), "identify", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdin and program.stdout and program.stderr
        try:
            while True:
                call = json.loads(program.stdout.readline() or "{}")
                if "tensors" not in call:
                    break
                frame = _frame(f(*[_given(program.stdout, one, kind) for one in call["tensors"]], *extra))
                try:
                    program.stdin.write(frame)
                    program.stdin.flush()
                except BrokenPipeError:  # it refused the answer before it had read all of it, and says why
                    break
        except BaseException:
            program.kill()
            raise
        finally:
            with contextlib.suppress(BrokenPipeError):
                program.stdin.close()
        said = program.stderr.read()
    if "answer" in call:
        return dict(call["answer"])
    raise error_of(program.returncode, said, "identify", UsageError)


def _names(names: Optional[Sequence[str]]) -> List[str]:
    if names is not None and not names:
        raise UsageError("names is empty: None tries all")
    return [word for name in names or () for word in ("--names", name)]


def _several(values: Any, count: int, what: str, example: str) -> List[Any]:
    if isinstance(values, str) or not hasattr(values, "__iter__") or len(list(values)) != count:
        raise UsageError(f"{what} is {told(values)}: {count} are needed, as {example}")
    return list(values)


def _product(op: str, formats: Sequence[Any], shape: Sequence[int], output: Any) -> List[str]:
    a, b = (format_name(one, "formats") for one in _several(formats, 2, "formats", "('bf16', 'bf16')"))
    m, n, k = (str(whole(one, "shape", 1)) for one in _several(shape, 3, "shape", "(8, 8, 512)"))
    return ["--box", op, "--format-a", a, "--format-b", b, "--m", m, "--n", n, "--k", k, "--output", format_name(output, "output")]


def identify_matmul(f: Callable[..., Any], formats: Sequence[Any] = ("bf16", "bf16"), shape: Tuple[int, int, int] = (8, 8, 512),
                    arrays: Optional[str] = None, names: Optional[Sequence[str]] = None, tree: bool = True, output: Any = "fp32",
                    scales: Optional[str] = None, blocks: Tuple[Any, Any] = ("1x32", "1x32")) -> Identified:
    """Names the contract that f follows. f(a, b): a is m x k and b n x k, of `formats`; D = A B^T, m x n in `output`, comes back.

    arrays: what f is given: "numpy" (bf16 and FP8 of ml_dtypes; without it FP8 as uint8, and no bf16), "torch" or "values" (mxcheck.Values); None:
    numpy where it is installed. names: contracts to try in place of all.
    scales: "e8m0" or "fp32": f(a, b, scale_a, scale_b), compact, of `blocks` of a and b. Split-k of 2, 3 and 4 is tried where no contract
    explains every output; then the order of summation is looked for (tree=False: not).
    """
    arguments = _product("matmul", formats, shape, output) + _names(names) + ["--tree", "where-unexplained" if tree else "never"]
    if scales:
        of_a, of_b = (block_name(one, "blocks") for one in _several(blocks, 2, "blocks", "('1x128', '128x128')"))
        arguments += ["--scale-type", one_of(scales, "scales", ("e8m0", "fp32")), "--block-a", of_a, "--block-b", of_b]
    return identified(_ask(f, arrays, arguments), "the box")


def summation_tree(f: Callable[..., Any], k: int, formats: Sequence[Any] = ("bf16", "bf16"), shape: Tuple[int, int] = (8, 8),
                   arrays: Optional[str] = None, check: int = 2000, output: Any = "fp32", extra: Sequence[Any] = ()) -> Tree:
    """The order in which f(a, b), as of identify_matmul, adds k products. `check`: pairs that are asked for beside those that the tree
    follows from. extra: further operands, the same in each call, as scales of one."""
    arguments = _product("tree", formats, (*_several(shape, 2, "shape", "(8, 8)"), k), output) + ["--checked", str(check)]
    return Tree.of(_ask(f, arrays, arguments, extra)["order"], k)


def identify_cast(f: Callable[[Any], Any], format: Any = "e4m3", arrays: Optional[str] = None, dtype: Any = "bf16") -> Identified:
    """Names the rounding and the treatment of overflow that f follows. f(x): one row of `dtype`, all of its 65,536 words, or of fp32 the
    gate's values of every exponent too; codes of `format` come back, one a byte (e5m6, bf16, fp16: two)."""
    return identified(_ask(f, arrays, ["--box", "cast", "--format", format_name(format), "--dtype", format_name(dtype, "dtype")]), "the box")


def identify_quantize(f: Callable[[Any], Any], format: Any = None, block: Any = None, dtype: Any = None, arrays: Optional[str] = None,
                      names: Optional[Sequence[str]] = None, levels: int = 1) -> Identified:
    """Names the recipe that f follows. f(x): codes and compact scales (E8M0 bytes, or FP32) come back, or a
    mxcheck.Quantized. x has NaN and infinities too. format: e4m3, block: 1x32, dtype: bf16, where nothing is said.

    levels: 2 for scales of blocks under the tensor's: codes (e2m1, one or two a byte), E4M3 scales (compact, or in tiles) and the tensor's
    scale come back, or a mxcheck.Quantized. block: 1x16, 16x1 or 16x16, dtype: fp32, where nothing is said, for few values of BF16 tell
    recipes apart. x has no NaN then.
    """
    if levels == 2:
        if format is not None and format_name(format) != "e2m1":
            raise UsageError(f"format is {told(format)}: two levels of scales are those of e2m1")
        _names(names)
        of_x = format_name("fp32" if dtype is None else dtype, "dtype")
        kind = _arrays_of(arrays, [of_x])
        return identify_two_levels(f, lambda x: _in_kind(x, kind), block_name("1x16" if block is None else block), of_x, names)
    if levels != 1:
        raise UsageError(f"levels is {told(levels)}: 1 or 2 is needed")
    format, block, dtype = (given if given is not None else usual for given, usual in ((format, "e4m3"), (block, "1x32"), (dtype, "bf16")))
    arguments = ["--box", "quantize", "--format", format_name(format), "--block", block_name(block), "--dtype", format_name(dtype, "dtype")]
    return identified(_ask(f, arrays, arguments + _names(names)), "the box")


def identify_route(f: Callable[[Any], Any], experts: int = 64, top_k: int = 8, dtype: Any = "fp32", arrays: Optional[str] = None) -> Identified:
    """Names the variant that f follows. f(logits): tokens x experts; experts (int32) and weights (FP32), tokens x top_k, come back, or a
    mxcheck.Routes."""
    arguments = ["--box", "route", "--expert-count", str(whole(experts, "experts")), "--top-k", str(whole(top_k, "top_k")), "--dtype",
                 format_name(dtype, "dtype")]
    return identified(_ask(f, arrays, arguments), "the box")
