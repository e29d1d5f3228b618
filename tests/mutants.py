"""Mutation testing: would the tests notice a fault? Run by hand, from the root: ``python -m tests.mutants``.

A mutant is the package with one small fault, such as ``<`` for ``<=`` or a sum for a mean. A random sample of
them runs against the tests of its own folder that reach the changed line, then, if it survives, against the
other tests that reach it. The report gives the share caught by folder, and lists the survivors.

The source on disk does not change: a child process is forked for each mutant from a parent that has imported
the other packages, and an import hook in the child compiles the changed source. Code that tests run in
processes of their own therefore sees no mutant. Which test reaches which line, and how long it takes, is
recorded once per test file and kept in ``.cache/mutants``. A line that is computed once and remembered
(``functools.cache``, ``jax.jit``) counts as reached by the first test of a file only.
"""

from __future__ import annotations

import argparse
import ast
import csv
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import re
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "mutants"
FOLDERS = ("kernels", "gram", "embedding", "operators", "testing")
OTHERS = ("engine", "models")  # folders of tests that survivors meet as well

# Imported once, before the forks. Not blackjax and polars: their import starts threads, which do not
# survive a fork.
PRELOAD = (
    "numpy", "scipy.stats", "scipy.optimize", "scipy.sparse.linalg", "sklearn.base",
    "sklearn.model_selection", "jax", "jax.numpy", "jax.scipy.linalg", "equinox", "optax",
    "matplotlib.figure", "networkx", "rich", "typer", "joblib", "pytest", "hypothesis",
    "hypothesis.extra.numpy",
)  # fmt: skip

SLOWEST = 20  # seconds of processor time; slower tests are left out
BUDGET = 120  # seconds of processor time of the tests that a mutant meets in each of the two stages
MEMORY = 8 << 30  # bytes that a mutant may allocate

# Mutants that cannot change an answer, by id, each with the reason. They do not count in the share.
EQUIVALENT: dict[str, str] = {
    "00ad638a": "operators/bayes/kbr_b.py: the slower solve that is taken instead has the same answer.",
    "052fe58d": "gram/dense.py: the matrix is square.",
    "1bfc4899": "operators/deconditional.py: a count of operations, which decides between equal answers.",
    "27927d36": "gram/fourier.py: the size of a block.",
    "38e0452d": "operators/deconditional.py: a count of operations, which decides between equal answers.",
    "3d2edfd9": "operators/conditional.py: NumPy takes -2 for -1 in reshape.",
    "546bf05d": "gram/iterative.py: beta falls from order one to rounding at once, past either bound.",
    "6c85b13e": "testing/pc.py: the order of the rows of a resample does not matter.",
    "6f4f7d75": "testing/discover.py: the table has 20 rows or more, and prewhiten as many.",
    "7c5efaab": "embedding/reference.py: the size of a block.",
    "89e63e96": "testing/hadamard.py: 65 rows stand for all as well as 64.",
    "8b45938f": "embedding/reference.py: NumPy takes -2 for -1 in reshape.",
    "8fa72dc8": "operators/bags.py: the step of a difference quotient along a constant column.",
    "8faa9d4e": "operators/deconditional.py: a count of operations, which decides between equal answers.",
    "a69fd50f": "kernels/median.py: the halving never narrows and all gaps are sorted: slower, as exact.",
    "ab7960b9": "testing/independence.py: a rank of 301 is as good as one of 300.",
    "ab936a76": "gram/landmarks.py: the order of landmarks does not matter.",
    "bb63ad6e": "gram/octaves.py: NumPy takes -2 for -1 in reshape.",
    "cad22902": "gram/iterative.py: the length of a step along a direction that is zero.",
    "dcb73a95": "testing/forms.py: the size of a block.",
    "dcec672d": "testing/bank.py: a spread that is exactly the bound of rounding.",
}

# ---------------------------------------------------------------------------------------------------------
# The faults.

