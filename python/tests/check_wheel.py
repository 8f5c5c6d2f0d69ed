"""Builds the wheel, installs it into an empty environment of each of two Pythons, and gates from there: nothing of the checkout is in
reach. python3 check_wheel.py FOLDER [cuda=OFF]; minutes, for it compiles everything once. `./run wheel` and the CI run it."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import wheel_backend  # noqa: E402

PROGRAM = """
import mxcheck
q = mxcheck.quantize(mxcheck.Values(bytes(256), (2, 32), "fp32"), engine="simd")
assert q.scales.tobytes() == bytes(2)
assert mxcheck.layer_recipes() and mxcheck.golden.suites()  # by the program, which is there too
print(mxcheck.__file__)
"""


def pythons():
    """This one, and another version if there is one."""
    found = [sys.executable]
    for minor in range(9, 15):
        other = shutil.which(f"python3.{minor}")
        if other and minor != sys.version_info.minor and subprocess.run([other, "-c", ""], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            found.append(other)
    return found[:2]


def check(python, wheel, folder):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("MXCHECK_")}
    if python == sys.executable:
        venv.create(folder, with_pip=True)
    else:
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    run = dict(check=True, cwd=folder, env=environment, stdout=subprocess.PIPE)
    start = time.monotonic()
    subprocess.run([folder / "bin" / "pip", "install", "-q", "--no-index", str(wheel)], **run)
    installed = time.monotonic()
    where = subprocess.run([folder / "bin" / "python", "-c", PROGRAM], **run).stdout.decode()
    assert str(folder) in where, where
    gate = [folder / "bin" / "mxcheck", "gate", "--seed", "1", "--save", ""]
    subprocess.run([*gate, "--candidate", "cpu", "--only", "quantize_equals*"], **run)
    shutil.copy(ROOT / "python" / "tests" / "gated.py", folder)
    subprocess.run([*gate, "--candidate", "python:gated.py:right", "--only", "permuting*"], **run)
    print(f"{python}: installed in {installed - start:.1f} s, gated from there {time.monotonic() - installed:.1f} s later")


def check_files(wheel, cuda):
    """A build folder that had CUDA once has libraries for GPUs: without CUDA the wheel has none of them."""
    with zipfile.ZipFile(wheel) as packed:
        names = {Path(name).name for name in packed.namelist()}
    assert {"libmxcheck_c.so", "libmxcheck_cpu.so", "libhwy.so.1"} <= names, names
    for_gpus = [name for name in names if "sm90" in name or "gpu" in name]
    assert cuda != "OFF" or not for_gpus, for_gpus


def main():
    target = Path(sys.argv[1]).resolve()
    target.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    options = dict(one.split("=") for one in sys.argv[2:])
    wheel = target / wheel_backend.build_wheel(str(target), options)
    print(f"{wheel}: {wheel.stat().st_size / 2**20:.1f} MiB, built in {time.monotonic() - start:.0f} s")
    check_files(wheel, options.get("cuda", "AUTO").upper())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for python in pythons():
            check(python, wheel, folder / f"env{len(list(folder.iterdir()))}")


main()
