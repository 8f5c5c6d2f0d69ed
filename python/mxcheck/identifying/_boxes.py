"""Functions of the caller's: `mxcheck identify --box` asks, this process calls the function and answers."""

import contextlib
import json
import subprocess
import sys
from typing import Any, Callable, Dict, IO, List, Optional, Sequence, Tuple

from .._arrays import Values, count_of, result
from .._errors import UsageError
from .._safetensors import rows_of, viewed
from .._tool import error_of, tool_path
from ._report import Identified, identified
from ._tree import Tree


def _given(stream: IO[bytes], described: Dict[str, Any], arrays: str) -> Any:
    """A tensor of a call, as the function takes it."""
    shape = tuple(described["shape"])
    data = stream.read(described["bytes"])
    if arrays == "values":
        return Values(data, shape, described["dtype"])
    return result(bytearray(data), shape, described["dtype"], len(data) // max(1, count_of(shape)), arrays)


def _frame(answer: Any) -> bytes:
    """What the function gave: a line that describes its tensors, and their bytes."""
    tensors, data = [], []
    for part in answer if isinstance(answer, (tuple, list)) else (answer,):
        if hasattr(part, "detach"):  # torch's and numpy's may be a view of a gradient's tensor, or transposed
            part = part.detach().contiguous()
        elif hasattr(part, "copy"):
            part = part.copy()
        for _, type_, view, size in viewed({"the box's answer": part}):
            tensors.append({"dtype": view.format, "shape": list(view.shape), "bytes": size})
            data += [bytes(row) for row in rows_of(view, type_, size)]  # now: a copy that was made here does not outlive the loop
    return b"".join([json.dumps({"tensors": tensors}).encode(), b"\n", *data])


def _ask(f: Callable[..., Any], arrays: str, arguments: List[str], extra: Sequence[Any] = ()) -> Dict[str, Any]:
    """The program's answer about f. What f raises passes, and ends the program; the program's errors are this package's."""
    if arrays not in ("values", "numpy", "torch"):
        raise UsageError(f"arrays is {arrays!r}: values, numpy or torch")
    if arrays != "values" and arrays not in sys.modules:
        __import__(arrays)
    with subprocess.Popen([tool_path(), "identify", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdin and program.stdout and program.stderr
        try:
            while True:
                call = json.loads(program.stdout.readline() or "{}")
                if "tensors" not in call:
                    break
                frame = _frame(f(*[_given(program.stdout, one, arrays) for one in call["tensors"]], *extra))
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
        return call["answer"]
    raise error_of(program.returncode, said, "identify", UsageError)


def _names(names: Optional[Sequence[str]]) -> List[str]:
    if names is not None and not names:
        raise UsageError("names is empty: None tries all")
    return [word for name in names or () for word in ("--names", name)]


def _product(op: str, formats: Sequence[str], shape: Sequence[int], output: str) -> List[str]:
    (a, b), (m, n, k) = formats, shape
    return ["--box", op, "--format-a", a, "--format-b", b, "--m", str(m), "--n", str(n), "--k", str(k), "--output", output]


def identify_matmul(f: Callable[..., Any], formats: Sequence[str] = ("bf16", "bf16"), shape: Tuple[int, int, int] = (8, 8, 512),
                    arrays: str = "values", names: Optional[Sequence[str]] = None, tree: bool = True, output: str = "fp32",
                    scales: Optional[str] = None, blocks: Tuple[str, str] = ("1x32", "1x32")) -> Identified:
    """Which contract does f follow? f(a, b): a is m x k and b n x k, of `formats`; D = A B^T, m x n in `output`, comes back.

    arrays: what f is given: "values" (mxcheck.Values), "numpy" (bf16 of ml_dtypes) or "torch". names: contracts to try in place of all.
    scales: "e8m0" or "fp32": f(a, b, scale_a, scale_b), compact, of `blocks` of a and b. Split-k of 2, 3 and 4 is tried where no contract
    explains every output; then the order of summation is looked for (tree=False: not).
    """
    arguments = _product("matmul", formats, shape, output) + _names(names) + ["--tree", "where-unexplained" if tree else "never"]
    if scales:
        arguments += ["--scale-type", scales, "--block-a", blocks[0], "--block-b", blocks[1]]
    return identified(_ask(f, arrays, arguments), "the box")


def summation_tree(f: Callable[..., Any], k: int, formats: Sequence[str] = ("bf16", "bf16"), shape: Tuple[int, int] = (8, 8),
                   arrays: str = "values", check: int = 2000, output: str = "fp32", extra: Sequence[Any] = ()) -> Tree:
    """The order in which f(a, b), as of identify_matmul, adds k products. `check`: pairs that are asked for beside those that the tree
    follows from. extra: further operands, the same in each call, as scales of one."""
    arguments = _product("tree", formats, (*shape, k), output) + ["--checked", str(check)]
    return Tree.of(_ask(f, arrays, arguments, extra)["order"], k)


def identify_cast(f: Callable[[Any], Any], format: str = "e4m3", arrays: str = "values", dtype: str = "bf16") -> Identified:
    """Which rounding and which treatment of overflow does f follow? f(x): one row of `dtype`, all of its 65,536 words, or of fp32 the
    gate's values of every exponent too; codes of `format` come back, one a byte (e5m6, bf16, fp16: two)."""
    return identified(_ask(f, arrays, ["--box", "cast", "--format", format, "--dtype", dtype]), "the box")


def identify_quantize(f: Callable[[Any], Any], format: str = "e4m3", block: str = "1x32", dtype: str = "bf16", arrays: str = "values",
                      names: Optional[Sequence[str]] = None) -> Identified:
    """Which recipe does f follow? f(x): codes and compact scales (E8M0 bytes, or FP32) come back. x has NaN and infinities too."""
    arguments = ["--box", "quantize", "--format", format, "--block", block, "--dtype", dtype]
    return identified(_ask(f, arrays, arguments + _names(names)), "the box")


def identify_route(f: Callable[[Any], Any], experts: int = 64, top_k: int = 8, dtype: str = "fp32", arrays: str = "values") -> Identified:
    """Which variant does f follow? f(logits): tokens x experts; experts (int32) and weights (FP32), tokens x top_k, come back."""
    arguments = ["--box", "route", "--expert-count", str(experts), "--top-k", str(top_k), "--dtype", dtype]
    return identified(_ask(f, arrays, arguments), "the box")