SKIPPED_FILES = {"drawing.py"}  # where the marks of a figure stand
SKIPPED_FUNCTIONS = {"__repr__", "__str__", "__rich__", "_repr_html_"}
SKIPPED_CALLS = {"warn", "_no"}  # their arguments are messages
# Arguments that change speed, memory or what our own code may do, and no answer.
SKIPPED_ARGUMENTS = {
    "strict", "check_finite", "overwrite_a", "overwrite_b", "copy", "stacklevel", "frozen", "eq",
}  # fmt: skip
SEEDS = {"random_state", "default_rng", "key"}  # another seed is as good
SMALLEST = 1e-6  # smaller constants guard against rounding: twice as much is as good

COMPARISONS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
REVERSED = {ast.Lt: ("<", ">="), ast.LtE: ("<=", ">"), ast.Gt: (">", "<="), ast.GtE: (">=", "<")}
ARITHMETIC = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "//"),
    ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
}  # fmt: skip
CALLS = {
    "min": "max", "max": "min", "argmin": "argmax", "argmax": "argmin", "minimum": "maximum",
    "maximum": "minimum", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor",
    "zeros": "ones", "ones": "zeros",
}  # fmt: skip
METHODS = {"sum": "mean", "mean": "sum", "std": "var", "var": "std"}  # no builtin mean, hence methods only
UNWRAPPED = {"sqrt", "abs", "sort"}  # f(x) becomes x
TEXT = (ast.JoinedStr, ast.List, ast.Tuple)


@dataclass(frozen=True)
class Mutant:
    """One fault: the bytes from ``start`` to ``end`` of a file become ``new``."""

    id: str
    file: str  # from the root, such as muhat/gram/dense.py
    line: int
    span: tuple[int, int]  # first and last line of the statement
    operator: str
    start: int
    end: int
    new: str
    before: str  # the lines that change
    after: str

    @property
    def folder(self) -> str:
        return self.file.split("/")[1]

    def source(self) -> bytes:
        """The file with the fault."""
        old = (ROOT / self.file).read_bytes()
        return old[: self.start] + self.new.encode() + old[self.end :]


