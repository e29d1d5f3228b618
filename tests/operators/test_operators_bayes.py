"""Bayes' rules: Bayes' table on a finite space, and the papers' formulas on a smooth one."""

import numpy as np
import pytest
from bayes_cases import (
    ALPHA,
    ETA,
    KERNEL_X,
    KERNEL_Z,
    POINTS,
    PRIOR_COUNTS,
    QUERY,
    X,
    Z,
    bayes_table,
    dense_deconditional,
    dense_importance,
    dense_kbr_a,
    dense_kbr_b,
    dense_ratio,
    finite_pairs,
    masses,
    smooth_pairs,
    smooth_prior,
)
from numpy.testing import assert_allclose

import muhat as mh
from muhat._linalg import SingularSystem
from muhat.gram import DenseGram, LowRankGram
from muhat.operators.bayes import RULES, NoOverlap, Pairs, Prior, deconditional, importance, kbr_a, kbr_b
from muhat.operators.bayes.third_order import ThirdOrder

GX, GZ = KERNEL_X(X), KERNEL_Z(Z)
CROSS, G = KERNEL_Z(Z, POINTS), KERNEL_X(X, QUERY)
N = len(X)


class TestFiniteSpace:
    """Delta kernels and vanishing regularisers: every statement about the table is exact."""

    x, z = finite_pairs()
    values = np.arange(4.0)[:, None]

    @pytest.mark.parametrize("off", [0.0, 0.3])
    @pytest.mark.parametrize("name", ["importance", "kbr_a", "kbr_b"])
    @pytest.mark.parametrize("target", [0.0, 1.0])
    def test_rules_are_bayes_table(self, name, off, target):
        kernel = mh.Delta(off)
        pairs = Pairs(DenseGram(None, kernel, self.x), DenseGram(None, kernel, self.z), 1e-9, target)
        prior_z = np.repeat(np.arange(3.0), PRIOR_COUNTS)[:, None]
        prior = Prior.of(pairs.gram_z, prior_z, np.full(8, 1 / 8))
        rule = RULES[name]
        reg = 1e-16 if rule.SQUARED else 1e-9
        W = rule.posterior_weights(pairs, prior, pairs.gram_x.cross(self.values), reg)
        on = prior_z if rule.ON_PRIOR else self.z
        assert_allclose(masses(W, on), bayes_table(), atol=1e-6)

    def test_the_prior_matters(self):
        assert np.abs(bayes_table() - bayes_table(prior=np.ones(3))).max() > 0.1

    def test_ratio_is_that_of_the_frequencies(self):
        kernel = mh.Delta(0.0)
        gram = DenseGram(None, kernel, self.z)
        prior = Prior.of(gram, np.arange(3.0)[:, None], PRIOR_COUNTS / 8)
        ratio = Pairs(gram, gram, 1e-10).ratio(prior)
        seen = np.array([(self.z == s).mean() for s in range(3)])
        assert_allclose(ratio, (PRIOR_COUNTS / 8 / seen)[self.z[:, 0].astype(int)], rtol=1e-6)

    def test_deconditional_is_exact_where_x_is_a_function_of_z(self):
        z = self.z
        x = (z == 2).astype(float)  # z 0 and 1 look alike
        kernel = mh.Delta(0.0)
        pairs = Pairs(DenseGram(None, kernel, x), DenseGram(None, kernel, z), 1e-9)
        points, alpha = np.arange(3.0)[:, None], PRIOR_COUNTS / 8
        prior = Prior.of(pairs.gram_z, points, alpha)
        W = deconditional.posterior_weights(pairs, prior, pairs.gram_x.cross(np.array([[0.0], [1.0]])), 1e-9)
        assert_allclose(masses(W, points), [[1 / 6, 5 / 6, 0], [0, 0, 1]], atol=1e-6)

    def test_deconditional_is_not_bayes_under_noise(self):
        kernel = mh.Delta(0.0)
        pairs = Pairs(DenseGram(None, kernel, self.x), DenseGram(None, kernel, self.z), 1e-9)
        points = np.arange(3.0)[:, None]
        prior = Prior.of(pairs.gram_z, points, PRIOR_COUNTS / 8)
        W = deconditional.posterior_weights(pairs, prior, pairs.gram_x.cross(self.values), 1e-9)
        # It inverts the likelihood: averaged over x given z, its answer is z again.
        likelihood = np.stack([((self.x == v) & (self.z == s)).sum() for s in range(3) for v in range(4)])
        likelihood = likelihood.reshape(3, 4) / likelihood.reshape(3, 4).sum(axis=1, keepdims=True)
        assert_allclose(likelihood @ masses(W, points), np.eye(3), atol=1e-5)
        assert np.abs(masses(W, points) - bayes_table()).max() > 0.2


