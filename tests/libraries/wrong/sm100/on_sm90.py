#!/usr/bin/env python3
"""The faults of the Blackwell GEMM on a Hopper card: one program each (on_sm90_driver.cu), and what it sees beside the CPU.

    on_sm90.py build FOLDER --build BUILD [--source ROOT] [--every N] [--only NAME,...] [--jobs 2]
    on_sm90.py run FOLDER --out FILE [--only NAME,...] [--resume]
    on_sm90.py compare FILE [--table catalogue.tsv]

build needs nvcc 12.4 or later ($NVCC, or the one on PATH) and no card; BUILD is a build of the repository that has
mxcheck_emulation, mxcheck_numerics and mxcheck_model:

    cmake --preset release -B BUILD && ninja -C BUILD mxcheck_emulation mxcheck_numerics mxcheck_model

The changed headers are those that this has written.

It writes FOLDER/sm100_fault_NAME: of all faults and controls, or of every Nth fault, or of those named, or of both. A
program that is newer than what it is made of is not built again. Objects go to FOLDER/objects.

run needs this file, the programs and a Hopper card; not the repository. Programs run one at a time, since one that
waits for another's kernel would take that for a deadlock, and each is ended after 30 s. They need libhwy.so.1 and
libstdc++.so.6. FILE has the programs' lines as they come. --resume: those that FILE has already are not run again.

compare needs FILE and the catalogue, whose results check_table.py made on the CPU. The card has none of the checks of
order (fences, waits, proxies) that the CPU has, so what the catalogue has without checks is what to expect of it.

Exit code 0: all was built; all was run; no control and nothing that is allowed is seen, and each program said
something. 1: not so. 2: wrong arguments. 3: no nvcc, no libraries, no card.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PREFIX = "sm100_fault_"
SECONDS = 30
NO_CARD = 3  # on_sm90_driver.cu
NOT_STARTED = 127  # of the dynamic linker: a library is missing
HEADER = "# fault\tseen by\tschedule\tseconds\n"
LIBRARIES = ("emulation/libmxcheck_emulation.a", "reference/libmxcheck_model.a", "numerics/libmxcheck_numerics.a")
COMMON = (
    "tests/kernels/sm100/gemm/comparison.cc",
    "kernels/sm100/gemm/on_sm90/tensors.cc",
    "emulation/on_sm90/launch.cc",
)
FOLDER = "tests/libraries/wrong/sm100"
DRIVER = FOLDER + "/on_sm90_driver.cu"
SOURCE_FOLDERS = ("kernels/sm100", "emulation", FOLDER, "tests/kernels/sm100")
SUFFIXES = (".h", ".cuh", ".cc", ".cu")
# The options of kernels/sm100/CMakeLists.txt. The host's part is not what is tested.
CUDA_FLAGS = (
    *("-std=c++20", "-O3", "-Xfatbin=-compress-all", "-gencode", "arch=compute_90a,code=sm_90a"),
    *("--expt-relaxed-constexpr", "-DMXCHECK_SM100_FOR_SM90", "-Xcompiler=-O1,-w", "-w"),
)


def fail(status, text):
    print(f"on_sm90.py: {text}", file=sys.stderr)
    sys.exit(status)


# --- build


def choose(every_fault, every, only):
    """The faults to build, in the list's order."""
    compiling = [f for f in every_fault if f.compiles]
    unknown = only - {f.name for f in compiling}
    if unknown:
        fail(2, f"the catalogue has none that compile and are named {', '.join(sorted(unknown))}")
    if not only and every is None:
        return compiling
    changed = [f for f in compiling if not f.name.startswith("control")]
    chosen = only | ({f.name for f in changed[::every]} if every is not None else set())
    return [f for f in compiling if f.name in chosen]


def find_nvcc():
    given = os.environ.get("NVCC")
    nvcc = shutil.which(given or "nvcc")
    if nvcc is None:
        fail(3, f"NVCC is {given}, and there is none" if given else "there is no nvcc on PATH; name it in NVCC")
    return nvcc


