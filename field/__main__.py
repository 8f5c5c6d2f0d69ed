"""python3 -m field: the table of kernels nobody here wrote, as Markdown; each claim in a process of its own, with a time limit. The claims of
a kernel are tried one after the other until one holds (--all: every one).

    PYTHONPATH=python python3 -m field [--only GLOB] [--minutes 5.5] [--jobs 8] [--seed N] [--json FILE] [--list]

FIELD_DEVICE=cpu runs what runs on the host.
"""

import argparse
import fnmatch
import json
import platform
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, List

from . import DEVICE
from .runs import Claim, Result, claims, run


def _row(kernel: str, results: List[Result]) -> List[str]:
    """A line of the table: what holds, else how each fails."""
    holding = [one for one in results if one.word == "holds"]
    versions = next((one.versions for one in results if one.versions), "")
    seconds = f"{sum(one.seconds for one in results):.0f} s"
    gated = "; ".join(one.claim.claim for one in results)
    if holding:
        verdict = "**holds** as " + "; ".join(f"{one.claim.claim} ({one.cases} cases)" for one in holding)
    elif all(one.word in ("cannot run", "not run") for one in results):
        verdict = results[0].word
    elif any(one.word in ("inconclusive", "not run") for one in results):
        verdict = "not known: " + ", ".join(f"{one.claim.claim} {one.word}" for one in results)
    else:
        verdict = "no known one" if len(results) > 1 else "does not hold"
    failing = [f"{one.claim.claim}: {one.detail}" for one in results if one.word != "holds" and one.detail]
    details = failing[:2] if not holding else failing[:1]
    return [kernel, versions, gated, verdict, "<br>".join(text[:420] for text in details), seconds]


def _blockwise(timeout: float) -> List[List[str]]:
    """The lines of field.blockwise, which compares by itself."""
    try:
        done = subprocess.run([sys.executable, "-m", "field.blockwise"], stdout=subprocess.PIPE, timeout=timeout, check=False)
        found = json.loads(done.stdout.decode().strip().splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
        return [["blockwise", "", "", "cannot run", f"{type(error).__name__}", ""]]
    rows = []
    for name, result in found.items():
        if "error" in result:
            rows.append([f"blockwise: {name}", "", "", "cannot run", result["error"].replace("|", "/"), ""])
            continue
        holds = [recipe for recipe, one in result.items() if one["scales"] == 0 and one["codes"] == 0]
        nearest = min(result, key=lambda recipe: (result[recipe]["scales"], result[recipe]["codes"]))
        one = result[nearest]
        rows.append([f"blockwise: {name}", "", ", ".join(result), "**holds** as " + ", ".join(holds) + " (131,072 elements)" if holds else "no known one",
                     "" if holds else f"nearest {nearest}: {one['scales']} of {one['of_scales']} scales, {one['codes']} of {one['of']} codes differ", ""])
    return rows


def _print(rows: List[List[str]]) -> None:
    print("| kernel | versions | gated as | verdict | counterexample in short | time |\n|---|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m field", description="The table of kernels nobody here wrote, as Markdown.")
    parser.add_argument("--only", default="*", help="a glob over kernels, such as 'matmuls.*'")
    parser.add_argument("--minutes", type=float, default=5.5, help="for all of them")
    parser.add_argument("--timeout", type=float, default=90, help="seconds of one claim")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--all", action="store_true", help="every claim, also after one that holds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="every result, in this file")
    parser.add_argument("--list", action="store_true", help="print kernels and claims, and run nothing")
    options = parser.parse_args()
    problems: List[str] = []
    chosen = [one for one in claims(problems) if fnmatch.fnmatchcase(one.kernel, options.only)]
    if options.list:
        for one in chosen:
            print(f"{one.kernel:<40} {one.claim}")
        return 0
    begin = time.monotonic()
    deadline = begin + options.minutes * 60
    results: Dict[str, List[Result]] = {}
    lock = threading.Lock()

    def one_kernel(kernel: str) -> None:
        for claim in kernels[kernel]:
            result = run(claim, deadline, options.timeout, options.seed)
            with lock:
                results.setdefault(kernel, []).append(result)
            print(f"{time.monotonic() - begin:6.1f} s  {result.word:<12} {claim.kernel} as {claim.claim}", file=sys.stderr)
            if result.word in ("holds", "cannot run") and not options.all:
                break

    kernels: Dict[str, List[Claim]] = {}
    for one in chosen:
        kernels.setdefault(one.kernel, []).append(one)
    extra: List[List[str]] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        if fnmatch.fnmatchcase("blockwise", options.only):
            pool.submit(lambda: extra.extend(_blockwise(options.timeout)))
        list(pool.map(one_kernel, kernels))
    print(f"\nDevice {DEVICE}, {platform.platform()}, seed {options.seed}; {sum(map(len, results.values()))} of {len(chosen)} claims tried in {time.monotonic() - begin:.0f} s.\n")
    _print([_row(kernel, results[kernel]) for kernel in kernels if kernel in results] + extra)
    for problem in problems:
        print(f"\nNot here: {problem}")
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            json.dump([{"kernel": r.claim.kernel, "claim": r.claim.claim, "verdict": r.word, "cases": r.cases, "detail": r.detail, "versions": r.versions,
                        "seconds": r.seconds, "report": r.document} for found in results.values() for r in found], file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
