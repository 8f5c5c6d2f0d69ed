#!/usr/bin/env python3
"""Runs the faulty GEMMs and compares who found what with the catalogue.

    check_table.py --programs FOLDER [--prefix sm100_fault_] [--only NAME,...] [--write]
                   [--overlay FOLDER --source ROOT --cxx COMPILER]   for faults that must not compile

Each program is run twice: with the emulation's checks, and without them, so that the catalogue also says what bits,
deadlocks and impossible instructions show alone. --write puts the results into it in place of comparing.
Exit code 0: the rows are as the catalogue has them, and no control and nothing that is allowed is seen.
"""

import argparse
import concurrent.futures
import dataclasses
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[4]
CATALOGUE = ROOT / "tests/libraries/catalogue.tsv"
SECONDS = 300


@dataclasses.dataclass
class Fault:
    """A row of the catalogue; `found` and `bare` (without checks) are what saw it first and under which schedule."""

    name: str
    tile: str
    cases: str
    compiles: bool
    source: str
    found: str
    bare: str
    sentence: str

    @property
    def is_right(self):
        return self.source in ("-", "allowed")


def read_faults(path=CATALOGUE):
    faults = []
    for line in path.read_text().splitlines():
        if line.startswith("sm100\t"):
            _, name, how, source, found, _, bare, sentence = line.split("\t")
            tile, cases, *rest = how.split(" ")
            faults.append(Fault(name, tile, cases, not rest, source, found, bare, sentence))
    return faults


def write_results(path, results):
    """Puts {name: (found, bare)} into the rows of the catalogue."""
    lines = path.read_text().splitlines()
    for i, line in enumerate(lines):
        cells = line.split("\t")
        if cells[0] == "sm100" and cells[1] in results:
            cells[4], cells[6] = results[cells[1]]
            lines[i] = "\t".join(cells)
    path.write_text("\n".join(lines) + "\n")


def run(program, *options):
    """(seen by and the schedule, seconds)."""
    try:
        done = subprocess.run([str(program), *options], capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "hang, ?", float(SECONDS)
    if done.returncode != 0:
        return f"crash ({done.returncode}), ?", 0.0
    _, seen, schedule, seconds = done.stdout.rstrip("\n").split("\t")
    return seen if schedule == "-" else f"{seen}, {schedule}", float(seconds)


def refused(fault, compiler):
    """What a static_assert stops: `compiler` is --cxx, --overlay and --source."""
    cxx, overlay, source = compiler
    if cxx is None:
        return "not compiled"
    macros = [f"-DTILE={fault.tile}", f"-DCASES={fault.cases}", f'-DFAULT="{fault.name}"']
    folders = [f"-I{overlay / fault.name}", f"-I{source}"]
    driver = pathlib.Path(__file__).resolve().parent / "driver.cc"
    command = [cxx, "-std=c++20", "-fsyntax-only", "-w", *macros, *folders, str(driver)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode == 0:
        return "-"
    words = ("static assertion failed", "static_assert failed")
    return "compiler" if any(w in done.stderr for w in words) else "another error"


def result_of(fault, programs, prefix, compiler):
    """((found by, without checks), seconds)."""
    if not fault.compiles:
        seen = refused(fault, compiler)
        return (seen, seen), 0.0
    program = programs / (prefix + fault.name)
    found, seconds = run(program)
    bare, more = run(program, "--unchecked")
    return (found, bare), seconds + more


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--prefix", default="sm100_fault_")
    parser.add_argument("--only", default="")
    parser.add_argument("--table", type=pathlib.Path, default=CATALOGUE)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--overlay", type=pathlib.Path)
    parser.add_argument("--source", type=pathlib.Path, default=ROOT)
    parser.add_argument("--cxx")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    only = set(filter(None, arguments.only.split(",")))
    chosen = [f for f in read_faults(arguments.table) if not only or f.name in only]
    problems = [f"{name}: the catalogue has none of that name" for name in sorted(only - {f.name for f in chosen})]
    found, not_found, results = [], [], {}
    compiler = (arguments.cxx, arguments.overlay, arguments.source)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        all_results = pool.map(lambda f: result_of(f, arguments.programs, arguments.prefix, compiler), chosen)
        for fault, (result, seconds) in zip(chosen, all_results):
            print(fault.name, fault.source, fault.tile, fault.cases, *result, f"{seconds:.1f} s", sep="\t", flush=True)
            if fault.is_right and result != ("-", "-"):
                problems.append(f"{fault.name}: a false alarm by {result[0]}; without checks {result[1]}")
            if not fault.is_right:
                (found if result[0] != "-" else not_found).append(fault.name)
            if any(word.startswith(("crash", "hang")) for word in result):
                problems.append(f"{fault.name}: {result[0]}; without checks {result[1]}")
            if not arguments.write and result != (fault.found, fault.bare):
                problems.append(f"{fault.name}: the catalogue has {fault.found} | {fault.bare}, now it is {' | '.join(result)}")
            results[fault.name] = result
    if arguments.write:
        write_results(arguments.table, results)
    print(f"{len(found)} faults are found, {len(not_found)} are not: {' '.join(not_found)}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
