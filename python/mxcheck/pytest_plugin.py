"""pytest: a test for each statement of the gate about each candidate.

    # test_kernels.py                      pytest -p mxcheck.pytest_plugin    (installed: no -p)
    import mxcheck, my_kernels
    test_quantize = mxcheck.pytest_plugin.gate_test(my_kernels.quantize)

or, without a line of Python, `pytest --mxcheck-candidate my_kernels:quantize test_kernels.py`. A failure's text is the counterexample. A
candidate that there is not is an error when tests are collected.
--mxcheck-seed gives the seed of a run again, which the header of every run prints; without it one is drawn, the same for all workers of
pytest-xdist. Statements about a candidate are run by one process of the gate when the first of them is asked for.

An entry point of the group pytest11 must have the module's own name, "mxcheck.pytest_plugin": pytest refuses a module under two names, which
`-p` and an entry point of another name would give it.
"""

import random
from typing import Any, Callable, Dict, List, Optional, Tuple

import pytest

from ._errors import Error
from .candidates.gating import Report, configurations_of, gate, library_of, list_statements, spec_of

_MOST_TEXT = 60_000  # of a failure: JUnit's readers have limits
_IMPORT_LIMIT = 300.0  # seconds, as mxcheck.gate's of a first call
_seed_key = pytest.StashKey[int]()


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("mxcheck", "kernels against their bit-exact reference (mxcheck)")
    group.addoption("--mxcheck-suite", default="quick", choices=("quick", "full", "exhaustive"), help="how much each candidate is asked (default: quick)")
    group.addoption("--mxcheck-seed", type=int, default=None, help="seed of the cases; a fresh one is drawn and printed if not given")
    group.addoption("--mxcheck-candidate", action="append", default=[], metavar="MODULE:NAME", help="gate this candidate too; may be repeated")
    group.addoption("--mxcheck-only", default="*", metavar="GLOB", help="statements by name (default: all)")


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "mxcheck_gate: a statement of the gate about a candidate")
    config.addinivalue_line("markers", "xdist_group(name): one worker of pytest-xdist")  # known without it too
    given = config.getoption("--mxcheck-seed")
    of_worker = getattr(config, "workerinput", {}).get("mxcheck_seed")  # pytest-xdist: the controller's
    config.stash[_seed_key] = given if given is not None else of_worker if of_worker is not None else random.SystemRandom().randrange(1 << 48)
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(_ForXdist(config))


class _ForXdist:
    """Gives the workers the seed. Registered with pytest-xdist alone, whose hook it is."""

    def __init__(self, config: Any) -> None:
        self._seed = config.stash[_seed_key]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["mxcheck_seed"] = self._seed


def pytest_report_header(config: Any) -> str:
    return f"mxcheck: seed {config.stash[_seed_key]} (--mxcheck-seed), suite {config.getoption('--mxcheck-suite')}"


_reports: Dict[Tuple[Any, ...], Report] = {}


def _report_of(spec: str, config: Any, options: Dict[str, Any]) -> Report:
    """One run for all statements that this process is asked for."""
    key = (spec, tuple(sorted(options.items())))
    if key not in _reports:
        arguments = {"suite": config.getoption("--mxcheck-suite"), "seed": config.stash[_seed_key], "only": config.getoption("--mxcheck-only"), **options}
        _reports[key] = gate(spec, **arguments)
    return _reports[key]


def _check(spec: str, statement: str, config: Any, options: Dict[str, Any]) -> None:
    __tracebackhide__ = True
    try:
        report = _report_of(spec, config, options)
    except Error as error:
        pytest.fail(f"mxcheck: {error}", pytrace=False)
    parts = report.configurations or (report,)
    found = [(part, one) for part in parts for one in part.statements if one.name == statement]
    # The last item wraps up a run: it fails for a process that did not end in order, or where nothing was checked.
    if statement == SOMETHING_RAN:
        ends = [end for part in parts for end in part.document.get("ends", ())]
        if ends:
            pytest.fail("mxcheck: after all statements: " + "; ".join(ends), pytrace=False)
        if not any(one.cases for part in parts for one in part.statements):
            pytest.fail(f"mxcheck: nothing was checked: {spec} offers nothing that a statement is about", pytrace=False)
        return
    if all(one.verdict == "not offered" for _, one in found):
        pytest.skip(found[0][1].reason if found else "not about candidates of this device")
    failed = [(part, one) for part, one in found if one.verdict in ("failed", "inconclusive")]
    if failed:
        texts = [f"{part.configuration + ': ' if part.configuration else ''}{one.text or one.reason}" for part, one in failed]
        pytest.fail(f"mxcheck: seed {report.seed}\n" + "\n".join(texts)[:_MOST_TEXT], pytrace=False)


SOMETHING_RAN = "something_is_checked_and_the_process_ends_in_order"


def _found(candidate: Any) -> str:
    """The candidate's MODULE:NAME, or its library. One that is given as text is looked up by a process of its own, as the gate's: UsageError where it is not
    there."""
    library = library_of(candidate)
    if library:
        return library
    spec = spec_of(candidate)
    if isinstance(candidate, str):
        configurations_of(spec, _IMPORT_LIMIT)
    return spec


def gate_test(candidate: Any, only: Optional[str] = None, **options: Any) -> Callable[..., None]:
    """A parametrized test: one item a statement. candidate and options are those of mxcheck.gate; suite and seed come from the command
    line unless they are given here. UsageError, at collection, for a candidate that there is not."""
    if only is not None:
        options["only"] = only
    spec = _found(candidate)
    names: List[str] = [*list_statements(only or "*"), SOMETHING_RAN]

    @pytest.mark.mxcheck_gate
    @pytest.mark.xdist_group(f"mxcheck {spec}")  # --dist loadgroup: one worker, one run
    @pytest.mark.parametrize("statement", names)
    def test(statement: str, pytestconfig: Any) -> None:
        __tracebackhide__ = True
        _check(spec, statement, pytestconfig, options)

    test.__doc__ = f"{spec}: the statements of mxcheck gate."
    made: Callable[..., None] = test
    return made


class _Candidates(pytest.Collector):
    """The candidates that --mxcheck-candidate names."""

    def collect(self) -> Any:
        for candidate in self.config.getoption("--mxcheck-candidate"):
            try:
                spec = _found(candidate)
            except Error as error:
                raise pytest.UsageError(f"--mxcheck-candidate {candidate}: {error}") from None
            for statement in [*list_statements(self.config.getoption("--mxcheck-only")), SOMETHING_RAN]:
                yield _Item.from_parent(self, name=f"{spec}[{statement}]", spec=spec, statement=statement)


class _Item(pytest.Item):
    def __init__(self, *, spec: str, statement: str, **more: Any) -> None:
        super().__init__(**more)
        self._spec, self._statement = spec, statement
        self.add_marker("mxcheck_gate")

    def runtest(self) -> None:
        _check(self._spec, self._statement, self.config, {})

    def reportinfo(self) -> Any:
        return self.path, None, self.name


def pytest_collection_modifyitems(session: Any, config: Any, items: List[Any]) -> None:
    if config.getoption("--mxcheck-candidate"):
        collector = _Candidates.from_parent(session, name="mxcheck", path=config.rootpath, nodeid="mxcheck")
        items.extend(collector.collect())
