#!/usr/bin/env python3
"""The GEMM kernels for sm_100a as text: their PTX is assembled, and what each is made of compared with kernels.txt.

    kernels_test.py          four kernels
    kernels_test.py --all    all of them, some minutes
    kernels_test.py --write  all of them, and write the table

A row of the table: the kernel, its registers as ptxas counts them, and how often each instruction of sm_100a occurs. No kernel may
spill, use the stack, or need more registers than the table says. How often an instruction occurs depends on what the compiler unrolls:
with another nvcc than the table's the instructions alone are compared.
"""

import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
sys.path.insert(0, str(HERE.parent / "tcgen05"))
import forms_test  # noqa: E402
import ptx_forms  # noqa: E402

TABLE = HERE / "kernels.txt"
SOURCE = ROOT / "kernels/sm100/gemm/kernels.cu"
ALL = "--all" in sys.argv or "--write" in sys.argv


def counts_of(function):
    counts = {}
    for statement in function.statements:
        if ptx_forms.SHOWN.match(statement.opcode):
            counts[statement.opcode] = counts.get(statement.opcode, 0) + 1
    return " ".join(f"{n}*{opcode}" for opcode, n in sorted(counts.items()))


def assembled():
    """{kernel: (registers, forms)}, and what ptxas or the reader of forms found wrong."""
    wrong = []
    text, said = forms_test.assembled(SOURCE, *([] if ALL else ["-DMXCHECK_SM100_FEW"]))
    registers = {}
    for name, stack, stores, loads, used in re.findall(
            r"entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers",
            said, flags=re.S):
        registers[name] = int(used)
        if (stack, stores, loads) != ("0", "0", "0"):
            wrong.append(f"{name}: {stack} bytes of stack, {stores} spilled: none may be")
    functions = ptx_forms.functions_of(text)
    wrong += ptx_forms.suspects_of(functions)
    return {f.name: (registers[f.name], counts_of(f)) for f in functions if f.name in registers}, wrong


def release():
    return re.search(r"release [\d.]+, V[\d.]+", forms_test.run(forms_test.nvcc(), "--version").stdout).group(0)


def without_counts(forms):
    return re.sub(r"\b\d+\*", "", forms)


def table():
    rows = {}
    for line in TABLE.read_text(encoding="ascii").splitlines():
        if line and not line.startswith("#"):
            name, registers, forms = line.split("\t")
            rows[name] = (int(registers), forms)
    return rows


class Kernels(unittest.TestCase):
    def test_kernels_are_assembled_and_made_of_what_the_table_says(self):
        reason = forms_test.reason_to_skip()
        if reason:
            self.skipTest(reason)
        found, wrong = assembled()
        self.assertEqual(wrong, [])
        expected = table()
        same = release() in TABLE.read_text(encoding="ascii")
        self.assertTrue(found)
        if ALL:
            self.assertEqual(sorted(found), sorted(expected))
        for name, (registers, forms) in found.items():
            with self.subTest(kernel=name):
                shown = str if same else without_counts
                self.assertEqual(shown(forms), shown(expected[name][1]))
                # Another nvcc may allocate a few more; 65,536 / 192 threads would allow 340, and an instruction names 255.
                self.assertLessEqual(registers, expected[name][0] + 8)


if __name__ == "__main__":
    if "--write" in sys.argv:
        rows, complaints = assembled()
        for complaint in complaints:
            print(complaint)
        header = "# kernels_test.py --write: kernel, registers, instructions of sm_100a; nvcc " + release() + "\n"
        TABLE.write_text(header + "".join(f"{n}\t{r}\t{f}\n" for n, (r, f) in sorted(rows.items())), encoding="ascii")
        sys.exit(1 if complaints else 0)
    unittest.main(argv=[sys.argv[0]])
