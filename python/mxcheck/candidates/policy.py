"""The policy of a call, which says what the operation computes: kernels/candidate.h and its companions, by name."""

import struct
from dataclasses import dataclass, field
from typing import Any, Dict, List, Sequence, Tuple

# Numbers and texts of each operation's own policy, in the order of bindings/worker/worker_c.h.
_ROUTE = (("top_k", "groups", "groups_kept", "nan", "bias", "scale", "renormalize", "tile", "capacity", "seed", "step", "layer"), ("rule",))
_SWIGLU = (("gate_up", "outputs"), ("format_h", "format_scaled"))
_MOE = (("inner", "experts", "routed", "gate_up"), ())
_DISPATCH = (("ranks", "experts", "routed", "capacity", "weighted"), ())
_NONE: Tuple[Tuple[str, ...], Tuple[str, ...]] = ((), ())
OWN_FIELDS: Dict[str, Tuple[Tuple[str, ...], Tuple[str, ...]]] = {
    "quantize": _NONE,
    "quantize_dual": _NONE,
    "dequantize": _NONE,
    "scale_layout": _NONE,
    "cast": _NONE,
    "quantize_nvfp4": (("rounding", "hadamard", "hadamard_result", "directions"), ("hadamard_sum",)),  # and those of _nvfp4_options
    "dequantize_nvfp4": _NONE,
    "matmul": (("block_b_rows", "block_b_cols", "depth", "scale_type", "grouping", "accumulate", "alpha"), ("format_b",)),
    "route": _ROUTE,
    "route_round": _ROUTE,
    "route_metadata": _ROUTE,
    "route_backward": _ROUTE,
    "route_balance_loss": _ROUTE,
    "route_z_loss": _ROUTE,
    "swiglu": _SWIGLU,
    "swiglu_backward": _SWIGLU,
    "aggregate": (("weighted",), ()),
    "quantize_transposed": _SWIGLU,
    "moe_forward": _MOE,
    "moe_backward": _MOE,
    "dispatch": _DISPATCH,
    "combine": _DISPATCH,
}
_LAYOUTS = ("compact", "tcgen05")
_WORDS = {
    "nan": ("refuse", "last"),
    "scale_type": ("none", "e8m0", "fp32", "e4m3"),
    "grouping": ("dense", "rows", "depth", "masked"),
    "rounding": ("nearest", "stochastic", "stochastic_bytes"),
    "hadamard_result": ("bf16", "fp32"),
    "directions": ("rows", "both"),
}
_FLOATS = ("alpha", "scale")


@dataclass(frozen=True)
class Policy:
    """One call's policy. block is "1x32" and the like, "" where there are no blocks; layout "compact" or "tcgen05"; types that have
    names are names (nan "refuse", scale_type "fp32", grouping "dense"). Fields of the operation's own struct are attributes too."""

    operation: str
    format: str
    recipe: str
    rows: int
    cols: int
    threads: int
    layout: str
    block_rows: int
    block_cols: int
    pad_byte: int
    own: Dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__.get("own", {})
        if name in own:
            return own[name]
        raise AttributeError(f"a policy of {self.__dict__.get('operation')} has no {name}; it has {', '.join(own) or 'nothing of its own'}")

    @property
    def block(self) -> str:
        return block_text(self.block_rows, self.block_cols)

    @property
    def block_b(self) -> str:
        return block_text(self.own.get("block_b_rows", 0), self.own.get("block_b_cols", 0))


def block_text(rows: int, cols: int) -> str:
    return "" if rows == 0 else "row" if cols == 0 else f"{rows}x{cols}"


def _named(name: str, value: int) -> Any:
    if name in _FLOATS:
        return struct.unpack("<f", struct.pack("<I", value & 0xFFFFFFFF))[0]
    if name in _WORDS and 0 <= value < len(_WORDS[name]):
        return _WORDS[name][value]
    return value


def _nvfp4_options(own: Dict[str, Any], numbers: Sequence[int]) -> Dict[str, Any]:
    """The options of quantize_nvfp4 (kernels/candidate_nvfp4.h); a policy without any has the values that ask for nothing."""
    if not own:
        own = {"rounding": "nearest", "hadamard": 0, "hadamard_result": "bf16", "directions": "rows", "hadamard_sum": ""}
        numbers = [0] * 14
    signs, (seed, offset), counters = numbers[4:8], numbers[8:10], numbers[10:14]
    own["signs"] = sum(word << 32 * i for i, word in enumerate(signs))  # bit i: element i of each group changes its sign
    own["seed"], own["offset"] = seed & 0xFFFFFFFFFFFFFFFF, offset & 0xFFFFFFFFFFFFFFFF
    own["counter"], own["column_counter"] = tuple(counters[:2]), tuple(counters[2:])
    own["transform"] = f"{own['hadamard']}/{own['hadamard_sum']}/{own['hadamard_result']}" if own["hadamard"] else "none"
    return own


def make_policy(operation: str, numbers: Sequence[int], texts: List[str]) -> Policy:
    """The policy that the worker wrote as words and texts."""
    rows, cols, threads, layout, block_rows, block_cols, pad = numbers[:7]
    number_names, text_names = OWN_FIELDS[operation]
    own: Dict[str, Any] = {name: _named(name, value) for name, value in zip(number_names, numbers[7:])}
    own.update(zip(text_names, texts[2:]))
    if operation == "quantize_nvfp4":
        own = _nvfp4_options(own if len(numbers) > 7 else {}, numbers[7:])
    return Policy(operation, texts[0], texts[1], rows, cols, threads, _LAYOUTS[layout], block_rows, block_cols, pad, own)