class Finder:
    """Finds every fault of one source, by its syntax tree. Positions are bytes, as in ``ast``."""

    def __init__(self, source: bytes, file: str) -> None:
        self.source, self.file = source, file
        self.starts = [0]
        for line in source.split(b"\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)

    def mutants(self) -> list[Mutant]:
        found, seen = [], Counter()
        for where, statement, (operator, start, end, new) in self._walk(ast.parse(self.source), "", None):
            first = self.source.rfind(b"\n", 0, start) + 1
            last = self.source.find(b"\n", end)
            before = self.source[first:last].decode()
            after = (self.source[first:start] + new.encode() + self.source[end:last]).decode()
            key = "|".join((self.file, where, operator, before, str(start - first), after))
            seen[key] += 1
            name = hashlib.sha1(f"{key}|{seen[key]}".encode()).hexdigest()[:8]
            span = (statement.lineno, statement.end_lineno)
            if body := getattr(statement, "body", None):
                span = (statement.lineno, max(body[0].lineno - 1, statement.lineno))
            line = self.source.count(b"\n", 0, start) + 1
            before, after = " ".join(before.split()), " ".join(after.split())
            found.append(Mutant(name, self.file, line, span, operator, start, end, new, before, after))
        return found

    def _walk(self, node: ast.AST, where: str, statement: ast.stmt | None) -> Iterator[tuple]:
        """(qualified name, statement, edit) for each edit below the node, leaving out what is no code."""
        if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.arg)):
            return
        if isinstance(node, ast.keyword) and node.arg in SKIPPED_ARGUMENTS:
            return
        if isinstance(node, ast.Call) and name_of(node.func) in SKIPPED_CALLS | SEEDS:
            return
        if isinstance(node, ast.If) and name_of(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and not where:  # tuning constants of a module
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if all(name_of(target).isupper() for target in targets):
                return
        statement = node if isinstance(node, ast.stmt) else statement
        for edit in self._edits(node):
            yield where, statement, edit
        children: Iterable[ast.AST] = ast.iter_child_nodes(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name in SKIPPED_FUNCTIONS:
                return
            where = f"{where}.{node.name}"
            children = [*node.decorator_list, node.args, *node.body]
        elif isinstance(node, ast.arguments):
            names = [*node.posonlyargs, *node.args][
                len(node.posonlyargs) + len(node.args) - len(node.defaults) :
            ]
            pairs = zip((*names, *node.kwonlyargs), (*node.defaults, *node.kw_defaults), strict=False)
            children = [value for name, value in pairs if value and name.arg not in SEEDS]
        elif isinstance(node, ast.ClassDef):
            where = f"{where}.{node.name}"
        elif isinstance(node, ast.AnnAssign):
            children = [node.value] if node.value else []
        for child in children:
            yield from self._walk(child, where, statement)

    def _edits(self, node: ast.AST) -> Iterator[tuple[str, int, int, str]]:
        """(operator, start, end, new) for the faults of this node alone."""
        match node:
            case ast.Compare():
                sides = [node.left, *node.comparators]
                for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
                    yield from self._between("comparison", left, right, *COMPARISONS[type(op)])
                    if type(op) in REVERSED:
                        yield from self._between("comparison reversed", left, right, *REVERSED[type(op)])
            case ast.BinOp(left=left, right=right, op=op):
                text = any(isinstance(x, TEXT) or isinstance(constant(x), str) for x in (left, right))
                if isinstance(op, ast.Pow):
                    yield "power dropped", *self._place(node), f"({self._text(left)})"
                elif type(op) in ARITHMETIC and not text:
                    yield from self._between("arithmetic", left, right, *ARITHMETIC[type(op)])
            case ast.AugAssign(target=left, value=right, op=op) if type(op) in ARITHMETIC:
                old, new = ARITHMETIC[type(op)]
                yield from self._between("arithmetic", left, right, old + "=", new + "=")
            case ast.BoolOp(values=values, op=op):
                old, new = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
                for left, right in pairwise(values):
                    yield from self._between("and/or", left, right, old, new)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                yield "minus dropped", *self._place(node), f"({self._text(operand)})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield "not dropped", *self._place(node), f"({self._text(operand)})"
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                yield from self._negated(test)
            case ast.comprehension(ifs=tests):
                for test in tests:
                    yield from self._negated(test)
            case ast.Constant(value=bool() as value):
                yield "constant", *self._place(node), str(not value)
            case ast.Constant(value=int() as value):
                yield "constant", *self._place(node), str(value + 1)
            case ast.Constant(value=float() as value) if value == 0 or abs(value) >= SMALLEST:
                yield "constant", *self._place(node), repr(2 * value if value else 1.0)
            case ast.Slice(lower=lower, upper=upper):
                for bound in (lower, upper):
                    if bound is not None:
                        yield "bound dropped", *self._place(bound), ""
            case ast.Break():
                yield "break", *self._place(node), "continue"
            case ast.Continue():
                yield "continue", *self._place(node), "break"
            case ast.Expr(value=ast.Call()):
                yield "call dropped", *self._place(node), "None"
            case ast.Attribute(attr="T"):
                end = self._place(node)[1]
                if self.source[end - 2 : end] == b".T":
                    yield "transpose dropped", end - 2, end, ""
            case ast.Call(func=func, args=args):
                name, end = name_of(func), self._place(func)[1]
                if new := CALLS.get(name) or (isinstance(func, ast.Attribute) and METHODS.get(name)):
                    yield "call", end - len(name), end, new
                if name in UNWRAPPED and len(args) == 1 and not node.keywords:
                    yield "call unwrapped", *self._place(node), f"({self._text(args[0])})"

    def _place(self, node: ast.AST) -> tuple[int, int]:
        start = self.starts[node.lineno - 1] + node.col_offset
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.AST) -> str:
        start, end = self._place(node)
        return self.source[start:end].decode()

    def _between(self, operator: str, left: ast.AST, right: ast.AST, old: str, new: str) -> Iterator[tuple]:
        """The operator sign stands between two operands, after brackets, comments and line breaks."""
        start, end = self._place(left)[1], self._place(right)[0]
        sign = re.escape(old).replace(r"\ ", r"\s+").encode()
        if found := re.match(rb"(?:[\s)\\]|#[^\n]*)*(" + sign + rb")", self.source[start:end]):
            yield operator, start + found.start(1), start + found.end(1), new

    def _negated(self, test: ast.expr) -> Iterator[tuple]:
        """Not where a change of the comparison, or dropping a ``not``, is the same."""
        if (isinstance(test, ast.Compare) and len(test.ops) == 1) or isinstance(test, ast.UnaryOp):
            return
        yield "condition negated", *self._place(test), f"(not ({self._text(test)}))"


def name_of(node: ast.AST) -> str:
    """The last part of a dotted name."""
    return getattr(node, "attr", None) or getattr(node, "id", None) or ""


def constant(node: ast.AST) -> object:
    return getattr(node, "value", None) if isinstance(node, ast.Constant) else None


def candidates(folders: Iterable[str] = FOLDERS) -> list[Mutant]:
    """Every mutant of these folders that compiles."""
    found = []
    for folder in folders:
        for path in sorted((ROOT / "muhat" / folder).rglob("*.py")):
            if path.name not in SKIPPED_FILES:
                found += Finder(path.read_bytes(), path.relative_to(ROOT).as_posix()).mutants()
    return found


def sample(mutants: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """A uniform sample without replacement. A mutant's place in the draw depends on seed and id alone."""

    def draw(mutant: Mutant) -> str:
        return hashlib.sha1(f"{seed}|{mutant.id}".encode()).hexdigest()

    return sorted(mutants, key=draw)[:size]


# ---------------------------------------------------------------------------------------------------------
# A child process for each run of pytest.


class Mutated(importlib.machinery.SourceFileLoader):
    """Import hook: loads one module from a changed source, and leaves the others alone."""

    def __init__(self, mutant: Mutant) -> None:
        name = mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        super().__init__(name, str(ROOT / mutant.file))
        self.mutant = mutant

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name == self.name:
            return importlib.util.spec_from_file_location(name, self.path, loader=self)
        return None

    def get_code(self, fullname: str) -> object:
        return self.source_to_code(self.mutant.source(), self.path)


class Chosen:
    """Pytest plugin: runs the chosen tests, quick ones first, and remembers the one that failed."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds, self.failed = seconds, ""

    def pytest_collection_modifyitems(self, items: list) -> None:
        """By tens of durations, and within them by file, so that a module's fixtures are made once."""
        items[:] = [item for item in items if item.nodeid in self.seconds]
        items.sort(key=lambda item: (len(str(int(10 * self.seconds[item.nodeid]))), str(item.path)))

    def pytest_runtest_logreport(self, report: object) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


class Recorder:
    """Pytest plugin: the lines of the package that each test reaches, and its processor time."""

    def __init__(self) -> None:
        self.prefixes = tuple(f"{ROOT}/muhat/{folder}/" for folder in FOLDERS)
        self.imported: set = set()  # lines of modules and classes, and what they call
        self.shared: dict[object, set] = defaultdict(set)  # by fixture, or by file while it is collected
        self.tests: dict[str, dict] = {}
        self.now = self.imported

    def trace(self, frame: object, event: str, _: object) -> object:
        """Global trace function. Code of modules and classes runs once, at import, whoever comes first."""
        code = frame.f_code
        if not code.co_filename.startswith(self.prefixes):
            return None
        lines = self.now if code.co_flags & 1 else self.imported
        name = code.co_filename[len(str(ROOT)) + 1 :]

        def line(frame: object, event: str, _: object) -> object:
            lines.add((name, frame.f_lineno))
            return line

        return line(frame, event, None)

    def _into(self, lines: set) -> Iterator[None]:
        """Record into this set, and into the surrounding one when done."""
        outer, self.now = self.now, lines
        try:
            return (yield)
        finally:
            self.now = outer
            outer |= lines

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: object) -> Iterator[None]:
        return (yield from self._into(self.shared[collector.path]))

    def pytest_collection_modifyitems(self, items: list) -> None:
        items[:] = [item for item in items if not item.get_closest_marker("statistics")]

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: object) -> Iterator[None]:
        return (yield from self._into(self.shared[id(fixturedef)]))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: object) -> Iterator[None]:
        lines, began, outer = set(), time.process_time(), self.now
        self.tests[item.nodeid] = test = {"outcome": "passed"}
        signal.setitimer(signal.ITIMER_PROF, SLOWEST)
        result = yield from self._into(lines)
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.now = outer
        keys = [item.path, *(id(d) for defs in item._fixtureinfo.name2fixturedefs.values() for d in defs)]
        test["seconds"] = round(time.process_time() - began, 3)
        test["lines"] = by_file(lines.union(*(self.shared[key] for key in keys)))
        return result

    def pytest_runtest_logreport(self, report: object) -> None:
        if not report.passed:
            self.tests[report.nodeid]["outcome"] = report.outcome


