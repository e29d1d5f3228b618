"""What a Bayes' rule leaves free is chosen by losses on pairs that were held out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.learning import held_out
from muhat.learning.held_out import BayesChoice, Task, choose_bayes, choose_prior_part, held_out_losses
from muhat.learning.leave_one_out import stretch
from muhat.operators.bayes import RULES, NoOverlap, Pairs, Prior
from muhat.operators.ratio import LeastSquares, kulsif

rng = np.random.default_rng(0)
Z = rng.uniform(-2, 2, (45, 1))
X = Z + 0.4 * rng.standard_normal((45, 1))
POINTS = 0.4 * rng.standard_normal((20, 1)) + 0.5
WEIGHTS = rng.dirichlet(np.ones(20))
KERNEL_X, KERNEL_Z = 2.0 * mh.Gaussian(0.8), mh.Gaussian(0.6)


def task(rule="importance", **changes):
    fields = {
        "rule": RULES[rule], "X": X, "Z": Z, "points": POINTS, "weights": WEIGHTS, "kernel_x": KERNEL_X,
        "kernel_z": KERNEL_Z, "tune_x": False, "tune_z": False, "reg": None, "reg_prior": 1e-2, "target": 0.0,
    }  # fmt: skip
    return Task(**{**fields, **changes})


@pytest.mark.parametrize("rule", RULES)
def test_losses_are_those_of_posteriors_made_without_the_pair(rule):
    """‖φ(zᵢ) − m(xᵢ)‖² in the RKHS, weighted by what the prior would draw."""
    problem, regs = task(rule), np.array([1e-3, 1e-1])
    folds = np.arange(45) % held_out.FOLDS
    ratio = np.random.default_rng(1).gamma(1.0, size=45)
    features = held_out._embedding_features(problem, np.random.default_rng(0))
    got = held_out_losses(problem, KERNEL_X, KERNEL_Z, 1e-2, regs, folds, ratio, features)
    expected = np.zeros(2)
    for fold in range(held_out.FOLDS):
        train, test = folds != fold, np.flatnonzero(folds == fold)
        exact = mh.Exact()
        pairs = Pairs(exact.gram(KERNEL_X, X[train]), exact.gram(KERNEL_Z, Z[train]), 1e-2)
        prior = Prior.of(pairs.gram_z, POINTS, WEIGHTS)
        on = POINTS if RULES[rule].ON_PRIOR else Z[train]
        for j, reg in enumerate(regs):
            for i in test:
                w = RULES[rule].posterior_weights(pairs, prior, pairs.gram_x.cross(X[[i]]), reg)[0]
                loss = 1 - 2 * w @ KERNEL_Z(on, Z[[i]])[:, 0] + w @ KERNEL_Z(on) @ w
                expected[j] += ratio[i] * loss
    assert_allclose(got, expected / ratio.sum(), rtol=1e-5)


class TestPriorPart:
    def test_least_leave_one_out_loss_of_the_ratio(self):
        problem = task(reg_prior=None, tune_z=True, target=1.0)
        kernel, reg = choose_prior_part(problem)
        scores = {}
        for multiple in held_out.MULTIPLES_Z:
            candidate = stretch(KERNEL_Z, np.array([multiple]))
            features = kulsif.basis(candidate, POINTS, Z, np.random.default_rng(0))
            least = LeastSquares(features.features(POINTS), WEIGHTS, features.features(Z), target=1.0)
            for r in held_out.RATIO_REGULARISERS:
                scores[multiple, r] = least.score(r)
        best = min(scores, key=scores.get)
        assert kernel == stretch(KERNEL_Z, np.array([best[0]]))
        assert reg == best[1]

    def test_given_is_kept(self):
        assert choose_prior_part(task()) == (KERNEL_Z, 1e-2)
        kernel, reg = choose_prior_part(task(reg_prior=None))
        assert kernel == KERNEL_Z
        assert reg in held_out.RATIO_REGULARISERS
        _, reg = choose_prior_part(task(tune_z=True))
        assert reg == 1e-2


class TestChoice:
    @pytest.mark.parametrize(("rule", "flat"), [("importance", 1.01), ("kbr_b", 1.002)])
    def test_takes_the_largest_regulariser_of_the_least_losses(self, rule, flat):
        choice = choose_bayes(task(rule, tune_x=True), np.random.default_rng(0))
        assert isinstance(choice, BayesChoice)
        assert choice.path.shape == (len(held_out.MULTIPLES_X) * len(held_out.REGULARISERS), 3)
        rows = choice.path[choice.path[:, 1] == choice.reg]
        row = rows[rows[:, 2] == choice.score][0]
        assert choice.kernel_x == stretch(KERNEL_X, np.array([row[0]]))
        mine = choice.path[choice.path[:, 0] == row[0]]
        near = mine[mine[:, 2] <= flat * mine[:, 2].min()]
        assert choice.reg == near[:, 1].max()
        assert choice.score <= flat * choice.path[:, 2].min()

    @pytest.mark.parametrize(
        ("rule", "at"), [("importance", 2), ("deconditional", 2), ("kbr_b", 1), ("kbr_a", 1)]
    )
    def test_losses_within_a_hundredth_count_as_equal_and_less_for_squared_operators(
        self, rule, at, monkeypatch
    ):
        losses = np.concatenate([[1.0, 1.001, 1.008], np.linspace(1.02, 2, len(held_out.REGULARISERS) - 3)])
        monkeypatch.setattr(held_out, "held_out_losses", lambda *_: losses)
        monkeypatch.setattr(held_out, "_loss_without_x", lambda *_: 2.0)
        choice = choose_bayes(task(rule), np.random.default_rng(0))
        assert choice.reg == choice.path[at, 1]
        assert choice.score == losses[at]

    def test_what_counts_as_equal_is_little_of_what_x_brings(self, monkeypatch):
        """Where x says little all losses lie within a hundredth: that is no reason to forget x."""
        losses = np.linspace(1.0, 1.009, len(held_out.REGULARISERS))
        monkeypatch.setattr(held_out, "held_out_losses", lambda *_: losses)
        monkeypatch.setattr(held_out, "_loss_without_x", lambda *_: 1.01)
        choice = choose_bayes(task(), np.random.default_rng(0))
        assert choice.reg == choice.path[0, 1]

    @pytest.mark.parametrize(
        ("rule", "power"), [("importance", 1), ("deconditional", 1), ("kbr_b", 2), ("kbr_a", 2)]
    )
    def test_regularisers_scale_with_the_kernel(self, rule, power):
        """The same posterior for c·k: its regulariser is c or, for squared operators, c² times as large."""
        one, many = (
            choose_bayes(task(rule, kernel_x=c * mh.Gaussian(0.8)), np.random.default_rng(0))
            for c in (1.0, 1e6)
        )
        assert_allclose(many.reg / one.reg, 1e6**power, rtol=1e-9)
        assert_allclose(many.score, one.score, rtol=1e-6)

    def test_is_made_in_few_rows(self):
        rng = np.random.default_rng(0)
        z = rng.standard_normal((2000, 1))
        big = task(X=z + 0.3, Z=z, points=z, weights=np.full(2000, 1 / 2000))
        thin = big.thin(np.random.default_rng(1))
        assert len(thin.X) == len(thin.Z) == held_out.ROWS
        assert_allclose(thin.X, thin.Z + 0.3)  # still pairs
        assert_allclose(thin.weights, 1 / held_out.ROWS)
        assert_allclose(thin.weights.sum(), 1.0)

    @pytest.mark.parametrize("kind", ["few", "signed"])
    def test_few_rows_of_a_prior_with_uneven_weights(self, kind):
        """A posterior as prior: its weights lie on few points, or have both signs."""
        rng = np.random.default_rng(0)
        z = rng.standard_normal((3000, 1))
        weights = np.zeros(3000)
        if kind == "few":
            weights[:7] = 1 / 7
        else:
            weights = rng.standard_normal(3000) + 0.3
            weights /= weights.sum()
        thin = task(X=z, Z=z, points=z, weights=weights).thin(np.random.default_rng(1))
        assert len(thin.weights) == held_out.ROWS
        assert_allclose(thin.weights.sum(), 1.0, atol=1e-9 if kind == "few" else 0.5)
        query = np.linspace(-2, 2, 5)[:, None]
        whole = KERNEL_Z(query, z) @ weights
        if kind == "few":
            assert_allclose(KERNEL_Z(query, thin.points) @ thin.weights, whole, atol=0.06)
        assert np.isfinite(thin.weights).all()

    def test_few_rows_are_kept_as_they_are(self):
        thin = task().thin(np.random.default_rng(0))
        assert_allclose(thin.X, X)
        assert_allclose(thin.weights, WEIGHTS)

    def test_prior_without_overlap(self):
        with pytest.raises(NoOverlap):
            choose_bayes(task(points=POINTS + 1e3), np.random.default_rng(0))

    @pytest.mark.parametrize("n", [2, 3, 4, 6])
    @pytest.mark.parametrize("rule", RULES)
    def test_very_few_pairs(self, n, rule):
        choice = choose_bayes(task(rule, X=X[:n], Z=Z[:n], tune_x=True), np.random.default_rng(0))
        assert choice.score > 0
