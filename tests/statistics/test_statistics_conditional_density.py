"""Statistics of conditional densities: known truths, rates, and the donut of [S20, Section 6.1]."""

import numpy as np
import pytest
from scipy.stats import norm

import muhat as mh

pytestmark = pytest.mark.statistics


def blobs(n, k, rng):
    """x uniform; y has noise of 0.4 in k columns, two modes in the first and a mean sin 2x in the last."""
    X = rng.uniform(-1, 1, (n, 1))
    Y = 0.4 * rng.standard_normal((n, k))
    Y[:, 0] += np.where(rng.random(n) < 0.5, 1.0, -1.0)
    Y[:, -1] += np.sin(2 * X[:, 0])
    return X, Y


def truth(x, y):
    def along(j):
        shift = np.sin(2 * x) if j == y.shape[1] - 1 else 0.0
        if j == 0:
            return 0.5 * sum(norm.pdf(y[:, 0], shift + s, 0.4) for s in (1.0, -1.0))
        return norm.pdf(y[:, j], shift, 0.4)

    return np.prod([along(j) for j in range(y.shape[1])], axis=0)


def l1(n, k, seed):
    X, Y = blobs(n, k, np.random.default_rng(seed))
    model = mh.ConditionalDensity(random_state=seed, grow=True).fit(X, Y)
    side, reach = {1: (1000, 8.0), 2: (60, 4.0), 3: (24, 3.2)}[k]
    steps = -reach + 2 * reach * (np.arange(side) + 0.5) / side
    mesh = np.stack(np.meshgrid(*[steps] * k, indexing="ij"), axis=-1).reshape(-1, k)
    cell = (2 * reach / side) ** k
    at = np.array([[-0.5], [0.6]])
    p = model.pdf(at, mesh)
    assert np.all(np.abs(p.sum(axis=1) * cell - 1) < 0.02)
    return float(np.mean([np.abs(p[i] - truth(x[0], mesh)).sum() * cell for i, x in enumerate(at)]))


@pytest.mark.parametrize(
    ("k", "sizes", "last"), [(1, (100, 1600), 0.12), (2, (200, 2000), 0.25), (3, (300, 1800), 0.42)]
)
def test_errors_fall_with_the_rows(k, sizes, last, capsys):
    errors = [np.mean([l1(n, k, seed) for seed in range(2 if k < 3 else 1)]) for n in sizes]
    rate = np.log(errors[0] / errors[1]) / np.log(sizes[1] / sizes[0])
    with capsys.disabled():
        shown = ", ".join(f"n = {n}: {e:.3f}" for n, e in zip(sizes, errors, strict=True))
        print(f"\nL1 of conditional densities in {k} dimensions, {shown}; rate n^-{rate:.2f}")
    assert rate > 0.15
    assert errors[1] < last


def test_donut():
    """Nothing set by hand: at most .20 on average over seeds, as a mixture density network reaches .18."""
    tilt, sd = 0.3, 0.2
    angle = 2 * np.pi * np.arange(50) / 50
    means = np.stack([np.cos(angle) * np.cos(tilt), np.sin(angle), -np.cos(angle) * np.sin(tilt)], axis=1)
    side = -2 + 4 * (np.arange(64) + 0.5) / 64
    mesh = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    errors = []
    for seed in range(3):
        points = np.repeat(means, 50, axis=0) + sd * np.random.default_rng(seed).standard_normal((2500, 3))
        model = mh.ConditionalDensity(grow=True).fit(points[:, :1], points[:, 1:])
        p = model.pdf([[0.0], [1.0]], mesh)
        for i, x in enumerate((0.0, 1.0)):
            w = norm.pdf(x, means[:, 0], sd)
            squares = ((mesh[:, None] - means[None, :, 1:]) ** 2).sum(axis=-1)
            true = np.exp(-0.5 * squares / sd**2) @ (w / w.sum()) / (2 * np.pi * sd**2)
            errors.append(np.abs(p[i] - true).sum() * (4 / 64) ** 2)
    errors = np.array(errors).reshape(3, 2)
    assert (errors.mean(axis=0) < 0.20).all(), errors


def test_kernel_density_is_no_better_on_heteroscedastic_noise():
    """Against a conditional kernel density estimate with both widths by leave-one-out likelihood."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 2, (700, 1))
    y = np.sin(3 * X[:, 0]) + (0.05 + 0.4 * X[:, 0]) * rng.standard_normal(700)
    train, test = slice(0, 300), slice(300, 700)
    ours = mh.ConditionalDensity().fit(X[train], y[train]).score(X[test], y[test])

    def kde(x, t, h, width, own):
        w = np.exp(-0.5 * ((x - X[train, 0]) / h) ** 2)
        if own:
            np.fill_diagonal(w, 0.0)
        return (w * norm.pdf(t, y[train], width)).sum(axis=1) / np.maximum(w.sum(axis=1), 1e-12)

    grid = [(h, width) for h in (0.03, 0.06, 0.12, 0.25) for width in (0.05, 0.1, 0.2, 0.4)]
    scores = [np.log(kde(X[train], y[train, None], *g, True) + 1e-12).mean() for g in grid]
    best = grid[int(np.argmax(scores))]
    assert ours > np.log(kde(X[test], y[test, None], *best, False) + 1e-12).mean()
