"""The density ratio as an estimator."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import muhat as mh
from muhat.learning.leave_one_out import stretch
from muhat.models import density_ratio
from muhat.operators.ratio import LeastSquares

METHODS = ["kulsif", "ulsif", "rulsif"]
KERNEL = mh.Gaussian(0.6)


def samples(m=60, n=80, seed=0):
    """N(.5, .7²) over N(0, 1)."""
    rng = np.random.default_rng(seed)
    return 0.7 * rng.standard_normal((m, 1)) + 0.5, rng.standard_normal((n, 1))


def truth(z):
    return (np.exp(-((z - 0.5) ** 2) / (2 * 0.49) + z**2 / 2) / 0.7)[:, 0]


NUM, DEN = samples()
GRID = np.linspace(-1.5, 2, 50)[:, None]


class TestKnownRatio:
    @pytest.mark.parametrize("method", METHODS)
    def test_ratio_of_two_gaussians(self, method):
        ratio = mh.DensityRatio(method, alpha=0.1).fit(*samples(600, 800))
        expected = truth(GRID)
        if method == "rulsif":
            expected = expected / (0.1 * expected + 0.9)
        assert np.sqrt(np.mean((ratio.predict(GRID) - expected) ** 2)) < 0.2
        assert ratio.selection_.score < -0.5 - 0.05  # better than "no difference"

    def test_relative_ratio_is_bounded(self):
        """Where the denominator is thin the plain ratio is large; the relative one stays below 1/α."""
        num, den = samples(400, 400)
        num = num + 1.5
        far = np.linspace(2.5, 4, 30)[:, None]
        bounded = mh.DensityRatio("rulsif", alpha=0.5).fit(num, den).predict(far)
        assert bounded.max() < 1.25 / 0.5
        assert bounded.max() > 1.5
        assert mh.DensityRatio("ulsif").fit(num, den).predict(far).max() > 2 * bounded.max()

    @pytest.mark.parametrize("method", METHODS)
    def test_no_difference(self, method):
        rng = np.random.default_rng(1)
        ratio = mh.DensityRatio(method).fit(rng.standard_normal((300, 2)), rng.standard_normal((300, 2)))
        assert np.sqrt(np.mean((ratio.predict(rng.standard_normal((50, 2))) - 1) ** 2)) < 0.15

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("target", ["zero", "one"])
    def test_shrinks_to_its_target(self, method, target):
        ratio = mh.DensityRatio(method, KERNEL, reg=1e6, target=target).fit(NUM, DEN)
        assert_allclose(ratio.predict(GRID), float(target == "one"), atol=1e-3)

    @pytest.mark.parametrize("method", METHODS)
    def test_never_negative(self, method):
        ratio = mh.DensityRatio(method, mh.Gaussian(0.2), reg=1e-6).fit(NUM, DEN).predict(GRID)
        assert (ratio >= 0).all()
        assert (ratio == 0).any()


class TestFormulas:
    @pytest.mark.parametrize("target", ["zero", "one"])
    def test_kulsif_is_the_dual(self, target):
        """γ = t + n (G + nηI)⁻¹ (g − t g_Z) at the denominator's points [X22, Alg. 1]."""
        ratio = mh.DensityRatio("kulsif", KERNEL, reg=0.03, target=target).fit(NUM, DEN)
        n, t = len(DEN), float(target == "one")
        G = KERNEL(DEN)
        g = KERNEL(DEN, NUM).mean(axis=1) - t * G.mean(axis=1)
        gamma = t + n * np.linalg.solve(G + n * 0.03 * np.eye(n), g)
        assert_allclose(ratio.predict(DEN), np.maximum(gamma, 0), rtol=1e-6, atol=1e-9)

    def test_is_the_ratio_that_the_bayes_rules_use(self):
        from muhat.operators.bayes import Pairs, Prior

        gram = mh.Exact().gram(KERNEL, DEN)
        gamma = Pairs(gram, gram, 0.03, 1.0).ratio(Prior.of(gram, NUM, np.full(len(NUM), 1 / len(NUM))))
        ratio = mh.DensityRatio("kulsif", KERNEL, reg=0.03).fit(NUM, DEN)
        assert_allclose(ratio.predict(DEN), np.maximum(gamma, 0), rtol=1e-6, atol=1e-9)

    def test_nystrom_with_all_points_of_both_is_exact(self):
        landmarks = np.concatenate([NUM, DEN])
        make = mh.Nystrom(len(landmarks), landmarks)
        exact, low = (
            mh.DensityRatio("kulsif", KERNEL, 0.01, representation=r).fit(NUM, DEN) for r in (None, make)
        )
        assert_allclose(low.predict(GRID), exact.predict(GRID), rtol=1e-6)

    @pytest.mark.parametrize("representation", [mh.Nystrom(30), mh.Fourier(200)])
    def test_representations_come_near(self, representation):
        exact = mh.DensityRatio("kulsif", KERNEL, 0.05).fit(NUM, DEN).predict(GRID)
        near = mh.DensityRatio("kulsif", KERNEL, 0.05, representation=representation).fit(NUM, DEN)
        assert_allclose(near.predict(GRID), exact, atol=0.1)

    def test_ulsif_is_rulsif_without_mixture(self):
        u = mh.DensityRatio("ulsif", KERNEL, 0.05, alpha=0.9).fit(NUM, DEN)
        r = mh.DensityRatio("rulsif", KERNEL, 0.05, alpha=0.0).fit(NUM, DEN)
        assert_allclose(u.predict(GRID), r.predict(GRID))

    @pytest.mark.parametrize("method", METHODS)
    def test_numerator_as_an_embedding(self, method):
        model = mh.DensityRatio(method, KERNEL, 0.05)
        expected = model.fit(NUM, DEN).predict(GRID)
        for mu in (
            mh.embed(NUM, KERNEL),
            mh.embed(NUM, mh.Laplace(3.0)),
            mh.Embedding(KERNEL, NUM, np.full((1, 60), 1 / 60)),
        ):
            assert_allclose(model.fit(mu, DEN).predict(GRID), expected)

    def test_weights_of_an_embedding_count(self):
        w = np.r_[np.full(30, 1 / 30), np.zeros(30)]
        model = mh.DensityRatio("kulsif", KERNEL, 0.05)
        half = model.fit(NUM[:30], DEN).predict(GRID)
        assert_allclose(model.fit(mh.embed(NUM, KERNEL, weights=w), DEN).predict(GRID), half, rtol=1e-6)
        batch = mh.embed(NUM, KERNEL, weights=w[None])
        assert_allclose(model.fit(batch, DEN).predict(GRID), half, rtol=1e-6)


