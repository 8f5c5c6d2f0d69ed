"""PEP 517: a wheel of python/mxcheck with the tool and its libraries, built by CMake.

One wheel serves every Python 3.9 and later, since the libraries are called with ctypes (tag py3-none). The platform's tag is computed from
the versioned symbols of all files, of the C library and of libstdc++, which are the machine's: manylinux_2_34 from Debian 12, which RHEL 9,
Debian 12, Ubuntu 22.04 and later systems install.
"""

import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Dict, List, Optional, Set

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("mxcheck", "mxcheck_c", "mxcheck_worker", "mxcheck_cpu", "mxcheck_cpu_layer", "mxcheck_cpu_nvfp4", "mxcheck_gpu_model", "mxcheck_sm90",
           "mxcheck_sm90_gemm", "mxcheck_sm90_layer", "mxcheck_sm90_moe", "mxcheck_sm90_nvfp4", "mxcheck_sm90_route", "mxcheck_sm90_train")
# PEP 600's policies, as auditwheel has them: a C library, and the newest symbols of libstdc++ that systems of its age have.
POLICIES = (((2, 17), (3, 4, 19)), ((2, 24), (3, 4, 22)), ((2, 27), (3, 4, 24)), ((2, 31), (3, 4, 28)), ((2, 34), (3, 4, 29)),
            ((2, 35), (3, 4, 30)), ((2, 38), (3, 4, 32)), ((2, 39), (3, 4, 33)))
MOST = (2, 34)  # a build that needs a newer C library than RHEL 9's is refused, unless MXCHECK_WHEEL_ANY_GLIBC is set
# GCC 12 gives std::condition_variable::wait a new version, 3.4.30, which RHEL 9 has not. The old one, which every libstdc++ has, is bound.
OLD_WAIT = """__asm__(".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE, "
        "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
"""


