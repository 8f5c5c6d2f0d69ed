#!/usr/bin/env python3
"""Counts the machine instructions of each kernel in a library, and of each loop in it.

  sass_counts.py LIBRARY [--only TEXT]... [--units U] [--opcodes] [--banks]

LIBRARY: a shared library, an object or a cubin. --only: kernels whose demangled name has each TEXT. --units: elements, or what a thread makes from
start to end; each line then has instructions a unit too. --opcodes: how many of each instruction, the most frequent first. --banks: in each loop the
instructions that read three registers whose numbers are all even, or all odd: registers are in two banks, and such an instruction waits for one.

A count is of the code, not of a run: a branch that is seldom taken counts in full, and padding behind the last EXIT does not. A loop is the code
between where branches backward lead and the first of them, and the last; of nested loops, each is printed. The run is the longest code without a
branch out of it or into it. cuobjdump and nvdisasm of the CUDA toolkit read the code, and are looked for in PATH. Exit code 2: they are missing, or
LIBRARY has no kernel that --only names.
"""

import argparse
import collections
import re
import shutil
import subprocess
import sys

TOOLS = ("cuobjdump", "nvdisasm")  # the first calls the second
FUNCTION = re.compile(r"^\s*Function : (\S+)")
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Za-z0-9_.]*)(?:\s+([^;]*))?;")


class Unreadable(Exception):
    """What is wrong, in a sentence."""


class Kernel:
    def __init__(self, name):
        self.name = name
        self.code = []  # of each instruction its address, its opcode, its operands

    def without_padding(self):
        """The code to the branch to itself that the compiler puts behind the last instruction, or to the last NOP before it."""
        end = len(self.code)
        while end and self.code[end - 1][1] == "NOP":
            end -= 1
        if end and self.code[end - 1][1].startswith("BRA") and _target(self.code[end - 1]) == self.code[end - 1][0]:
            end -= 1
        return self.code[:end]

    def longest_run(self):
        """Instructions of the longest stretch that nothing branches out of or into."""
        code = self.without_padding()
        targets = {_target(instruction) for instruction in code if instruction[1].startswith(("BRA", "BSSY", "CALL"))}
        longest = current = 0
        for address, opcode, _ in code:
            current = 1 if address in targets else current + 1
            longest = max(longest, current)
            if opcode.startswith(("BRA", "BSYNC", "EXIT", "RET", "CALL", "BRX", "JMP")):
                current = 0
        return longest

    def loops(self):
        """The code of each loop, from where a branch backward leads to the first and to the last such branch, the longest first."""
        code = self.without_padding()
        places = {address: number for number, (address, _, _) in enumerate(code)}
        found = collections.defaultdict(list)  # ends of the loops that begin at an address
        for number, instruction in enumerate(code):
            target = _target(instruction) if instruction[1].startswith("BRA") else None
            if target in places and places[target] < number:
                found[target].append(number + 1)
        return sorted((code[places[target]:end] for target, ends in found.items() for end in {ends[0], ends[-1]}), key=len, reverse=True)


def reads_one_bank(instruction):
    """True where it reads three registers of one bank."""
    sources = {int(number) for number in re.findall(r"(?<![A-Z])R(\d+)", instruction[2].partition(",")[2])}
    return len(sources) == 3 and len({number % 2 for number in sources}) == 1


def _target(instruction):
    found = re.search(r"0x([0-9a-f]+)\s*$", instruction[2])
    return int(found[1], 16) if found else None


def kernels_in(text):
    """The kernels of cuobjdump's listing."""
    kernels = []
    for line in text.splitlines():
        function = FUNCTION.match(line)
        if function:
            kernels.append(Kernel(function[1]))
            continue
        instruction = INSTRUCTION.match(line)
        if instruction and kernels:
            kernels[-1].code.append((int(instruction[1], 16), instruction[2], (instruction[3] or "").strip()))
    return kernels


def listing(library):
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        raise Unreadable(f"{' and '.join(missing)} not found in PATH: the CUDA toolkit has them, in its folder bin")
    done = subprocess.run([TOOLS[0], "--dump-sass", library], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Unreadable(f"{TOOLS[0]}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def demangle(kernels):
    if not shutil.which("c++filt") or not kernels:
        return
    names = subprocess.run(["c++filt"], input="\n".join(kernel.name for kernel in kernels), stdout=subprocess.PIPE, text=True, check=True)
    for kernel, name in zip(kernels, names.stdout.splitlines()):
        kernel.name = _without_arguments(name.removeprefix("void "))


def _without_arguments(name):
    """A demangled name to the parenthesis that its last one closes."""
    depth = 0
    for place in range(len(name) - 1, -1, -1) if name.endswith(")") else ():
        depth += {")": 1, "(": -1}.get(name[place], 0)
        if depth == 0:
            return name[:place]
    return name


def described(kernel, units, with_opcodes, with_banks=False):
    each = f"  {len(kernel.without_padding()) / units:.1f} a unit" if units else ""
    lines = [f"{len(kernel.without_padding()):7}{each}  {kernel.name}"]
    parts = [("run", kernel.longest_run(), [])] + [("loop", len(code), code) for code in kernel.loops()]
    for name, count, code in parts:
        lines.append(f"{name:>12} {count:7}" + (f"  {count / units:.1f} a unit" if units else ""))
        if with_banks and code:
            lines[-1] += f"  {sum(map(reads_one_bank, code))} of one bank"
    if with_opcodes:
        opcodes = collections.Counter(opcode.split(".", 1)[0] for _, opcode, _ in kernel.without_padding())
        lines.append("    " + ", ".join(f"{opcode} {count}" for opcode, count in sorted(opcodes.items(), key=lambda one: (-one[1], one[0]))))
    return lines


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--units", type=float)
    parser.add_argument("--opcodes", action="store_true")
    parser.add_argument("--banks", action="store_true")
    options = parser.parse_args(arguments)
    if options.units is not None and not options.units > 0:
        parser.error("--units must be above 0")
    try:
        kernels = kernels_in(listing(options.library))
        demangle(kernels)
        chosen = [kernel for kernel in kernels if all(text in kernel.name for text in options.only)]
        if not chosen:
            raise Unreadable(f"{options.library} has {len(kernels)} kernels, and none of them is named so" if kernels
                             else f"{options.library} has no kernels")
    except Unreadable as error:
        print(f"sass_counts: {error}", file=sys.stderr)
        return 2
    for kernel in sorted(chosen, key=lambda one: one.name):
        print("\n".join(described(kernel, options.units, options.opcodes, options.banks)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
