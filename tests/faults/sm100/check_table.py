#!/usr/bin/env python3
"""Runs the faulty GEMMs and compares who found what with the committed table.

    check_table.py --programs FOLDER [--prefix sm100_fault_] [--only NAME,...] [--write]
                   [--overlay FOLDER --source ROOT --cxx COMPILER]   for faults that must not compile

Each program is run twice: with the emulation's checks, and without them, so that the table also says what bits,
deadlocks and impossible instructions show alone. --write puts the rows into the table in place of comparing.
Exit code 0: the rows are as the table has them, no control and nothing that is allowed is seen, and the table has every
fault of faults.py.
"""

import argparse
import concurrent.futures
import pathlib
import subprocess
import sys

import faults

TABLE = pathlib.Path(__file__).resolve().parent / "caught_by.tsv"
HEADER = """\
# Faults of faults.py, and what of the emulation finds each. "found by": hazards of emulation/sm100/launch.h at the first
# schedule that shows anything; `bits`: outputs that differ from the reference's; `outside`: bytes written outside of D;
# `compiler`: a static_assert; `refused`: the host makes no parameters; `-`: nothing. "without checks": the same without
# the shadow state. Made by check_table.py --write.
# fault\tcatalogue\ttile\tcases\tfound by\tschedule\twithout checks\tits schedule\twhat it is
"""
SECONDS = 300


def read_table(path):
    rows = {}
    if path.is_file():
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                fields = line.split("\t")
                rows[fields[0]] = fields
    return rows


def write_table(path, rows):
    order = [f.name for f in faults.FAULTS]
    text = HEADER + "".join("\t".join(rows[name]) + "\n" for name in order if name in rows)
    path.write_text(text)


def run(program, *options):
    """(seen by, schedule, seconds)."""
    try:
        done = subprocess.run([str(program), *options], capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "hang", "?", float(SECONDS)
    if done.returncode != 0:
        return f"crash ({done.returncode})", "?", 0.0
    _, seen, schedule, seconds = done.stdout.rstrip("\n").split("\t")
    return seen, schedule, float(seconds)


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


def row_of(fault, programs, prefix, compiler):
    start = [fault.name, fault.catalogue, fault.tile, fault.cases]
    if not fault.compiles:
        seen = refused(fault, compiler)
        return [*start, seen, "-", seen, "-", fault.sentence], 0.0
    program = programs / (prefix + fault.name)
    seen, schedule, seconds = run(program)
    bare, bare_schedule, more = run(program, "--unchecked")
    return [*start, seen, schedule, bare, bare_schedule, fault.sentence], seconds + more


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--prefix", default="sm100_fault_")
    parser.add_argument("--only", default="")
    parser.add_argument("--table", type=pathlib.Path, default=TABLE)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--overlay", type=pathlib.Path)
    parser.add_argument("--source", type=pathlib.Path, default=faults.ROOT)
    parser.add_argument("--cxx")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    only = set(filter(None, arguments.only.split(",")))
    chosen = [f for f in faults.FAULTS if not only or f.name in only]
    unknown = only - {f.name for f in chosen}
    problems = [f"{name}: faults.py has none of that name" for name in sorted(unknown)]
    table = read_table(arguments.table)
    if not arguments.write and not only:
        problems += [f"{f.name}: not in the table" for f in faults.FAULTS if f.name not in table]
        names = {f.name for f in faults.FAULTS}
        problems += [f"{name}: in the table alone" for name in table if name not in names]
    if arguments.write and not only:
        table = {name: row for name, row in table.items() if name in {f.name for f in faults.FAULTS}}
    found, not_found = [], []
    compiler = (arguments.cxx, arguments.overlay, arguments.source)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        rows = pool.map(lambda f: row_of(f, arguments.programs, arguments.prefix, compiler), chosen)
        for fault, (row, seconds) in zip(chosen, rows):
            print("\t".join(row[:8]), f"{seconds:.1f} s", sep="\t", flush=True)
            right = fault.catalogue in ("-", "allowed")
            if right and (row[4], row[6]) != ("-", "-"):
                problems.append(f"{fault.name}: a false alarm by {row[4]}; without checks {row[6]}")
            if not right:
                (found if row[4] != "-" else not_found).append(fault.name)
            if any(word.startswith(("crash", "hang")) for word in (row[4], row[6])):
                problems.append(f"{fault.name}: {row[4]}; without checks {row[6]}")
            if arguments.write:
                table[fault.name] = row
                write_table(arguments.table, table)
            elif table.get(fault.name) not in (None, row):
                rows_text = " | ".join(table[fault.name]) + "\nand now it is\n  " + " | ".join(row)
                problems.append(f"{fault.name}: the table has\n  {rows_text}")
    print(f"{len(found)} faults are found, {len(not_found)} are not: {' '.join(not_found)}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
