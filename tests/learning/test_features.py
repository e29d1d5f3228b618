"""Learning features: the loss is the ridge's, descent beats linear features, and it stops in time."""

import numpy as np
import pytest

import muhat as mh
from muhat.gram import networks
from muhat.learning.features import REGULARISERS, ridge_loss, target_features, unit_norm

rng = np.random.default_rng(0)


def brute_force(Psi, F, reg, r):
    """The minimum over E by setting the gradient of the double sum to zero, one pair at a time."""
    n, p = Psi.shape
    A, B = reg * np.eye(p), np.zeros((p, F.shape[1]))
    for i in range(n):
        A += r[i] * np.outer(Psi[i], Psi[i]) / n
        B += r[i] * np.outer(Psi[i], F[i]) / n
    E = np.linalg.solve(A, B)

    def value(E):
        return sum(r[i] * np.sum((F[i] - E.T @ Psi[i]) ** 2) for i in range(n)) / n + reg * np.sum(E**2)

    shake = np.random.default_rng(1)
    assert all(value(E) < value(E + 1e-3 * shake.standard_normal(E.shape)) for _ in range(5))
    return value(E)


class TestLoss:
    Psi, F, r = rng.standard_normal((30, 4)), rng.standard_normal((30, 3)), rng.gamma(1.0, size=30)

    @pytest.mark.parametrize("reg", [1e-3, 0.5])
    def test_is_the_least_over_all_operators(self, reg):
        ones = np.ones(30)
        assert ridge_loss(self.Psi, self.F, reg) == pytest.approx(brute_force(self.Psi, self.F, reg, ones))
        assert ridge_loss(self.Psi, self.F, reg, ones) == pytest.approx(ridge_loss(self.Psi, self.F, reg))

    @pytest.mark.parametrize("reg", [1e-3, 0.5])
    def test_with_weights(self, reg):
        value = ridge_loss(self.Psi, self.F, reg, self.r)
        assert value == pytest.approx(brute_force(self.Psi, self.F, reg, self.r))
        # A weight of 2 is the row twice.
        r = np.r_[2.0, np.ones(29)]
        twice = ridge_loss(np.r_[self.Psi[:1], self.Psi], np.r_[self.F[:1], self.F], reg * 30 / 31)
        assert ridge_loss(self.Psi, self.F, reg, r) == pytest.approx(twice * 31 / 30)

    @pytest.mark.slow
    def test_is_the_same_in_jax_and_has_its_gradient(self):
        import jax

        with jax.enable_x64(True):
            grad = jax.grad(ridge_loss)(jax.numpy.asarray(self.Psi), self.F, 0.1, self.r)
            value = ridge_loss(jax.numpy.asarray(self.Psi), self.F, 0.1, self.r)
        assert float(value) == pytest.approx(ridge_loss(self.Psi, self.F, 0.1, self.r))
        D, h = rng.standard_normal(self.Psi.shape), 1e-6
        ends = [ridge_loss(self.Psi + s * h * D, self.F, 0.1, self.r) for s in (1, -1)]
        assert (np.asarray(grad) * D).sum() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6)

    def test_size_and_shift_of_raw_features_do_not_matter(self):
        a, b = (
            ridge_loss(unit_norm(raw, self.r)(raw), self.F, 0.1, self.r)
            for raw in (self.Psi, 1e3 * self.Psi - 7.0)
        )
        assert a == pytest.approx(b)
        Psi = unit_norm(self.Psi, self.r)(self.Psi)
        assert self.r @ (Psi**2).sum(axis=1) / self.r.sum() == pytest.approx(1)
        np.testing.assert_allclose(self.r @ Psi[:, 1:], 0, atol=1e-12)


