"""The default filter beside the learned Kalman filter: never far behind, and the future never harms."""

import copy
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from filter_cases import GIVEN, TEST, X, Z, rotation
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import muhat as mh
from muhat.learning import filtering
from muhat.operators.kalman import LinearSystem


def rmse(mean, truth):
    return np.sqrt(((np.asarray(mean) - truth) ** 2).mean(axis=0))


def weather(T, seed):
    """Temperature and dew point here, from temperature, humidity and pressure elsewhere; days and fronts."""
    rng = np.random.default_rng(seed)
    front, dry, wind = (np.zeros(T) for _ in range(3))
    for t in range(1, T):
        front[t] = 0.98 * front[t - 1] + 1.0 * rng.standard_normal()
        dry[t] = 0.97 * dry[t - 1] + 0.8 * rng.standard_normal()
        wind[t] = 0.9 * wind[t - 1] + 0.7 * rng.standard_normal()
    hour = np.sin(2 * np.pi * np.arange(T) / 24)
    temperature = 50 + 2 * front + 5 * hour
    dew = temperature - 8 - 4 * np.log1p(np.exp(dry)) - 2 * hour
    there = temperature + 2 * wind + 0.5 * rng.standard_normal(T)
    humid = 100 * np.exp(-0.035 * (there - dew)) + 2 * rng.standard_normal(T)
    pressure = 1015 - 1.2 * front + 2 * rng.standard_normal(T)
    return np.c_[there, humid, pressure], np.c_[temperature, dew]


def linear_gaussian(T, seed):
    rng = np.random.default_rng(seed)
    A = 0.95 * np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]])
    states = np.zeros((T, 2))
    for t in range(1, T):
        states[t] = A @ states[t - 1] + 0.3 * rng.standard_normal(2)
    return states + 0.4 * rng.standard_normal((T, 2)), states


def quietly(call, *arguments):
    """Whether or not the smoother says that it does not help."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="On held-out stretches")
        return call(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "seed"), [(weather, 0), (weather, 1), (linear_gaussian, 0), (linear_gaussian, 1)]
)
def test_the_default_beside_the_kalman_filter(draw, seed):
    x, z = draw(700, seed)
    x, test, z, truth = x[:400], x[400:], z[:400], z[400:]
    model = mh.KernelBayesFilter().fit(x, z)
    known = LinearSystem.learn(x, z)
    filtered, smoothed = model.filter(test).mean(), quietly(model.smooth, test).mean()
    scale = z.std(axis=0)
    ours, back, theirs, rts = (
        np.sqrt(np.mean((rmse(m, truth) / scale) ** 2))
        for m in (filtered, smoothed, known.filter(test)[0], known.smooth(test)[0])
    )
    assert ours < 1.05 * theirs
    assert back < 1.10 * rts
    assert back < 1.01 * ours
    assert model.choice_.method in ("linear", "both", "kernel")


class TestSmootherOfTheKernelFilter:
    """Before it was a correction, it put a density ratio in the place of the filter's states."""

    x, z = weather(500, 2)
    kernels = mh.Gaussian([14.0, 26.0, 9.0]), mh.Gaussian([9.0, 11.0])
    model = mh.KernelBayesFilter("importance", *kernels, 1e-3, 2e-3, 1e-4, representation=mh.Nystrom(80))
    model.fit(x[:350], z[:350])

    def test_the_future_does_not_harm(self):
        test, truth = self.x[350:], self.z[350:]
        filtered = rmse(self.model.filter(test).mean(), truth)
        smoothed = rmse(quietly(self.model.smooth, test).mean(), truth)
        assert (smoothed < 1.02 * filtered).all()
        model = copy.copy(self.model)
        model.reg_backward_ = 0.3
        assert (rmse(model.smooth(test).mean(), truth) < 0.95 * filtered).all()

    def test_without_the_future_the_filter_stands(self):
        model = copy.copy(self.model)
        model.reg_backward_ = 1e9
        test = self.x[350:380]
        assert_allclose(model.smooth(test).mean(), model.filter(test).mean(), atol=1e-5)

    def test_says_that_it_does_not_help(self, monkeypatch):
        monkeypatch.setattr("muhat.models.kernel_bayes_filter.choose_backward", lambda *_: np.inf)
        model = mh.KernelBayesFilter(**GIVEN).fit(X, Z)
        with pytest.warns(
            UserWarning, match="no better than the filter: .* smooth gives the filter's answer"
        ):
            smoothed = model.smooth(TEST)
        assert_allclose(smoothed.weights, model.filter(TEST).weights)
        assert model.reg_backward_ == np.inf
        with pytest.warns(UserWarning, match="no better than the filter"):  # each time, for whoever reads it
            model.smooth(TEST)


