"""Where rows belong together and there is nothing to find, tests that know it keep their level.

Each rate is over 500 nulls of few rows; it must lie between .026 and .076, where 99% of the rates of a test
at the level 0.05 lie. Tests that do not know of the clusters reject far more often.
"""

import numpy as np
import pytest

import muhat as mh

RUNS, LEVEL, BAND = 500, 0.05, (0.026, 0.076)
FEW = {"permutations": 39}

pytestmark = pytest.mark.statistics


def rate(pvalue, runs=RUNS):
    rng = np.random.default_rng(0)
    return float(np.mean([pvalue(rng) <= LEVEL for _ in range(runs)]))


def clusters(rng, sizes, columns=1):
    """Columns that vary twice as much between clusters as within, and the cluster of each row."""
    g = np.repeat(np.arange(len(sizes)), sizes)
    return g, 2 * rng.normal(size=(columns, len(sizes)))[:, g] + rng.normal(size=(columns, len(g)))


def keeps(name, pvalue):
    found = rate(pvalue)
    print(f"level of {name}: {found:.3f}", flush=True)
    assert BAND[0] <= found <= BAND[1], f"{name} rejects {found:.3f} of the nulls"


def loses(name, pvalue):
    found = rate(pvalue, 200)
    print(f"level of {name}: {found:.3f}", flush=True)
    assert found > 0.15, f"{name} rejects only {found:.3f} of the nulls"


def two_samples(known, uneven=False, method="permutation"):
    def pvalue(rng):
        sizes = rng.integers(2, 7, 16) if uneven else np.full(16, 4)
        g, (v,) = clusters(rng, sizes)
        first = g < 8
        groups = (g[first], g[~first]) if known else None
        return mh.two_sample_test(
            v[first], v[~first], "median", method, groups=groups, random_state=rng, **FEW
        ).pvalue

    return pvalue


def pairs(known, uneven=False, method="permutation", kernel="median"):
    def pvalue(rng):
        g, (x, y) = clusters(rng, rng.integers(2, 7, 20) if uneven else np.full(14, 4), 2)
        given = {"groups": g} if known else {}
        return mh.independence_test(x, y, kernel, kernel, method, random_state=rng, **given, **FEW).pvalue

    return pvalue


def conditional(known, method="kci"):
    def pvalue(rng):
        g, (x, y, z) = clusters(rng, np.full(30, 4), 3)
        given = {"groups": g} if known else {}
        return mh.conditional_independence_test(
            x + np.sin(z), y + z, z, method=method, random_state=rng, **given, **FEW
        ).pvalue

    return pvalue


class TestClusters:
    def test_two_samples(self):
        keeps("two samples, groups", two_samples(True))
        keeps("two samples, groups of several sizes", two_samples(True, True))
        loses("two samples, rows", two_samples(False))

    def test_two_samples_by_multipliers(self):
        found = rate(two_samples(True, True, "wild"))
        print(f"level of two samples, multipliers of 16 groups: {found:.3f}", flush=True)
        assert found <= 0.1  # eight groups a sample are few for a bootstrap

    def test_people_measured_twice(self):
        """Both samples have the same people: a plain test hardly ever rejects."""

        def pvalue(rng):
            people = np.arange(15)
            level = rng.normal(size=15)
            x, y = level + 0.5 * rng.normal(size=(2, 15))
            return mh.two_sample_test(x, y, "median", groups=(people, people), random_state=rng, **FEW).pvalue

        keeps("two samples, pairs", pvalue)

    def test_dependence(self):
        keeps("dependence, groups", pairs(True))
        keeps("dependence, groups, many kernels", pairs(True, kernel=None))
        loses("dependence, rows", pairs(False))

    def test_dependence_by_multipliers(self):
        keeps("dependence, multipliers of groups", pairs(True, True, "wild"))
        loses("dependence, rows of groups of several sizes", pairs(False, True))

    def test_dependence_on_what_groups_have_in_common(self):
        """A treatment of whole clinics."""

        def one(known):
            def pvalue(rng):
                g, (y,) = clusters(rng, rng.integers(2, 7, 16))
                x = (rng.permutation(16) < 8)[g].astype(float)
                given = {"groups": g} if known else {}
                return mh.independence_test(x, y, "median", "median", random_state=rng, **given, **FEW).pvalue

            return pvalue

        keeps("treatment of groups", one(True))
        loses("treatment of groups, rows", one(False))

    @pytest.mark.parametrize("method", ["kci", "residual"])
    def test_conditional(self, method):
        keeps(f"given z by {method}, groups", conditional(True, method))
        loses(f"given z by {method}, rows", conditional(False, method))


