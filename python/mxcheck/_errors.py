"""One exception a kind of error; the text says what was wrong, where, and what would be right."""


class Error(Exception):
    """Any error of mxcheck."""


class UsageError(Error, ValueError):
    """An invalid request: an unknown name, shapes or types that do not fit."""


class InputError(Error, ValueError):
    """A tensor that is not what it should be: a NaN that is to be refused, a code wider than its format."""


class GoldenError(InputError):
    """A golden that is missing, changed, damaged, or not in its manifest."""


class EnvironmentError_(Error, OSError):
    """The machine lacks something: memory, the library."""


class InternalError(Error, RuntimeError):
    """A bug in mxcheck."""


# Names as callers know them: a traceback says mxcheck.UsageError.
for _error in (Error, UsageError, InputError, GoldenError, EnvironmentError_, InternalError):
    _error.__module__, _error.__name__, _error.__qualname__ = ("mxcheck", *[_error.__name__.rstrip("_")] * 2)

# Kind, result of bindings/mxcheck_c.h, exit code of the program, exception: the rows of numerics/error.h.
# tests/bindings/at_speed_test.cc compares.
_TABLE = (
    ("usage", 1, 2, UsageError),
    ("input", 2, 2, InputError),
    ("environment", 3, 3, EnvironmentError_),
    ("golden", 4, 5, GoldenError),
    ("internal", 5, 70, InternalError),
)
OF_RESULT = {result: error for _, result, _, error in _TABLE}
# Where several kinds have a code, the first.
OF_EXIT_CODE = {code: error for _, _, code, error in reversed(_TABLE)}
