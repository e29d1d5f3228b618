"""Densities from embeddings: the algebra of the reconstruction. Its statistics are in tests/statistics."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import muhat as mh
from muhat.embedding import Reference
from muhat.embedding.density import (
    detail_kernel,
    effective_size,
    scheduled_reg,
    tikhonov_coefficients,
    top_eigenvalue,
)
from muhat.embedding.reconstruction import reconstruct
from muhat.embedding.reference import as_reference, box_reference
from muhat.gram import DenseGram, KroneckerGram


def rows(n, d=1, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def integral(density, lower, upper, count=4001):
    grid = np.linspace(lower, upper, count)
    return density.pdf(grid[:, None]).sum(axis=-1) * (grid[1] - grid[0])


class TestFormula:
    """S20, eqs. (6) and (9), as corrected in the errata."""

    kernel = mh.Laplace(0.8)
    mass, reg = 8.0, 0.03

    def setup_method(self):
        self.z = np.sort(np.random.default_rng(1).uniform(-4, 4, 40))[:, None]
        self.mu = mh.embed(0.3 + 0.5 * rows(50), self.kernel)
        self.L = self.kernel(self.z)
        # On the reference points Ĉ_ρ is (V/M) L, and u = Ĉ_ρ (Ĉ_ρ + α'I)⁻² μ.
        self.C = self.mass / 40 * self.L
        shifted = self.C + self.reg * np.eye(40)
        self.u = self.C @ np.linalg.solve(shifted, np.linalg.solve(shifted, self.mu(self.z)))
        self.density = self.mu.density(self.z, self.reg, self.kernel, self.mass)

    def test_on_the_reference_points(self):
        beta = tikhonov_coefficients(DenseGram(self.L), self.mass, self.mu(self.z), self.reg)
        assert_allclose(self.L @ beta, self.u, rtol=1e-9, atol=1e-14)
        assert_allclose(self.density.raw(self.z), self.u, rtol=1e-9, atol=1e-14)
        assert_allclose(self.density.coefficients, np.linalg.solve(self.L, self.u), rtol=1e-7, atol=1e-10)

    def test_elsewhere_the_values_on_the_reference_are_continued(self):
        q = rows(20, seed=2)
        expected = self.kernel(q, self.z) @ np.linalg.solve(self.L, self.u)
        assert_allclose(self.density.raw(q), expected, rtol=1e-8, atol=1e-10)

    def test_mass_and_negative_part_are_sums_over_the_reference(self):
        cell = self.mass / 40
        assert_allclose(self.density.mass, self.u.sum() * cell, rtol=1e-9)
        assert_allclose(self.density.negative, np.maximum(-self.u, 0).sum() * cell, rtol=1e-8, atol=1e-12)
        q = rows(20, seed=2)
        expected = np.maximum(self.density.raw(q), 0) / (np.maximum(self.u, 0).sum() * cell)
        assert_allclose(self.density.pdf(q), expected, rtol=1e-9)
        assert_allclose(self.density(q), expected, rtol=1e-9)
        with np.errstate(divide="ignore"):
            assert_allclose(self.density.logpdf(q), np.log(expected), rtol=1e-9)

    def test_tends_to_the_plain_tikhonov_solution(self):
        # ((V/M)L + α'I)⁻¹ μ(z) on the reference points and [μ(q) − (V/M) k(q, z) u(z)]/α' elsewhere; the
        # stable form drops L⁺L ≈ I, so that both meet as α' falls.
        kernel, V, M = mh.Gaussian(0.3), 8.0, 400
        z = (-4 + V * (np.arange(M) + 0.5) / M)[:, None]
        q = np.linspace(-1.5, 2, 57)[:, None]
        of_normal = [kernel.gaussian_embedding(x, np.array([0.3]), np.array([[0.25]])) for x in (z, q)]
        gaps = []
        for reg in (1e-1, 1e-2, 1e-3):
            u = np.linalg.solve(V / M * kernel(z) + reg * np.eye(M), of_normal[0])
            elsewhere = (of_normal[1] - V / M * kernel(q, z) @ u) / reg
            density = reconstruct(kernel, as_reference(z, V, 1), of_normal[0], reg, 1.0)
            gaps.append(max(np.abs(density.raw(z) - u).max(), np.abs(density.raw(q) - elsewhere).max()))
        assert gaps[0] > 5 * gaps[1] > 25 * gaps[2]
        assert gaps[2] < 3e-3

    def test_known_normal_from_its_exact_embedding(self):
        # N(.3, .5²) on [−4, 4], V = 8: mass .999 and L1 error .0013; the formula as printed has mass V/M³.
        kernel = mh.Gaussian(0.3)
        z = (-4 + 8 * (np.arange(400) + 0.5) / 400)[:, None]
        values = kernel.gaussian_embedding(z, np.array([0.3]), np.array([[0.25]]))
        density = reconstruct(kernel, as_reference(z, 8.0, 1), values, 1e-4, 1.0)
        assert_allclose(density.mass, 1, atol=1e-3)
        truth = norm.pdf(z[:, 0], 0.3, 0.5)
        assert np.abs(density.raw(z) - truth).sum() * 8 / 400 < 2e-3
        assert np.abs(density.pdf(z) - truth).sum() * 8 / 400 < 2e-3

    def test_log_density_is_minus_infinity_where_the_density_is_zero(self):
        density = mh.embed(rows(50), mh.Gaussian(1.0)).density()
        assert density.logpdf(np.array([[1e3]]))[0] == -np.inf


class TestChoices:
    def test_schedule(self):
        kernel, z = mh.Gaussian(0.5), np.linspace(-3, 3, 60)[:, None]
        top = np.linalg.eigvalsh(kernel(z))[-1]
        gram = DenseGram(kernel(z))
        assert_allclose(top_eigenvalue(gram), top, rtol=1e-4)
        grid, draws = Reference(z, 6.0), Reference(z, 6.0, random=True)
        assert_allclose(scheduled_reg(gram, grid, 100.0), 0.1 * top * 0.1**0.9, rtol=1e-4)
        assert_allclose(scheduled_reg(gram, draws, 1e8), 0.1 * top * 60**-0.225, rtol=1e-4)
        assert_allclose(scheduled_reg(gram, draws, 4.0), 0.1 * top * 0.5**0.9, rtol=1e-4)

    def test_detail_kernel_is_silvermans_width(self):
        X = np.c_[rows(401), 3 * np.random.default_rng(2).standard_exponential((401, 1))]
        q1, q3 = np.quantile(X, [0.25, 0.75], axis=0, method="inverted_cdf")
        expected = 0.9 * np.minimum(X.std(axis=0), (q3 - q1) / 1.34) * 401 ** (-1 / 6)
        assert_allclose(detail_kernel(X, np.full(401, 1 / 401)).lengthscale, expected, rtol=1e-9)

    def test_detail_kernel_of_weights_that_end_in_a_heavy_point(self):
        X, w = np.array([[0.0], [1.0], [3.0]]), np.array([0.3, 0.1, 0.6])  # quartiles 0 and 3
        sd, n = np.sqrt(w @ (X[:, 0] - w @ X[:, 0]) ** 2), 1 / (w**2).sum()
        assert sd < 3 / 1.34
        assert_allclose(detail_kernel(X, w).lengthscale, 0.9 * sd * n**-0.2, rtol=1e-9)

    def test_detail_kernel_without_interquartile_range(self):
        X = np.r_[np.zeros(80), np.ones(20)][:, None]
        assert_allclose(detail_kernel(X, np.full(100, 0.01)).lengthscale, 0.9 * 0.4 * 100**-0.2, rtol=1e-9)

    def test_effective_size(self):
        assert_allclose(effective_size(np.array([0.5, 0.25, 0.25])), 1 / 0.375)

    def test_user_regulariser_and_kernel_are_used(self):
        mu = mh.embed(rows(80), mh.Gaussian(1.0))
        density = mu.density(reg=0.123, kernel=mh.Laplace(0.4))
        assert density.reg == 0.123
        assert density.kernel == mh.Laplace(0.4)
        assert mu.density(kernel=mh.Gaussian("median")).kernel == mh.Gaussian("median").resolve(mu.points)
        assert mu.density(kernel=mu.kernel).kernel == mu.kernel

    @pytest.mark.parametrize("kernel", [mh.Laplace(0.3), mh.Matern(1.5, 0.3), mh.Cauchy(0.3)], ids=repr)
    def test_other_families_integrate_to_one(self, kernel):
        density = mh.embed(rows(300), mh.Gaussian(1.0)).density(kernel=kernel)
        lower, upper = density.reference.lower[0], density.reference.upper[0]
        assert_allclose(integral(density, lower, upper), 1, atol=0.02)

    def test_representation_of_the_embedding_does_not_matter(self):
        X, grid = rows(200), np.linspace(-3, 3, 50)[:, None]
        exact = mh.embed(X, mh.Gaussian(1.0)).density()
        for representation in (mh.Nystrom(20), mh.Fourier(50)):
            other = mh.embed(X, mh.Gaussian(1.0), representation=representation).density()
            assert_allclose(other.pdf(grid), exact.pdf(grid), rtol=1e-10)

    def test_signed_weights(self):
        X = np.concatenate([rows(200), rows(200, seed=2) + 6])
        w = np.r_[np.full(200, 1.1 / 200), np.full(200, -0.1 / 200)]
        reference = box_reference(np.array([-6.0]), np.array([10.0]), np.ones(1))
        density = mh.embed(X, mh.Gaussian(1.0), weights=w).density(reference)
        assert density.negative > 0.02
        assert_allclose(integral(density, -6, 10), 1, atol=0.02)
        grid = np.linspace(-6, 10, 300)[:, None]
        assert (density.pdf(grid) >= 0).all()
        assert density.raw(np.array([[6.0]]))[0] < 0


class TestReference:
    @pytest.mark.parametrize(("d", "count"), [(1, 512), (2, 64), (3, 32)])
    def test_box_in_few_dimensions_is_a_grid_of_midpoints(self, d, count):
        lower, upper = -np.arange(1.0, d + 1), np.full(d, 2.0)
        reference = box_reference(lower, upper, np.full(d, 10.0))
        assert reference.points.shape == (count**d, d)
        assert_allclose(reference.mass, np.prod(upper - lower))
        step = (upper - lower) / count
        assert_allclose(reference.points.min(axis=0), lower + step / 2)
        assert_allclose(reference.points.max(axis=0), upper - step / 2)
        mesh = np.stack(np.meshgrid(*reference.axes, indexing="ij"), axis=-1).reshape(-1, d)
        assert_allclose(reference.points, mesh, rtol=0)
        assert not reference.random

    def test_fine_detail_refines_one_dimension(self):
        reference = box_reference(np.zeros(1), np.ones(1), np.array([0.002]))
        assert len(reference.points) == 1000
        assert len(box_reference(np.zeros(1), np.ones(1), np.array([1e-9])).points) == 2048

    def test_box_in_many_dimensions_is_a_sobol_sequence(self):
        reference = box_reference(np.zeros(5), np.full(5, 2.0), np.ones(5))
        assert reference.points.shape == (2048, 5)
        assert_allclose(reference.mass, 32)
        assert reference.axes is None
        assert_allclose(reference.points.mean(axis=0), 1, atol=1e-3)

    def test_five_dimensions_by_sobol(self):
        X = rows(500, 5)
        density = mh.embed(X, mh.Gaussian(1.0)).density(kernel=mh.Gaussian(1.0))
        centre, corner = density.pdf(np.array([np.zeros(5), np.full(5, 2.5)]))
        assert centre > 20 * corner

    @pytest.mark.parametrize("kernel", [mh.Gaussian([0.4, 0.7]), mh.Laplace(0.5)], ids=repr)
    def test_kronecker_grid_equals_the_dense_reference(self, kernel):
        X = rows(100, 2)
        axes = [np.linspace(-3, 3, 14), np.linspace(-4, 4, 11)]
        mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        volume = 6 * 14 / 13 * 8 * 11 / 10  # cells reach half a step beyond the ends
        mu = mh.embed(X, mh.Gaussian(1.0))
        grid = mu.density(axes, 0.05, kernel)
        dense = mu.density(mesh, 0.05, kernel, mass=volume)
        assert isinstance(grid.reference.gram(kernel), KroneckerGram)
        assert isinstance(dense.reference.gram(kernel), DenseGram)
        assert_allclose(grid.reference.mass, volume)
        q = rows(30, 2, seed=4)
        assert_allclose(grid.raw(q), dense.raw(q), rtol=1e-8, atol=1e-10)
        assert_allclose([grid.mass, grid.negative], [dense.mass, dense.negative], rtol=1e-8)

    def test_kernels_that_are_no_product_take_the_dense_gram(self):
        axes = [np.linspace(-3, 3, 12), np.linspace(-3, 3, 12)]
        density = mh.embed(rows(100, 2), mh.Gaussian(1.0)).density(axes, 0.05, mh.Matern(1.5, 0.5))
        assert isinstance(density.reference.gram(density.kernel), DenseGram)
        assert_allclose(density.mass, 1, atol=0.2)

    def test_given_points_have_the_volume_of_their_box_and_count_as_random(self):
        z = np.random.default_rng(3).uniform(-4, 4, (300, 1))
        density = mh.embed(rows(200), mh.Gaussian(1.0)).density(z)
        assert_allclose(density.reference.mass, np.ptp(z))
        assert density.reference.random
        assert_allclose(integral(density, -4, 4), 1, atol=0.15)  # 300 random points know no better

    def test_given_mass_scales_the_solution(self):
        z = np.linspace(-4, 4, 100)[:, None]
        mu = mh.embed(rows(200), mh.Gaussian(1.0))
        one = mu.density(z, 1e-3, mh.Gaussian(0.4), 8.0)
        # Twice the measure: half the density with respect to it, with the regulariser of Ĉ_ρ doubled, too.
        two = mu.density(z, 2e-3, mh.Gaussian(0.4), 16.0)
        assert_allclose(two.raw(z), one.raw(z) / 2, rtol=1e-9, atol=1e-12)
        assert_allclose(two.pdf(z), one.pdf(z) / 2, rtol=1e-9, atol=1e-12)
        assert_allclose(two.mass, one.mass, rtol=1e-9)

    def test_a_reference_is_taken_as_it_is(self):
        reference = box_reference(np.array([-5.0]), np.array([5.0]), np.ones(1))
        assert mh.embed(rows(50), mh.Gaussian(1.0)).density(reference).reference is reference


class TestInvariance:
    @pytest.mark.parametrize("d", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("scale", [1e-8, 1e8])
    def test_units_scale_the_density(self, d, scale):
        X, q = rows(80, d), rows(20, d, seed=2)
        plain = mh.embed(X).density()
        scaled = mh.embed(scale * X).density()
        assert_allclose(scaled.pdf(scale * q) * scale**d, plain.pdf(q), rtol=1e-6, atol=1e-9)
        assert_allclose(scaled.mass, plain.mass, rtol=1e-8)

    def test_translation(self):
        X, q = rows(100), rows(20, seed=2)
        plain, moved = mh.embed(X).density(), mh.embed(X + 1e4).density()
        assert_allclose(moved.pdf(q + 1e4), plain.pdf(q), rtol=1e-5, atol=1e-8)

    def test_order_of_points(self):
        X, q = rows(100), rows(20, seed=2)
        assert_allclose(mh.embed(X[::-1]).density().pdf(q), mh.embed(X).density().pdf(q), rtol=1e-8)

    def test_duplicated_rows_with_half_the_weight(self):
        X, q, kernel = rows(100), rows(20, seed=2), mh.Gaussian(0.4)
        once = mh.embed(X).density(reg=0.01, kernel=kernel)
        twice = mh.embed(np.repeat(X, 2, axis=0)).density(reg=0.01, kernel=kernel)
        assert_allclose(twice.pdf(q), once.pdf(q), rtol=1e-8, atol=1e-12)

    def test_batch_is_linear_in_the_weights(self):
        W = np.random.default_rng(3).dirichlet(np.ones(60), 3)
        mu, kernel = mh.embed(rows(60), mh.Gaussian(1.0), weights=W), mh.Gaussian(0.4)
        reference = box_reference(np.array([-5.0]), np.array([5.0]), np.ones(1))
        density = mu.density(reference, 0.02, kernel)
        q = rows(20, seed=2)
        assert density.pdf(q).shape == (3, 20)
        assert density.mass.shape == (3,)
        for b in range(3):
            one = mu[b].density(reference, 0.02, kernel)
            assert_allclose(density.raw(q)[b], one.raw(q), rtol=1e-9, atol=1e-12)
            assert_allclose(density.pdf(q)[b], one.pdf(q), rtol=1e-9, atol=1e-12)
            assert_allclose(density.logpdf(q)[b], one.logpdf(q), rtol=1e-7, atol=1e-9)
        mixture = mh.embed(rows(60), mh.Gaussian(1.0), weights=W.mean(axis=0))
        assert_allclose(
            mixture.density(reference, 0.02, kernel).raw(q), density.raw(q).mean(axis=0), rtol=1e-9
        )

    def test_batch_with_defaults(self):
        W = np.random.default_rng(3).dirichlet(np.ones(60), 3)
        density = mh.embed(rows(60), mh.Gaussian(1.0), weights=W).density()
        assert_allclose(integral(density, -8, 8), 1, atol=0.02)


@pytest.mark.parametrize("reach", [0.0, 0.3, 0.5, 0.7])  # beyond a half: outside the support
def test_ends_of_an_interval_are_as_far_out_as_asked(reach):
    x = rows(200)
    model = mh.ConditionalMean(mh.Gaussian(0.5), reg=1e-3).fit(x, np.sin(x) + 0.3 * rows(200, seed=1))
    density = model.at([[-1.0], [0.5]]).density()
    ends = density.within(reach, 0)
    assert ends.shape == (2, 2)
    for end in ends.T:
        assert_allclose(density.reach(end[:, None])[:, 0], reach, atol=1e-6)