class TestStrata:
    @pytest.mark.filterwarnings("ignore:There are only:UserWarning")  # a stratum may hold one sample alone
    def test_two_samples_and_dependence(self):
        def draw(rng):
            s = rng.integers(0, 3, 36)
            first = rng.random(36) < 0.25 + 0.25 * s
            return s, first, 1.5 * s + rng.normal(size=36), 1.5 * s + rng.normal(size=36)

        def two(known):
            def pvalue(rng):
                s, first, x, _ = draw(rng)
                given = {"strata": (s[first], s[~first])} if known else {}
                return mh.two_sample_test(
                    x[first], x[~first], "median", random_state=rng, **given, **FEW
                ).pvalue

            return pvalue

        def dependence(known):
            def pvalue(rng):
                s, _, x, y = draw(rng)
                given = {"strata": s} if known else {}
                return mh.independence_test(x, y, "median", "median", random_state=rng, **given, **FEW).pvalue

            return pvalue

        for name, make in (("two samples", two), ("dependence", dependence)):
            keeps(f"{name}, strata", make(True))
            loses(f"{name}, no strata", make(False))

    @pytest.mark.parametrize("strata", [3, 30])
    def test_conditional(self, strata):
        """Few large strata, and many of four rows each."""

        def pvalue(rng):
            s = np.arange(120) % strata
            level = 2 * rng.normal(size=strata)[s]
            z = level / 2 + rng.normal(size=120)
            x, y = level + 2 * z + rng.normal(size=120), level + z + rng.normal(size=120)
            return mh.conditional_independence_test(x, y, z, strata=s, random_state=rng, **FEW).pvalue

        found = rate(pvalue, 200)
        print(f"level of given z, {strata} strata: {found:.3f}", flush=True)
        assert found <= 0.1  # regressions on 120 rows


def biased_sample(rng, rows, draw, weight):
    """Rows of a population, drawn with probability 1/weight, and their weights."""
    V = draw(30 * rows)
    w = weight(*V)
    kept = np.flatnonzero(rng.random(30 * rows) < 1 / w)[:rows]
    return V[:, kept], w[kept]


class TestWeights:
    @pytest.mark.parametrize(
        ("name", "weight"),
        [
            ("x", lambda x, y: 1 + np.exp(x)),
            ("both", lambda x, y: 1 + 4 * ((x > 0) | (y > 0))),
        ],
    )
    def test_dependence(self, name, weight):
        def one(known):
            def pvalue(rng):
                (x, y), w = biased_sample(rng, 60, lambda n: rng.normal(size=(2, n)), weight)
                given = {"weights": w} if known else {}
                return mh.independence_test(x, y, "median", "median", random_state=rng, **given, **FEW).pvalue

            return pvalue

        keeps(f"dependence, weights by {name}", one(True))
        if name == "both":  # rows that are drawn by x and y depend
            assert rate(one(False), 200) > 0.1

    @pytest.mark.parametrize("both", [True, False])
    def test_two_samples(self, both):
        def one(known):
            def pvalue(rng):
                (x,), w = biased_sample(rng, 60, lambda n: rng.normal(size=(1, n)), lambda x: 1 + np.exp(x))
                if both:
                    (y,), v = biased_sample(
                        rng, 60, lambda n: rng.normal(size=(1, n)), lambda x: 1 + np.exp(x)
                    )
                else:
                    y, v = rng.normal(size=60), None
                given = {"weights": (w, v)} if known else {}
                return mh.two_sample_test(x, y, "median", random_state=rng, **given, **FEW).pvalue

            return pvalue

        keeps(f"two samples, weights in {'both' if both else 'one'}", one(True))
        if not both:
            loses("two samples, weights ignored", one(False))

    def test_conditional(self):
        def pvalue(rng):
            (x, y, z), w = biased_sample(
                rng, 100, lambda n: rng.normal(size=(3, n)), lambda x, y, z: 1 + np.exp(0.7 * x)
            )
            return mh.conditional_independence_test(
                x + np.sin(z), y + z, z, weights=w, random_state=rng, **FEW
            ).pvalue

        keeps("given z, weights", pvalue)
