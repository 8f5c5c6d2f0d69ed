"""A call of the gate's as a call of a callable: arguments wrapped, results checked and copied to where they belong, exceptions told.

Everything here runs for each call; what it costs beside the callable's own work is printed by benchmarks/python/call_cost.py.
"""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .declare import Candidate, Refused
from .policy import Policy, make_policy
from .resolve import where

OK, UNSUPPORTED, INVALID, FAILED = 0, 1, 2, 5
_WIDTH = 10  # words of a tensor
_MOST_POLICIES = 4096
_INPUTS_OF_BLOCKS = {"quantize": 1, "quantize_dual": 1, "dequantize": 2, "scale_layout": 1, "quantize_nvfp4": 2, "dequantize_nvfp4": 3}
_OPTIONAL_AT_THE_END = ("swiglu", "swiglu_backward", "quantize_transposed")

Make = Callable[[Sequence[int], int, int], Any]


class _Wrong(Exception):
    """A callable returned something wrong; the text says what."""


class Call:
    """The calls of one candidate. words, texts: the worker's, as memoryviews of int64 and of bytes."""

    def __init__(self, of: Candidate, words: Any, texts: Any, make: Make, results: Any) -> None:
        self.of = of
        self._words, self._texts = words, texts
        self._make = make
        self._results = results
        self._policies: Dict[Tuple[bytes, bytes], Policy] = {}
        op = of.op
        self._inputs = _INPUTS_OF_BLOCKS.get(op, 0)

    def policy(self) -> Policy:
        words = self._words
        count = words[3]
        key = (words[4 : 4 + count].tobytes(), self._texts.tobytes())
        found = self._policies.get(key)
        if found is None:
            if len(self._policies) >= _MOST_POLICIES:
                self._policies.clear()
            texts = key[1].split(b"\0")
            found = make_policy(self.of.op, words[4 : 4 + count].tolist(), [text.decode() for text in texts])
            self._policies[key] = found
        return found

    def run(self) -> Tuple[int, str]:
        """Status and message."""
        try:
            inputs, outputs, stream, count = self._words[:4].tolist()
            at = 4 + count
            words = self._words[at : at + _WIDTH * (inputs + outputs)].tolist()
            policy = self.policy()
            keywords = self._optional(words, inputs, policy)
            if isinstance(keywords, str):
                return UNSUPPORTED, keywords
            first_output = inputs * _WIDTH
            if not self.of.empty and _is_empty(words, first_output):
                return OK, ""
            make = self._make
            positional = inputs - len(keywords)
            arguments = [make(words, i * _WIDTH, i) for i in range(positional)]
            for name, i in keywords.items():
                keywords[name] = make(words, i * _WIDTH, i)
            made = [make(words, i * _WIDTH, i) for i in range(inputs, inputs + outputs)]
            return self._results.call(self.of, stream, arguments, made, policy, keywords)
        except Refused as refused:
            return INVALID, "refused: " + where(refused)
        except NotImplementedError as error:
            return UNSUPPORTED, where(error)
        except _Wrong as wrong:
            return FAILED, str(wrong)
        except BaseException as error:
            return FAILED, "raised " + where(error)

    def _optional(self, words: List[int], inputs: int, policy: Policy) -> Any:
        """Numbers of the inputs that are keywords, by name; or the text of a refusal."""
        op, options = self.of.op, self.of.options
        keywords: Dict[str, int] = {}
        if self._inputs:
            both = op == "quantize_nvfp4" and policy.own["directions"] == "both"  # then the columns have a scale too
            for i in range(self._inputs + both, inputs):
                keywords["offsets" if words[i * _WIDTH + 2] == 64 else "row_index"] = i
        elif op in _OPTIONAL_AT_THE_END:
            for i in range(inputs - 2, inputs):  # int64 offsets and an int32 row index; no other input of these is a vector of integers
                code, bits, dimensions = words[i * _WIDTH + 1 : i * _WIDTH + 4]
                if i > 0 and code == 0 and dimensions == 1:
                    keywords["offsets" if bits == 64 else "row_index"] = i
        elif op == "matmul":
            refusal = _matmul_inputs(words, inputs, policy, options, keywords)
            if refusal:
                return refusal
        elif op in ("route", "route_round"):
            if inputs > 1:
                keywords["bias"] = 1
            if "scale" not in options and policy.own["scale"] != 1.0:
                return "a scale of weights is not taken"
            if "top_k" not in options and policy.own["top_k"] > 16:
                return "a top_k above 16 is not taken"
        elif op in ("dispatch", "combine") and "capacity" not in options and policy.own["capacity"] != 0:
            return "a capacity is not taken"
        for name in keywords:
            if name != "bias" and name not in options and not (name in ("offsets", "counts") and op == "matmul"):
                return f"{name} is not taken"
        if "row_stride" not in options and "col_stride" not in options and words[3] == 2 and words[4] > 1 and words[5] > 0 and words[7] != words[5]:
            return "a row stride is not taken"
        return keywords


