"""Routers and token rounding: reference/router."""

import ctypes
import sys
from dataclasses import dataclass
from typing import Any, List, Optional

from ._arrays import View, matrix_of, new_buffer, result, view_of
from ._errors import UsageError
from ._library import call, text
from ._names import InALine, encoded, number, whole
from ._quantize import _thread_count


class _Router(ctypes.Structure):
    """mxcheck_c_router."""

    _fields_ = [("size", ctypes.c_int64), ("variant", ctypes.c_char_p), ("top_k", ctypes.c_int64), ("groups", ctypes.c_int64),
                ("groups_kept", ctypes.c_int64), ("nan", ctypes.c_char_p), ("bias", ctypes.c_void_p), ("from_", ctypes.c_char_p),
                ("logits", ctypes.c_void_p), ("tokens", ctypes.c_int64), ("experts", ctypes.c_int64), ("row_stride", ctypes.c_int64),
                ("threads", ctypes.c_int64), ("scale", ctypes.c_double)]


class _Rounding(ctypes.Structure):
    """mxcheck_c_rounding."""

    _fields_ = [("size", ctypes.c_int64), ("rule", ctypes.c_char_p), ("tile", ctypes.c_int64), ("capacity", ctypes.c_int64),
                ("renormalize", ctypes.c_int64), ("seed", ctypes.c_uint64), ("step", ctypes.c_uint64), ("layer", ctypes.c_int64)]


@dataclass(repr=False)
class Routes(InALine):
    """experts: int32, weights: FP32, both tokens x top_k, best first."""

    experts: Any
    weights: Any


@dataclass(repr=False)
class RoundedTokens(InALine):
    """The rows that a rule makes of token choice.

    chosen: tokens that chose each expert. offsets: where the rows of each begin, experts + 1. row_token, row_weight: of each row, by
    expert, tokens ascending. token_offsets (tokens + 1) and token_rows: the rows of each token, experts ascending.
    """

    chosen: Any
    offsets: Any
    row_token: Any
    row_weight: Any
    token_offsets: Any
    token_rows: Any


def routers() -> List[str]:
    """Names of variants (docs/router.md)."""
    return text("mxcheck_c_names", b"routers").split()


def rounding_rules() -> List[str]:
    """Names of rules of token rounding and of capacities (docs/router.md)."""
    return text("mxcheck_c_names", b"rules").split()


class _Call:
    """A router's struct, and all that it points to."""

    def __init__(self, logits: Any, top_k: int, variant: str, bias: Any, groups: int, groups_kept: int, nan: str, scale: float,
                 threads: int) -> None:
        self.view = view_of(logits, "logits")
        if len(self.view.shape) != 2:
            raise UsageError(f"logits have {len(self.view.shape)} dimensions: tokens x experts are needed")
        self.tokens, self.experts = matrix_of(self.view.shape, "logits")
        self._bias: Optional[View] = None
        if bias is not None:
            self._bias = view_of(bias, "bias")
            if self._bias.format != "fp32" or self._bias.shape != (self.experts,):
                raise UsageError(f"bias is {self._bias.shape} of {self._bias.format}: it must be FP32, a number for each of the "
                                 f"{self.experts} experts")
        self.router = _Router(ctypes.sizeof(_Router), encoded(variant, "variant"), whole(top_k, "top_k"), whole(groups, "groups"),
                              whole(groups_kept, "groups_kept"), encoded(nan, "nan"), None if self._bias is None else self._bias.pointer,
                              self.view.format.encode(), self.view.pointer, self.tokens, self.experts, self.view.row_stride,
                              _thread_count(threads), number(scale, "scale"))


def route(logits: Any, top_k: int, variant: str = "topk-softmax", bias: Any = None, groups: int = 0, groups_kept: int = 0,
          nan: str = "refuse", scale: float = 1.0, threads: int = 0) -> Routes:
    """The experts of every token and their weights, by the reference; of the logits' kind.

    logits: tokens x experts, FP32, BF16 or FP16. bias: FP32, a number an expert, for choosing alone. groups: group-limited choice where
    not 0. nan: "refuse" (InputError names the first) or "last". scale: of every weight. UsageError for what does not fit.
    """
    made = _Call(logits, top_k, variant, bias, groups, groups_kept, nan, scale, threads)
    top_k = made.router.top_k
    size = 4 * made.tokens * top_k if 0 < top_k <= made.experts else 0  # else the call says what is wrong
    experts, experts_at = new_buffer(size)
    weights, weights_at = new_buffer(size)
    call("mxcheck_c_route", ctypes.addressof(made.router), experts_at, weights_at)
    shape = (made.tokens, top_k)
    return Routes(result(experts, shape, "int32", 4, made.view.kind), result(weights, shape, "fp32", 4, made.view.kind))


def round_tokens(logits: Any, top_k: int, rule: str = "nr-f", tile: int = 128, capacity: int = 0, renormalize: bool = True,
                 variant: str = "topk-softmax", bias: Any = None, groups: int = 0, groups_kept: int = 0, nan: str = "refuse",
                 scale: float = 1.0, seed: int = 0, step: int = 0, layer: int = 0, threads: int = 0) -> RoundedTokens:
    """From logits to the rows of each expert under a rule, by the reference; of the logits' kind.

    tile: of rules that round. capacity: of rules that have one, 0: all that chose the expert. renormalize: weights over the sum of a
    token's kept scores, or the scores; not of "none". seed, step, layer: of sr-f. The rest as of mxcheck.route.
    """
    made = _Call(logits, top_k, variant, bias, groups, groups_kept, nan, scale, threads)
    for value, name, most in ((seed, "seed", 2**64), (step, "step", 2**64), (layer, "layer", 2**32)):
        whole(value, name, 0, most - 1)
    rounding = _Rounding(ctypes.sizeof(_Rounding), encoded(rule, "rule"), whole(tile, "tile"), whole(capacity, "capacity"),
                         int(bool(renormalize)), seed, step, layer)
    router, rule_at = ctypes.addressof(made.router), ctypes.addressof(rounding)
    capacity_of_rows = ctypes.c_int64()
    call("mxcheck_c_round_capacity", router, rule_at, ctypes.addressof(capacity_of_rows))
    rows = capacity_of_rows.value
    chosen, offsets = new_buffer(4 * made.experts), new_buffer(8 * (made.experts + 1))
    row_token, row_weight, token_rows = (new_buffer(4 * rows) for _ in range(3))
    token_offsets = new_buffer(8 * (made.tokens + 1))
    call("mxcheck_c_round", router, rule_at, chosen[1], offsets[1], row_token[1], row_weight[1], token_offsets[1], token_rows[1])
    used = int.from_bytes(offsets[0][-8:], sys.byteorder)  # rows, of those that there is room for

    def of(made_buffer: Any, dtype: str, each: int, count: int) -> Any:
        return result(made_buffer[0][: each * count], (count,), dtype, each, made.view.kind)

    return RoundedTokens(of(chosen, "int32", 4, made.experts), of(offsets, "int64", 8, made.experts + 1), of(row_token, "int32", 4, used),
                         of(row_weight, "fp32", 4, used), of(token_offsets, "int64", 8, made.tokens + 1), of(token_rows, "int32", 4, used))
