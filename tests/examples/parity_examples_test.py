"""The Python example of a run of training, and the definition of its file: parity_examples_test.py SAMPLE_RUN SOURCE_DIR"""

import hashlib
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

SAMPLE_RUN, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def content_sha256(run):
    """As docs/parity.md defines it."""
    attributes = {key: text(value).rstrip("\0") for key, value in run.attrs.items()}
    sha256 = hashlib.sha256()

    def add(*texts):
        for t in texts:
            sha256.update(struct.pack("<Q", len(t.encode())) + t.encode())

    add(attributes["mxcheck_file"])
    for key in sorted(set(attributes) - {"mxcheck_file", "schema_version", "content_sha256"}):
        add(key, attributes[key])
    types = {"uint8": "U8", "uint16": "U16", "uint32": "U32", "int32": "I32", "int64": "I64"}
    for name in sorted(run):
        data = run[name][:]
        add(name, text(run[name].attrs["format"]), types[str(data.dtype)], " x ".join(map(str, data.shape)))
        sha256.update(struct.pack("<Q", data.nbytes) + data.tobytes())
    return sha256.hexdigest(), attributes["content_sha256"]


class Examples(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.run_file = pathlib.Path(self.directory.name) / "run.h5"
        subprocess.run([SAMPLE_RUN, self.run_file], check=True)

    def tearDown(self):
        self.directory.cleanup()

    def test_the_losses_are_printed_and_plotted(self):
        image = pathlib.Path(self.directory.name) / "loss.png"
        script = SOURCE / "examples/parity/plot_loss.py"
        answer = subprocess.run(
            [sys.executable, script, self.run_file, "-o", image], capture_output=True, text=True, check=False
        )
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("12 steps, last loss 5.5000, validation 5.0000@0 5.0000@6 5.0000@12", answer.stdout)
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            return
        self.assertTrue(image.read_bytes().startswith(b"\x89PNG"))

    def test_the_content_hash_is_the_one_that_the_page_defines(self):
        with h5py.File(self.run_file, "r") as run:
            computed, recorded = content_sha256(run)
        self.assertEqual(computed, recorded)

    def test_digests_and_tables_have_the_form_that_the_page_shows(self):
        with h5py.File(self.run_file, "r") as run:
            digests = run["weights_digest"][:].view(np.uint64)[:, 0]
            operands = bytes(run["operand_names"][:]).decode().split()
            saturated = run["operand_saturated"][:].reshape(len(run["observation_step"]), 2, len(operands))
        self.assertEqual(int(digests[1]), 0x9E3779B97F4A7C15 * 2 % 2**64)
        self.assertEqual(operands, ["up.0", "up.1", "up.2"])
        self.assertEqual(saturated[1, 1].tolist(), [30, 31, 32])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