class TestFormulas:
    @pytest.mark.parametrize("target", [0.0, 1.0])
    def test_ratio(self, target):
        pairs = smooth_pairs(target)
        expected = dense_ratio(GZ, CROSS @ ALPHA, ETA, target)
        assert_allclose(pairs.ratio(smooth_prior(pairs)), expected, rtol=1e-9)

    @pytest.mark.parametrize("target", [0.0, 1.0])
    def test_importance(self, target):
        pairs = smooth_pairs(target)
        r = dense_ratio(GZ, CROSS @ ALPHA, ETA, target)
        assert (r < 0).any() or target  # some are cut off
        W = importance.posterior_weights(pairs, smooth_prior(pairs), pairs.gram_x.cross(QUERY), 1e-3)
        # As printed λ goes with D = diag(r̂): on the operator scale that is λ/n.
        assert_allclose(W, dense_importance(GX, r, G, N * 1e-3), rtol=1e-8, atol=1e-12)
        assert (W[:, r <= 0] == 0).all()

    def test_kbr_b(self):
        pairs = smooth_pairs()
        D = dense_ratio(GZ, CROSS @ ALPHA, ETA) / N
        W = kbr_b.posterior_weights(pairs, smooth_prior(pairs), pairs.gram_x.cross(QUERY), 1e-4)
        assert_allclose(W, dense_kbr_b(GX, D, G, 1e-4), rtol=1e-6, atol=1e-10)
        # With sums in place of averages the regulariser is n² times as large.
        assert_allclose(W, dense_kbr_b(GX, N * D, G, N**2 * 1e-4), rtol=1e-6, atol=1e-10)

    def test_kbr_a(self):
        pairs = smooth_pairs()
        D = dense_ratio(GZ, CROSS @ ALPHA, ETA) / N
        W = kbr_a.posterior_weights(pairs, smooth_prior(pairs), pairs.gram_x.cross(QUERY), 1e-4)
        assert_allclose(W, dense_kbr_a(GX, GZ, CROSS, ALPHA, D, G, ETA, 1e-4), rtol=1e-6, atol=1e-10)

    @pytest.mark.parametrize("alpha", [None, ALPHA])
    def test_deconditional(self, alpha):
        pairs = smooth_pairs()
        prior = smooth_prior(pairs, np.full(11, 1 / 11) if alpha is None else alpha)
        W = deconditional.posterior_weights(pairs, prior, pairs.gram_x.cross(QUERY), 1e-3)
        assert_allclose(W, dense_deconditional(GX, GZ, CROSS, G, ETA, 1e-3, alpha), rtol=1e-7, atol=1e-11)

    def test_embeddings_may_be_observed(self):
        """Rules are linear in ψ(x): an uncertain observation gives the mixture of the answers."""
        pairs = smooth_pairs()
        for rule in RULES.values():
            W = rule.posterior_weights(pairs, smooth_prior(pairs), G, 1e-3)
            mixed = rule.posterior_weights(pairs, smooth_prior(pairs), G @ np.full((4, 1), 0.25), 1e-3)
            assert_allclose(mixed[0], W.mean(axis=0), rtol=1e-6, atol=1e-12)