def by_file(lines: set[tuple[str, int]]) -> dict[str, list[int]]:
    out = defaultdict(list)
    for file, line in sorted(lines):
        out[file].append(line)
    return out


def too_slow(*_: object) -> None:
    raise TimeoutError(f"slower than {SLOWEST} s: left out")


def pytest_run(tests: Path, files: Iterable[str], plugin: object, *options: str) -> int:
    """Run pytest in this process, on the tests' own tree and the package of this one."""
    import hypothesis

    hypothesis.settings.register_profile(  # the same examples each time; no time for the smallest example
        "mutants", derandomize=True, database=None, deadline=None, phases=("explicit", "generate")
    )
    hypothesis.settings.load_profile("mutants")
    os.chdir(tests.parent)
    sys.path[:0] = [str(ROOT), str(tests.parent)]
    quiet = ["-q", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", ""]
    quiet += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of plugins that the parent has imported
    return int(pytest.main([*quiet, *options, *files], plugins=[plugin]))


def record(tests: Path, file: str) -> dict:
    """In a child: which lines each test of a file reaches."""
    recorder = Recorder()
    signal.signal(signal.SIGPROF, too_slow)
    threading.settrace(recorder.trace)
    sys.settrace(recorder.trace)
    sys.path.insert(0, str(ROOT))
    import muhat  # noqa: F401  # what runs at import belongs to no test

    recorder.now = set()
    pytest_run(tests, [file], recorder)
    sys.settrace(None)
    return {"imported": by_file(recorder.imported), "tests": recorder.tests}


def attempt(tests: Path, mutant: Mutant, seconds: dict[str, float]) -> dict:
    """In a child: the exit code of pytest on a mutant, and the test that failed."""
    sys.meta_path.insert(0, Mutated(mutant))
    chosen = Chosen(seconds)
    code = pytest_run(tests, sorted({name.split("::")[0] for name in seconds}), chosen, "-x")
    return {"code": code, "by": chosen.failed or "collection"}


class Children:
    """Forks children that do some work each, at most ``jobs`` at once, and yields their answers."""

    def __init__(self, jobs: int) -> None:
        self.jobs, self.running = jobs, {}
        self.folder = tempfile.TemporaryDirectory(prefix="mutants-")  # removed when the parent ends

    def run(self, work: Iterable[tuple]) -> Iterator[tuple[object, dict, float]]:
        """``work`` is of (key, limit in processor seconds, function, arguments)."""
        try:
            for key, limit, function, arguments in work:
                while len(self.running) >= self.jobs:
                    yield self._one()
                out = Path(self.folder.name) / f"{time.monotonic_ns()}"
                pid = os.fork()
                if pid == 0:
                    self._child(out, limit, function, arguments)
                # A child that waits for ever uses no processor time: the clock ends it.
                self.running[pid] = (key, out, time.monotonic(), 5 * limit)
            while self.running:
                yield self._one()
        finally:  # interrupted
            for pid in self.running:
                os.killpg(pid, signal.SIGKILL)

    def _child(self, out: Path, limit: float, function: object, arguments: tuple) -> None:
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            log = os.open(out.with_suffix(".log"), os.O_WRONLY | os.O_CREAT)
            os.dup2(log, 1)
            os.dup2(log, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + int(time.process_time()), -1))
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            out.with_suffix(".json").write_text(json.dumps(function(*arguments)))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)

    def _one(self) -> tuple[object, dict, float]:
        """The next child that ends. Without an answer it ran out of time, or crashed."""
        while True:
            for pid, (key, out, began, patience) in self.running.items():
                done, status, usage = os.wait4(pid, os.WNOHANG)
                late = not done and time.monotonic() - began > patience
                if late:
                    os.killpg(pid, signal.SIGKILL)
                    done, status, usage = os.wait4(pid, 0)
                if not done:
                    continue
                del self.running[pid]
                seconds = usage.ru_utime + usage.ru_stime
                answer = {"code": "timeout" if late or os.WTERMSIG(status) == signal.SIGXCPU else "crash"}
                if out.with_suffix(".json").exists():
                    answer = json.loads(out.with_suffix(".json").read_text())
                return key, {**answer, "log": out.with_suffix(".log").read_text(errors="replace")}, seconds
            time.sleep(0.02)


