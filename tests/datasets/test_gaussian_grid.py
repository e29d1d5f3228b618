"""The grid of Gaussians has nine centres and the covariance that was asked for."""

import numpy as np
import pytest

from muhat.datasets import gaussian_grid


def test_each_component_has_its_centre_and_covariance():
    X = gaussian_grid(20_000, ratio=4.0, spacing=5.0, angle=np.pi / 6).reshape(9, 20_000, 2)
    centres = [(a, b) for a in (-5, 0, 5) for b in (-5, 0, 5)]
    np.testing.assert_allclose(X.mean(axis=1), centres, atol=0.06)
    long, short = (
        np.array([np.cos(np.pi / 6), np.sin(np.pi / 6)]),
        np.array([-np.sin(np.pi / 6), np.cos(np.pi / 6)]),
    )
    for part in X:
        cov = np.cov(part.T)
        np.testing.assert_allclose(cov, 4 * np.outer(long, long) + np.outer(short, short), atol=0.15)


def test_components_are_drawn_when_not_stratified():
    X = gaussian_grid(100, stratified=False)
    _, counts = np.unique(np.round(X / 10), axis=0, return_counts=True)
    assert X.shape == (900, 2)
    assert counts.std() > 3
    _, counts = np.unique(np.round(gaussian_grid(100) / 10), axis=0, return_counts=True)
    assert set(counts) == {100}
    np.testing.assert_array_equal(gaussian_grid(5, random_state=3), gaussian_grid(5, random_state=3))


@pytest.mark.parametrize("bad", [{"n_per": 0}, {"ratio": 0.0}, {"spacing": -1.0}])
def test_sizes_of_the_grid_are_checked(bad):
    with pytest.raises(ValueError, match="must be"):
        gaussian_grid(**bad)