class TestDeconditional:
    def test_small_and_large_systems_agree(self):
        """The m×m and the n×n (here: features of x) forms of [HR19, Def. 4.4]."""
        big = np.random.default_rng(1).standard_normal((40, 2))
        for points in (POINTS, big):
            pairs = smooth_pairs()
            r = pairs.factor_x.Phi.shape[1]
            assert (len(points) > r) is (points is big)  # one of each
            prior = Prior.of(pairs.gram_z, points, np.full(len(points), 1 / len(points)))
            W = deconditional.posterior_weights(pairs, prior, pairs.gram_x.cross(QUERY), 1e-3)
            cross = KERNEL_Z(Z, points)
            assert_allclose(W, dense_deconditional(GX, GZ, cross, G, ETA, 1e-3), rtol=1e-6, atol=1e-9)
            # The alternative form, n×n: Aᵀ (K A Aᵀ + mεI)⁻¹ k(x).
            A = np.linalg.solve(GZ + N * ETA * np.eye(N), cross)
            alternative = A.T @ np.linalg.solve(GX @ A @ A.T + len(points) * 1e-3 * np.eye(N), G)
            assert_allclose(W, alternative.T, rtol=1e-6, atol=1e-9)

    def test_with_its_own_data_it_is_the_conditional_mean(self):
        """[HR19, Thm. 6.2] as λ → 0, for a kernel whose Gram is far from singular (errata)."""
        kernel_z = mh.Laplace(0.7)
        eps, errors = 1e-2, []
        cme = np.linalg.solve(GX + N * eps * np.eye(N), G).T
        for lam in (1e-3, 1e-5, 1e-7, 1e-9):
            assert len(errors) == 0 or N * lam < np.linalg.eigvalsh(kernel_z(Z))[0]
            pairs = smooth_pairs(eta=lam, kernel_z=kernel_z)
            prior = Prior.of(pairs.gram_z, Z, np.full(N, 1 / N))
            W = deconditional.posterior_weights(pairs, prior, pairs.gram_x.cross(QUERY), eps)
            errors.append(np.abs(W - cme).max())
        assert errors[0] > 30 * errors[1] > 900 * errors[2]  # linear in λ
        assert errors[3] < 1e-6

    def test_leans_too_little_on_the_prior_under_noise(self):
        """X = Z + 0.5 ε, standard normal prior: E[Z | x = 1] is .80, the rule says .94–1.06 (errata)."""
        rng = np.random.default_rng(0)
        z = rng.standard_normal((600, 1))
        x = z + 0.5 * rng.standard_normal((600, 1))
        kernel = mh.Gaussian(1.0)
        pairs = Pairs(DenseGram(None, kernel, x), DenseGram(None, kernel, z), 1e-3)
        prior = Prior.of(pairs.gram_z, z, np.full(600, 1 / 600))
        cross = pairs.gram_x.cross(np.array([[1.0]]))
        assert 0.94 < (deconditional.posterior_weights(pairs, prior, cross, 1e-3) @ z).item() < 1.06
        assert abs((importance.posterior_weights(pairs, prior, cross, 1e-3) @ z).item() - 0.8) < 0.05


@pytest.mark.parametrize("name", RULES)
class TestRepresentations:
    @pytest.mark.parametrize("target", [0.0, 1.0])
    def test_nystrom_with_all_points_is_exact(self, name, target):
        both = [smooth_pairs(target), smooth_pairs(target, representation=mh.Nystrom(N))]
        assert isinstance(both[1].gram_x, LowRankGram)
        exact, low = (
            RULES[name].posterior_weights(p, smooth_prior(p), p.gram_x.cross(QUERY), 1e-3) for p in both
        )
        assert_allclose(low, exact, rtol=1e-5, atol=1e-8)

    @pytest.mark.parametrize("mixed", [(0, 1), (1, 0)])
    def test_x_and_z_may_differ(self, name, mixed):
        exact = smooth_pairs()
        make = [mh.Exact(), mh.Nystrom(N)]
        pairs = Pairs(make[mixed[0]].gram(KERNEL_X, X), make[mixed[1]].gram(KERNEL_Z, Z), ETA)
        expected, got = (
            RULES[name].posterior_weights(p, smooth_prior(p), p.gram_x.cross(QUERY), 1e-3)
            for p in (exact, pairs)
        )
        assert_allclose(got, expected, rtol=1e-5, atol=1e-8)

    def test_fourier_features_come_near(self, name):
        exact = smooth_pairs()
        low = smooth_pairs(representation=mh.Fourier(500))
        reg = 0.05
        expected, got = (
            RULES[name].posterior_weights(p, smooth_prior(p), p.gram_x.cross(QUERY), reg)
            for p in (exact, low)
        )
        assert np.abs(got - expected).max() < 0.2 * np.abs(expected).max()

    def test_blocks(self, name):
        pairs = smooth_pairs(representation=mh.Exact(memory=0, block=5 * N, rank=9, tolerance=1e-12))
        run = lambda p: RULES[name].posterior_weights(p, smooth_prior(p), p.gram_x.cross(QUERY), 1e-3)  # noqa: E731
        if name == "importance":
            assert_allclose(run(pairs), run(smooth_pairs()), rtol=1e-5, atol=1e-8)
        else:
            with pytest.raises(ValueError, match=r"BlockedGram has no features.*mh.Nystrom\(500\)"):
                run(pairs)


