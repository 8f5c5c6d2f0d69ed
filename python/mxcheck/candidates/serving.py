"""A process as a candidate's: libmxcheck_worker's loop over callables (bindings/worker/worker_c.h)."""

import ctypes
import os
import sys
from typing import Any, Dict, List, Optional

from .._errors import EnvironmentError_, Error
from . import tuning
from .calls import FAILED, OK, UNSUPPORTED, Call, claims, results_of
from .declare import Candidate
from .resolve import resolve, split, where
from .tensors import TYPE_NAMES, bytes_maker, numpy_maker, torch_maker, version_text

_WORDS, _TEXT_BYTES, _MESSAGE_BYTES = 320, 640, 512
_LACKS_DEVICE = 3
_CAPTURES, _WAITS, _STATIC_SHAPES = 1, 2, 4

_Load = ctypes.CFUNCTYPE(ctypes.c_int32)
_Supports = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)
_Run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)
_InThread = ctypes.CFUNCTYPE(None)


class _Operation(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("contract", ctypes.c_char_p), ("max_rows", ctypes.c_int64), ("max_cols", ctypes.c_int64),
                ("rows_multiple", ctypes.c_int64), ("cols_multiple", ctypes.c_int64), ("supports", ctypes.c_void_p),
                ("workspace", ctypes.c_void_p), ("run", ctypes.c_void_p)]


class _Hooks(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("load", _Load), ("supports", _Supports), ("run", _Run), ("in_thread", _InThread),
                ("words", ctypes.c_void_p), ("num_words", ctypes.c_int64), ("texts", ctypes.c_void_p), ("text_bytes", ctypes.c_int64),
                ("message", ctypes.c_void_p), ("problem", ctypes.c_char_p), ("name", ctypes.c_char_p), ("version", ctypes.c_char_p),
                ("files", ctypes.c_char_p), ("device", ctypes.c_int32), ("flags", ctypes.c_int32), ("num_operations", ctypes.c_int32),
                ("operations", ctypes.POINTER(_Operation))]


def open_library(path: str) -> Any:
    library = ctypes.CDLL(path)
    library.mxcheck_worker_begin.argtypes = [ctypes.c_int32]
    library.mxcheck_worker_begin.restype = ctypes.c_char_p
    library.mxcheck_worker_serve.argtypes = [ctypes.POINTER(_Hooks), ctypes.c_int32, ctypes.c_int32, ctypes.c_char_p]
    library.mxcheck_worker_serve.restype = ctypes.c_int32
    library.mxcheck_worker_tensor.argtypes = [ctypes.c_int32]
    library.mxcheck_worker_tensor.restype = ctypes.c_void_p
    return library


def files_of(candidates: List[Candidate]) -> str:
    """Sources of the user's that are loaded: not those of the interpreter, of installed packages, or of mxcheck."""
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    kept = set()
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if not path or not os.path.isfile(path):
            continue
        path = os.path.realpath(path)
        if path.startswith((ours, os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix))) or f"{os.sep}site-packages{os.sep}" in path:
            continue
        kept.add(path)
    return "".join(path + "\n" for path in sorted(kept))


