"""torch.topk with a softmax before or after it, against the router's variants. NaN is not asked for (nan=refuse). Names: KERNEL__VARIANT."""

import torch

import mxcheck

from . import ON


def after(logits, k):
    values, experts = torch.topk(logits.float(), k)
    return experts, torch.softmax(values, -1)


def sorted_after(logits, k):
    """The smaller expert first among equals."""
    values, experts = torch.sort(logits.float(), dim=-1, descending=True, stable=True)
    return experts[:, :k], torch.softmax(values[:, :k], -1)


def before(logits, k):
    values, experts = torch.topk(torch.softmax(logits.float(), -1), k)
    return experts, values


def renormalized(logits, k):
    experts, values = before(logits, k)
    return experts, values / values.sum(-1, keepdim=True)


def sigmoid(logits, k):
    values, experts = torch.topk(torch.sigmoid(logits.float()), k)
    return experts, values / (values.sum(-1, keepdim=True) + 1e-20) if k > 1 else values


def _declare(name, function, variant, contract=None):
    def route(logits, experts, weights, policy):
        chosen, made = function(logits, policy.top_k)
        return chosen.int().contiguous(), made.contiguous()

    return mxcheck.candidate("route", contract=contract, recipes=[variant], nan=["refuse"], types=["fp32", "bf16"], supports=lambda policy, type_name: not policy.bias and not policy.groups,
                             name=name, **ON)(route)



CLAIMS = {"topk_then_softmax": (after, ("topk-softmax", "softmax-topk-renorm")), "stable_sort_then_softmax": (sorted_after, ("topk-softmax",)),
          "softmax_then_topk": (before, ("softmax-topk",)),
          "softmax_topk_renormalized": (renormalized, ("softmax-topk-renorm", "topk-softmax")),
          "sigmoid_topk": (sigmoid, ("sigmoid", "sigmoid-tiny-first"))}
for _name, (_function, _variants) in CLAIMS.items():
    for _variant in _variants:
        globals()[f"{_name}__{_variant}"] = _declare(_name, _function, _variant)
        for _contract in ("any_order", "as_accurate_as:exact"):
            globals()[f"{_name}__{_contract} {_variant}"] = _declare(_name, _function, _variant, _contract)
