#!/usr/bin/env python3
"""The quantizers and the elementwise steps of a layer (SwiGLU and its gradient with quantization) for sm_100a.

They are CUDA C++ without an instruction of Hopper's own, so that the same sources are Blackwell's kernels: each file is compiled and
assembled for sm_100a. Their launch bounds are chosen for Hopper's ptxas; what 30 of the 231 kernels spill for sm_100a is below, the most
of each file in bytes as nvcc 13.0 has it, and may not grow.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tcgen05"))
import forms_test  # noqa: E402

FOLDERS = ["kernels/sm90/quantize", "kernels/sm90/layer/steps"]

SPILLED = {"dequantize.cu": 4, "lines.cu": 16, "backward_tiles.cu": 152, "forward.cu": 420, "transpose.cu": 4, "transpose_wide.cu": 136}


class Quantizers(unittest.TestCase):
    def test_each_file_is_assembled_for_sm_100a_and_spills_nothing(self):
        reason = forms_test.reason_to_skip()
        if reason:
            self.skipTest(reason)
        sources = [s for folder in FOLDERS for s in sorted((ROOT / folder).glob("*.cu"))]
        self.assertGreater(len(sources), 10)
        kernels = 0
        for source in sources:
            with self.subTest(source=source.name), tempfile.TemporaryDirectory() as folder:
                command = [forms_test.nvcc(), "-std=c++20", "-gencode", "arch=compute_100a,code=sm_100a", "-I", str(ROOT), "-Xptxas", "-v",
                           "-cubin", str(source), "-o", os.path.join(folder, "x.cubin")]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                spills = re.findall(r"(\d+) bytes spill stores", done.stderr)
                kernels += len(spills)
                self.assertLessEqual(max(map(int, spills), default=0), SPILLED.get(source.name, 0))
        print(f"{kernels} kernels of {len(sources)} files")


if __name__ == "__main__":
    unittest.main()
