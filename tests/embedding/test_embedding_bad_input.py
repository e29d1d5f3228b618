"""Every refusal names the argument, the value seen and the remedy."""

import numpy as np
import pytest

import muhat as mh

X = np.random.default_rng(0).standard_normal((20, 2))
KERNEL = mh.Gaussian(1.0)


def mu(**options):
    return mh.embed(X, KERNEL, **options)


def broken(value, at=(3, 1)):
    A = X.copy()
    A[at] = value
    return A


CASES = {
    "NaN": (
        lambda: mh.embed(broken(np.nan)),
        ValueError,
        r"X contains NaN .*row 3, column 1.*Drop or impute",
    ),
    "inf": (lambda: mh.embed(broken(-np.inf)), ValueError, r"X contains inf .*row 3, column 1"),
    "no rows": (lambda: mh.embed(X[:0]), ValueError, r"X has 0 samples .*pass more rows"),
    "no columns": (lambda: mh.embed(X[:, :0]), ValueError, r"X has no columns"),
    "a vector": (lambda: mh.embed(X[:, 0]), ValueError, r"X must be 2-dimensional.*X\.reshape\(-1, 1\)"),
    "a cube": (lambda: mh.embed(X[None]), ValueError, r"X must be 2-dimensional.*\(1, 20, 2\)"),
    "a number": (lambda: mh.embed(3.0), ValueError, r"X must be 2-dimensional"),
    "text": (lambda: mh.embed([["a", "b"]]), TypeError, r"X must hold numbers.*dtype <U1"),
    "complex": (lambda: mh.embed(X + 1j), ValueError, r"X has dtype complex128; pass real"),
    "kernel": (
        lambda: mh.embed(X, "gaussian"),
        TypeError,
        r"kernel must be a kernel .*'gaussian'.*mh\.Gaussian",
    ),
    "representation": (
        lambda: mh.embed(X, KERNEL, representation="nystrom"),
        TypeError,
        r"representation must be .*'nystrom'.*mh\.Nystrom",
    ),
    "median of equal rows": (
        lambda: mh.embed(np.ones((5, 2)), mh.Gaussian("median")),
        ValueError,
        r"all rows are the same.*positive number",
    ),
    "weights shape": (
        lambda: mu(weights=np.ones(19)),
        ValueError,
        r"weights must have shape \(20,\).*\(19,\)",
    ),
    "weights rank": (lambda: mu(weights=np.ones((1, 1, 20))), ValueError, r"weights must have shape"),
    "weights NaN": (lambda: mu(weights=np.full(20, np.nan)), ValueError, r"weights contains NaN"),
    "weights text": (lambda: mu(weights=["a"] * 20), TypeError, r"weights must be numbers"),
    "random_state": (
        lambda: mu(representation=mh.Nystrom(5), random_state="a"),
        ValueError,
        r"random_state must be .*'a'",
    ),
    "shrink and weights": (lambda: mu(shrink=0.1, weights=np.ones(20)), ValueError, r"weights and shrink"),
    "shrink name": (lambda: mu(shrink="cv"), ValueError, r"shrink must be one of 'loo', got 'cv'"),
    "shrink zero": (lambda: mu(shrink=0.0), ValueError, r"shrink must be positive.*0\.0.*\"loo\""),
    "shrink negative": (lambda: mu(shrink=-1.0), ValueError, r"shrink must be positive.*-1\.0"),
    "shrink vector": (lambda: mu(shrink=[0.1, 0.2]), TypeError, r"shrink must be a number"),
    "shrink of two rows": (
        lambda: mh.embed(X[:2], KERNEL, shrink=0.1),
        ValueError,
        r"at least 3 rows, got 2",
    ),
    "x columns": (lambda: mu()(X[:, :1]), ValueError, r"x has 1 columns but the embedding has 2"),
    "x NaN": (lambda: mu()(broken(np.nan)), ValueError, r"x contains NaN"),
    "x vector": (lambda: mu()(X[0]), ValueError, r"x must be 2-dimensional"),
    "inner of an array": (lambda: mu().inner(X), TypeError, r"expected an Embedding, got ndarray.*mh\.embed"),
    "distance to a number": (lambda: mu().distance(5), TypeError, r"expected an Embedding, got int"),
    "sum with a number": (lambda: mu() + 1.0, TypeError, r"expected an Embedding, got float"),
    "other kernel": (
        lambda: mu().inner(mh.embed(X, mh.Gaussian(2.0))),
        ValueError,
        r"different spaces, Gaussian\(lengthscale=1\) and Gaussian\(lengthscale=2\).*same kernel",
    ),
    "other features": (
        lambda: mu(representation=mh.Nystrom(5)).inner(mu(representation=mh.Nystrom(5), random_state=1)),
        ValueError,
        r"different spaces.*same features",
    ),
    "other columns": (
        lambda: mu() - mh.embed(X[:, :1], KERNEL),
        ValueError,
        r"the other embedding has 1 columns but this one has 2",
    ),
    "mmd columns": (lambda: mh.mmd(X, X[:, :1]), ValueError, r"nu has 1 columns but mu has 2"),
    "mmd NaN": (lambda: mh.mmd(X, broken(np.nan)), ValueError, r"nu contains NaN"),
    "mmd kernel": (lambda: mh.mmd(X, X, "gaussian"), TypeError, r"kernel must be a kernel .*'gaussian'"),
    "mmd of embeddings with kernel": (
        lambda: mh.mmd(mu(), mu(), KERNEL),
        ValueError,
        r"kernel is for samples",
    ),
    "mmd mixed with kernel": (lambda: mh.mmd(mu(), X, KERNEL), ValueError, r"kernel is for samples"),
    "mmd mixed columns": (lambda: mh.mmd(mu(), X[:, :1]), ValueError, r"the sample has 1 columns"),
    "f shape": (
        lambda: mu().expect(lambda z: 1.0),
        ValueError,
        r"f must give one value .*20 points.*all rows at once",
    ),
    "f length": (lambda: mu().expect(np.ones(19)), ValueError, r"f must give one value .*\(19,\)"),
    "f rank": (lambda: mu().expect(np.ones((20, 1, 1))), ValueError, r"f must give one value"),
    "f text": (lambda: mu().expect(["a"] * 20), TypeError, r"f must give numbers"),
    "q above": (lambda: mu().quantile(1.5), ValueError, r"q must be levels between 0 and 1, got 1\.5"),
    "q below": (lambda: mu().quantile([0.5, -0.1]), ValueError, r"q must be levels between 0 and 1"),
    "q NaN": (lambda: mu().quantile(np.nan), ValueError, r"q must be levels"),
    "q text": (lambda: mu().quantile("half"), ValueError, r"q must be levels .*'half'"),
    "q rank": (lambda: mu().quantile([[0.5]]), ValueError, r"q must be levels"),
    "quantile of nothing": (
        lambda: (mu() - mu()).quantile(0.5),
        ValueError,
        r"quantile needs a distribution.*sum to 0",
    ),
    "histogram of nothing": (
        lambda: (mu() - mu()).histogram(),
        ValueError,
        r"histogram needs a distribution",
    ),
    "column": (lambda: mu().histogram(2), ValueError, r"column must be an index below 2, got 2"),
    "column kind": (lambda: mu().histogram(0.5), ValueError, r"column must be an index below 2, got 0\.5"),
    "bins": (lambda: mu().histogram(bins=0), ValueError, r"bins must be at least 1, got 0"),
    "normalise zero": (lambda: (mu() - mu()).normalize(), ValueError, r"sum to .*cannot be normalised"),
    "normalise a batch": (
        lambda: mu(weights=np.stack([np.full(20, 0.05), np.zeros(20)])).normalize(),
        ValueError,
        r"weights sum to 0, so",
    ),
    "herd none": (lambda: mu().herd(0), ValueError, r"n must be at least 1, got 0"),
    "herd a fraction": (lambda: mu().herd(2.5), TypeError, r"n must be a whole number, got 2\.5"),
    "herd candidates": (lambda: mu().herd(2, X[:, :1]), ValueError, r"candidates has 1 columns"),
    "density of a constant": (
        lambda: mh.embed(np.c_[X, np.ones(20)], KERNEL).density(),
        ValueError,
        r"Column 2 .* is constant.*leave it out",
    ),
    "density reg": (lambda: mu().density(reg=0), ValueError, r"reg must be positive and finite, got 0"),
    "density reg text": (lambda: mu().density(reg="x"), TypeError, r"reg must be a number, got 'x'"),
    "density reg vector": (lambda: mu().density(reg=[0.1, 0.2]), TypeError, r"reg must be a number"),
    "density kernel": (lambda: mu().density(kernel="gaussian"), TypeError, r"kernel must be a kernel"),
    "density kernel that is none": (
        lambda: mu().density(kernel=mh.Linear()),
        ValueError,
        r"no closed form.*mh\.Gaussian",
    ),
    "reference columns": (lambda: mu().density(X[:, :1]), ValueError, r"reference has 1 columns.*\(M, 2\)"),
    "reference axes": (lambda: mu().density([np.arange(3.0)]), ValueError, r"reference has 1 columns"),
    "reference NaN": (lambda: mu().density(broken(np.nan)), ValueError, r"reference contains NaN"),
    "reference of one point": (lambda: mu().density(X[:1]), ValueError, r"reference has 1 sample"),
    "mass": (lambda: mu().density(X, mass=-1.0), ValueError, r"mass must be positive.*-1\.0.*volume"),
    "mass alone": (lambda: mu().density(mass=3.0), ValueError, r"mass is that of your own reference"),
    "pdf columns": (lambda: mu().density().pdf(X[:, :1]), ValueError, r"x has 1 columns"),
    "pdf NaN": (lambda: mu().density().pdf(broken(np.nan)), ValueError, r"x contains NaN"),
}