def call(command, log):
    """Whether the command succeeded; what it said is in the log."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    log.write_text(done.stdout)
    return done.returncode == 0


def build(arguments):
    sys.dont_write_bytecode = True
    import check_table  # not where programs only run

    source = arguments.source.resolve()
    if not (source / DRIVER).is_file():
        fail(2, f"--source: {source} has no {DRIVER}")
    libraries = [arguments.build.resolve() / library for library in LIBRARIES]
    missing = [str(library) for library in libraries if not library.is_file()]
    if missing:
        fail(3, f"--build: there is no {missing[0]}; --help has what makes it")
    chosen = choose(check_table.read_faults(), arguments.every, arguments.only)
    nvcc = find_nvcc()
    folder = arguments.folder.resolve()
    objects = folder / "objects"
    objects.mkdir(parents=True, exist_ok=True)
    overlays = arguments.build.resolve() / FOLDER / "overlay"

    files = [path for name in SOURCE_FOLDERS for path in (source / name).rglob("*") if path.suffix in SUFFIXES]
    newest = max(path.stat().st_mtime for path in [*files, *libraries])
    common = []
    for name in COMMON:
        to = objects / (pathlib.Path(name).stem + ".o")
        common.append(to)
        if to.is_file() and to.stat().st_mtime > newest:
            continue
        if not call([nvcc, "-std=c++20", "-O2", f"-I{source}", "-c", source / name, "-o", to], to.with_suffix(".log")):
            fail(1, f"{name} does not compile: {to.with_suffix('.log')}")

    def make(fault):
        """(name, what became of it, seconds)."""
        start = time.monotonic()
        program = folder / (PREFIX + fault.name)
        overlay = overlays / fault.name
        changed = [path.stat().st_mtime for path in overlay.rglob("*") if path.is_file()]
        if not changed and not fault.name.startswith("control"):
            return fault.name, f"FAILED: {overlay} has no changed headers", 0.0
        to = objects / (fault.name + ".o")
        log = objects / (fault.name + ".log")
        macros = [f"-DTILE={fault.tile}", f"-DCASES={fault.cases}", f'-DFAULT="{fault.name}"']
        # The changed header first: nothing else may be found before it.
        compile_it = [nvcc, *CUDA_FLAGS, *macros, f"-I{overlay}", f"-I{source}", "-c", source / DRIVER, "-o", to]
        made_by = objects / (fault.name + ".command")
        command = " ".join(map(str, compile_it)) + "\n"
        if program.is_file() and program.stat().st_mtime > max([newest, *changed]):
            if made_by.is_file() and made_by.read_text() == command:
                return fault.name, "is there", 0.0
        made_by.write_text(command)
        program.unlink(missing_ok=True)
        if not call(compile_it, log):
            return fault.name, f"FAILED: {log}", time.monotonic() - start
        # Shared libraries that the archives need are often not needed by the part that these programs link.
        link_it = [nvcc, "-cudart", "static", "-Xlinker", "-s", "-o", program, to, *common, *libraries]
        if not call([*link_it, "-Xlinker", "--as-needed", "-lhwy", "-lfmt"], log):
            return fault.name, f"FAILED: {log}", time.monotonic() - start
        to.unlink()
        return fault.name, "is built", time.monotonic() - start

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for name, state, seconds in pool.map(make, chosen):
            failed += state.startswith("FAILED")
            print(name, state, f"{seconds:.1f} s", sep="\t", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} programs are in {folder}")
    return 1 if failed else 0


# --- run


def programs_in(folder):
    """{name of the fault: program}."""
    if not folder.is_dir():
        fail(2, f"{folder} is no folder")
    files = sorted(path for path in folder.iterdir() if path.name.startswith(PREFIX) and path.is_file())
    if not files:
        fail(2, f"{folder} has no programs: none of its files is named {PREFIX}NAME")
    return {path.name[len(PREFIX) :]: path for path in files}


def run_program(name, program):
    """(its line, exit code or None where it was ended, what it said on stderr)."""
    start = time.monotonic()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    try:
        # A session of its own, and the end of all of it: the kernel is a child's.
        process = subprocess.Popen([str(program.resolve())], **pipes, start_new_session=True)
    except OSError as error:
        return f"{name}\tfailed\t?\t0.0", NOT_STARTED, str(error)
    with process:
        try:
            out, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return f"{name}\thang\t?\t{time.monotonic() - start:.1f}", None, ""
    line = out.rstrip("\n")
    if line.count("\t") != 3 or "\n" in line or line.split("\t")[0] != name:
        line = f"{name}\tfailed\t?\t{time.monotonic() - start:.1f}"
    return line, process.returncode, errors


def read_lines(path):
    """{fault: (seen by, schedule, seconds)}."""
    lines = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        try:
            name, seen, schedule, seconds = fields
            lines[name] = (seen, schedule, float(seconds))
        except ValueError:
            fail(2, f"{path}, line {number}: not fault, seen by, schedule and seconds, with tabs: {line!r}")
    return lines


def run(arguments):
    programs = programs_in(arguments.folder)
    unknown = arguments.only - programs.keys()
    if unknown:
        fail(2, f"{arguments.folder} has no program for {', '.join(sorted(unknown))}")
    done = read_lines(arguments.out) if arguments.resume and arguments.out.is_file() else {}
    # Programs that ended before they said anything get another chance.
    done = {name: line for name, line in done.items() if line[0] != "failed"}
    not_right = 0
    try:
        out = arguments.out.open("w")
    except OSError as error:
        fail(2, f"--out: {error}")
    with out:
        out.write(HEADER)
        for name, (seen, schedule, seconds) in done.items():
            out.write(f"{name}\t{seen}\t{schedule}\t{seconds:.1f}\n")
        for name, program in programs.items():
            if name in done or (arguments.only and name not in arguments.only):
                continue
            line, status, errors = run_program(name, program)
            if errors:
                print(errors, end="" if errors.endswith("\n") else "\n", file=sys.stderr)
            if status in (NO_CARD, NOT_STARTED):
                print(line)
                what = "found no card" if status == NO_CARD else "does not start"
                fail(3, f"{name} {what}; the others are not run")
            print(line, flush=True)
            out.write(line + "\n")
            out.flush()
            not_right += status not in (0, None)
    return 1 if not_right else 0


# --- compare


def print_table(title, heads, rows):
    print(title)
    widths = [max(len(str(row[i])) for row in [heads, *rows]) for i in range(len(heads))]
    for row in [heads, *rows]:
        print("  " + "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip())
    print()


def compare(arguments):
    if not arguments.file.is_file():
        fail(2, f"{arguments.file} is no file")
    if not arguments.table.is_file():
        fail(2, f"--table: {arguments.table} is no file")
    card = read_lines(arguments.file)
    sys.dont_write_bytecode = True
    import check_table

    table = {fault.name: fault for fault in check_table.read_faults(arguments.table)}
    if not card:
        fail(2, f"{arguments.file} has no fault")
    problems = [f"{name}: not in {arguments.table}" for name in card if name not in table]
    both = [name for name in table if name in card]
    right = [name for name in both if table[name].is_right]
    wrong = [name for name in both if name not in right]
    says = [name for name in wrong if card[name][0] != "failed"]
    problems += [f"{name}: a false alarm by {card[name][0]}" for name in right if card[name][0] not in ("-", "failed")]
    problems += [f"{name}: the program failed" for name in both if card[name][0] == "failed"]

    def seen(name):
        return card[name][0] != "-"

    def checked(name):
        return table[name].found.split(",")[0]

    def unchecked(name):
        return table[name].bare.split(",")[0]

    count = collections.Counter((seen(name), checked(name) != "-", unchecked(name) != "-") for name in says)
    heads = ("card", "CPU", "CPU, no checks", "faults")
    marks = {True: "seen", False: "-"}
    by_who = [(*(marks[x] for x in who), number) for who, number in sorted(count.items(), reverse=True)]
    print_table(f"{len(says)} faults, by who sees them", heads, by_who)

    pairs = collections.Counter((card[name][0], checked(name)) for name in says)
    by_what = [(*pair, number) for pair, number in sorted(pairs.items(), key=lambda x: (-x[1], x[0]))]
    print_table("By what sees them", ("on the card", "on the CPU", "faults"), by_what)

    schedules = collections.Counter(card[name][1] for name in says if seen(name))
    print_table("By the card's first schedule that sees them", ("schedule", "faults"), schedules.most_common())

    for title, names in (
        ("The CPU alone", [n for n in says if not seen(n) and checked(n) != "-"]),
        ("Of these even without its checks", [n for n in says if not seen(n) and unchecked(n) != "-"]),
        ("The card alone", [n for n in says if seen(n) and checked(n) == "-"]),
        ("Nobody", [n for n in says if not seen(n) and checked(n) == "-"]),
    ):
        facts = [(n, table[n].source, card[n][0], checked(n), unchecked(n), table[n].sentence) for n in names]
        heads = ("fault", "source", "card", "CPU", "CPU, no checks", "what it is")
        print_table(f"{title}: {len(names)}", heads, facts) if facts else print(f"{title}: 0\n")

    silent = sum(not seen(name) for name in right)
    print(f"Controls and what is allowed: {silent} of {len(right)} are not seen, as it should be.")
    slowest = max(card, key=lambda name: card[name][2])
    seconds = sum(line[2] for line in card.values())
    print(f"{seconds:.0f} s in {len(card)} programs; the longest {card[slowest][2]:.1f} s, {slowest}.")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def names(text):
    return set(filter(None, text.split(",")))


def positive(text):
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("build")
    command.add_argument("folder", type=pathlib.Path)
    command.add_argument("--source", type=pathlib.Path, default=HERE.parents[3] if len(HERE.parents) > 3 else HERE)
    command.add_argument("--build", type=pathlib.Path, required=True)
    command.add_argument("--every", type=positive)
    command.add_argument("--only", type=names, default=set())
    command.add_argument("--jobs", type=positive, default=2)
    command.set_defaults(function=build)
    command = commands.add_parser("run")
    command.add_argument("folder", type=pathlib.Path)
    command.add_argument("--out", type=pathlib.Path, required=True)
    command.add_argument("--only", type=names, default=set())
    command.add_argument("--resume", action="store_true")
    command.set_defaults(function=run)
    command = commands.add_parser("compare")
    command.add_argument("file", type=pathlib.Path)
    command.add_argument("--table", type=pathlib.Path, default=HERE.parents[1] / "catalogue.tsv" if len(HERE.parents) > 1 else HERE)
    command.set_defaults(function=compare)
    arguments = parser.parse_args()
    return arguments.function(arguments)


if __name__ == "__main__":
    sys.exit(main())
