"""Declares a callable as a candidate: which operation it is, and for what."""

import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from .._errors import UsageError
from .._names import block_name, format_name, known, near, one_of, told, whole
from .policy import OWN_FIELDS, Policy

# Options of a call that a kernel may do without (docs/candidate.md): a call with one that is not declared is refused, and is no failure.
OPTIONS = ("offsets", "row_index", "row_stride", "col_stride", "c", "alpha", "any_depth", "unaligned", "scale", "top_k", "capacity")
# Operations beside matmul that may promise no bits: contract="any_order" or "as_accurate_as:exact" (docs/contracts.md).
CLAIMED = ("aggregate", "combine", "swiglu", "swiglu_backward", "route")
# Operations whose x may have any strides: with col_stride they promise to take them, row strides too.
OF_ANY_STRIDES = ("quantize", "quantize_dual", "cast")
# Operations of NVFP4, whose recipes have two levels of scales.
_TWO_LEVELS = ("quantize_nvfp4", "dequantize_nvfp4")
# The contract of a quantize_nvfp4 that is asked for options (kernels/candidate_nvfp4.h).
NVFP4_OPTIONS = "exact+options"
TENSORS = ("numpy", "torch", "bytes")
TYPES = ("fp32", "bf16", "fp16", "uint8", "int32", "int64", "fp64")


class Refused(Exception):
    """Raised by a kernel for a call that must be refused, such as a NaN in logits where the policy refuses it. Nothing may be written
    then. On the host only: on a device what is wrong in a tensor is seen by the kernel alone."""


@dataclass
class Candidate:
    """A callable with what it claims. Called as the callable is."""

    function: Callable[..., Any]
    op: str
    name: str
    contract: str = "exact"
    device: str = "cpu"
    tensors: str = "numpy"
    offers: Dict[str, Optional[Tuple[Any, ...]]] = field(default_factory=dict)  # by field of the policy; None: any
    types: Optional[Tuple[str, ...]] = None
    supports: Optional[Callable[[Policy, str], bool]] = None
    options: Tuple[str, ...] = ()
    limits: Tuple[int, int, int, int] = (0, 0, 1, 1)  # most rows, most columns, multiples of rows, of columns
    empty: bool = False
    captures: bool = True
    waits: bool = False
    static_shapes: bool = False

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.function(*arguments, **keywords)

    def claims(self, policy: Policy, type_name: str) -> bool:
        """True if this policy, with values of this type, is offered."""
        if type_name not in (self.types if self.types is not None else TYPES[:-1]):  # fp64: where it is named
            return False
        for name, offered in self.offers.items():
            if offered is not None and getattr(policy, name) not in offered:
                return False
        return self.supports is None or bool(self.supports(policy, type_name))


def _tuple(value: Any, what: str) -> Optional[Tuple[Any, ...]]:
    if value is None:
        return None
    if isinstance(value, str):
        return (value,)
    try:
        return tuple(value)
    except TypeError:
        raise UsageError(f"{what} is {told(value)}: a list of names is needed") from None


def _formats_of(value: Any, what: str) -> Optional[Tuple[str, ...]]:
    """Formats by any of their names, or torch's and numpy's types."""
    given = (value,) if value is not None and not isinstance(value, (str, list, tuple, set, frozenset)) else _tuple(value, what)
    return None if given is None else tuple(format_name(one) for one in given)


def _blocks_of(value: Any, what: str) -> Optional[Tuple[str, ...]]:
    is_one = isinstance(value, tuple) and len(value) == 2 and all(isinstance(extent, int) for extent in value)
    given = (value,) if is_one else _tuple(value, what)
    return None if given is None else tuple(block_name(one, what) for one in given)


def _types_of(value: Any) -> Optional[Tuple[str, ...]]:
    """Types of values by the names of formats, others by their own."""
    found = []
    for one in _tuple(value, "types") or ():
        if not isinstance(one, str) or one not in TYPES:
            try:
                one = format_name(one, "type")
            except UsageError:
                one = told(one) if not isinstance(one, str) else one
            _require_known((one,), TYPES, "type")
        found.append(one)
    return None if value is None else tuple(found)


def _require_known(values: Optional[Tuple[Any, ...]], names: Sequence[str], what: str) -> None:
    for value in values or ():
        if value not in names:
            raise UsageError(f"unknown {what} {told(value)}; known are {', '.join(names)}{near(value, names)}")


def _require_contract(text: Any) -> None:
    """A matmul claims a contract, any order of sums, or a contract's accuracy: UsageError for anything else."""
    from .._product import contract as of_text

    if not isinstance(text, str):
        raise UsageError(f"contract is {told(text)}: a contract's text is needed, as 'sm90_fp8+promote128'")
    if not text.startswith("any_order"):
        of_text(text[len("as_accurate_as:"):] if text.startswith("as_accurate_as:") else text)


def _require_claims(op: str, offers: Dict[str, Optional[Tuple[Any, ...]]], contract: Optional[str]) -> None:
    if op in ("quantize", "quantize_dual", "quantize_transposed", *_TWO_LEVELS):
        _require_known(offers["recipe"], known("two_level_recipes" if op in _TWO_LEVELS else "recipes"), "recipe")
        for name, argument in (("recipe", "recipes"), ("format", "formats"), ("block", "blocks")):
            if offers[name] is None:
                raise UsageError(f"a candidate of {op} needs {argument}=[...]: the gate tests exactly what is claimed")
    if op == "matmul" and contract is None:
        raise UsageError('a candidate of matmul needs contract="...", such as "sm90_fp8+promote128", or "any_order" where it promises no order of '
                         'sums, or "as_accurate_as:CONTRACT" (docs/contracts.md)')
    if op == "matmul":
        _require_contract(contract)
    elif op.startswith("quantize") or op in _TWO_LEVELS:
        _require_known(offers["block"], known("blocks"), "block")
    if op not in ("matmul", *CLAIMED) and contract is not None:
        raise UsageError(f"contract is {told(contract)}: only a matmul has one, and claims are made about {', '.join(CLAIMED)}")