class TestChoice:
    def test_least_leave_one_out_loss_of_all_that_was_tried(self):
        ratio = mh.DensityRatio("kulsif").fit(NUM, DEN)
        choice = ratio.selection_
        assert choice.path.shape == (len(density_ratio.MULTIPLES) * len(density_ratio.REGULARISERS), 3)
        best = choice.path[choice.path[:, 2].argmin()]
        assert (choice.reg, choice.score) == (best[1], best[2])
        assert ratio.reg_ == choice.reg
        # Done again by hand.
        from muhat.kernels.default import default_kernel
        from muhat.operators.ratio import kulsif

        kernel = stretch(default_kernel(DEN), np.array([best[0]]))
        assert choice.kernel == kernel
        features = kulsif.basis(kernel, NUM, DEN, np.random.default_rng(0))
        least = LeastSquares(features.features(NUM), np.full(60, 1 / 60), features.features(DEN), target=1.0)
        assert_allclose(least.score(choice.reg), choice.score, rtol=1e-5)

    def test_what_is_given_is_kept(self):
        both = mh.DensityRatio("kulsif", KERNEL, 0.05).fit(NUM, DEN)
        assert both.selection_ is None
        assert both.reg_ == 0.05
        kernel = mh.DensityRatio("kulsif", KERNEL).fit(NUM, DEN)
        assert set(kernel.selection_.path[:, 0]) == {1.0}
        reg = mh.DensityRatio("kulsif", reg=0.05).fit(NUM, DEN)
        assert set(reg.selection_.path[:, 1]) == {0.05}
        assert reg.reg_ == 0.05

    def test_the_same_seed_gives_the_same_answer_and_its_score(self, monkeypatch):
        monkeypatch.setattr("muhat.operators.ratio.rulsif.CENTRES", 20)
        a, b = (mh.DensityRatio("rulsif", random_state=3).fit(NUM, DEN) for _ in range(2))
        assert_allclose(a.predict(GRID), b.predict(GRID))
        # Every candidate and the answer have the same centres.
        phi, psi = a.kernel_.features(NUM), a.kernel_.features(DEN)
        least = LeastSquares(phi, np.full(60, 1 / 60), psi, 0.1, 1.0)
        assert_allclose(least.score(a.reg_), a.selection_.score)
        other = mh.DensityRatio("rulsif", random_state=4).fit(NUM, DEN)
        assert not np.allclose(other.kernel_.centres, a.kernel_.centres)

    def test_many_points_give_way_to_landmarks(self, monkeypatch):
        monkeypatch.setattr(density_ratio, "LANDMARKS", 25)
        ratio = mh.DensityRatio("kulsif", KERNEL, 0.05).fit(NUM, DEN)
        assert ratio.kernel_.size <= 25
        exact = KERNEL(DEN)  # still near
        gamma = 80 * np.linalg.solve(
            exact + 80 * 0.05 * np.eye(80), KERNEL(DEN, NUM).mean(axis=1) - exact.mean(axis=1)
        )
        assert_allclose(ratio.predict(DEN), np.maximum(1 + gamma, 0), atol=0.1)


