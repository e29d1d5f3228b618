"""The faults that ``python -m tests.mutants`` makes: each in one place, in code that compiles."""

from __future__ import annotations

import ast

import mutants
import pytest

FAULTS = [
    ("x = a < b", {"x = a <= b", "x = a >= b"}),
    ("x = (a)  # why\n", set()),
    ("if a == b: pass", {"if a != b: pass"}),
    ("if a: pass", {"if (not (a)): pass"}),
    ("x = a is  not b", {"x = a is b"}),
    ("x = (α) + (b)", {"x = (α) - (b)"}),  # two bytes a letter
    ("x = a and not b", {"x = a or not b", "x = a and (b)"}),
    ("x = -a**2", {"x = (a**2)", "x = -(a)", "x = -a**3"}),
    ("x *= 0.5", {"x /= 0.5", "x *= 1.0"}),
    ("x = a[1:n]", {"x = a[2:n]", "x = a[:n]", "x = a[1:]"}),
    ("x = A.T @ B", {"x = A @ B"}),
    ("x = np.sqrt(a.sum())", {"x = np.sqrt(a.mean())", "x = (a.sum())"}),
    ("x = [i for i in a if i]", {"x = [i for i in a if (not (i))]"}),
    ("check(a)", {"None"}),
    ("def f(a: Literal[1] = True): pass", {"def f(a: Literal[1] = False): pass"}),
    ("def f(a, random_state=0, *, b=2): pass", {"def f(a, random_state=0, *, b=3): pass"}),
    ("x = zip(a, b, strict=True)", set()),
    ("if a > 0: raise ValueError(f'{a + 1}' + 'b')", {"if a >= 0: raise ValueError(f'{a + 1}' + 'b')"}),
    ("def __repr__(self): return 1", set()),
    ("ROWS = 500", set()),
    ("x = 1e-12", set()),
]


@pytest.mark.parametrize(("source", "expected"), FAULTS)
def test_faults_of_a_line(source, expected):
    found = {mutant.after for mutant in mutants.Finder(f"{source}\n".encode(), "a.py").mutants()}
    if source.startswith("if a > 0"):
        expected = {*expected, source.replace(">", "<="), source.replace("> 0", "> 1")}
    assert found == expected


def test_one_place_changes_and_the_result_compiles():
    for mutant in mutants.sample(mutants.candidates(), 30, seed=1):
        old, new = (mutants.ROOT / mutant.file).read_bytes(), mutant.source()
        assert new[: mutant.start] == old[: mutant.start]
        assert new[mutant.start + len(mutant.new.encode()) :] == old[mutant.end :]
        assert ast.dump(ast.parse(new)) != ast.dump(ast.parse(old))


def test_same_seed_same_sample_whatever_other_files_hold():
    every = mutants.candidates(("kernels", "gram"))
    assert len({mutant.id for mutant in every}) == len(every)
    drawn = mutants.sample(every, 200, seed=3)
    assert drawn == mutants.sample(every[::-1], 200, seed=3)
    assert drawn != mutants.sample(every, 200, seed=4)
    kernels = [mutant for mutant in drawn if mutant.folder == "kernels"]
    assert kernels == mutants.sample(mutants.candidates(("kernels",)), len(kernels), seed=3)


def test_equivalent_mutants_exist():
    assert set(mutants.EQUIVALENT) <= {mutant.id for mutant in mutants.candidates()}