# ---------------------------------------------------------------------------------------------------------
# Reach.


def digest(*paths: Path) -> str:
    out = hashlib.sha1()
    for path in sorted(paths):
        out.update(path.name.encode() + b"\0" + path.read_bytes())
    return out.hexdigest()[:16]


class Reach:
    """Which tests reach which lines: from the cache, or recorded now."""

    def __init__(self, tests: Path, children: Children) -> None:
        self.tests, self.children = tests, children
        helpers = [
            p for p in tests.rglob("*.py") if not p.name.startswith("test_") and p.name != "mutants.py"
        ]
        self.state = digest(*(ROOT / "muhat").rglob("*.py")) + digest(*helpers)
        self.seconds: dict[str, float] = {}
        self.of_line: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.of_file: dict[str, set[str]] = defaultdict(set)
        self.imported: set[tuple[str, int]] = set()
        self.left_out: list[str] = []
        self.folders: set[str] = set()

    def add(self, folders: Iterable[str]) -> None:
        """Read the test files of these folders, after recording those that are not in the cache."""
        CACHE.mkdir(parents=True, exist_ok=True)
        folders = [folder for folder in dict.fromkeys(folders) if folder not in self.folders]
        self.folders.update(folders)
        paths = [p for folder in folders for p in sorted((self.tests / folder).glob("test_*.py"))]
        kept = {path: CACHE / f"reach-{self.state}-{digest(path)}.json" for path in paths}
        files = {path: path.relative_to(self.tests.parent).as_posix() for path in paths}
        new = [(path, 3600, record, (self.tests, files[path])) for path in paths if not kept[path].exists()]
        for path, answer, seconds in self.children.run(new):
            if "tests" not in answer:
                raise RuntimeError(f"no test of {path} could be recorded:\n{answer['log']}")
            print(f"recorded {files[path]}: {len(answer['tests'])} tests, {seconds:.0f} s", flush=True)
            del answer["log"]
            kept[path].write_text(json.dumps(answer))
        for path in paths:
            self._read(json.loads(kept[path].read_text()))

    def _read(self, answer: dict) -> None:
        self.imported |= {(file, line) for file, lines in answer["imported"].items() for line in lines}
        for name, test in answer["tests"].items():
            if test["outcome"] == "failed":
                self.left_out.append(name)
            if test["outcome"] != "passed":
                continue
            self.seconds[name] = test["seconds"]
            for file, lines in test["lines"].items():
                self.of_file[file].add(name)
                for line in lines:
                    self.of_line[file, line].add(name)

    def tests_of(self, mutant: Mutant) -> set[str]:
        """Those that run a line of the statement; for a line that runs at import, all that use the file."""
        lines = [(mutant.file, line) for line in range(mutant.span[0], mutant.span[1] + 1)]
        found = set().union(*(self.of_line[line] for line in lines))
        return found | self.of_file[mutant.file] if self.imported.intersection(lines) else found


