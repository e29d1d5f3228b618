"""The conditional test on residuals of stacked regressions, and what it says of itself."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression

import muhat as mh
from muhat.testing.kci import forms_of, product_forms
from muhat.testing.self_check import SelfCheck, check_errors, cut
from muhat.testing.stacked_residuals import Side, sure, tame_columns

N = 200


def rows(d, x, y, noise=0.3, seed=0, n=N):
    """x and y that z determines up to noise, through one index of its columns."""
    rng = np.random.default_rng([seed, d])
    z = rng.standard_normal((n, d))
    w, e = z.sum(axis=1) / np.sqrt(d), rng.standard_normal((3, n))
    return x(w) + noise * e[0], y(w) + noise * e[1], z, noise * e[2]


def run(x, y, z, **options):
    return mh.conditional_independence_test(
        x, y, z, **{"method": "stacked", "permutations": 199, "random_state": 0, **options}
    )


@pytest.mark.slow
class TestAnswers:
    def test_nothing_is_left_of_a_common_cause_in_ten_columns(self):
        """KCI rejects nearly always here."""
        x, y, z, _ = rows(10, lambda w: w, lambda w: w)
        assert run(x, y, z).pvalue > 0.05
        kci = run(x, y, z, method="kci")
        assert kci.pvalue < 0.05
        assert not kci.trusted

    @pytest.mark.parametrize("effect", [lambda e: 0.7 * e, lambda e: 2 * e**2], ids=["linear", "square"])
    def test_dependence_given_z_is_found(self, effect):
        x, y, z, shared = rows(3, lambda w: w, lambda w: np.sin(2 * w))
        found = run(x + shared, y + effect(shared), z)
        assert found.pvalue < 0.05
        assert found.trusted
        assert found.warning == ""

    def test_in_spread_alone(self):
        x, y, z, shared = rows(1, lambda w: w, lambda w: w)
        e = np.random.default_rng(9).standard_normal(N)
        assert run(x + 3 * shared, y + 3 * np.abs(shared) * e, z).pvalue < 0.05

    def test_parabolas_of_a_sum_are_learned(self):
        x, y, z, _ = rows(3, lambda w: w**2, lambda w: w**2 + w)
        found = run(x, y, z)
        assert found.pvalue > 0.05
        assert min(found.explained) > 0.8

    def test_it_says_when_it_is_not_to_be_trusted(self):
        x, y, z, _ = rows(1, lambda w: w, lambda w: w, n=40)
        found = replace(run(x, y, z, permutations=19), pvalue=0.01)
        doubtful = replace(found, self_check=SelfCheck(0.01, 0.8))
        assert not doubtful.trusted
        assert doubtful.warning in doubtful.summary
        assert "do not trust" in doubtful.warning
        assert replace(found, self_check=SelfCheck(0.2, 0.0)).trusted
        # Errors make dependence, so where none was found they did no harm.
        harmless = replace(doubtful, pvalue=0.4)
        assert harmless.trusted
        assert harmless.warning == ""

    def test_a_regressor_of_the_users_own(self):
        x, y, z, shared = rows(4, lambda w: w, lambda w: -w)
        assert run(x, y, z, regressor=LinearRegression()).pvalue > 0.05
        assert run(x + shared, y + shared, z, regressor=LinearRegression()).pvalue < 0.05

    def test_categories_and_missing_cells(self):
        rng = np.random.default_rng(0)
        group = rng.choice(["a", "b", "c"], N)
        x = (group == "a") + 0.5 * rng.standard_normal(N)
        y = pd.DataFrame({"y": np.where(rng.random(N) < 0.3 + 0.4 * (group == "a"), "yes", "no")})
        z = pd.DataFrame({"group": group, "other": rng.standard_normal(N)})
        z.loc[:5, "other"] = np.nan
        found = run(x, y, z)
        assert found.pvalue > 0.05
        assert "other" in dict(found.missing.shares)
        assert mh.independence_test(x, y, permutations=199, random_state=0).pvalue < 0.05

    def test_units_do_not_matter(self):
        x, y, z, shared = rows(2, lambda w: w, lambda w: w)
        plain = run(x + shared, y, z, permutations=99)
        scaled = run(1e6 * (x + shared) - 7, -3 * y, 1e-3 * z + 5, permutations=99)
        assert_allclose(scaled.pvalue, plain.pvalue, atol=0.02)

    def test_the_same_seed_gives_the_same_answer(self):
        x, y, z, _ = rows(2, lambda w: w, lambda w: w)
        assert run(x, y, z, permutations=49).pvalue == run(x, y, z, permutations=49).pvalue

    def test_plot(self):
        x, y, z, _ = rows(2, lambda w: w, lambda w: w)
        assert len(run(x, y, z, permutations=49).plot().axes) == 3


class TestPieces:
    def test_three_factors(self):
        rng = np.random.default_rng(0)
        A, B, C, W = (rng.standard_normal(shape) for shape in ((30, 2), (30, 3), (30, 4), (5, 30)))
        M = (A @ A.T) * (B @ B.T) * (C @ C.T)
        values, trace, square = product_forms(W, A, B, C)
        assert_allclose(values, ((W @ M) * W).sum(axis=1))
        assert_allclose([trace, square], [np.trace(M), (M**2).sum()])

    @pytest.mark.parametrize("n", [10, 300])
    def test_forms_by_products_of_features(self, n):
        rng = np.random.default_rng(0)
        A, B, C, W = (rng.standard_normal(shape) for shape in ((n, 2), (n, 3), (n, 4), (5, n)))
        assert_allclose(forms_of(W, A, B, C), product_forms(W, A, B, C)[0])

    def test_tails_are_drawn_in_and_categories_are_indicators(self):
        from muhat._tables import Encoder

        rng = np.random.default_rng(0)
        A = np.stack([rng.standard_normal(400), rng.standard_t(1, 400), rng.integers(0, 3, 400)], axis=1)
        out = tame_columns(A, Encoder(["a", "b", "c"], {2: ["p", "q", "r"]}))
        assert out.shape == (400, 5)
        assert_allclose(out.mean(axis=0), 0, atol=1e-12)
        assert_allclose(out.std(axis=0), 1)
        assert np.abs(np.corrcoef(A[:, 0], out[:, 0])[0, 1]) > 1 - 1e-4  # a line stays a line
        assert (np.argsort(out[:, 1]) == np.argsort(A[:, 1])).all()
        assert np.abs(out[:, 1]).max() < 8

    def test_rows_of_which_regressions_are_unsure_count_less(self):
        none, doubt = np.empty((2, 0)), (np.array([0.0, 1.0]), np.array([0.0, 0.5]))
        a, b = (Side(none, none, (none, none), none, none[0], 1.0, d) for d in doubt)
        assert_allclose(sure((a, b)), [1.0, 1 / 7])

    def test_cells_are_of_like_size_and_of_neighbours(self):
        rng = np.random.default_rng(0)
        points = rng.standard_normal((203, 2))
        label = cut(points, 10, rng)
        assert set(np.bincount(label)) <= {9, 10, 11, 12}
        spread = np.mean([points[label == k].var(axis=0).sum() for k in np.unique(label)])
        assert spread < 0.2 * points.var(axis=0).sum()
        assert len(np.unique(cut(points, 300, rng))) == 1

    @pytest.mark.parametrize("shared", [True, False])
    def test_self_check_sees_errors_that_both_sides_share(self, shared):
        """And neither errors of one side alone, nor dependence of the noise row by row."""
        rng = np.random.default_rng(3)
        Z = rng.standard_normal((N, 2))
        wrong, noise = np.sin(Z[:, [0]]), rng.standard_normal((2, N, 1))
        x = 0.7 * wrong + noise[0]
        y = (0.7 * wrong + noise[1]) if shared else (0.8 * noise[0] + noise[1])
        found = check_errors(Z, [(x, y)], rng)
        assert (found.pvalue <= 0.05) is shared
        assert found.sound is not shared


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"null": "gamma"}, "draws multipliers"),
            ({"kernel_z": mh.Gaussian(1.0)}, "kernels of its own"),
            ({"method": "kci", "regressor": LinearRegression()}, 'for method="stacked"'),
        ],
    )
    def test_options_that_do_not_go_together(self, options, message):
        x, y, z, _ = rows(1, lambda w: w, lambda w: w, n=30)
        with pytest.raises(ValueError, match=message):
            run(x, y, z, **options)

    @pytest.mark.parametrize("method", ["stacked", "kci", "residual"])
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda x, z: x, "'x' of x says the same as 'z' of z"),
            (lambda x, z: np.exp(x), "each is a function of the other"),
            (lambda x, z: np.c_[z, -x], r"the same as 'z\[1\]' of z"),
            (
                lambda x, z: pd.DataFrame({"id": [f"a{i}" for i in range(len(x))]}),
                "another category in every",
            ),
            (lambda x, z: np.ones(len(x)), "every row of z is the same"),
        ],
        ids=["copy", "function", "among others", "all distinct", "constant"],
    )
    def test_nothing_can_be_asked(self, method, make, message):
        x, y, z = np.random.default_rng(0).standard_normal((3, 30))
        with pytest.raises(ValueError, match=message):
            run(x, y, make(x, z), method=method)

    @pytest.mark.parametrize("method", ["stacked", "kci", "residual"])
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda x, y, z: (np.sin(z[:, 0]), y, z[:, 0]), "z determines x"),
            (lambda x, y, z: (x[:40], y[:40], z[:40]), "15 columns and there are only 40 rows"),
            (
                lambda x, y, z: (x, y, pd.DataFrame({"id": [f"a{i // 2}" for i in range(len(x))]})),
                "id of z has many categories with fewer than 5 rows",
            ),
            (
                lambda x, y, z: (x, pd.Series(np.where(z[:, 0] > 0, "u", "v")), np.floor(2 * z[:, 0])),
                "z determines y",
            ),
        ],
        ids=["determined", "few rows", "rare categories", "determined category"],
    )
    def test_nothing_can_be_said(self, method, make, message):
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((2, 120))
        found = run(*make(x, y, rng.standard_normal((120, 15))), method=method, permutations=19)
        assert not found.trusted
        assert message in found.warning
        assert message in found.summary

    def test_what_regressions_follow_is_not_what_z_determines(self):
        rng = np.random.default_rng(0)
        z = rng.standard_normal((60, 15))
        x, y = z[:, 0] + 0.5 * rng.standard_normal((2, 60))
        found = run(x, y, z, permutations=19)
        assert found.doubts == ()
        assert found.kernel is None

    def test_few_numbers_in_the_same_order_are_no_copy(self):
        z = np.sort(np.random.default_rng(0).standard_normal(20))
        y = np.random.default_rng(1).standard_normal(20)
        assert 0 < run(np.exp(z), y, z, permutations=19).pvalue <= 1

    def test_few_rows_and_nothing_given(self):
        x, y, z = np.random.default_rng(0).standard_normal((3, 20))
        assert "only 20 rows" in run(x, y, z, permutations=19).warning
        with pytest.raises(ValueError, match="use independence_test"):
            run(x, y, None)

    def test_columns_of_z_that_say_nothing_new(self):
        x, y, z = np.random.default_rng(0).standard_normal((3, 100))
        plain = run(x, y, z, permutations=99)
        more = run(x, y, np.c_[z, z, np.ones(100)], permutations=99)
        assert more.trusted
        assert abs(plain.pvalue - more.pvalue) < 0.3


@pytest.mark.slow
def test_benchmark_runs(tmp_path, capsys):
    from benchmarks.conditional import main

    assert main(["--quick", "--methods", "stacked", "--out", str(tmp_path / "table.csv")]) == 0
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 3
