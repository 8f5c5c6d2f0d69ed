#!/usr/bin/env python3
"""The fused router of a benchmark run beside torch.topk and torch.softmax on the same device, in the same minute.

usage: torch_topk.py BENCHMARK [--library PATH]

Runs BENCHMARK --json --only 'route topk-softmax' (mxcheck_sm90_route_bench), then times torch.topk of the same shapes, and
torch.topk followed by softmax, with CUDA events around graphs of calls over copies that exceed L2.
"""

import json
import pathlib
import re
import subprocess
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from compare import Refused, card_of, card_text, require_same_card  # noqa: E402

BEYOND_L2 = 256 << 20
SAMPLES = 25


def microseconds(call, copies):
    """Median of one call, from graphs of one call on each copy."""
    for x in copies[:3]:
        call(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [call(x) for x in copies]
    times = []
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for sample in range(-3, SAMPLES):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if sample >= 0:
            times.append(1000 * begin.elapsed_time(end) / len(copies))
    del kept
    return sorted(times)[len(times) // 2]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    command = [sys.argv[1], "--json", "--only", "route topk-softmax", *sys.argv[2:]]
    ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    try:
        card = card_of(ours, sys.argv[1])
        require_same_card(card, sys.argv[1], {**card, "name": torch.cuda.get_device_name()}, "torch")
    except Refused as refused:
        print(f"torch_topk.py: {refused}", file=sys.stderr)
        sys.exit(2)
    print(f"torch {torch.__version__}, {card_text(card)}")
    print(f"{'case':<46} {'ours us':>9} {'topk us':>9} {'ratio':>6} {'topk+softmax us':>16} {'ratio':>6}")
    for case in ours["cases"]:
        found = re.fullmatch(r"topk-softmax (bf16|fp32) (\d+)x(\d+) k=(\d+)( nan=refuse)?", case["case"])
        dtype = torch.bfloat16 if found[1] == "bf16" else torch.float32
        tokens, experts, k = int(found[2]), int(found[3]), int(found[4])
        count = min(8, max(2, BEYOND_L2 // case["bytes"] + 1))
        copies = [torch.randn(tokens, experts, device="cuda").to(dtype) for _ in range(count)]
        topk = microseconds(lambda x: torch.topk(x, k, dim=-1), copies)
        both = microseconds(lambda x: torch.softmax(torch.topk(x, k, dim=-1)[0].float(), dim=-1), copies)
        print(f"{case['case']:<46} {case['us']:9.2f} {topk:9.2f} {topk / case['us']:6.1f} {both:16.2f} "
              f"{both / case['us']:6.1f}")


if __name__ == "__main__":
    main()