# ---------------------------------------------------------------------------------------------------------
# Verdicts.

COLUMNS = (
    "id", "file", "line", "operator", "before", "after",
    "verdict",  # caught, timeout, survived, no test reaches it, equivalent
    "stage",  # own, or others: of the last tests it met
    "by", "tests", "not_tried", "seconds",
)  # fmt: skip
CAUGHT = ("caught", "timeout")


class Results:
    """The verdicts so far, in a CSV file that a later run takes up."""

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, {}
        if path.exists():
            with path.open(newline="") as file:
                self.rows = {row["id"]: row for row in csv.DictReader(file)}

    def stage(self, mutant: Mutant) -> str:
        return self.rows.get(mutant.id, {}).get("stage", "")

    def verdict(self, mutant: Mutant) -> str:
        return self.rows.get(mutant.id, {}).get("verdict", "")

    def write(self, mutant: Mutant, **found: object) -> None:
        old = self.rows.get(mutant.id, {"tests": 0, "not_tried": 0, "seconds": 0})
        for name in ("tests", "not_tried", "seconds"):
            found[name] = round(float(old[name]) + found.get(name, 0), 1)
        fixed = {name: getattr(mutant, name) for name in COLUMNS[:6]}
        self.rows[mutant.id] = {**fixed, "by": "", **found}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        with part.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(self.rows.values())
        part.replace(self.path)