class TestTargets:
    def test_are_features_of_the_kernel_and_the_columns(self):
        Z = np.c_[rng.standard_normal(400), 5 + 100 * rng.standard_normal(400), np.ones(400)]
        kernel = mh.Gaussian([1.0, 100.0, 1.0])
        F = target_features(kernel, Z, np.random.default_rng(0))
        assert F.shape == (400, 103)
        np.testing.assert_allclose(F[:, :100] @ F[:, :100].T, kernel(Z), atol=0.6)
        np.testing.assert_allclose(F[:, 100:].mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose((F[:, 100:] ** 2).mean(axis=0), [1 / 3, 1 / 3, 0], atol=1e-12)

    def test_of_categories_are_exact(self):
        Z = rng.integers(3, size=(50, 1)).astype(float)
        F = target_features(mh.Delta(), Z, np.random.default_rng(0), numbers=False)
        assert F.shape == (50, 3)
        np.testing.assert_allclose(F @ F.T, mh.Delta()(Z), atol=1e-12)


def ring(n, seed):
    """The angle of noisy points on a ring: of its double no linear function tells."""
    generator = np.random.default_rng(seed)
    angle = generator.uniform(0, 2 * np.pi, n)
    X = np.c_[np.cos(angle), np.sin(angle)] * generator.uniform(1, 2, (n, 1))
    return X, np.c_[np.cos(2 * angle), np.sin(2 * angle)] + 0.05 * generator.standard_normal((n, 2))


SMALL = mh.Neural.mlp((32,), features=8, epochs=60, learning_rate=1e-2, batch_size=64)
X, F = ring(300, 0)


@pytest.fixture(scope="module")
def kernel():
    return SMALL.train(X, F, random_state=0)


def held_out_error(features, x, f):
    """Squared error at new rows of the regression on features of the training rows."""
    Psi = features(X)
    E = np.linalg.solve(Psi.T @ Psi / len(X) + 1e-4 * np.eye(Psi.shape[1]), Psi.T @ F / len(X))
    return ((features(x) @ E - f) ** 2).sum(axis=1).mean()


class TestTraining:
    @pytest.mark.slow
    def test_learns_what_linear_features_cannot(self, kernel):
        x, f = ring(400, 1)
        assert held_out_error(lambda a: np.c_[np.ones(len(a)), a], x, f) > 0.9
        assert held_out_error(kernel.features, x, f) < 0.1
        assert kernel.training.loss[-1] < 0.2 * kernel.training.loss[0]
        assert kernel.training.held_out.min() < 0.1

    def test_features_have_unit_size_and_a_constant(self, kernel):
        Psi = kernel.features(X)
        assert Psi.dtype == np.float64
        assert Psi.shape == (300, kernel.size) == (300, 9)
        assert kernel.diag(X).mean() == pytest.approx(1, rel=1e-6)
        np.testing.assert_allclose(Psi[:, 0], 0.5**0.5)
        np.testing.assert_allclose(Psi[:, 1:].mean(axis=0), 0, atol=1e-6)
        np.testing.assert_allclose(kernel(X[:5], X[5:9]), Psi[:5] @ Psi[5:9].T, atol=1e-6)

    def test_the_same_seed_gives_the_same_features(self, kernel):
        again, other = (SMALL.train(X, F, random_state=seed) for seed in (0, 1))
        np.testing.assert_array_equal(again.features(X), kernel.features(X))
        assert again == kernel
        assert other != kernel

    def test_the_best_epoch_is_restored(self, kernel):
        # The rows kept out are the first of the first permutation after the key's seed.
        generator = np.random.default_rng(0)
        generator.integers(2**31)
        order = generator.permutation(300)
        out, used = order[:30], order[30:]
        raw = kernel.features(X)[:, 1:]
        norm = unit_norm(raw[used], np.ones(270))
        Psi, psi = norm(raw[used]), norm(raw[out])
        losses = []
        for reg in REGULARISERS:
            E = np.linalg.solve(Psi.T @ Psi / 270 + reg * np.eye(9), Psi.T @ F[used] / 270)
            losses.append(((F[out] - psi @ E) ** 2).sum(axis=1).mean())
        training = kernel.training
        assert min(losses) == pytest.approx(training.held_out.min(), rel=1e-3)
        assert training.best == np.argmin(training.held_out) + 1
        np.testing.assert_allclose(training.path, np.c_[REGULARISERS, losses], rtol=1e-3)
        assert training.reg == REGULARISERS[np.argmin(losses)]

    @pytest.mark.slow
    def test_stops_when_nothing_is_to_be_learned(self):
        noise = np.random.default_rng(2).standard_normal((120, 2))
        neural = mh.Neural.mlp((64,), features=16, epochs=200, learning_rate=1e-2, patience=5)
        training = neural.train(X[:120], noise, random_state=0).training
        assert training.best <= len(training.loss) - 5 < 60
        assert training.held_out[-1] > training.held_out.min()

    def test_without_rows_kept_out_the_last_epoch_stays(self):
        import dataclasses

        neural = dataclasses.replace(SMALL, epochs=3, validation=0.0, reg=1e-2)
        training = neural.train(X, F, random_state=0).training
        assert (training.best, training.reg, len(training.held_out)) == (3, 1e-2, 0)

    @pytest.mark.slow
    def test_weights_choose_what_is_learned(self):
        # Left of 0 the target is |x|, right of it 0; the weight is on one side.
        x = np.random.default_rng(3).uniform(-1, 1, (400, 1))
        f = np.where(x < 0, np.sin(6 * x), np.cos(6 * x))
        neural = mh.Neural.mlp((32,), features=2, epochs=80, learning_rate=1e-2, batch_size=None, reg=1e-4)
        errors = {}
        for side in (-1, 1):
            here = side * x[:, 0] > 0
            kernel = neural.train(x, f, weights=np.where(here, 1.0, 1e-4), random_state=0)
            Psi = kernel.features(x[here])
            E = np.linalg.lstsq(Psi, f[here], rcond=None)[0]
            errors[side] = ((Psi @ E - f[here]) ** 2).mean()
            Psi = kernel.features(x[~here])
            E = np.linalg.lstsq(Psi, f[~here], rcond=None)[0]
            assert ((Psi @ E - f[~here]) ** 2).mean() > 3 * errors[side]

    @pytest.mark.slow
    def test_only_ratios_of_weights_matter(self):
        r = np.random.default_rng(4).gamma(2.0, size=300)
        neural = mh.Neural.mlp((8,), features=4, epochs=2)
        a, b = (neural.train(X, F, weights=scale * r, random_state=0) for scale in (1.0, 256.0))
        np.testing.assert_allclose(a.features(X), b.features(X), atol=1e-4)

    @pytest.mark.slow
    def test_a_step_is_compiled_once(self):
        import equinox as eqx
        import jax

        calls = []

        class Counting(eqx.Module):
            inner: eqx.nn.Linear

            def __call__(self, x):
                calls.append(x.shape)
                return self.inner(x)

        module = Counting(eqx.nn.Linear(2, 4, key=jax.random.key(0)))
        mh.Neural(module, epochs=10, batch_size=64).train(X, F, random_state=0)
        # Traced for its shape, for the step, and for blocks of 256 and of 16 rows.
        assert len(calls) <= 5


@pytest.mark.slow
def test_evaluation_in_blocks_is_that_of_each_row():
    import jax

    module = networks.Perceptron((5,)).build(3, 2, jax.random.key(0))
    A = np.random.default_rng(0).standard_normal((600, 3)).astype(np.float32)
    single = np.stack([np.asarray(module(row)) for row in A[:90]])
    for n in (0, 1, 2, 16, 17, 64, 65, 90):
        np.testing.assert_allclose(networks.evaluate(module, A[:n], 2), single[:n], atol=1e-6)
    assert networks.evaluate(module, A, 2).shape == (600, 2)
