"""The Python examples say in one line which package they need, and end with 3: missing_packages_test.py SOURCE_DIR"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))
NEEDS = {"goldens/read_golden.py": "h5py", "goldens/check_mine.py": "h5py", "parity/plot_loss.py": "h5py", "layer/layer.py": "numpy"}


class MissingPackages(unittest.TestCase):
    def test_is_told_in_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            for package in ("h5py", "numpy"):  # found before an installed one
                pathlib.Path(folder, package + ".py").write_text(f"raise ImportError('No module named {package}')\n")
            environment = dict(os.environ, PYTHONPATH=folder, PYTHONDONTWRITEBYTECODE="1")
            for example, package in NEEDS.items():
                done = subprocess.run([sys.executable, SOURCE / "examples" / example, "x.h5"], capture_output=True, text=True, env=environment, check=False)
                with self.subTest(example):
                    self.assertEqual(done.returncode, 3, done.stderr)
                    self.assertRegex(done.stderr, rf"^\w+\.py: No module named {package}; this example needs .*{package}.*: pip install [\w ]+\n$")


if __name__ == "__main__":
    unittest.main()
