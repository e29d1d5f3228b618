"""Groups, blocks, strata and weights in the tests: what they take, what they refuse, what they say."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import muhat as mh
from muhat.testing.restricted import Design
from muhat.testing.restricted_null import LabelNull
from muhat.testing.restricted_pairs import PairNull

FEW = {"permutations": 99, "random_state": 0}


def clustered(rng, groups, size, columns=2):
    """Columns of which each varies between groups and within them, and the group of every row."""
    g = np.repeat(np.arange(groups), size)
    return g, rng.normal(size=(columns, groups))[:, g] + rng.normal(size=(columns, len(g)))


def three(seed=0, groups=12, size=4):
    g, (x, y, z) = clustered(np.random.default_rng(seed), groups, size, 3)
    return g, x, y, z


def outcomes(x, y, z, **given):
    """The three tests with the same arguments; two samples get halves."""
    n = len(x) // 2
    pairs = {what: (v[:n], v[n:]) for what, v in given.items()}
    return {
        "two": mh.two_sample_test(x[:n], x[n:], "median", **pairs, **FEW),
        "pairs": mh.independence_test(x, y, "median", "median", **given, **FEW),
        "given": mh.conditional_independence_test(x, y, z, **given, **FEW),
    }


class TestWhatRestrictsNothing:
    def test_is_the_plain_test(self):
        _, x, y, z = three()
        plain = outcomes(x, y, z)
        for given in (
            {"groups": np.arange(48)},
            {"strata": np.zeros(48)},
            {"blocks": np.full(48, "a")},
            {"weights": np.full(48, 3.0)},
        ):
            for name, found in outcomes(x, y, z, **given).items():
                if "weights" in given and name == "given":
                    continue  # another method
                assert found.restriction is None
                assert found.pvalue == plain[name].pvalue
                assert found.statistic == plain[name].statistic

    def test_blocks_and_strata_are_one_thing_and_cross(self):
        _, x, y, z = three()
        a, b = np.arange(48) % 2, np.arange(48) // 2 % 2
        expected = outcomes(x, y, z, strata=2 * a + b)
        for given in (
            {"blocks": 2 * a + b},
            {"blocks": a, "strata": b},
            {"strata": np.stack([a, b], axis=1)},
        ):
            for name, found in outcomes(x, y, z, **given).items():
                assert found.pvalue == expected[name].pvalue
                assert found.restriction.strata == 4


class TestColumnsByName:
    @pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
    def test_two_samples(self, kind):
        g, x, y, _ = three()
        table = {"v": x, "u": y, "clinic": [f"c{i}" for i in g], "w": np.linspace(1, 2, 48)}
        a, b = (kind({k: v[s] for k, v in table.items()}) for s in (slice(0, 24), slice(24, 48)))
        found = mh.two_sample_test(a, b, groups="clinic", weights="w", **FEW)
        values = np.stack([x, y], axis=1)
        w = np.linspace(1, 2, 48)
        expected = mh.two_sample_test(
            values[:24], values[24:], groups=(g[:24], g[24:]), weights=(w[:24], w[24:]), **FEW
        )
        assert found.pvalue == expected.pvalue
        assert {c.name for c in found.columns()} == {"v", "u"}
        assert found.restriction.groups == 12
        assert found.restriction.weighted

    @pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
    def test_pairs_take_a_column_of_either_side(self, kind):
        g, x, y, z = three()
        X, Y, Z = kind({"x": x, "g": g}), kind({"y": y}), kind({"z": z})
        expected = mh.independence_test(x, y, groups=g, **FEW)
        for tables in ((X, Y), (kind({"x": x}), kind({"y": y, "g": g})), (X, kind({"y": y, "g": g}))):
            assert mh.independence_test(*tables, groups="g", **FEW).pvalue == expected.pvalue
        found = mh.conditional_independence_test(X, Y, Z, groups="g", **FEW)
        assert found.pvalue == mh.conditional_independence_test(x, y, z, groups=g, **FEW).pvalue

    def test_several_columns_cross(self):
        _, x, y, _ = three()
        a, b = np.arange(48) % 2, np.arange(48) // 2 % 2
        found = mh.independence_test(pd.DataFrame({"x": x, "a": a, "b": b}), y, strata=["a", "b"], **FEW)
        assert found.restriction.strata == 4

    def test_what_is_no_column(self):
        _, x, y, _ = three()
        with pytest.raises(ValueError, match="groups='g' is no column of x or y"):
            mh.independence_test(x, y, groups="g")
        with pytest.raises(ValueError, match="strata='s' is no column of y"):
            mh.two_sample_test(pd.DataFrame({"v": x, "s": y}), pd.DataFrame({"v": x}), strata="s")
        with pytest.raises(ValueError, match="x has no column left once s are taken out"):
            mh.independence_test(pd.DataFrame({"s": [0, 1] * 24}), y, strata="s")


class TestBadInput:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"groups": np.zeros(48)}, "groups holds one group: nothing can move"),
            ({"strata": np.arange(48)}, "every stratum has one row: no row can move"),
            ({"weights": np.full(48, -1.0)}, "must be finite and not negative, but row 0 has -1"),
            ({"weights": np.where(np.arange(48) == 30, np.nan, 1.0)}, "row (6|30) has nan"),
            ({"weights": np.zeros(48)}, "are all 0"),
            ({"weights": np.full(48, "a")}, "must be numbers"),
            (
                {"groups": np.where(np.arange(48) == 0, np.nan, 1.0)},
                "groups has 1 missing labels, first at row 0",
            ),
            (
                {"groups": np.arange(48) // 4, "strata": np.arange(48) % 2},
                "strata cut 12 of 12 groups: rows 0 and 1 are in one group",
            ),
        ],
        ids=["one group", "strata of one", "negative", "NaN", "zeros", "text", "no label", "cut"],
    )
    @pytest.mark.parametrize("test", ["two", "pairs", "given"])
    def test_labels(self, given, said, test):
        _, x, y, z = three()
        pairs = {what: (v[:24], v[24:]) for what, v in given.items()}
        ask = {
            "two": lambda: mh.two_sample_test(x[:24], x[24:], **pairs),
            "pairs": lambda: mh.independence_test(x, y, **given),
            "given": lambda: mh.conditional_independence_test(x, y, z, **given),
        }[test]
        with pytest.raises(ValueError, match=said):
            ask()

    def test_lengths(self):
        _, x, y, _ = three()
        with pytest.raises(ValueError, match="groups has 3 values, but x has 48 rows"):
            mh.independence_test(x, y, groups=[1, 2, 3])
        with pytest.raises(ValueError, match="strata for y has 3 values, but y has 48 rows"):
            mh.two_sample_test(x, y, strata=(np.zeros(48), [1, 2, 3]))
        with pytest.raises(ValueError, match=r"must be a pair.*groups=\(gx, gy\)"):
            mh.two_sample_test(x, y, groups=np.zeros(48))
        with pytest.raises(ValueError, match="numbers for one sample and text for the other"):
            mh.two_sample_test(x, y, groups=(np.zeros(48), np.full(48, "0")))

    def test_groups_none_of_which_can_take_the_place_of_another(self):
        _, x, y, _ = three()
        g = np.repeat([0, 1, 2], [10, 16, 22])
        with pytest.raises(ValueError, match=r'no two groups.*method="wild"'):
            mh.independence_test(x, y, groups=g)
        with pytest.warns(UserWarning, match="only 4 arrangements"):
            mh.independence_test(x, y, groups=g, method="wild")

    def test_labels_that_cannot_move(self):
        _, x, y, _ = three()
        with pytest.raises(ValueError, match="rows of one sample only"):
            mh.two_sample_test(x, y, strata=(np.zeros(48), np.ones(48)))

    def test_nulls_that_know_no_design(self):
        g, x, y, z = three()
        with pytest.raises(ValueError, match="the gamma approximation has the moments"):
            mh.independence_test(x, y, method="gamma", groups=g)
        with pytest.raises(ValueError, match='method="wild" keeps the memory'):
            mh.two_sample_test(x, y, method="wild", strata=(g, g))
        with pytest.raises(ValueError, match=r"stacked.*no weighted regressions"):
            mh.conditional_independence_test(x, y, z, method="stacked", weights=1 + g)

    def test_rows_that_are_read_in_blocks(self, tmp_path):
        path = tmp_path / "x.npy"
        np.save(path, np.zeros((40, 1)))
        with pytest.raises(ValueError, match="groups need all rows in memory"):
            mh.two_sample_test(path, path, groups=(np.zeros(40), np.zeros(40)))
        with pytest.raises(ValueError, match="strata need all rows in memory"):
            mh.independence_test(path, path, strata=np.zeros(40))


class TestWhatIsSaid:
    def test_too_few_arrangements(self):
        g = np.repeat(np.arange(6), 8)
        _, x, _, _ = three()
        with pytest.warns(UserWarning, match="only 15 arrangements: the smallest p-value is 0.067"):
            found = mh.two_sample_test(x[:16], x[16:], groups=(g[:16], g[16:]), **FEW)
        assert found.restriction.complete
        assert len(found.null) == 14
        assert "all 15 arrangements" in found.summary
        assert "nothing can be found at the level 5%" in found.summary
        # The swap of two samples of as many groups gives the same distance.
        with pytest.warns(UserWarning, match="only 6 arrangements: the smallest p-value is 0.33"):
            mh.two_sample_test(x[:16], x[16:32], groups=(g[:16], g[16:32]), **FEW)

    def test_pvalue_of_all_arrangements(self):
        y = np.arange(6.0)
        with pytest.warns(UserWarning, match="only 36 arrangements: the smallest p-value is 0.056"):
            found = mh.independence_test(
                y, y, mh.Linear(), mh.Linear(), strata=[0, 0, 0, 1, 1, 1], permutations=99
            )
        assert found.pvalue == 2 / 36  # both strata as they are, or both turned round

    def test_rows_that_cannot_move_are_counted(self):
        _, x, y, _ = three()
        strata = np.where(np.arange(48) < 46, np.arange(48) % 3, np.arange(48))
        found = mh.independence_test(x, y, strata=strata, **FEW)
        assert found.restriction.fixed == 2
        assert f"{found.restriction.fixed} rows cannot move" in found.summary

    def test_strata_of_one_sample_take_no_part(self):
        _, x, _, _ = three()
        rng = np.random.default_rng(0)
        for _ in range(5):
            sx, sy = rng.integers(0, 4, 24), rng.integers(2, 6, 24)
            found = mh.two_sample_test(x[:24], x[24:], strata=(sx, sy), **FEW)
            alone = (sx < 2).sum() + (sy > 3).sum()
            assert found.restriction.fixed == alone
            assert np.isfinite(found.effect_interval).all()
            a, b = (v[np.isin(s, [2, 3])] for v, s in ((x[:24], sx), (x[24:], sy)))
            kept = mh.two_sample_test(
                a, b, mh.Linear(), strata=(sx[sx > 1], sy[sy < 4]), permutations=99, random_state=0
            )
            whole = mh.two_sample_test(x[:24], x[24:], mh.Linear(), strata=(sx, sy), **FEW)
            assert_allclose(whole.statistic, kept.statistic, rtol=1e-9)

    def test_rows_of_weight_zero_are_left_out(self):
        _, x, y, z = three()
        w = np.where(np.arange(48) % 6 == 0, 0.0, 1 + np.arange(48) % 3)
        for name, found in outcomes(x, y, z, weights=w).items():
            kept = outcomes(x[w > 0], y[w > 0], z[w > 0], weights=w[w > 0])[name]
            assert found.restriction.unweighted == 8
            assert found.pvalue == kept.pvalue
            assert "8 rows of weight 0 were left out" in found.summary

    def test_dropped_rows_take_their_labels_along(self):
        g, x, y, _ = three()
        gaps = np.where(np.arange(48) % 7 == 0, np.nan, x)
        kept = ~np.isnan(gaps)
        found = mh.independence_test(gaps, y, strata=g % 3, missing="drop", **FEW)
        expected = mh.independence_test(x[kept], y[kept], strata=(g % 3)[kept], **FEW)
        assert found.pvalue == expected.pvalue
        two = mh.two_sample_test(gaps[:24], gaps[24:], strata=(g[:24] % 3, g[24:] % 3), missing="drop", **FEW)
        assert two.restriction.strata == 3


class TestStatistics:
    def test_distance_of_two_samples_by_strata_and_weights(self):
        rng = np.random.default_rng(0)
        Z, first = rng.normal(size=(30, 2)), np.arange(30) < 12
        design = Design(np.arange(30) % 3, None, rng.uniform(0.5, 2, 30))
        null = LabelNull.draw(design, first, 19, rng, signs=False)
        kernel, K = mh.Gaussian(1.0), np.asarray(mh.Gaussian(1.0)(Z))
        a, total = np.zeros(30), 0.0
        for s in range(3):
            inside = design.strata == s
            wx, wy = (np.where(inside & side, design.w, 0.0) for side in (first, ~first))
            share = wx.sum() * wy.sum() / (wx.sum() + wy.sum())
            a += share * (wx / wx.sum() - wy / wy.sum())
            total += share
        a /= total
        assert_allclose(null.values([kernel], Z)[0, 0], a @ K @ a, rtol=1e-10)
        assert_allclose(np.where(first, null.weights, -null.weights), a, atol=1e-15)
        features = mh.Nystrom(30).fit(kernel, Z, rng)
        assert_allclose(null.values([features], Z)[0], null.values([kernel], Z)[0], rtol=1e-5, atol=1e-9)

    def test_witness_and_distance_are_those_of_weighted_embeddings(self):
        _, x, _, _ = three()
        w = np.random.default_rng(1).uniform(1, 3, 48)
        kernel = mh.Gaussian(1.0)
        found = mh.two_sample_test(x[:24], x[24:], kernel, weights=(w[:24], w[24:]), **FEW)
        mu, nu = (mh.embed(x[s, None], kernel, w[s] / w[s].sum()) for s in (slice(0, 24), slice(24, 48)))
        assert_allclose(found.mmd2, float(mh.mmd(mu, nu)) ** 2, rtol=1e-8)
        assert_allclose(found.witness([[0.3]]), mu([[0.3]]) - nu([[0.3]]), rtol=1e-8)

    @pytest.mark.parametrize("swapped", [False, True])
    def test_dependence_by_doing_what_is_said(self, swapped):
        g, x, y, _ = three()
        strata = np.arange(48) // 24
        if swapped:
            x = x[np.unique(g, return_index=True)[1]][g]  # the same in each group: x moves
        null = PairNull.draw(Design(strata, g), x[:, None], y[:, None], 19, np.random.default_rng(0), False)
        assert null.swapped == swapped
        k, l = mh.Gaussian(1.0), mh.Gaussian(0.7)
        found = null.values([k], [l], x[:, None], y[:, None], None, np.random.default_rng(0))[0]
        H = np.eye(48) - (strata[:, None] == strata) / 24
        for value, order in zip(found, null.orders, strict=True):
            moved = (x[order], y) if swapped else (x, y[order])
            K, L = k(moved[0][:, None]), l(moved[1][:, None])
            assert_allclose(value, np.trace(H @ K @ H @ L), rtol=1e-6)
            assert_array_equal(strata[order], strata)

    def test_many_rows_give_the_same_observed_value(self):
        """Beyond 2 000 rows multipliers go to bins of rows."""
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(2, 2100, 1))
        w = rng.uniform(1, 2, 2100)
        found = mh.independence_test(x, y, mh.Linear(), mh.Linear(), weights=w, **FEW)
        w = w / w.sum()
        a, b = x[:, 0] - w @ x[:, 0], y[:, 0] - w @ y[:, 0]
        assert_allclose(found.hsic, (w @ (a * b)) ** 2, rtol=1e-5)
        assert found.pvalue > 0.02

    def test_columns_and_figures(self):
        g, x, y, z = three()
        rng = np.random.default_rng(0)
        X, Y = np.stack([x, z], axis=1), np.stack([y, rng.normal(size=48)], axis=1)
        for given in ({"groups": g}, {"strata": g % 3}, {"weights": 1 + g % 5}):
            found = mh.independence_test(X, Y, **given, **FEW)
            assert len(found.columns()) == 4
            assert np.isfinite(found.witness(X[:3], Y[:3])).all()
            found.plot()
            pair = {what: (v[:24], v[24:]) for what, v in given.items()}
            two = mh.two_sample_test(X[:24], X[24:], **pair, **FEW)
            assert {c.name for c in two.columns()} == {"x[0]", "x[1]"}
            two.plot()


def test_strata_show_what_they_hide():
    """Simpson: y falls with x in every stratum, and rises with it over strata."""
    rng = np.random.default_rng(0)
    plain, within = [], []
    for _ in range(20):
        s = rng.integers(0, 4, 60)
        x = s + rng.normal(size=60)
        y = 2 * s - 1.8 * (x - s) + rng.normal(size=60)
        plain.append(mh.independence_test(x, y, mh.Linear(), mh.Linear(), **FEW).pvalue)
        within.append(mh.independence_test(x, y, mh.Linear(), mh.Linear(), strata=s, **FEW).pvalue)
    assert np.mean(np.array(plain) <= 0.05) <= 0.4
    assert np.mean(np.array(within) <= 0.05) >= 0.9


def test_pairs_show_what_people_hide():
    """People differ far more from each other than before and after differ."""
    rng = np.random.default_rng(0)
    people = np.arange(25)
    plain, paired = [], []
    for _ in range(20):
        level = 3 * rng.normal(size=25)
        before, after = level + 0.5 * rng.normal(size=25), level + 0.6 + 0.5 * rng.normal(size=25)
        plain.append(mh.two_sample_test(before, after, mh.Linear(), **FEW).pvalue)
        paired.append(mh.two_sample_test(before, after, mh.Linear(), groups=(people, people), **FEW).pvalue)
    assert np.mean(np.array(plain) <= 0.05) <= 0.1
    assert np.mean(np.array(paired) <= 0.05) >= 0.8
