"""Counts of machine instructions: from a listing, from the command line where its tools are missing, and from a real library.

The last needs cuobjdump and nvdisasm in PATH, and a library with kernels in MXCHECK_SASS_LIBRARY; it is skipped without them.
"""

import os
import shutil
import subprocess
import sys
import unittest

FOLDER = sys.argv.pop(1)
sys.path.insert(0, FOLDER)
import sass_counts

LISTING = """
		Function : _Z3fooPf
        /*0000*/                   LDC R1, c[0x0][0x28] ;     /* 0x0a */
                                                              /* 0x0b */
        /*0010*/              @!P0 IADD3 R1, R1, -0x40, RZ ;  /* 0x0c */
        /*0020*/                   FFMA R2, R2, R2, R2 ;      /* 0x0d */
        /*0030*/               @P1 BRA 0x10 ;                 /* 0x0e */
        /*0040*/              @!P1 BRA 0x0 ;                  /* 0x0e */
        /*0050*/                   EXIT ;                     /* 0x0f */
        /*0060*/                   BRA 0x60;                  /* 0x10 */
        /*0070*/                   NOP;                       /* 0x11 */
        /*0080*/                   NOP;                       /* 0x11 */
		Function : _Z3barv
        /*0000*/                   EXIT ;                     /* 0x0f */
"""


def run(arguments, **environment):
    command = [sys.executable, "-B", os.path.join(FOLDER, "sass_counts.py"), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}, check=False)


class Counts(unittest.TestCase):
    def test_kernels_loops_and_runs_of_a_listing(self):
        foo, bar = sass_counts.kernels_in(LISTING)
        self.assertEqual((foo.name, len(foo.code), len(foo.without_padding())), ("_Z3fooPf", 9, 6))
        self.assertEqual([len(code) for code in foo.loops()], [5, 3])
        self.assertEqual(foo.longest_run(), 3)
        self.assertEqual((len(bar.without_padding()), bar.loops()), (1, []))
        self.assertEqual(sass_counts.described(foo, 2, True),
                         ["      6  3.0 a unit  _Z3fooPf", "         run       3  1.5 a unit", "        loop       5  2.5 a unit",
                          "        loop       3  1.5 a unit", "    BRA 2, EXIT 1, FFMA 1, IADD3 1, LDC 1"])

    def test_instructions_of_one_bank(self):
        text = "".join(f"/*00{n}0*/ {code} ;\n" for n, code in enumerate(
            ["FFMA R2, R4, R6.reuse, R8", "FFMA R2, R4, R6, R9", "FADD R2, R4, R6", "FFMA R1, R3, -R5, R3", "@P0 LOP3.LUT R2, R3, |R5|, R7, 0x80, !PT",
             "IMAD R2, R4, UR6, R8", "QGMMA.64x128x32.F32.E4M3.E4M3 R24, gdesc[UR8], R24", "BRA 0x0"]))
        (kernel,) = sass_counts.kernels_in("\t\tFunction : f\n" + text)
        self.assertEqual([sass_counts.reads_one_bank(one) for one in kernel.code], [True, False, False, False, True, False, False, False])
        self.assertEqual(sass_counts.described(kernel, None, False, True)[2], "        loop       8  2 of one bank")

    def test_missing_tools_are_named(self):
        done = run(["lib.so"], PATH="/nonexistent")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr, "sass_counts: cuobjdump and nvdisasm not found in PATH: the CUDA toolkit has them, in its folder bin\n")

    def test_units_must_be_above_0(self):
        done = run(["lib.so", "--units", "0"])
        self.assertEqual(done.returncode, 2)
        self.assertIn("--units must be above 0", done.stderr)

    @unittest.skipUnless(all(map(shutil.which, sass_counts.TOOLS)) and os.environ.get("MXCHECK_SASS_LIBRARY"),
                         "needs cuobjdump, nvdisasm and MXCHECK_SASS_LIBRARY")
    def test_a_library_s_kernels(self):
        library = os.environ["MXCHECK_SASS_LIBRARY"]
        done = run([library])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^ *\d+  \S")
        self.assertEqual(run([library, "--only", "no such kernel"]).returncode, 2)
        self.assertEqual(run(["/dev/null"]).returncode, 2)


if __name__ == "__main__":
    unittest.main()
