"""The conditional mean refuses bad input before any work, with advice."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import muhat as mh

rng = np.random.default_rng(0)
X, Y = rng.standard_normal((20, 2)), rng.standard_normal((20, 3))
KERNEL = mh.Gaussian(1.0)
FITTED = mh.ConditionalMean(KERNEL, KERNEL, 0.01).fit(X, Y)
FRAME = mh.ConditionalMean(KERNEL, KERNEL, 0.01).fit(pd.DataFrame(X, columns=["a", "b"]), Y)


def fit(A=X, B=Y, **options):
    return mh.ConditionalMean(**{"kernel_x": KERNEL, "kernel_y": KERNEL, "reg": 0.01, **options}).fit(A, B)


def broken(A, value):
    A = A.copy()
    A[3, 1] = value
    return A


CASES = {
    "X NaN": (
        lambda: fit(broken(X, np.nan)),
        ValueError,
        r"X contains NaN .*row 3, column 1.*Drop or impute",
    ),
    "X inf": (lambda: fit(broken(X, np.inf)), ValueError, r"X contains inf"),
    "Y NaN": (lambda: fit(B=broken(Y, np.nan)), ValueError, r"Y contains NaN"),
    "Y inf": (lambda: fit(B=broken(Y, np.inf)), ValueError, r"Y contains inf"),
    "no rows": (lambda: fit(X[:0], Y[:0]), ValueError, r"X has 0 samples.*at least 2"),
    "one row": (lambda: fit(X[:1], Y[:1]), ValueError, r"X has 1 sample .*at least 2 are needed"),
    "no columns": (lambda: fit(X[:, :0]), ValueError, r"X has no columns"),
    "X vector": (lambda: fit(X[:, 0]), ValueError, r"X must be 2-dimensional.*reshape\(-1, 1\)"),
    "X cube": (lambda: fit(X[None]), ValueError, r"X must be 2-dimensional"),
    "Y cube": (lambda: fit(B=Y[None]), ValueError, r"Y must be 2-dimensional"),
    "Y None": (lambda: fit(B=None), ValueError, r"requires y to be passed.*pass Y"),
    "Y text": (lambda: fit(B=np.array(["a"] * 20)), TypeError, r"Y must hold numbers"),
    "rows": (lambda: fit(B=Y[:19]), ValueError, r"X has 20 rows but Y has 19: rows are pairs"),
    "reg zero": (lambda: fit(reg=0), ValueError, r"reg must be positive and finite, got 0: give λ > 0"),
    "reg negative": (lambda: fit(reg=-1e-3), ValueError, r"reg must be positive and finite, got -0\.001"),
    "reg NaN": (lambda: fit(reg=np.nan), ValueError, r"reg must be positive and finite, got nan"),
    "reg text": (
        lambda: fit(reg="auto"),
        TypeError,
        r"reg must be a number, got 'auto'.*None to have it chosen",
    ),
    "reg bool": (lambda: fit(reg=True), TypeError, r"reg must be a number, got True"),
    "reg vector": (lambda: fit(reg=[0.1, 0.2]), TypeError, r"reg must be a number"),
    "kernel_x": (
        lambda: fit(kernel_x="rbf"),
        TypeError,
        r"kernel_x must be a kernel or None, got 'rbf'.*mh\.Gaussian",
    ),
    "kernel_y": (lambda: fit(kernel_y=1.0), TypeError, r"kernel_y must be a kernel or None, got 1\.0"),
    "kernel class": (lambda: fit(kernel_x=mh.Gaussian), TypeError, r"kernel_x must be a kernel"),
    "lengthscales": (
        lambda: fit(kernel_x=mh.Gaussian([1.0, 1.0, 1.0])),
        ValueError,
        r"lengthscale has 3 entries.*2 columns",
    ),
    "representation": (
        lambda: fit(representation=100),
        TypeError,
        r"representation must be a representation or None, got 100.*mh\.Nystrom",
    ),
    "fourier of a dot kernel": (
        lambda: fit(kernel_y=mh.Linear(), representation=mh.Fourier(10)),
        mh.NoClosedForm,
        r"no closed form for spectral samples: use mh\.Nystrom",
    ),
    "random_state": (lambda: fit(random_state="x"), ValueError, r"random_state must be .*'x'"),
    "predict columns": (lambda: FITTED.predict(X[:, :1]), ValueError, r"X has 1 features.*expecting 2"),
    "predict NaN": (lambda: FITTED.predict(broken(X, np.nan)), ValueError, r"X contains NaN"),
    "predict vector": (lambda: FITTED.predict(X[0]), ValueError, r"X must be 2-dimensional"),
    "predict nothing": (lambda: FITTED.predict(X[:0]), ValueError, r"X has 0 samples"),
    "predict other names": (
        lambda: FRAME.predict(pd.DataFrame(X, columns=["b", "a"])),
        ValueError,
        r"feature names should match|columns \['b', 'a'\] but \['a', 'b'\]",
    ),
    "at columns": (lambda: FITTED.at(X[:, :1]), ValueError, r"x has 1 features.*expecting 2"),
    "push of an array": (
        lambda: FITTED.push(X),
        TypeError,
        r"mu must be an Embedding over x, got ndarray.*at\(x\)",
    ),
    "chain of an array": (lambda: FITTED.chain(X), TypeError, r"mu must be an Embedding over x, got ndarray"),
    "push columns": (
        lambda: FITTED.push(mh.embed(X[:, :1], KERNEL)),
        ValueError,
        r"mu\.points has 1 columns but the X seen in fit has 2",
    ),
    "push other names": (
        lambda: FRAME.push(mh.embed(pd.DataFrame(X, columns=["a", "z"]), KERNEL)),
        ValueError,
        r"mu has columns \['a', 'z'\] but \['a', 'b'\]",
    ),
    "f shape": (
        lambda: FITTED.expect(lambda y: 1.0, X),
        ValueError,
        r"f must give one value .*20 training outputs",
    ),
    "f length": (lambda: FITTED.expect(np.ones(3), X), ValueError, r"f must give one value .*\(3,\)"),
    "f text": (lambda: FITTED.expect(["a"] * 20, X), TypeError, r"f must give numbers"),
    "expect columns": (lambda: FITTED.expect(Y[:, 0], X[:, :1]), ValueError, r"x has 1 features"),
    # The score is scikit-learn's own, and so are its refusals.
    "score rows": (
        lambda: FITTED.score(X, Y[:19]),
        ValueError,
        r"inconsistent numbers of samples: \[19, 20\]",
    ),
    "score columns": (lambda: FITTED.score(X, Y[:, :2]), ValueError, r"different number of output \(2!=3\)"),
    "score NaN": (lambda: FITTED.score(X, broken(Y, np.nan)), ValueError, r"contains NaN"),
    "score weights": (
        lambda: FITTED.score(X, Y, sample_weight=np.ones(3)),
        ValueError,
        r"inconsistent numbers of samples: \[20, 20, 3\]",
    ),
    "explained rows": (lambda: FITTED.explained(X, Y[:19]), ValueError, r"X has 20 rows but y has 19"),
    "explained columns": (
        lambda: FITTED.explained(X, Y[:, :2]),
        ValueError,
        r"y has 2 columns but the Y seen in fit has 3",
    ),
    "explained NaN": (lambda: FITTED.explained(X, broken(Y, np.nan)), ValueError, r"y contains NaN"),
    "explained weights": (
        lambda: FITTED.explained(X, Y, sample_weight=np.ones(3)),
        ValueError,
        r"sample_weight must have shape \(20,\)",
    ),
    "quantile above 1": (lambda: FITTED.quantile(X, 1.5), ValueError, r"q .*1\.5"),
    "quantile columns": (lambda: FITTED.quantile(X[:, :1], 0.5), ValueError, r"x has 1 features"),
    "interval above 1": (lambda: FITTED.interval(X, 90), ValueError, r"level .*90"),
    "interval columns": (lambda: FITTED.interval(X[:, :1]), ValueError, r"x has 1 features"),
    "quantile before fit": (lambda: mh.ConditionalMean().quantile(X, 0.5), NotFittedError, r"not fitted yet"),
    "predict before fit": (lambda: mh.ConditionalMean().predict(X), NotFittedError, r"not fitted yet"),
    "at before fit": (lambda: mh.ConditionalMean().at(X), NotFittedError, r"not fitted yet"),
    "push before fit": (lambda: mh.ConditionalMean().push(mh.embed(X)), NotFittedError, r"not fitted yet"),
}


@pytest.mark.parametrize("case", CASES)
def test_refusal(case):
    call, error, message = CASES[case]
    with pytest.raises(error, match=message):
        call()


def test_constructor_only_stores():
    odd = object()
    model = mh.ConditionalMean(
        kernel_x=odd, kernel_y=odd, reg=odd, representation=odd, random_state=odd, center=odd
    )
    assert all(value is odd for value in model.get_params(deep=False).values())
