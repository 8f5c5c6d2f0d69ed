"""libmxcheck_c, loaded with ctypes. Signatures come from the library itself, which has them from the table that its
header is made of (bindings/functions.inc): they cannot differ from what is called."""

import ctypes
import difflib
import os
import re
from pathlib import Path
from typing import Any, Dict, List

from ._errors import OF_RESULT, EnvironmentError_, InternalError

_NAME = "libmxcheck_c.so"

# A type of the table, without const; texts that are read are char_p, everything that is pointed at void_p.
_TYPES = {
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "uint8_t": ctypes.c_uint8,
}


def _type_of(argument: str) -> Any:
    match = re.fullmatch(r"(const )?(\w+)(\*?) \w+", " ".join(argument.split()))
    if match is None:
        raise EnvironmentError_(f"{_NAME} has an argument '{argument}' that this package cannot read: they differ in release")
    const, name, pointer = match.groups()
    if pointer:
        return ctypes.c_char_p if const and name == "char" else ctypes.c_void_p
    return _TYPES[name]


def parse_signatures(text: str) -> Dict[str, List[Any]]:
    """Argument types by function, of lines "NAME (TYPE NAME, ...)"."""
    functions = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(\w+) \((.*)\)", line.strip())
        if match is None:
            raise EnvironmentError_(f"{_NAME} has a signature '{line}' that this package cannot read: they differ in release")
        functions[match.group(1)] = [_type_of(argument) for argument in match.group(2).split(",")]
    return functions


def _places() -> List[Path]:
    given = os.environ.get("MXCHECK_C_LIBRARY")
    if given:
        return [Path(given)]
    here = Path(__file__).resolve().parent
    return [here / "lib" / _NAME, here.parents[1] / "build" / "release" / "lib" / _NAME]


def _load() -> ctypes.CDLL:
    places = _places()
    for place in places:
        if not place.is_file():
            continue
        try:
            library = ctypes.CDLL(str(place))
        except OSError as error:
            raise EnvironmentError_(f"{place} cannot be loaded: {error}") from None
        library.mxcheck_c_signatures.restype = ctypes.c_char_p
        for name, arguments in parse_signatures(library.mxcheck_c_signatures().decode()).items():
            function = getattr(library, name)
            function.argtypes = arguments
            function.restype = ctypes.c_int32
        return library
    raise EnvironmentError_(
        f"there is no {_NAME} at {' or '.join(map(str, places))}: build it with './run build mxcheck_c' in a checkout, or say "
        "where it is with MXCHECK_C_LIBRARY"
    )


_library = _load()


def call(name: str, *arguments: Any) -> None:
    """The function `name` of the table, an exception where it fails."""
    result = getattr(_library, name)(*arguments)
    if result != 0:
        raise OF_RESULT.get(result, InternalError)(with_near_name(text("mxcheck_c_error")))


def with_near_name(message: str) -> str:
    """A message about an unknown name, with the known name that is most like it: the library suggests names one slip away alone."""
    match = re.match(r"unknown [^']*'([^']*)'; known are ([^;]*)$", message)
    near = difflib.get_close_matches(match.group(1), match.group(2).split(", "), 1) if match else []
    return f"{message}; did you mean {near[0]!r}?" if near else message


def text(name: str, *arguments: bytes) -> str:
    """The text of a function of the table that gives one."""
    size = ctypes.c_int64()
    call(name, *arguments, None, 0, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value + 1)
    call(name, *arguments, buffer, len(buffer), ctypes.byref(size))
    return buffer.value.decode()


def version() -> str:
    """The release of the library."""
    return text("mxcheck_c_version")