@pytest.mark.parametrize("method", ["linear", "both"])
class TestMethods:
    x, z = rotation(80, seed=7)

    def fitted(self, method):
        return mh.KernelBayesFilter(**GIVEN, method=method).fit(self.x, self.z)

    def test_online_is_filter_also_in_a_copy_and_a_file(self, method, tmp_path):
        whole, model = self.fitted(method).filter(TEST), self.fitted(method)
        model.filter(TEST[:6])
        mh.save(model, tmp_path / "model.muhat")
        for other in (model, copy.deepcopy(model), mh.load(tmp_path / "model.muhat")):
            ahead = other.forecast(2).mean()
            for t in range(6, len(TEST)):
                state = other.update(TEST[t] if t != 8 else TEST[8])
                assert_allclose(state.mean(), whole[t].mean(), atol=1e-6)
                assert_allclose(state.mass, whole.mass[t], atol=1e-6)
            assert_allclose(ahead.shape, (2, 2))

    def test_gaps_and_restarts(self, method):
        model, gap = self.fitted(method), TEST.copy()
        gap[4:6] = np.nan
        out = model.filter(gap, missing="predict")
        assert_array_equal(np.flatnonzero(~out.observed), [4, 5])
        model.filter(TEST[:4])
        assert_allclose(out.mean()[4:6], model.forecast(2).mean(), atol=1e-8)
        parts = [model.filter(part).mean() for part in (TEST[:5], TEST[5:])]
        assert_allclose(model.filter(TEST, restarts=[5]).mean(), np.concatenate(parts))

    def test_a_start(self, method):
        model = self.fitted(method)
        samples = np.array([[1.0, 0.0]]) + 0.1 * np.random.default_rng(0).standard_normal((40, 2))
        blind = np.full((1, 2), np.nan)
        assert_allclose(model.filter(blind, samples, missing="predict").mean(), [[1.0, 0.0]], atol=0.15)

    def test_every_readout(self, method):
        out = self.fitted(method).filter(TEST)
        low, high = np.moveaxis(out.quantile([0.05, 0.95]), 1, 0)
        assert (low < out.mean()).all()
        assert (out.mean() < high).all()
        assert out.cov().shape == (len(TEST), 2, 2)
        assert "12 steps" in out.summary()

    def test_clone(self, method):
        assert clone(self.fitted(method)).method == method

    def test_refused(self, method):
        model = mh.KernelBayesFilter(method=method)
        with pytest.raises(ValueError, match=f'method="{method}" needs columns of numbers, in memory'):
            model.fit(self.x, pd.DataFrame({"place": ["a", "b"] * 40}))
        with pytest.raises(
            ValueError, match=f'method="{method}" needs more than 20 rows for 2 observed and 2'
        ):
            model.fit(self.x[:20], self.z[:20])


def test_a_linear_filter_is_that_of_the_system():
    model = mh.KernelBayesFilter(method="linear").fit(X, Z)
    system = LinearSystem.learn(X, Z)
    means, covs = system.filter(TEST)
    out = model.filter(TEST)
    assert_allclose(out.mean(), means, atol=1e-8)
    assert_allclose(out.cov(), covs, atol=1e-8)
    model.reg_backward_ = 0.0
    assert_allclose(model.smooth(TEST).mean(), system.smooth(TEST)[0], atol=1e-8)


def test_method_is_one_of_four():
    with pytest.raises(
        ValueError, match="method must be one of 'auto', 'kernel', 'linear', 'both', got 'best'"
    ):
        mh.KernelBayesFilter(method="best").fit(X, Z)


def test_what_is_given_is_what_is_used(monkeypatch):
    monkeypatch.setattr(filtering, "EVALUATIONS", 3)
    for given in ({"kernel_z": GIVEN["kernel_z"]}, {"rule": "kbr_b"}, {"representation": mh.Nystrom(20)}):
        choice = mh.KernelBayesFilter(**given).fit(X, Z).choice_
        assert choice.method == "kernel"
        assert np.isnan(choice.score_linear)
    x, z = rotation(80, seed=7)
    assert np.isfinite(mh.KernelBayesFilter().fit(x, z).choice_.score_linear)


class TestMissingInTraining:
    x, z = rotation(40)

    def holes(self):
        x, z = self.x.copy(), self.z.copy()
        x[[12, 13], 0], z[20, 1], x[22, 1] = np.nan, np.nan, np.inf
        return x, z

    @pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, lambda a: pl.DataFrame(a, schema=["a", "b"])])
    def test_split_is_a_list_of_the_pieces(self, form):
        x, z = self.holes()
        model = mh.KernelBayesFilter(**GIVEN).fit(form(x), form(z), missing="split")
        rows = [slice(0, 12), slice(14, 20), slice(23, 40)]  # row 21 is alone
        pieces = mh.KernelBayesFilter(**GIVEN).fit([x[r] for r in rows], [z[r] for r in rows])
        assert model.lengths_ == [12, 6, 17]
        assert_allclose(model.filter(form(TEST)).weights, pieces.filter(TEST).weights)

    def test_without_gaps_nothing_changes(self):
        model = mh.KernelBayesFilter(**GIVEN).fit(self.x, self.z, missing="split")
        assert model.lengths_ == [40]

    def test_in_lists(self):
        x, z = self.holes()
        model = mh.KernelBayesFilter(**GIVEN).fit([self.x, x], [self.z, z], missing="split")
        assert model.lengths_ == [40, 12, 6, 17]

    def test_errors(self):
        x, z = self.holes()
        with pytest.raises(ValueError, match=r'fit\(X, Z, missing="split"\)'):
            mh.KernelBayesFilter(**GIVEN).fit(x, z)
        with pytest.raises(ValueError, match="missing must be one of 'raise', 'split', got 'skip'"):
            mh.KernelBayesFilter(**GIVEN).fit(x, z, missing="skip")
        rows = [mh.open_rows(np.nan_to_num(a, posinf=0.0)) for a in (x, z)]
        with pytest.raises(ValueError, match='missing="split" needs sequences in memory'):
            mh.KernelBayesFilter(**GIVEN).fit(*rows, missing="split")
        x[::2] = np.nan
        with pytest.raises(ValueError, match="no two consecutive rows without NaN"):
            mh.KernelBayesFilter(**GIVEN).fit(x, z, missing="split")
