"""A run of the gate whose progress is seen: where standard error is a terminal, the program has one too."""

import fcntl
import os
import pty
import re
import subprocess
import sys
import termios
import threading
from typing import Dict, List, Optional, Tuple

_LAST_WORDS = 30.0  # seconds that a gate has to end in order
_CONTROLS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def _open_terminal() -> Tuple[int, int]:
    """Both ends of a terminal as wide as ours, which changes no newlines."""
    ours, theirs = pty.openpty()
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    try:
        size = fcntl.ioctl(sys.stderr.fileno(), termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    except (OSError, ValueError):  # no size is known
        pass
    return ours, theirs


def _pass_on(terminal: int, kept: List[bytes]) -> None:
    while True:
        try:
            data = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            return
        if not data:
            return
        kept.append(data)
        sys.stderr.write(data.decode(errors="replace"))
        sys.stderr.flush()


def _wait(process: "subprocess.Popen[bytes]", timeout: Optional[float]) -> Tuple[bytes, bytes]:
    try:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.terminate()  # the gate ends in order, and tells what had run
            out, err = process.communicate(timeout=_LAST_WORDS)  # else its child is held by the driver: nobody waits for that
    except BaseException as error:
        process.kill()
        if not isinstance(error, subprocess.TimeoutExpired):
            process.wait()
        raise
    return out, err or b""


def communicate(command: List[str], environment: Dict[str, str], timeout: Optional[float]) -> Tuple[int, bytes, str, bool]:
    """Exit code, standard output and standard error of a program, and whether the last was shown while it ran. TimeoutExpired where it did not
    end in time, nor when it was told to."""
    if sys.stderr is None or not sys.stderr.isatty():
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            out, err = _wait(process, timeout)
        return process.returncode, out, err.decode(errors="replace"), False
    ours, theirs = _open_terminal()
    kept: List[bytes] = []
    try:
        try:
            with_terminal = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=theirs)
        finally:
            os.close(theirs)
        reader = threading.Thread(target=_pass_on, args=(ours, kept), daemon=True)
        reader.start()
        out, _ = _wait(with_terminal, timeout)
        reader.join(1.0)  # what the program left running may hold the terminal
    finally:
        os.close(ours)
    return with_terminal.returncode, out, _CONTROLS.sub("", b"".join(kept).decode(errors="replace")).replace("\r", "\n"), True
