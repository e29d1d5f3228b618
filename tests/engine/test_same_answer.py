"""The same call gives the same answer in memory, in blocks from disk and on Dask."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from row_forms import FORMS, as_form

import muhat as mh
from muhat.engine import SAMPLE, open_rows, sample
from muhat.models import density_inputs, task_transformed_gp

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")
RNG = np.random.default_rng(0)
N = 400  # below what one lengthscale a column is learned from
X = RNG.uniform(-2, 2, (N, 2))
Y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=N)
TABLE = np.column_stack([X, Y])
AT = X[:5]
REPRESENTATIONS = {"nystrom": mh.Nystrom(40), "fourier": mh.Fourier(40)}
# Those that differ in how they are read; the rest is tested with sums.
FEW = ("npy", "parquet", "generator", "dask array", "dask frame")


@pytest.fixture(params=REPRESENTATIONS)
def representation(request):
    return REPRESENTATIONS[request.param]


def pair(form, tmp_path, table=TABLE):
    return as_form(form, table, tmp_path, ["c0", "c1"]), as_form(form, table, tmp_path, ["c2"])


def close(a, b, tolerance=1e-8):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("form", FORMS)
def test_embedding(form, tmp_path, representation):
    mu = mh.embed(X, representation=representation)
    nu = mh.embed(as_form(form, TABLE, tmp_path, ["c0", "c1"]), representation=representation)
    close(mu(AT), nu(AT))
    close(mu.norm(), nu.norm())
    close(mu.mean(), nu.mean())
    close(mu.cov(), nu.cov())
    close(mu.herd(5, X[:50]), nu.herd(5, X[:50]))
    close(mu.quantile([0.1, 0.5, 0.9]), nu.quantile([0.1, 0.5, 0.9]), 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_conditional_mean(form, tmp_path, representation):
    model = mh.ConditionalMean(representation=representation)
    here = model.fit(X, Y)
    sources = [open_rows(s) for s in pair(form, tmp_path)]
    there = mh.ConditionalMean(representation=representation).fit(*sources)
    assert [s.passes for s in sources] == [2, 2]
    assert there.reg_ == here.reg_
    close(here.predict(AT), there.predict(AT))
    close(here.at(AT)(Y[:3, None]), there.at(AT)(Y[:3, None]))
    close(here.at(AT).mean(), there.at(AT).mean())
    close(here.at(AT).cov(), there.at(AT).cov())
    mu = mh.embed(X[:30], here.kernel_x_)
    close(here.push(mu).mean(), there.push(mu).mean())
    close(here.expect(np.cos, AT), there.expect(np.cos, AT))


@pytest.mark.slow
@pytest.mark.parametrize("beside", ["frame", "series"])
def test_a_table_in_memory_beside_a_stream(beside):
    table = pd.DataFrame({"y": Y})
    target = table if beside == "frame" else table["y"]
    model = mh.ConditionalMean(representation=mh.Nystrom(40)).fit(open_rows(X), target)
    expected = mh.ConditionalMean(representation=mh.Nystrom(40)).fit(X, target).predict(AT)
    close(model.predict(AT), expected)
    assert model.predict(AT).shape == expected.shape


@pytest.mark.parametrize("form", FEW)
def test_predictions_of_streams(form, tmp_path):
    model = mh.ConditionalMean(representation=mh.Nystrom(40)).fit(*pair(form, tmp_path))
    found = model.predict(as_form(form, TABLE, tmp_path, ["c0", "c1"]))
    assert hasattr(found, "compute") == form.startswith("dask")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names seen in fit, none here
        close(found, model.predict(X))


@pytest.mark.parametrize("form", FEW)
@pytest.mark.parametrize("method", ["kulsif", "rulsif"])
def test_density_ratio(form, tmp_path, method):
    half = {"numerator": X[:200] * 0.7, "denominator": X[200:]}
    here = mh.DensityRatio(method).fit(*half.values())
    sources = []
    for name, part in half.items():
        (tmp_path / name).mkdir()
        sources.append(as_form(form, part, tmp_path / name, ["c0", "c1"]))
    there = mh.DensityRatio(method).fit(*sources)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        close(here.predict(AT), there.predict(AT))


@pytest.mark.filterwarnings("ignore:rule=")
@pytest.mark.parametrize("form", ["npy", "dask frame"])
@pytest.mark.parametrize("rule", ["importance", "kbr_a", "kbr_b", "deconditional"])
@pytest.mark.parametrize("prior", [None, 0.6 * RNG.normal(size=(100, 1))], ids=["none", "samples"])
def test_bayes_rules(form, tmp_path, representation, rule, prior):
    rows = 300
    regs = {"reg": 1e-3, "reg_prior": 1e-2, "kernel_x": mh.Gaussian(1.0), "kernel_z": mh.Gaussian(0.7)}
    here = mh.KernelBayes(rule, representation=representation, **regs).fit(X[:rows], Y[:rows])
    sources = [open_rows(s) for s in pair(form, tmp_path, TABLE[:rows])]
    there = mh.KernelBayes(rule, representation=representation, **regs).fit(*sources)
    a = here.posterior(AT, prior)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        b = there.posterior(AT, prior)
    close(a.mean(), b.mean())
    close(a.cov(), b.cov())
    close(a.familiarity, b.familiarity)
    assert sources[0].passes <= 3


@pytest.mark.parametrize("form", FEW)
@pytest.mark.parametrize("few", [False, True], ids=["all in the sample", "more than the sample"])
def test_conditional_density(form, tmp_path, monkeypatch, few):
    settings = {"kernel_x": mh.Gaussian(0.7), "reg_x": 1e-3, "reg_y": 0.01, "kernel_y": mh.Gaussian(0.15)}
    model = mh.ConditionalDensity(representation=mh.Nystrom(40), calibration=0.2, size=128, **settings)
    if few:
        _sample_of(monkeypatch, 200)
    here = model.fit(X, Y)
    found = here.pdf(AT, Y[:4]), here.interval(AT)
    there = model.fit(*pair(form, tmp_path))
    assert (there.sums_ is not None) == few
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        close(found[0], there.pdf(AT, Y[:4]))
        close(found[1], there.interval(AT))


def _sample_of(monkeypatch, size):
    """Choices from so many rows, as if there were many."""
    monkeypatch.setattr(density_inputs, "SAMPLE", size)
    monkeypatch.setattr(density_inputs, "sample_numbered", partial(sample.sample_numbered, size=size))


@pytest.mark.parametrize("form", ["npy", "dask array"])
def test_sparse_gaussian_process(form, tmp_path, monkeypatch):
    monkeypatch.setattr(task_transformed_gp, "sample_rows", partial(sample.sample_rows, size=100))
    given = {"noise": 0.2, "optimize": False, "inducing": X[:20]}
    model = mh.TaskTransformedGP(mh.Gaussian(1.0), 1e5 * mh.Gaussian(1.0), **given)
    here = [*model.fit_direct(X, Y).predict(AT, return_std=True), model.log_marginal_likelihood_]
    there = model.fit_direct(*pair(form, tmp_path))
    assert there.triangle_[1] == N
    close(np.concatenate(here[:2]), np.concatenate(there.predict(AT, return_std=True)), 1e-7)
    close(here[2], there.log_marginal_likelihood_)
    # As in one piece in memory.
    monkeypatch.undo()
    close(model.fit_direct(X, Y).predict(AT), here[0], 1e-6)


class TestTaskOfPairs:
    """The pairs of a task beyond memory; what is seen of it stays small."""

    AT_TASK = np.linspace(-0.8, 0.8, 15)
    SEEN = np.cos(2 * AT_TASK)

    def model(self, representation, **given):
        kernels = mh.Gaussian(1.0), mh.Gaussian(0.5)
        return mh.TaskTransformedGP(
            *kernels, **({"noise": 0.1, "optimize": False, "representation": representation} | given)
        )

    def answers(self, model):
        return [
            *model.predict(AT, return_std=True),
            *model.predict_task(self.AT_TASK[:4], return_std=True),
            np.atleast_1d(model.log_marginal_likelihood_),
        ]

    @pytest.mark.parametrize("form", FEW)
    @pytest.mark.parametrize("inference", ["full", "map"])
    def test_posterior_of_all(self, form, inference, tmp_path, monkeypatch, representation):
        plain = self.answers(
            self.model(representation, inference=inference).fit(X, Y, self.AT_TASK, self.SEEN)
        )
        for size in (N, 100):
            monkeypatch.setattr(task_transformed_gp, "sample_rows", partial(sample.sample_rows, size=size))
            monkeypatch.setattr(
                task_transformed_gp, "sample_indices", partial(sample.sample_indices, size=size)
            )
            here = self.model(representation, inference=inference).fit(X, Y, self.AT_TASK, self.SEEN)
            of_x, of_y = (open_rows(s) for s in pair(form, tmp_path))
            there = self.model(representation, inference=inference).fit(of_x, of_y, self.AT_TASK, self.SEEN)
            assert of_x.passes == of_y.passes == (1 if size == N else 2)
            assert (there.triangle_ is None) == (size == N)
            for a, b in zip(self.answers(here), self.answers(there), strict=True):
                close(a, b)
        if isinstance(representation, mh.Fourier):  # which does not depend on the sample
            for a, b in zip(plain, self.answers(there), strict=True):
                close(a, b)

    @pytest.mark.slow
    def test_learned_from_the_sample(self, monkeypatch):
        monkeypatch.setattr(task_transformed_gp, "sample_rows", partial(sample.sample_rows, size=100))
        monkeypatch.setattr(task_transformed_gp, "sample_indices", partial(sample.sample_indices, size=100))
        model = mh.TaskTransformedGP(representation=mh.Nystrom(20), starts=1)
        here = self.answers(model.fit(X, Y, self.AT_TASK, self.SEEN))
        there = self.answers(model.fit(open_rows(X), open_rows(Y), self.AT_TASK, self.SEEN))
        for a, b in zip(here, there, strict=True):
            close(a, b)

    def test_saved_loaded_and_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr(task_transformed_gp, "sample_rows", partial(sample.sample_rows, size=100))
        model = self.model(None).fit(open_rows(X), open_rows(Y), self.AT_TASK, self.SEEN)
        mh.save(model, tmp_path / "m.mh")
        for a, b in zip(self.answers(model), self.answers(mh.load(tmp_path / "m.mh")), strict=True):
            close(a, b, 1e-12)
        with pytest.raises(ValueError, match="representation is exact"):
            self.model(mh.Exact()).fit(open_rows(X), open_rows(Y), self.AT_TASK, self.SEEN)
        with pytest.raises(TypeError, match="z_task is read in blocks"):
            self.model(None).fit(open_rows(X), open_rows(Y), self.AT_TASK, open_rows(self.SEEN))
        with pytest.raises(ValueError, match="checkpoint is for pairs that are read in blocks"):
            self.model(None).fit(X, Y, self.AT_TASK, self.SEEN, checkpoint=tmp_path / "c.npz")
        again = self.model(mh.Exact()).fit(X[:50], Y[:50], self.AT_TASK, self.SEEN)
        assert again.triangle_ is None


def test_more_rows_than_the_sample():
    """Beyond the sample, in memory and in blocks still make the same choices."""
    rng = np.random.default_rng(1)
    A = rng.uniform(-2, 2, (SAMPLE + 1000, 1))
    B = np.cos(2 * A[:, 0]) + 0.1 * rng.normal(size=len(A))
    model = mh.ConditionalMean(representation=mh.Nystrom(30), reg=1e-5)
    here = model.fit(A, B).predict(A[:9])
    close(here, model.fit(open_rows(A), open_rows(B)).predict(A[:9]))


class TestPartialFit:
    def test_equals_fit_on_all(self):
        given = {"kernel_x": mh.Gaussian(1.0), "kernel_y": mh.Gaussian(0.7), "reg": 1e-4}
        landmarks = mh.Nystrom(landmarks=X[:40]), mh.Nystrom(landmarks=Y[:30, None])
        whole = mh.ConditionalMean(representation=landmarks, **given).fit(X, Y)
        parts = mh.ConditionalMean(representation=landmarks, **given)
        for rows in np.array_split(np.arange(N), 7):
            parts.partial_fit(X[rows], Y[rows])
        close(whole.predict(AT), parts.predict(AT))
        close(whole.at(AT)(Y[:3, None]), parts.at(AT)(Y[:3, None]))
        close(whole.at(AT).cov(), parts.at(AT).cov())

    @pytest.mark.parametrize("representation", [None, mh.Nystrom(landmarks=X[:40])], ids=["exact", "nystrom"])
    def test_bayes_rule(self, representation):
        given = {"reg": 1e-3, "reg_prior": 1e-2, "kernel_x": mh.Gaussian(1.0), "kernel_z": mh.Gaussian(0.7)}
        Z = X + 0.3 * RNG.normal(size=X.shape)
        model = mh.KernelBayes(representation=representation, **given)
        whole = model.fit(X, Z).posterior(AT, Z[:50]).weights
        parts = mh.KernelBayes(representation=representation, **given)
        for rows in np.array_split(np.arange(N), 3):
            found = parts.partial_fit(X[rows], Z[rows]).posterior(AT, Z[:50])
        close(found.weights, whole)
        with pytest.raises(ValueError, match="3 rows but Z has 2"):
            parts.partial_fit(X[:3], Z[:2])

    @pytest.mark.slow
    def test_after_a_fit_in_memory(self):
        model = mh.ConditionalMean(representation=mh.Nystrom(20), reg=1e-4)
        found = model.fit(X[:300], Y[:300]).partial_fit(X[300:], Y[300:])
        assert found.moments_.count == N
        there = mh.ConditionalMean(representation=mh.Nystrom(20), reg=1e-4).fit(X, Y)
        close(found.predict(AT), there.predict(AT))

    def test_later_rows_must_fit(self):
        model = mh.ConditionalMean(representation=mh.Nystrom(20)).partial_fit(X[:100], Y[:100])
        with pytest.raises(ValueError, match="expecting 2 features"):
            model.partial_fit(X[:100, :1], Y[:100])
        with pytest.raises(ValueError, match="Y has 2 columns"):
            model.partial_fit(X[:100], X[:100])


def test_bayes_rule_of_more_rows_than_the_sample(monkeypatch):
    """Choices of the kernels of a posterior, with no prior given, are those of the sample in both ways."""
    from muhat.models import kernel_bayes

    monkeypatch.setattr(kernel_bayes, "sample_indices", partial(sample.sample_indices, size=150))
    monkeypatch.setattr(kernel_bayes, "sample_rows", partial(sample.sample_rows, size=150))
    model = mh.KernelBayes(representation=mh.Nystrom(30))
    here = model.fit(X, Y).posterior(AT).mean()
    close(here, model.fit(open_rows(X), open_rows(Y)).posterior(AT).mean())


def test_evaluations_with_any_random_state():
    """The features of a posterior are drawn once: its values are those of its moments."""
    model = mh.KernelBayes(reg=1e-3, reg_prior=1e-2, kernel_x=mh.Gaussian(1.0), kernel_z=mh.Gaussian(0.7))
    here = model.fit(X, Y).posterior(AT)(Y[:4, None])
    model.set_params(random_state=np.random.default_rng(0), representation=mh.Nystrom(100))
    close(here, model.fit(open_rows(X), open_rows(Y)).posterior(AT)(Y[:4, None]), 0.02)


def test_functions_of_x_alone():
    """Features that are given for x leave y to landmarks."""
    features = mh.Features(lambda A: np.column_stack([A, A[:, 0] * A[:, 1], np.ones(len(A))]))
    model = mh.ConditionalMean(representation=features, reg=1e-3)
    here = model.fit(X, Y).predict(AT)
    close(here, model.fit(open_rows(X), open_rows(Y)).predict(AT))


class TestRefusals:
    def test_checkpoints(self, tmp_path):
        with pytest.raises(ValueError, match="checkpoint is for rows that are read in blocks"):
            mh.ConditionalMean().fit(X, Y, checkpoint=tmp_path / "c.npz")
        model = mh.ConditionalMean(random_state=None)
        with pytest.raises(ValueError, match="random_state that repeats"):
            model.fit(open_rows(X), open_rows(Y), checkpoint=tmp_path / "c.npz")

    def test_a_path_where_rows_are_asked_for(self, tmp_path):
        model = mh.ConditionalMean(representation=mh.Nystrom(20)).fit(*pair("npy", tmp_path))
        with pytest.raises(TypeError, match="needs an array"):
            model.at(as_form("npy", TABLE, tmp_path, ["c0", "c1"]))

    def test_exact(self):
        with pytest.raises(ValueError, match=r"representation is exact, .* mh\.Nystrom"):
            mh.ConditionalMean(representation=mh.Exact()).fit(open_rows(X), open_rows(Y))

    def test_categories_beside_a_stream(self):
        with pytest.raises(TypeError, match="Y has categories, but goes with rows that are read in blocks"):
            mh.ConditionalMean().fit(open_rows(X), pd.DataFrame({"y": np.where(Y > 0, "high", "low")}))

    def test_other_columns(self, tmp_path):
        model = mh.ConditionalMean(representation=mh.Nystrom(20)).fit(*pair("parquet", tmp_path))
        with pytest.raises(ValueError, match="open the same columns"):
            model.predict(open_rows(tmp_path / "table.parquet", ["c1", "c0"]))

    def test_joint_embedding(self):
        model = mh.ConditionalMean(representation=mh.Nystrom(20)).fit(open_rows(X), open_rows(Y))
        with pytest.raises(ValueError, match="not kept"):
            model.chain(mh.embed(X[:5], model.kernel_x_))

    def test_weights_of_an_embedding(self):
        with pytest.raises(ValueError, match="weights and shrink need all rows in memory"):
            mh.embed(open_rows(X), weights=np.ones(N))


def test_saved_and_loaded(tmp_path):
    model = mh.ConditionalMean(representation=mh.Nystrom(20)).fit(open_rows(X), open_rows(Y))
    mh.save(model, tmp_path / "m.mh")
    again = mh.load(tmp_path / "m.mh")
    close(model.predict(AT), again.predict(AT), 1e-12)
    with pytest.raises(ValueError, match="not kept"):
        again.expect(np.cos, AT)
    mh.save(model.at(AT), tmp_path / "e.mh")
    close(mh.load(tmp_path / "e.mh").cov(), model.at(AT).cov(), 1e-12)


@pytest.mark.filterwarnings("ignore:rule=")
@pytest.mark.parametrize("rule", ["importance", "kbr_a", "kbr_b", "deconditional"])
def test_bayes_rule_saved_and_loaded(rule, tmp_path):
    """It has no rows, but what the last prior made of them."""
    regs = {"reg": 1e-3, "reg_prior": 1e-2, "kernel_x": mh.Gaussian(1.0), "kernel_z": mh.Gaussian(0.7)}
    of_x, of_z = open_rows(X), open_rows(Y)
    model = mh.KernelBayes(rule, representation=mh.Nystrom(20), **regs).fit(of_x, of_z)
    for prior in (None, 0.5 * Y[:60]):
        model.posterior(AT[:1], prior)
        passes = of_x.passes
        found = model.posterior(AT, prior)
        assert of_x.passes == passes  # as the last one
        mh.save(model, tmp_path / "b.mh")
        again = mh.load(tmp_path / "b.mh")
        close(again.posterior(AT, prior).mean(), found.mean(), 1e-12)
        other = 0.3 * Y[:60]
        if rule == "deconditional":  # whose moments are those of every prior
            close(again.posterior(AT, other).mean(), model.posterior(AT, other).mean(), 1e-12)
            model.posterior(AT, prior)
            continue
        with pytest.raises(ValueError, match="ask for that prior, or fit it again"):
            again.posterior(AT, other)
        close(again.posterior(AT, prior).cov(), found.cov(), 1e-12)


@pytest.mark.slow
def test_bayes_rule_that_is_loaded_chooses_no_more(tmp_path):
    model = mh.KernelBayes(representation=mh.Nystrom(20)).fit(open_rows(X), open_rows(Y))
    mh.save(model, tmp_path / "b.mh")
    with pytest.raises(ValueError, match="fit it again"):
        mh.load(tmp_path / "b.mh").posterior(AT)
    found = model.posterior(AT)
    mh.save(model, tmp_path / "b.mh")
    again = mh.load(tmp_path / "b.mh")
    with pytest.raises(ValueError, match="fit it again"):
        again.posterior(AT, Y[:50])
    close(again.posterior(AT).mean(), found.mean(), 1e-12)


def test_of_many_rows_some_points_are_kept(monkeypatch):
    monkeypatch.setattr("muhat.embedding.moments.POINTS", 7)
    X = np.random.default_rng(0).standard_normal((50, 2))
    assert mh.embed(open_rows(X), mh.Gaussian(1.0), representation=mh.Nystrom(10)).points.shape == (7, 2)
