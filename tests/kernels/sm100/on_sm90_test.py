#!/usr/bin/env python3
"""The programs for a Hopper card: without one they say so; with one they have the reference's bits.

    on_sm90_test.py TABLE PROBE CHECKS      sm100_gemm_table_on_sm90, mxcheck_sm100_probe_on_sm90, emulation_on_sm90_test
"""

import subprocess
import sys
import unittest

TABLE, PROBE, CHECKS = sys.argv[1:4]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)


class OnSm90(unittest.TestCase):
    def test_every_kernel_has_the_references_bits(self):
        done = run(TABLE, "1")
        if done.returncode == 3:
            self.assertRegex(done.stderr, r"^sm100_gemm_table: (no card for the emulation: .+|the emulation is compiled for "
                                          r"Hopper \(sm_90a\), and the card is .+)\n$")
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_kernels_that_break_a_rule_are_found(self):
        done = run(CHECKS)
        if done.returncode == 3:
            self.assertRegex(done.stderr, r"^emulation_on_sm90_test: (no card for the emulation|the emulation is compiled for Hopper)")
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("FAILED", done.stdout)

    def test_the_probe_names_the_card_that_it_needs(self):
        done = run(PROBE, "--only", "2")
        if done.returncode == 3:
            self.assertRegex(done.stderr, r"(no card for the emulation|and the card is).*; this probe needs compute capability "
                                          r"9\.0; --emulated runs it on the CPU\n$")
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
