"""Cost of a call of a Python candidate on the host, beside the callable's own work:

    python3 benchmarks/python/call_cost.py            # after ./run build mxcheck mxcheck_worker

The gate calls candidates that do nothing ten thousand times in a row, and each notes when it is entered: from one entry to the next are the
worker, the adapter, the wrapping of three tensors and the policy. The aim is 25 us.
"""

import atexit
import statistics
import sys
import time
from array import array
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import mxcheck  # noqa: E402

AIM = 25.0
COUNT = 8192  # entries that are kept, in memory that does not grow

entries = array("q", [0] * COUNT)
made = 0


def note():
    global made
    entries[made % COUNT] = time.perf_counter_ns()
    made += 1


def report():
    if made < COUNT:
        return
    times = [(b - a) / 1000 for a, b in zip(entries, entries[1:]) if b > a]
    sys.stderr.write(f"call_cost {statistics.median(times):.2f} {statistics.quantiles(times, n=10)[0]:.2f}\n")


atexit.register(report)


def candidate_of(kind):
    return mxcheck.candidate("quantize", recipes=["rceil"], formats=["e4m3"], blocks=["1x32"], types=["fp32"], tensors=kind)


@candidate_of("bytes")
def of_bytes(x, codes, scales, policy):
    note()


@candidate_of("numpy")
def of_numpy(x, codes, scales, policy):
    note()


@candidate_of("torch")
def of_torch(x, codes, scales, policy):
    note()


def main():
    import contextlib
    import io

    worst = 0.0
    for kind in ("bytes", "numpy", "torch"):
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                mxcheck.gate(f"{__file__}:of_{kind}", only="ten_thousand_calls_keep_no_memory", seed=1)
        except mxcheck.UsageError as error:
            print(f"{kind:<6} not measured: {error}")
            continue
        measured = [line.split()[1:] for line in said.getvalue().splitlines() if line.startswith("call_cost ")]
        median, low = map(float, measured[0])
        worst = max(worst, median)
        print(f"{kind:<6} {median:6.2f} us a call beside the callable's own work (median of {COUNT}; a tenth are below {low:.2f})")
    print(f"aim {AIM:.0f} us: {'met' if worst <= AIM else 'NOT met'}")
    return 0 if worst <= AIM else 1


if __name__ == "__main__":
    sys.exit(main())