class TestTables:
    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_categories(self, library):
        rng = np.random.default_rng(0)
        frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
        den = frame({"c": rng.choice(list("ab"), 400, p=[0.5, 0.5]).tolist()})
        num = frame({"c": rng.choice(list("ab"), 400, p=[0.9, 0.1]).tolist()})
        ratio = mh.DensityRatio(reg=1e-6).fit(num, den)
        got = ratio.predict(frame({"c": ["a", "b"]}))
        seen = [np.mean(np.asarray(t["c"]) == "a") for t in (num, den)]
        assert_allclose(got, [seen[0] / seen[1], (1 - seen[0]) / (1 - seen[1])], rtol=1e-3)
        # An embedding of a table brings its own codes.
        again = mh.DensityRatio(reg=1e-6).fit(mh.embed(num), den).predict(frame({"c": ["a", "b"]}))
        assert_allclose(again, got)


class TestEstimator:
    def test_clone_parameters_and_repr(self):
        model = mh.DensityRatio("rulsif", KERNEL, 0.1, 0.2, "zero", mh.Nystrom(9), 4)
        twin = clone(model.fit(NUM, DEN))
        assert twin.get_params() == model.get_params()
        assert set(model.get_params()) == {
            "method", "kernel", "reg", "alpha", "target", "representation", "random_state",
        }  # fmt: skip
        assert not hasattr(twin, "reg_")
        assert repr(mh.DensityRatio(reg=0.5)) == "DensityRatio(reg=0.5)"

    def test_not_fitted(self):
        with pytest.raises(NotFittedError):
            mh.DensityRatio().predict(GRID)


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            (
                {"method": "kliep"},
                ValueError,
                "method must be one of 'kulsif', 'ulsif', 'rulsif', got 'kliep'",
            ),
            ({"target": 1}, ValueError, "target must be one of 'zero', 'one', got 1"),
            ({"reg": 0.0}, ValueError, "reg must be positive and finite, got 0.0: give η > 0, or None"),
            ({"reg": -1}, ValueError, "reg must be positive"),
            ({"reg": "small"}, TypeError, "reg must be a number, got 'small'"),
            ({"alpha": 1.0}, ValueError, "alpha must be a number from 0 to below 1, got 1.0: 0.1 is usual"),
            ({"alpha": -0.1}, ValueError, "alpha must be"),
            ({"alpha": "half"}, ValueError, "alpha must be a number .* got 'half'"),
            ({"alpha": np.nan}, ValueError, "alpha must be .* got nan"),
            ({"kernel": 3}, TypeError, "kernel must be a kernel or None, got 3"),
            ({"representation": 5}, TypeError, "representation must be a representation or None, got 5"),
            ({"random_state": "x"}, ValueError, "random_state must be"),
        ],
    )
    def test_arguments(self, arguments, error, message):
        with pytest.raises(error, match=message):
            mh.DensityRatio(**arguments).fit(NUM, DEN)

    @pytest.mark.parametrize(
        ("num", "den", "message"),
        [
            (np.ones((5, 2)), DEN, "numerator has 2 columns but the denominator has 1"),
            (mh.embed(np.eye(2)), DEN, "numerator.points has 2 columns but the denominator has 1"),
            (NUM[:, 0], DEN, r"numerator must be 2-dimensional.*reshape\(-1, 1\)"),
            (np.array([[np.nan]]), DEN, "numerator contains NaN"),
            (NUM, np.array([[np.inf], [0.0]]), "denominator contains inf"),
            (NUM, DEN[:1], "denominator has 1 sample .* at least 2 are needed"),
            (mh.embed(NUM, weights=np.ones((3, 60))), DEN, r"numerator is a batch of 3.*numerator\[0\]"),
            (
                mh.embed(NUM, KERNEL) - mh.embed(NUM[:30], KERNEL),
                DEN,
                "numerator must be a distribution, but its weights sum to",
            ),
            (-1.0 * mh.embed(NUM), DEN, "numerator must be a distribution, but its weights sum to -1"),
        ],
    )
    def test_data(self, num, den, message):
        with pytest.raises(ValueError, match=message):
            mh.DensityRatio().fit(num, den)

    def test_prediction(self):
        model = mh.DensityRatio(kernel=KERNEL, reg=0.1).fit(NUM, DEN)
        with pytest.raises(ValueError, match="z has 2 features, but DensityRatio is expecting 1"):
            model.predict(np.ones((3, 2)))
        with pytest.raises(ValueError, match="z contains NaN"):
            model.predict([[np.nan]])


def test_a_numerator_that_reaches_beyond_the_denominator():
    denominator = np.random.default_rng(2).uniform(0.5, 8, (1000, 1))
    numerator = np.random.default_rng(3).gamma(2, 2, (2000, 1))
    with pytest.warns(UserWarning, match="lies where the denominator has no rows"):
        ratio = mh.DensityRatio().fit(numerator, denominator)
    at = np.array([[1.0], [2.0], [3.0], [5.0], [7.0]])
    truth = 7.5 * at[:, 0] / 4 * np.exp(-at[:, 0] / 2)
    assert_allclose(ratio.predict(at), truth, atol=0.4)  # the narrowest kernel's ratio is off by 5