def meet(mutants: list[Mutant], stage: str, reach: Reach, results: Results, budget: float) -> None:
    """Run mutants against the tests of their own folder, or against all others, and write the verdicts."""
    work, size = [], {}
    for mutant in mutants:
        own = f"{reach.tests.name}/{mutant.folder}/"
        found = [name for name in reach.tests_of(mutant) if name.startswith(own) == (stage == "own")]
        seconds, total = {}, 0.0
        for name in sorted(found, key=lambda name: (reach.seconds[name], name)):
            total += reach.seconds[name]
            if total <= budget:
                seconds[name] = reach.seconds[name]
        size[mutant] = {"tests": len(seconds), "not_tried": len(found) - len(seconds)}
        if seconds:
            # Three times what the tests took while they were traced, and time to import and collect.
            work.append((mutant, 3 * sum(seconds.values()) + 30, attempt, (reach.tests, mutant, seconds)))
        else:
            verdict = results.verdict(mutant) if stage == "others" else "no test reaches it"
            results.write(mutant, verdict=verdict, stage=stage, **size[mutant])
    for mutant, answer, seconds in reach.children.run(work):
        code = answer["code"]
        if code in (4, 5):
            raise RuntimeError(f"pytest could not run for {mutant}:\n{answer['log']}")
        verdict = "survived" if code == 0 else "timeout" if code == "timeout" else "caught"
        by = code if isinstance(code, str) else answer["by"] if code else ""
        results.write(mutant, verdict=verdict, stage=stage, by=by, seconds=seconds, **size[mutant])
        print(f"{verdict:9} {mutant.file}:{mutant.line}  {mutant.after}  {by}  {seconds:.0f} s", flush=True)