class TestThirdOrder:
    def test_contraction_is_the_sum_over_pairs(self):
        rng = np.random.default_rng(0)
        Psi, Phi = rng.standard_normal((30, 4)), rng.standard_normal((30, 3))
        s, psi = rng.standard_normal(3), rng.standard_normal((4, 1))
        gamma = Phi @ s / 30
        C = Psi.T @ (gamma[:, None] * Psi)
        b = np.linalg.solve(C @ C + 0.1 * np.eye(4), C @ psi)[:, 0]
        w = gamma * (Psi @ b)
        m, got_b, mass = ThirdOrder.of(Psi, Phi).posterior(s, psi, 0.1)
        assert_allclose(got_b, b, rtol=1e-9)
        assert_allclose(m, w @ Phi, rtol=1e-9)
        assert_allclose(mass, w.sum(), rtol=1e-9)

    def test_blocks_of_rows_add_up(self, monkeypatch):
        rng = np.random.default_rng(0)
        Psi, Phi = rng.standard_normal((31, 4)), rng.standard_normal((31, 3))
        whole = ThirdOrder.of(Psi, Phi)
        monkeypatch.setattr("muhat.operators.bayes.third_order.BLOCK_ELEMENTS", 100)
        parts = ThirdOrder.of(Psi, Phi)
        for name in ("evidence", "joint", "mass"):
            assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12)

    def test_pays_only_where_there_are_many_pairs_and_room(self):
        assert ThirdOrder.pays(1_000_000, 50, 50)
        assert not ThirdOrder.pays(100, 50, 50)
        assert not ThirdOrder.pays(10**9, 2000, 2000)


class TestOverlap:
    @pytest.mark.parametrize("name", ["importance", "kbr_a", "kbr_b"])
    @pytest.mark.parametrize("distance", [15.0, 1000.0])
    @pytest.mark.parametrize("target", [0.0, 1.0])
    @pytest.mark.parametrize("representation", [None, mh.Nystrom(N)])
    def test_a_prior_far_from_all_pairs_is_refused(self, name, distance, target, representation):
        pairs = smooth_pairs(target, representation=representation)
        prior = Prior.of(pairs.gram_z, POINTS + distance, ALPHA)
        with pytest.raises(NoOverlap, match=r"no mass near any z.*at most .* there.*cover the prior"):
            RULES[name].posterior_weights(pairs, prior, pairs.gram_x.cross(QUERY), 1e-3)

    def test_a_ratio_that_is_nowhere_positive_is_refused(self):
        with pytest.raises(NoOverlap, match=r"density ratio is at most -0.1 there.*lower reg_prior"):
            importance.truncate(np.array([-1.0, -0.1]))

    @pytest.mark.parametrize("weights", [-ALPHA, ALPHA - ALPHA.mean() - 1e-3])
    def test_deconditional_needs_a_measure(self, weights):
        pairs = smooth_pairs()
        prior = smooth_prior(pairs, weights)
        with pytest.raises(NoOverlap, match=r"weights sum to -.*no distribution"):
            deconditional.posterior_weights(pairs, prior, pairs.gram_x.cross(QUERY), 1e-3)

    def test_no_overlap_is_a_value_error(self):
        assert issubclass(NoOverlap, ValueError)


def test_mass_is_the_positive_part_with_the_same_sum():
    prior = Prior(np.zeros((1, 1)), POINTS, np.array([0.5, -0.2, 0.7]), None)
    assert_allclose(prior.mass, [0.5 / 1.2, 0.0, 0.7 / 1.2])


def test_negligible_ratios_drop_out():
    pairs = smooth_pairs()
    D = np.full(N, 1 / N)
    D[3] = 1e-13 / N
    D[5] = 0.0
    W = importance.weighted_regression(pairs.gram_x, D, G, 1e-3)
    assert (W[:, [3, 5]] == 0).all()
    keep = np.delete(np.arange(N), [3, 5])
    alone = importance.weighted_regression(DenseGram(GX[np.ix_(keep, keep)]), D[keep], G[keep], 1e-3)
    assert_allclose(W[:, keep], alone, rtol=1e-9)


class TestSquaredSolve:
    """``(C² + δI)⁻¹ C φ`` straight from BLAS and LAPACK."""

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("batch", [1, 3])
    def test_is_the_dense_answer_for_operators_of_any_sign(self, dtype, batch):
        rng = np.random.default_rng(0)
        A, phi = rng.normal(size=(6, 6)), rng.normal(size=(6, batch))
        C = A + A.T
        expected = np.linalg.solve(C @ C + 0.3 * np.eye(6), C @ phi)
        found = kbr_b.squared_solve(C.astype(dtype), phi.astype(dtype), 0.3)
        assert found.dtype == dtype
        assert_allclose(found, expected, rtol=1e-10 if dtype is np.float64 else 1e-3)

    def test_what_cannot_be_factored_gets_jitter(self):
        assert_allclose(kbr_b.squared_solve(np.diag([2.0, 0.0]), np.ones((2, 1)), 0.0), [[0.5], [0.0]])

    def test_nothing_finite_is_said_so(self):
        with pytest.raises(SingularSystem, match="not finite"):
            kbr_b.squared_solve(np.full((2, 2), np.nan), np.ones((2, 1)), 0.1)
