"""Factoring a dense Gram under JAX: all points, jitter where it is needed."""

import jax
import jax.numpy as jnp
import numpy as np
from gram_cases import NEW, X
from numpy.testing import assert_allclose

import muhat as mh
from muhat.gram import DenseGram


def test_factor_of_a_dense_gram_under_jit():
    kernel = mh.Matern(1.5, 0.9)

    @jax.jit
    def products(points):
        gram = DenseGram(kernel(points), kernel, points)
        features = gram.factor()
        return features.Phi @ features.Phi.T, features.Phi @ features.project(gram.cross(jnp.asarray(NEW)))

    with jax.enable_x64(True):
        K, cross = (np.asarray(a) for a in products(jnp.asarray(X)))
    assert_allclose(K, kernel(X), atol=1e-10)
    assert_allclose(cross, kernel(X, NEW), atol=1e-9)
