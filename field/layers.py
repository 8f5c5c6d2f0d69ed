"""SwiGLU as PyTorch users write it, under claims without a contract of bits (docs/contracts.md). Names: KERNEL__CLAIM."""

import torch
import torch.nn.functional as F

import mxcheck

from . import ON

CLAIMS = ("any_order", "as_accurate_as:exact")


def _halves(h):
    n = h.shape[1] // 2
    return h[:, :n], h[:, n:]


def in_fp32(h):
    g, u = _halves(h)
    return (F.silu(g.float()) * u.float()).bfloat16()


def in_bf16(h):
    """Two roundings: SiLU to BF16, then the product."""
    g, u = _halves(h)
    return F.silu(g) * u


compiled_fp32 = torch.compile(in_fp32, dynamic=True)
compiled_bf16 = torch.compile(in_bf16, dynamic=True)


def _values_alone(policy, type_name):
    """A in BF16 of an H in BF16, gate values in its first half."""
    return policy.outputs == 1 and policy.gate_up == 0 and not policy.format_h


def _declare(name, function, contract):
    def swiglu(h, *others):  # the offsets of experts, where there are some; a; the policy
        return function(h)

    return mxcheck.candidate("swiglu", contract=contract, supports=_values_alone, name=name, **ON)(swiglu)


for _name, _function in (("in_fp32", in_fp32), ("in_bf16", in_bf16), ("in_fp32_compiled", compiled_fp32), ("in_bf16_compiled", compiled_bf16)):
    for _contract in CLAIMS:
        globals()[f"silu_{_name}__{_contract}"] = _declare(f"silu_{_name}", _function, _contract)