def candidate(op: str, *, recipes: Any = None, formats: Any = None, blocks: Any = None, layouts: Any = "compact", types: Any = None,
              contract: Optional[str] = None, scale_types: Any = None, blocks_b: Any = None, groupings: Any = "dense", nan: Any = None,
              rules: Any = None, roundings: Any = None, transforms: Any = None, directions: Any = None, supports: Optional[Callable[[Policy, str], bool]] = None, options: Union[str, Sequence[str]] = (),
              device: str = "cpu", tensors: Optional[str] = None, max_rows: int = 0, max_cols: int = 0, rows_multiple: int = 1,
              cols_multiple: int = 1, empty: bool = False, captures: bool = True, waits: bool = False, static_shapes: bool = False,
              name: Optional[str] = None) -> Callable[[Callable[..., Any]], Candidate]:
    """A decorator: the function implements `op` for these policies.

    The function gets the operation's inputs, then its outputs, then the Policy; optional inputs are the keywords offsets, counts (of
    masked groups), row_index, c and bias. It writes into the outputs, or returns what is to be in them. recipes, formats, blocks ...:
    lists of names, None for any; of route, recipes are variants. roundings ("nearest", "stochastic", "stochastic_bytes"), transforms
    ("none", "16/butterfly/bf16") and directions ("rows", "both") are options of quantize_nvfp4; where one is given the others are
    "nearest", "none" and "rows". device: "cpu" or "cuda"; tensors: "numpy", "torch" or "bytes" (memoryviews of bytes with a shape).
    options: what of OPTIONS it takes. empty: it is called when its outputs have no elements. captures, waits: of a device: it can be
    captured in a graph; it waits for its stream. static_shapes: it compiles for each shape. UsageError for names that are not known.
    """
    _require_known((op,), tuple(OWN_FIELDS), "operation")
    one_of(device, "device", ("cpu", "cuda"))
    kind = tensors if tensors is not None else "torch" if device == "cuda" else "numpy"
    if kind not in TENSORS or (device == "cuda" and kind != "torch"):
        raise UsageError(f"tensors is {told(kind)}: {', '.join(TENSORS)} are known, and on a device torch alone")
    chosen = _tuple(options, "options") or ()
    _require_known(chosen, OPTIONS, "option")
    if "col_stride" in chosen and op not in OF_ANY_STRIDES:
        raise UsageError(f"a {op} has no col_stride: {', '.join(OF_ANY_STRIDES)} may have one")
    of_type = _types_of(types)
    offers: Dict[str, Optional[Tuple[Any, ...]]] = {"recipe": _tuple(recipes, "recipes"), "format": _formats_of(formats, "formats"),
                                                    "block": _blocks_of(blocks, "blocks"), "layout": _tuple(layouts, "layouts")}
    _require_known(offers["layout"], known("layouts"), "layout")
    limits = (whole(max_rows, "max_rows", 0), whole(max_cols, "max_cols", 0), whole(rows_multiple, "rows_multiple", 1),
              whole(cols_multiple, "cols_multiple", 1))
    _require_claims(op, offers, contract)
    if op == "matmul":
        offers.update(scale_type=_tuple(scale_types, "scale_types"), block_b=_blocks_of(blocks_b, "blocks_b"),
                      grouping=_tuple(groupings, "groupings"))
    if op.startswith("route"):
        offers.update(nan=_tuple(nan, "nan"), rule=_tuple(rules, "rules"))

    options_of_nvfp4 = {"rounding": roundings, "transform": transforms, "directions": directions}
    if any(given is not None for given in options_of_nvfp4.values()):
        if op != "quantize_nvfp4":
            raise UsageError(f"a {op} has no roundings, transforms or directions: quantize_nvfp4 has")
        contract = NVFP4_OPTIONS
        for (field_name, given), plain in zip(options_of_nvfp4.items(), ("nearest", "none", "rows")):
            offers[field_name] = (plain,) if given is None else _tuple(given, field_name)
        _require_known(offers["rounding"], ("nearest", "stochastic", "stochastic_bytes"), "rounding")
        _require_known(offers["directions"], ("rows", "both"), "directions")
        for one in offers["transform"] or ():
            if not isinstance(one, str) or not (one == "none" or re.fullmatch(r"(16|32|64|128)/\w+/(bf16|fp32)", one)):
                raise UsageError(f"transform {told(one)} is not none, or GROUP/SUM/TYPE, as '16/butterfly/bf16'")

    def declare(function: Callable[..., Any]) -> Candidate:
        if not callable(function):
            raise UsageError(f"{told(function)} is no function: a candidate is something that can be called")
        called = name or getattr(function, "__name__", None) or type(function).__name__
        return Candidate(function, op, called, contract or "exact", device, kind, offers, of_type, supports, chosen,
                         limits, empty, captures, waits, static_shapes)

    return declare


def as_list(found: Any) -> Optional[List[Candidate]]:
    """The candidates that an attribute stands for: one, or a list or tuple of them; None where it is something else."""
    if isinstance(found, Candidate):
        return [found]
    if isinstance(found, (list, tuple)) and found and all(isinstance(one, Candidate) for one in found):
        return list(found)
    return None
