#!/usr/bin/env python3
"""The probes for sm_100a: they compile without spills, and the program refuses a machine without a B200.

    NVCC=/usr/local/cuda/bin/nvcc CXX=g++ python3 device_program_test.py [mxcheck_sm100_probe]

Needs nvcc, not a GPU. The program is that of the build; without it, compiling alone is tested.
"""

import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
sys.path.insert(0, str(HERE.parent / "tcgen05"))
import forms_test  # noqa: E402
import ptx_forms  # noqa: E402

SOURCE = ROOT / "tests/kernels/sm100/probe/cuda_launcher.cu"
PROGRAM = sys.argv[1] if len(sys.argv) > 1 else None
KERNELS = 7  # six of the eleven probes share one kernel, which is there for one CTA and for a pair


class DeviceProgram(unittest.TestCase):
    def test_kernels_are_assembled_without_spills_or_warnings(self):
        reason = forms_test.reason_to_skip()
        if reason:
            self.skipTest(reason)
        text, said = forms_test.assembled(SOURCE)
        self.assertNotIn("warning", said)
        frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", said)
        self.assertEqual(frames, [("0", "0", "0")] * KERNELS, said)
        self.assertEqual(ptx_forms.suspects_of(ptx_forms.functions_of(text)), [])
        # The litmus's own arrival, which the thin layer does not have.
        self.assertIn("mbarrier.arrive.release.cta.shared::cluster.b64", text)

    def test_a_machine_without_a_b200_is_refused(self):
        if PROGRAM is None:
            self.skipTest("no program given: the build's mxcheck_sm100_probe")
        done = subprocess.run([PROGRAM, "--only", "2", "--timeout", "60"], capture_output=True, text=True, check=False,
                              timeout=300)
        if done.returncode in (0, 1):
            self.skipTest("a B200 is here: " + done.stdout.splitlines()[0])
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"(the card is|there is no card|built without CUDA).*; this probe needs compute "
                                      r"capability 10\.0; --emulated runs it on the CPU")
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