def _version() -> str:
    return re.search(r"VERSION (\d+\.\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text()).group(1)  # type: ignore[union-attr]


def _run(*command: str) -> str:
    print("+", " ".join(command), file=sys.stderr)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode()


def _cuda(config_settings: Optional[dict]) -> str:
    """`pip install . -C cuda=OFF`: without the libraries for GPUs, though a CUDA Toolkit is there. ON insists on one."""
    settings = dict(config_settings or {})
    cuda = str(settings.pop("cuda", "AUTO")).upper()
    if settings or cuda not in ("AUTO", "ON", "OFF"):
        raise SystemExit(f"mxcheck: -C takes cuda=AUTO, cuda=ON or cuda=OFF, not {config_settings}")
    return cuda


def libraries(offered: Set[str]) -> List[str]:
    """The libraries of the wheel among the files and targets of a configuration: an earlier one may have left others in the folder."""
    return sorted(file for file in (f"lib/lib{target}.so" for target in TARGETS) if file in offered)


def _built(build: Path, cuda: str) -> List[Path]:
    """The tool and the libraries, with libhwy, which Debian has as a shared library only."""
    build.mkdir(parents=True, exist_ok=True)
    old_wait = build / "old_wait.h"
    if not old_wait.is_file():
        old_wait.write_text(OLD_WAIT)
    # Without line numbers: the files are stripped.
    _run("cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DMXCHECK_CUDA={cuda}",
         f"-DCMAKE_CXX_FLAGS_RELEASE=-O2 -g0 -DNDEBUG -include {old_wait}", "-DMXCHECK_WERROR=OFF", "-DMXCHECK_PORTABLE=ON", "-DMXCHECK_STATIC_CXX=OFF",
         "-DMXCHECK_TESTS=OFF", "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON")
    offered = {line.split(":")[0] for line in _run("ninja", "-C", str(build), "-t", "targets", "all").splitlines()}
    _run("ninja", "-C", str(build), *(target for target in TARGETS if target in offered))
    files = [build / "bin" / "mxcheck", *(build / library for library in libraries(offered))]
    needed = _run("ldd", str(files[0]))
    files.append(Path(re.search(r"libhwy\.so\.1 => (\S+)", needed).group(1)))  # type: ignore[union-attr]
    return files


def newest(files: List[Path], name: str) -> tuple:
    """The largest version NAME_x.y of a symbol that any of the files takes from another library."""
    versions = [tuple(map(int, found.split("."))) for file in files
                for found in re.findall(rf"\b{name}_(\d+(?:\.\d+)*)\b", _run("objdump", "-T", str(file)))]
    return max(versions, default=(0,))


def policy_of(files: List[Path]) -> str:
    """The platform's tag of files that need these symbols: "manylinux_2_34" and the like."""
    glibc, glibcxx = newest(files, "GLIBC"), newest(files, "GLIBCXX")
    for libc, libstdcxx in POLICIES:
        if glibc <= libc and glibcxx <= libstdcxx:
            if libc > MOST and not os.environ.get("MXCHECK_WHEEL_ANY_GLIBC"):
                break
            return f"manylinux_{libc[0]}_{libc[1]}"
    needs = f"GLIBC {'.'.join(map(str, glibc))} and GLIBCXX {'.'.join(map(str, glibcxx))}"
    raise SystemExit(f"mxcheck: the files need {needs}: more than manylinux_{MOST[0]}_{MOST[1]} has. Build on Debian 12, or set "
                     "MXCHECK_WHEEL_ANY_GLIBC=1 for a wheel of this machine's age")


def _staged(folder: Path, cuda: str) -> Dict[str, Path]:
    """Files of the wheel by their place in it, stripped, with an RPATH from one folder to the other."""
    files = _built(Path(os.environ.get("MXCHECK_WHEEL_BUILD", str(ROOT / "build" / "wheel"))), cuda)
    placed = {}
    for file in files:
        place = "mxcheck/bin/mxcheck" if file.name == "mxcheck" else f"mxcheck/lib/{'libhwy.so.1' if 'libhwy' in file.name else file.name}"
        copy = folder / Path(place).name
        _run("strip", "-o", str(copy), str(file))
        copy.chmod(0o755)
        placed[place] = copy
    return placed


def _entry(place: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{place},sha256={digest},{len(data)}"


def build_wheel(wheel_directory: str, config_settings: Optional[dict] = None, metadata_directory: Optional[str] = None) -> str:
    del metadata_directory
    version = _version()
    with tempfile.TemporaryDirectory() as folder:
        binaries = _staged(Path(folder), _cuda(config_settings))
        return _packed(Path(wheel_directory), version, f"py3-none-{policy_of(list(binaries.values()))}_{platform.machine()}", binaries)


def _texts(info: str, version: str, tag: str) -> Dict[str, str]:
    """The files of the wheel's dist-info, but RECORD."""
    return {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: mxcheck\nVersion: {version}\nRequires-Python: >=3.9\nSummary: Decides, bit for bit, whether MXFP8 "
                            "quantization and mixture-of-experts kernels are numerically right\nDescription-Content-Type: text/markdown\n\n"
                            + (ROOT / "README.md").read_text(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: mxcheck\nRoot-Is-Purelib: false\nTag: {tag}\n",
        f"{info}/entry_points.txt": "[console_scripts]\nmxcheck = mxcheck._tool:main\n[pytest11]\nmxcheck.pytest_plugin = mxcheck.pytest_plugin\n",
        f"{info}/LICENSE": (ROOT / "LICENSE").read_text(),
    }


def _packed(directory: Path, version: str, tag: str, binaries: Dict[str, Path]) -> str:
    """Writes the wheel; its name."""
    name, info = f"mxcheck-{version}-{tag}.whl", f"mxcheck-{version}.dist-info"
    record = []
    sources = {f"mxcheck/{file.relative_to(ROOT / 'python' / 'mxcheck')}": file
               for file in sorted((ROOT / "python" / "mxcheck").rglob("*")) if file.suffix in (".py", ".typed")}
    with zipfile.ZipFile(directory / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for place, file in {**sources, **binaries}.items():
            entry = zipfile.ZipInfo(place, (2020, 1, 1, 0, 0, 0))  # the same files give the same wheel
            entry.external_attr = (0o100755 if place in binaries else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            data = file.read_bytes()
            wheel.writestr(entry, data)
            record.append(_entry(place, data))
        for place, text in _texts(info, version, tag).items():
            wheel.writestr(zipfile.ZipInfo(place, (2020, 1, 1, 0, 0, 0)), text)
            record.append(_entry(place, text.encode()))
        wheel.writestr(zipfile.ZipInfo(f"{info}/RECORD", (2020, 1, 1, 0, 0, 0)), "\n".join([*record, f"{info}/RECORD,,"]) + "\n")
    return name


def build_sdist(sdist_directory: str, config_settings: Optional[dict] = None) -> str:
    """What git has."""
    del config_settings
    name = f"mxcheck-{_version()}"
    archive = Path(sdist_directory) / f"{name}.tar.gz"
    _run("git", "-C", str(ROOT), "archive", f"--prefix={name}/", "-o", str(archive), "HEAD")
    return archive.name