def _matmul_inputs(words: List[int], inputs: int, policy: Policy, options: Tuple[str, ...], keywords: Dict[str, int]) -> str:
    own = policy.own
    at = 2 if own["scale_type"] == "none" else 4
    if own["accumulate"]:
        keywords["c"] = at
        at += 1
    for i in range(at, inputs):
        integers = "counts" if own["grouping"] == "masked" else "offsets"
        keywords[integers if words[i * _WIDTH + 2] == 64 else "row_index"] = i
    if "alpha" not in options and own["alpha"] != 1.0:
        return "alpha is not taken"
    if "any_depth" not in options and own["depth"] % 128 != 0:
        return "a depth that is no multiple of 128 is not taken"
    if "unaligned" not in options and (words[0] % 16 != 0 or words[_WIDTH] % 16 != 0):
        return "operands that are not at multiples of 16 bytes are not taken"
    return ""


def _is_empty(words: List[int], at: int) -> bool:
    while at < len(words):
        if words[at + 4] != 0 and words[at + 5] != 0 and words[at + 6] != 0:
            return False
        at += _WIDTH
    return True


class Results:
    """Runs the callable, and takes what it returns. This one is for outputs that are written into, of any kind of tensors."""

    def call(self, of: Candidate, stream: int, inputs: List[Any], outputs: List[Any], policy: Policy, keywords: Dict[str, Any]) -> Tuple[int, str]:
        returned = of.function(*inputs, *outputs, policy, **keywords)
        if returned is not None:
            self.take(of, returned, inputs, outputs, policy)
        return OK, ""

    def take(self, of: Candidate, returned: Any, inputs: List[Any], outputs: List[Any], policy: Policy) -> None:
        raise _Wrong(f"returned a {type(returned).__name__}: a function of these tensors writes into its outputs and returns None")


def _listed(returned: Any, outputs: List[Any]) -> List[Any]:
    given = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(given) != len(outputs):
        raise _Wrong(f"returned {len(given)} tensors: {len(outputs)} are the operation's outputs")
    return given


class NumpyResults(Results):
    def __init__(self) -> None:
        import numpy

        self._numpy = numpy
        self._last: Dict[int, List[Any]] = {}  # what a candidate returned before: a caller may still use it

    def take(self, of: Candidate, returned: Any, inputs: List[Any], outputs: List[Any], policy: Policy) -> None:
        numpy = self._numpy
        given = _listed(returned, outputs)
        for i, (one, output) in enumerate(zip(given, outputs)):
            if type(one) is not numpy.ndarray:
                raise _Wrong(f"output {i} is a {type(one).__name__}: a numpy array is needed")
            if one.shape != output.shape:
                raise _Wrong(f"output {i} has shape {one.shape}: must be {output.shape}")
            if one.dtype != output.dtype and not (one.dtype.itemsize == 1 and output.dtype == numpy.uint8 and one.dtype.name.startswith("float8")):
                raise _Wrong(f"output {i} is of {one.dtype}: must be of {output.dtype}")
            if not one.flags.c_contiguous:
                raise _Wrong(f"output {i} is not contiguous: its strides are {one.strides} bytes")
            for what, others in (("an input", inputs), ("what an earlier call returned", self._last.get(id(of), ()))):
                if any(numpy.may_share_memory(one, other) for other in others):
                    raise _Wrong(f"output {i} is memory of {what}, which a caller may still use")
        for one, output in zip(given, outputs):
            output.view(numpy.uint8 if one.dtype.itemsize == 1 else output.dtype)[...] = one.view(output.dtype)
        self._last[id(of)] = given