@pytest.mark.parametrize("case", CASES)
def test_refusal(case):
    call, error, message = CASES[case]
    with pytest.raises(error, match=message):
        call()


class TestHardButFine:
    def test_one_row(self):
        one = mh.embed(X[:1], KERNEL)
        np.testing.assert_allclose(one(X[:1]), 1)
        np.testing.assert_allclose(one.cov(), np.zeros((2, 2)), atol=1e-15)

    def test_fewer_rows_than_columns(self):
        Z = np.random.default_rng(1).standard_normal((5, 50))
        wide = mh.embed(Z)
        np.testing.assert_allclose(wide.norm() ** 2, wide.kernel(Z).mean(), rtol=1e-10)

    @pytest.mark.parametrize("scale", [1e-8, 1e8])
    def test_units(self, scale):
        scaled = mh.embed(scale * X)
        np.testing.assert_allclose(scaled(scale * X), mh.embed(X)(X), rtol=1e-8)
        np.testing.assert_allclose(scaled.mean(), scale * X.mean(axis=0), rtol=1e-10)
        np.testing.assert_allclose(scaled.quantile(0.5), scale * mh.embed(X).quantile(0.5), rtol=1e-12)

    def test_nearly_singular_gram_with_features(self):
        wide = mh.Gaussian(1e3)
        low = mh.embed(X, wide, representation=mh.Nystrom(20))
        np.testing.assert_allclose(low(X), mh.embed(X, wide)(X), rtol=1e-6)

    def test_integers_lists_and_fortran_order(self):
        Z = np.arange(12).reshape(6, 2)
        expected = mh.embed(Z.astype(float), KERNEL)(Z.astype(float))
        for same in (Z, Z.tolist(), np.asfortranarray(Z)):
            np.testing.assert_allclose(mh.embed(same, KERNEL)(same), expected, rtol=1e-12)