def report(mutants: list[Mutant], results: Results, reach: Reach) -> None:
    """The share caught by folder, then the survivors."""
    rows = [{**results.rows[mutant.id], "folder": mutant.folder} for mutant in mutants]
    head = ("folder", "mutants", "caught by own", "caught", "survived", "not reached", "equivalent", "share")
    print("\n" + "  ".join(f"{name:>13}" for name in head))
    for folder in (*FOLDERS, "all"):
        mine = [row for row in rows if folder in (row["folder"], "all")]
        count = Counter(row["verdict"] for row in mine)
        caught = [row for row in mine if row["verdict"] in CAUGHT]
        own = sum(row["stage"] == "own" for row in caught)
        missed = count["survived"], count["no test reaches it"]
        real = len(caught) + sum(missed)
        share = f"{len(caught) / real:.0%}" if real else "-"
        values = (folder, len(mine), own, len(caught), *missed, count["equivalent"], share)
        print("  ".join(f"{value:>13}" for value in values))
    for row in rows:
        if row["verdict"] in ("survived", "no test reaches it"):
            left = int(float(row["not_tried"]))
            note = f" ({left} tests not tried: over the budget)" if left else ""
            print(f"\n{row['id']} {row['file']}:{row['line']} {row['operator']}: {row['verdict']}{note}")
            print(f"  - {row['before']}\n  + {row['after']}")
    if reach.left_out:
        print(f"\nNot used, because they failed or took over {SLOWEST} s without a fault:")
        print("\n".join(f"  {name}" for name in reach.left_out))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, default=150, help="mutants drawn from all folders together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", choices=FOLDERS, help="only the drawn mutants of this folder")
    parser.add_argument("--tests", type=Path, default=ROOT / "tests", help="another tree of tests")
    parser.add_argument("--others", nargs="*", default=OTHERS, help="folders of tests for survivors")
    parser.add_argument("--budget", type=float, default=BUDGET, help="processor seconds of tests a stage")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, help="CSV of the verdicts; a run with the same file resumes")
    parser.add_argument("--quick", action="store_true", help="5 mutants, tests of their own folder only")
    options = parser.parse_args()
    if not (options.tests.resolve().parent / "pyproject.toml").exists():
        parser.error(
            f"--tests must lie in a checkout, beside the settings in pyproject.toml: {options.tests}"
        )

    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in PRELOAD:
            importlib.import_module(name)
    warnings.filterwarnings("ignore", "os.fork")  # of JAX, which has no threads before its first computation

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # takes the children along

    mutants = sample(candidates(), 5 if options.quick else options.sample, options.seed)
    mutants = [mutant for mutant in mutants if options.folder in (None, mutant.folder)]
    reach = Reach(options.tests.resolve(), Children(options.jobs))
    reach.add(mutant.folder for mutant in mutants)
    results = Results(options.out or CACHE / f"seed{options.seed}-{digest(*reach.tests.rglob('*.py'))}.csv")
    for mutant in mutants:
        if mutant.id in EQUIVALENT:
            results.write(mutant, verdict="equivalent", stage="others", by=EQUIVALENT[mutant.id])
    new = [mutant for mutant in mutants if not results.stage(mutant)]
    meet(new, "own", reach, results, options.budget)
    left = [m for m in mutants if results.verdict(m) not in CAUGHT and results.stage(m) == "own"]
    if left and not options.quick:
        reach.add((*FOLDERS, *options.others))
        meet(left, "others", reach, results, options.budget)
    report(mutants, results, reach)
    print(f"\n{results.path}")


if __name__ == "__main__":
    main()
