"""Saving and loading what infers: the same answers back, and the filter goes on where it was."""

import warnings

import numpy as np
import pandas as pd
import pytest
from filter_cases import GIVEN, KERNEL_Z, TEST, X, Z
from test_io import round_trip, same

import muhat as mh
from muhat.models import Filtered, Posterior
from muhat.operators.bayes import RULES

BAYES = {k: v for k, v in GIVEN.items() if k != "reg_transition"}
PRIOR = Z[:15] * 0.5
REPRESENTATIONS = [None, mh.Nystrom(15), mh.Fourier(20), (mh.Exact(), mh.Nystrom(15))]


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message='rule="deconditional" is Bayes')
        yield


class TestDensityRatio:
    @pytest.mark.parametrize("method", ["kulsif", "ulsif", "rulsif"])
    @pytest.mark.parametrize("chosen", [True, False])
    def test_round_trip(self, method, chosen, tmp_path):
        arguments = {} if chosen else {"kernel": KERNEL_Z, "reg": 0.1}
        model = mh.DensityRatio(method, **arguments, target="zero").fit(PRIOR, Z)
        again = round_trip(model, tmp_path)
        same(again.predict(TEST), model.predict(TEST))
        assert again.get_params() == model.get_params()
        assert again.reg_ == model.reg_
        if chosen:
            same(again.selection_.path, model.selection_.path)
            assert again.selection_.kernel == model.selection_.kernel
        else:
            assert again.selection_ is None

    def test_of_tables(self, tmp_path):
        num, den = pd.DataFrame({"c": list("aab")}), pd.DataFrame({"c": list("abbb")})
        model = mh.DensityRatio(reg=1e-3).fit(num, den)
        again = round_trip(model, tmp_path)
        same(again.predict(num), model.predict(num))


class TestKernelBayes:
    @pytest.mark.parametrize("representation", REPRESENTATIONS)
    @pytest.mark.parametrize("rule", RULES)
    def test_round_trip(self, rule, representation, tmp_path):
        model = mh.KernelBayes(rule, **BAYES, representation=representation).fit(X, Z)
        again = round_trip(model, tmp_path)
        same(again.posterior(TEST, PRIOR).weights, model.posterior(TEST, PRIOR).weights)
        assert again.get_params() == model.get_params()

    def test_what_was_chosen_is_chosen_again(self, tmp_path):
        model = mh.KernelBayes(random_state=3).fit(X, Z)
        choice = model.choose(PRIOR)
        again = round_trip(model, tmp_path)
        same(again.posterior(TEST, PRIOR).weights, model.posterior(TEST, PRIOR).weights)
        kept = round_trip(choice, tmp_path)
        same(kept.path, choice.path)
        assert (kept.reg, kept.kernel_x, kept.score) == (choice.reg, choice.kernel_x, choice.score)

    def test_posterior(self, tmp_path):
        mu = mh.KernelBayes(**BAYES).fit(X, Z).posterior(TEST, PRIOR)
        again = round_trip(mu, tmp_path)
        assert type(again) is Posterior
        same(again.weights, mu.weights)
        same(again.familiarity, mu.familiarity)
        same(again.unlike, mu.unlike)

    def test_of_tables(self, tmp_path):
        x = pd.DataFrame({"a": X[:, 0], "c": np.where(X[:, 1] > 0, "up", "down")})
        z = pd.DataFrame({"s": np.where(Z[:, 1] > 0, "left", "right"), "v": Z[:, 0]})
        model = mh.KernelBayes(reg=1e-3, reg_prior=1e-3).fit(x, z)
        again = round_trip(model, tmp_path)
        same(again.posterior(x[:3], z[:20]).weights, model.posterior(x[:3], z[:20]).weights)


class TestFilter:
    @pytest.mark.parametrize("representation", REPRESENTATIONS)
    @pytest.mark.parametrize("rule", RULES)
    def test_round_trip(self, rule, representation, tmp_path):
        model = mh.KernelBayesFilter(rule, **GIVEN, representation=representation).fit(
            [X[:15], X[15:]], [Z[:15], Z[15:]]
        )
        again = round_trip(model, tmp_path)
        same(again.filter(TEST).weights, model.filter(TEST).weights)
        assert again.lengths_ == [15, 25]
        assert again.get_params() == model.get_params()

    @pytest.mark.parametrize("representation", REPRESENTATIONS)
    def test_goes_on_from_its_last_state(self, representation, tmp_path):
        model = mh.KernelBayesFilter(**GIVEN, representation=representation).fit(X, Z)
        fresh = round_trip(model, tmp_path)
        with pytest.raises(ValueError, match="no state to go on from"):
            fresh.forecast()
        model.filter(TEST[:6])
        again = round_trip(model, tmp_path)
        np.testing.assert_allclose(
            again.forecast(2).weights, model.forecast(2).weights, rtol=1e-8, atol=1e-12
        )
        expected = model.update(TEST[6]).weights
        np.testing.assert_allclose(again.update(TEST[6]).weights, expected, rtol=1e-6, atol=1e-10)

    def test_smoother_keeps_its_regulariser(self, tmp_path):
        model = mh.KernelBayesFilter(**GIVEN).fit(X, Z)
        smoothed = model.smooth(TEST)
        again = round_trip(model, tmp_path)
        assert again.reg_backward_ == model.reg_backward_
        same(again.smooth(TEST).weights, smoothed.weights)

    def test_everything_chosen(self, tmp_path):
        model = mh.KernelBayesFilter(random_state=1).fit(X, Z)
        again = round_trip(model, tmp_path)
        same(again.filter(TEST).weights, model.filter(TEST).weights)
        same(again.choice_.path, model.choice_.path)
        assert again.choice_.kernel_carried == model.choice_.kernel_carried
        assert again.choice_.reg_carried == model.choice_.reg_carried

    def test_filtered_states(self, tmp_path):
        gap = TEST.copy()
        gap[3] = np.nan
        out = mh.KernelBayesFilter(**GIVEN).fit(X, Z).filter(gap, missing="predict")
        again = round_trip(out, tmp_path)
        assert type(again) is Filtered
        for name in ("weights", "mass", "familiarity", "observed"):
            same(getattr(again, name), getattr(out, name))
        assert again.summary() == out.summary()

    def test_not_fitted(self, tmp_path):
        from sklearn.exceptions import NotFittedError

        for model in (mh.KernelBayesFilter(), mh.KernelBayes(), mh.DensityRatio()):
            with pytest.raises(NotFittedError):
                mh.save(model, tmp_path / "file.muhat")