_TORCH_CODES = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


class TorchResults(Results):
    """On the device the callable runs in the gate's stream, and a copy of what it returns too."""

    def __init__(self, device: str) -> None:
        import torch

        self._torch = torch
        self._cuda = device == "cuda"
        self._streams: Dict[int, Any] = {}
        self._last: Dict[int, List[Any]] = {}
        self._shapes: Dict[int, bool] = {}

    def call(self, of: Candidate, stream: int, inputs: List[Any], outputs: List[Any], policy: Policy, keywords: Dict[str, Any]) -> Tuple[int, str]:
        if not self._cuda:
            return self._call(of, inputs, outputs, policy, keywords)
        cuda = self._torch.cuda
        found = self._streams.get(stream)
        if found is None:
            found = cuda.ExternalStream(stream) if stream else cuda.default_stream()
            self._streams[stream] = found
        with cuda.stream(found):
            return self._call(of, inputs, outputs, policy, keywords)

    def _call(self, of: Candidate, inputs: List[Any], outputs: List[Any], policy: Policy, keywords: Dict[str, Any]) -> Tuple[int, str]:
        if id(of) in self._shapes and not (self._cuda and self._torch.cuda.is_current_stream_capturing()):
            self._poison(outputs)
        returned = of.function(*inputs, *outputs, policy, **keywords)
        if returned is not None:
            self.take(of, returned, inputs, outputs, policy)
        return OK, ""

    def _poison(self, outputs: List[Any]) -> None:
        """Memory of the outputs' sizes, filled and given back: what the callable allocates next is likely that, and an element that it
        does not write is seen."""
        made = [self._torch.empty(output.shape, dtype=output.dtype, device=output.device) for output in outputs]
        for one in made:
            one.view(self._torch.uint8).fill_(0xA5) if one.numel() else None

    def take(self, of: Candidate, returned: Any, inputs: List[Any], outputs: List[Any], policy: Policy) -> None:
        torch = self._torch
        given = _listed(returned, outputs)
        for i, (one, output) in enumerate(zip(given, outputs)):
            self._check(i, one, output, policy)
            for what, others in (("an input", inputs), ("what an earlier call returned", self._last.get(id(of), ()))):
                if one.numel() and any(other.numel() and _overlap(one, other) for other in others):
                    raise _Wrong(f"output {i} is memory of {what}, which a caller may still use")
        for one, output in zip(given, outputs):
            if one.numel():
                output.view(torch.uint8).copy_(one.view(torch.uint8))
        self._last[id(of)], self._shapes[id(of)] = given, True

    def _check(self, i: int, one: Any, output: Any, policy: Policy) -> None:
        torch = self._torch
        if type(one) is not torch.Tensor:
            raise _Wrong(f"output {i} is a {type(one).__name__}: a plain torch.Tensor is needed")
        if tuple(one.shape) != tuple(output.shape):
            raise _Wrong(f"output {i} has shape {tuple(one.shape)}: must be {tuple(output.shape)}")
        names = [output.dtype]
        if output.dtype == torch.uint8:
            names += [getattr(torch, name, None) for name in (_TORCH_CODES.get(policy.format, "uint8"), "float8_e8m0fnu")]
        if one.dtype not in names:
            raise _Wrong(f"output {i} is of {one.dtype}: must be of {output.dtype}")
        if one.device != output.device:
            raise _Wrong(f"output {i} is on {one.device}: must be on {output.device}")
        if not one.is_contiguous():
            raise _Wrong(f"output {i} is not contiguous: its strides are {tuple(one.stride())}")
        if one.requires_grad:
            raise _Wrong(f"output {i} requires a gradient: return it detached")


def _overlap(a: Any, b: Any) -> bool:
    a_begin, b_begin = a.data_ptr(), b.data_ptr()
    return a_begin < b_begin + b.numel() * b.element_size() and b_begin < a_begin + a.numel() * a.element_size()


def results_of(of: Candidate) -> Results:
    if of.tensors == "torch":
        return TorchResults(of.device)
    return NumpyResults() if of.tensors == "numpy" else Results()


def claims(of: Candidate, policy: Policy, type_name: Optional[str]) -> bool:
    return type_name is not None and of.claims(policy, type_name)
