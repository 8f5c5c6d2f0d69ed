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


# By the results of bindings/mxcheck_c.h.
OF_RESULT = {1: UsageError, 2: InputError, 3: EnvironmentError_, 4: GoldenError, 5: InternalError}