class Served:
    """Holds all that the library has pointers to."""

    def __init__(self, library: Any, spec: str) -> None:
        self._library, self._spec = library, spec
        self._word_buffer = (ctypes.c_int64 * _WORDS)()
        self._text_buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        self._message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        self._calls: List[Call] = []
        self._keep: List[Any] = []
        self._hooks = _Hooks(ctypes.sizeof(_Hooks), _Load(self._load), _Supports(self._supports), _Run(self._run),
                             _InThread(library.mxcheck_worker_answer), ctypes.addressof(self._word_buffer), _WORDS,
                             ctypes.addressof(self._text_buffer), _TEXT_BYTES, ctypes.addressof(self._message))

    def serve(self, socket: int, shared: int, gpu_model: str) -> int:
        return int(self._library.mxcheck_worker_serve(ctypes.byref(self._hooks), socket, shared, gpu_model.encode()))

    def _load(self) -> int:
        try:
            module, name, number = split(self._spec)
            candidates = resolve(module, name)
            title = self._title(candidates, number)
            makers: Dict[str, Any] = {}
            words = memoryview(self._word_buffer).cast("B").cast("q")
            texts = memoryview(self._text_buffer)
            for one in candidates:
                if one.tensors not in makers:
                    makers[one.tensors] = {"numpy": numpy_maker, "torch": lambda: torch_maker(self._library), "bytes": bytes_maker}[one.tensors]()
                self._calls.append(Call(one, words, texts, makers[one.tensors], results_of(one)))
            if candidates[0].device == "cuda":
                _require_cuda()
            self._describe(candidates, title)
            return OK
        except EnvironmentError_ as error:
            self._fail(str(error))
            return _LACKS_DEVICE
        except Error as error:
            return self._fail(str(error))
        except BaseException as error:
            return self._fail("cannot be loaded: " + where(error))

    def _title(self, candidates: List[Candidate], number: Optional[int]) -> str:
        title = candidates[0].name if len(candidates) == 1 else self._spec.partition(":")[0].rpartition(".")[2]
        found = [configuration for one in candidates for configuration in tuning.configurations(one.function)]
        if number is None and len(found) > 1:
            raise Error(f"has {len(found)} configurations, and which one runs is a matter of timing: gate each, by mxcheck.gate() or by "
                        f"its number, {self._spec}@0 to @{len(found) - 1} ({'; '.join(one.text for one in found)[:200]})")
        if number is None:
            return title
        if number >= len(found):
            raise Error(f"has no configuration {number}: there are {len(found)}")
        for one in candidates:
            count = len(tuning.configurations(one.function))
            if number < count:
                return tuning.choose(one.function, number)
            number -= count
        return title

    def _describe(self, candidates: List[Candidate], title: str) -> None:
        operations = (_Operation * len(candidates))()
        for operation, one in zip(operations, candidates):
            any_strides = "+col_stride" if "col_stride" in one.options else ""
            operation.name, operation.contract = one.op.encode(), (one.contract + any_strides).encode()
            operation.max_rows, operation.max_cols, operation.rows_multiple, operation.cols_multiple = one.limits
        flags = 0
        if all(one.captures for one in candidates):
            flags |= _CAPTURES
        if any(one.waits for one in candidates):
            flags |= _WAITS
        if any(one.static_shapes for one in candidates):
            flags |= _STATIC_SHAPES
        hooks = self._hooks
        self._keep += [operations]
        hooks.name, hooks.version = title.encode("ascii", "replace"), version_text().encode("ascii", "replace")
        hooks.files = files_of(candidates).encode(errors="replace")
        hooks.device, hooks.flags = (2 if candidates[0].device == "cuda" else 1), flags
        hooks.num_operations = len(candidates)
        hooks.operations = ctypes.cast(operations, ctypes.POINTER(_Operation))

    def _fail(self, problem: str) -> int:
        self._hooks.problem = " ".join(problem.split()).encode("ascii", "replace")
        return FAILED

    def _supports(self, operation: int, code: int, bits: int) -> int:
        try:
            call = self._calls[operation]
            return OK if claims(call.of, call.policy(), TYPE_NAMES.get((code, bits))) else UNSUPPORTED
        except BaseException as error:
            sys.stderr.write(f"mxcheck: supports of {self._calls[operation].of.name} raised {where(error)}\n")
            return UNSUPPORTED

    def _run(self, operation: int) -> int:
        status, message = self._calls[operation].run()
        if status != OK:
            self._message.value = message.encode("ascii", "replace")[: _MESSAGE_BYTES - 1]
        return status


def _require_cuda() -> None:
    import torch

    if not torch.cuda.is_available():
        raise EnvironmentError_("needs a CUDA device: torch sees none here")
    torch.cuda.init()
    torch.cuda.set_device(0)
    torch.zeros(1, device="cuda")
