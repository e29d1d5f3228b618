"""A message operator: accuracy, asking, learning, failing oracles, files."""

import numpy as np
import pytest
from sklearn.base import clone

import muhat as mh
from muhat.messages import (
    Beta,
    Gamma,
    Normal,
    compound_gamma_quadrature,
    logistic_ep,
    logistic_importance,
    logistic_quadrature,
)

SMALL = (mh.Fourier(100), mh.Fourier(200))


def messages(n, seed=0, centre=0.0):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    z = Normal(centre + 2 * rng.standard_normal(n), np.exp(rng.uniform(-1, 2, n)))
    return z, Beta(1.0 + label, 2.0 - label)


def operator(**options):
    return mh.MessageOperator(
        logistic_quadrature, **{"representation": SMALL, "warm_up": 100, "random_state": 0, **options}
    )


@pytest.fixture(scope="module")
def learned():
    train = messages(300)
    return operator(relearn=False).fit(train, logistic_quadrature(train))


def test_beliefs_are_near_the_oracles(learned):
    test = messages(200, 1)
    exact, found = logistic_quadrature(test), learned.predict(test)
    assert np.log(exact.kl(found)).mean() < -12
    assert np.log(exact.kl(test[0])).mean() > -4  # the incoming message is no answer


def test_errors_are_of_the_size_that_is_said(learned):
    test = messages(500, 2)
    belief, std = learned.predict(test, return_std=True)
    assert std.shape == (500, 2)
    error = belief.relative_to(test[0]) - logistic_quadrature(test).relative_to(test[0])
    score = np.abs(error) / np.sqrt(std**2 + learned.noise_**2)
    assert 0.1 < np.median(score) < 1.5
    assert np.quantile(score, 0.9) < 4
    # It is more than a constant: unsure messages are those with the larger errors.
    unsure = std.max(axis=1) > np.median(std.max(axis=1))
    assert np.abs(error[unsure]).mean() > 2 * np.abs(error[~unsure]).mean()


def test_rank_one_updates_are_a_refit():
    train, more = messages(120), messages(40, 1)
    model = operator(relearn=False, noise=0.01).fit(train, logistic_quadrature(train))
    answers = logistic_quadrature(more)
    for i in range(40):
        model.partial_fit((more[0].select([i]), more[1].select([i])), answers.select([i]))
    both = (train[0].joined(more[0]), train[1].joined(more[1]))
    Psi = model._features(mh.messages.Tuples(both))
    Z = (logistic_quadrature(both).relative_to(both[0]) - model.offset_) / model.scale_
    A = np.eye(Psi.shape[1]) + Psi.T @ Psi / model.unit_noise_
    W = np.linalg.solve(A, Psi.T @ Z / model.unit_noise_)
    test = messages(50, 2)
    P = model._features(mh.messages.Tuples(test))
    found, std = model.predict(test, return_std=True)
    expected = Normal.moved(test[0], model.offset_ + model.scale_ * (P @ W))
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.var, expected.var, rtol=1e-8)
    variance = np.einsum("ij,ji->i", P, np.linalg.solve(A, P.T))
    np.testing.assert_allclose(std, np.sqrt(variance)[:, None] * model.scale_, rtol=1e-6)


def test_it_asks_far_from_what_it_saw_and_not_near():
    train = messages(300)
    model = operator(relearn=False).fit(train, logistic_quadrature(train))
    near = model.send(messages(100, 5))
    far = model.send(messages(100, 6, centre=30.0))
    assert near.asked.mean() < 0.05
    assert far.asked.sum() > 10
    assert np.median(far.std) > 10 * np.median(near.std)
    # It has learned: the like of it is now known.
    again = model.send(messages(100, 7, centre=30.0))
    assert again.asked.sum() < 0.3 * far.asked.sum()
    exact = logistic_quadrature(messages(100, 7, centre=30.0))
    assert np.median(exact.kl(again.belief)) < 1e-4
    assert model.sent_ == 300
    assert model.oracle_calls_ == sum(int(s.asked.sum()) for s in (near, far, again))


def test_answers_of_the_oracle_are_passed_on_as_they_are():
    train = messages(150)
    model = operator(max_std=1e-9).fit(train, logistic_quadrature(train))
    test = messages(5, 3)
    sent, exact = model.send(test), logistic_quadrature(test)
    assert sent.asked.all()
    np.testing.assert_allclose(sent.belief.mean, exact.mean, rtol=1e-12)
    np.testing.assert_allclose(sent.belief.var, exact.var, rtol=1e-12)


def test_warm_up_asks_about_all_and_then_learns():
    model = operator(warm_up=100, relearn=False)
    first = model.send(messages(60))
    assert first.asked.all()
    assert np.isinf(first.std).all()
    assert not hasattr(model, "weights_")
    second = model.send(messages(200, 1))
    assert second.asked[:40].all()
    assert second.asked[40:].mean() < 0.3
    assert model.learned_from_ == 100
    assert model.oracle_calls_ == 60 + second.asked.sum()


@pytest.mark.slow
def test_it_learns_its_kernel_again_when_the_answers_have_doubled():
    train, more = messages(100), messages(250, 1)
    model = operator().fit(train, logistic_quadrature(train))
    before = model.kernel_
    model.partial_fit(more, logistic_quadrature(more))
    assert model.learned_from_ == 350
    assert repr(model.kernel_) != repr(before)
    fresh = operator().fit(
        (train[0].joined(more[0]), train[1].joined(more[1])),
        Normal(
            *(
                np.append(getattr(logistic_quadrature(train), k), getattr(logistic_quadrature(more), k))
                for k in ("mean", "var")
            )
        ),
    )
    test = messages(20, 2)
    np.testing.assert_allclose(model.predict(test).mean, fresh.predict(test).mean, rtol=1e-9)


def test_propagation_with_the_operator_is_propagation_with_the_oracle():
    rng = np.random.default_rng(0)
    model = operator(max_std=0.003)
    for seed in range(3):
        X = np.random.default_rng(seed).standard_normal((100, 4))
        y = (rng.uniform(size=100) < 1 / (1 + np.exp(-X @ [2.0, -1, 0, 1]))).astype(int)
        before = getattr(model, "oracle_calls_", 0)
        found, exact = (logistic_ep(X, y, who, 10, tol=0.0) for who in (model, logistic_quadrature))
        sd = np.sqrt(np.diag(exact.cov))
        assert np.abs((found.mean - exact.mean) / sd).max() < 0.05
        np.testing.assert_allclose(np.sqrt(np.diag(found.cov)), sd, rtol=0.02)
        calls = model.oracle_calls_ - before
        if seed:
            assert calls < 50  # of 1000 messages


def test_a_noisy_oracle_is_averaged():
    """The operator knows better than the sampler that it learned from."""
    train, test = messages(250), messages(60, 1)
    sampler = logistic_importance(3000, random_state=0)
    model = operator().fit(train, sampler(train))
    exact = logistic_quadrature(test)
    assert exact.kl(model.predict(test)).mean() < 0.5 * exact.kl(sampler(test)).mean()
    assert (model.noise_ > 1e-3).all()


def test_answers_count_by_their_standard_errors():
    """Some answers are wrong by 1 and say so: they must not matter."""
    train, test = messages(200), messages(50, 1)
    exact = logistic_quadrature(train).relative_to(train[0])
    wrong = np.arange(200) % 4 == 0
    targets = exact + np.where(wrong, np.random.default_rng(0).normal(size=200), 0.0)[:, None]
    std = np.where(wrong, 1.0, 1e-3)[:, None] * np.ones(2)
    truth = logistic_quadrature(test)
    errors = []
    for known in (None, std):
        model = operator(to=None, relearn=False).fit(train, targets, known)
        errors.append(np.mean(truth.kl(Normal.moved(test[0], model.predict(test)))))
    assert errors[1] < 0.05 * errors[0]
    with pytest.raises(ValueError, match=r"std must be standard errors of shape \(200, 2\)"):
        operator().fit(train, logistic_quadrature(train), std[:, :1])


def test_standard_errors_of_the_sampler_are_those_it_has():
    given = Normal(np.tile([1.0, -2.0], 60), np.tile([0.05, 4.0], 60)), Beta(np.full(120, 2.0), 1.0)
    belief, std = logistic_importance(5000, errors=True, random_state=0)(given)
    steps = belief.relative_to(given[0])
    for i in (0, 1):
        np.testing.assert_allclose(steps[i::2].std(axis=0), std[i::2].mean(axis=0), rtol=0.3)
    assert (std[0] > 1.5 * std[1]).all()


def test_gamma_messages():
    rng = np.random.default_rng(0)
    oracle = compound_gamma_quadrature()
    model = mh.MessageOperator(oracle, warm_up=80, representation=SMALL, random_state=0)

    def draw(n):
        return Gamma(rng.uniform(6, 50, n), np.exp(rng.normal(1, 2, n)))

    model((draw(150),))
    test = draw(100)
    assert np.log(oracle((test,)).kl(model.predict((test,)))).mean() < -10
    assert model.sent_ == 150


@pytest.mark.slow
def test_samples_are_messages_and_their_limit_is_the_gaussian():
    """Rows of numbers from samples; with many points in each they are those of the Gaussians."""
    rng = np.random.default_rng(0)
    m, v = rng.normal(size=150), np.exp(rng.uniform(-1, 1, 150))
    target = np.stack([np.sin(m) * v, np.log(v)], axis=1)
    draws = {
        size: list(m[:, None] + np.sqrt(v)[:, None] * rng.standard_normal((150, size))) for size in (50, 2000)
    }
    model = mh.MessageOperator(to=None, representation=SMALL, noise=0.05, relearn=False, random_state=0)
    by_family = model.fit(Normal(m, v), target)
    gaussian = by_family.predict(Normal(m[:20], v[:20]))
    gaps = []
    for size in (50, 2000):
        by_samples = clone(model).set_params(kernel=model.kernel_.outer, inner=model.kernel_.inner)
        by_samples.fit(draws[size], target)
        gaps.append(np.abs(by_samples.predict(draws[size][:20]) - gaussian).mean())
    assert gaps[1] < 0.1
    assert gaps[1] < 0.6 * gaps[0]


# -- oracles that fail ------------------------------------------------------------------------


class Fragile:
    """Fails for positive means."""

    def __init__(self, answer=None):
        self.answer = answer

    def __call__(self, given):
        if (given[0].mean > 0).any():
            if self.answer is not None:
                return self.answer
            raise RuntimeError("too heavy")
        return logistic_quadrature(given)


def test_a_failing_oracle_is_logged_and_the_operator_goes_on():
    train = messages(300)
    model = operator(relearn=False).fit(train, logistic_quadrature(train))
    model.oracle = Fragile()
    far = Normal([40.0, -40.0, 45.0], [1.0, 1.0, 1.0]), Beta([1.0, 2.0, 1.0], [2.0, 1.0, 2.0])
    own = model.predict(far)
    sent = model.send(far)
    np.testing.assert_array_equal(sent.failed, [True, False, True])
    np.testing.assert_array_equal(sent.asked, [False, True, False])
    assert model.log_ == ["message 0: RuntimeError: too heavy", "message 2: RuntimeError: too heavy"]
    assert model.oracle_calls_ == 3
    exact = logistic_quadrature(far)
    assert sent.belief.mean[1] == pytest.approx(exact.mean[1])  # the error cost the others nothing
    assert sent.belief.mean[0] == pytest.approx(own.mean[0], rel=0.05)  # its own prediction
    assert model.send(messages(50, 1)).failed.sum() < 5


def test_failures_in_warm_up_pass_the_incoming_message_on():
    model = operator(warm_up=50)
    model.oracle = Fragile()
    given = messages(30)
    sent = model.send(given)
    positive = given[0].mean > 0
    np.testing.assert_array_equal(sent.failed, positive)
    np.testing.assert_allclose(sent.belief.mean[positive], given[0].mean[positive])
    np.testing.assert_allclose(sent.belief.var[positive], given[0].var[positive])
    model.send(messages(120, 1))
    assert hasattr(model, "weights_")
    assert len(model.log_) >= positive.sum()


def test_an_oracle_that_always_fails():
    def broken(_):
        raise ZeroDivisionError("no")

    model = operator()
    model.oracle = broken
    with pytest.warns(RuntimeWarning, match=r"failed for all 4 messages.*'message 3: ZeroDivisionError: no'"):
        sent = model.send(messages(4))
    assert sent.failed.all()
    assert len(model.log_) == 4
    assert model.send(messages(4)).failed.all()  # it is said once
    with pytest.warns(RuntimeWarning, match="failed for all"):
        rows = mh.MessageOperator(broken, to=None).send(messages(2))
    assert np.isnan(rows.belief).all()
    model.oracle = broken  # another oracle, which might do better
    X = np.random.default_rng(0).standard_normal((20, 2))
    with pytest.warns(RuntimeWarning, match="failed for all 20"):
        posterior = logistic_ep(X, (X[:, 0] > 0).astype(int), model, 3)
    assert (posterior.converged, posterior.iterations) == (False, 3)


def test_the_log_has_the_numbers_of_the_messages():
    train = messages(300)
    model = operator(relearn=False).fit(train, logistic_quadrature(train))
    model.oracle = Fragile()
    near, far = messages(7, 1), (Normal(40.0, 1.0), Beta(1.0, 2.0))
    assert not model.send(near).asked.any()
    with pytest.warns(RuntimeWarning, match="failed for all 1"):
        sent = model.send(tuple(a.joined(b) for a, b in zip(near, far, strict=True)))
    assert sent.failed.nonzero()[0].tolist() == [7]
    assert model.log_ == ["message 14: RuntimeError: too heavy"]


def test_a_wrong_variable_is_found_before_the_oracle_is_asked():
    for to, error in ((2, ValueError), (0, TypeError)):
        asked = []
        model = mh.MessageOperator(asked.append, to=to)
        with pytest.raises(error, match=r"0 to 1, got 2|no family"):
            model.send(messages(4) if to else [np.zeros((3, 1))] * 4)
        assert not asked


def test_answers_that_wait_in_a_warm_up_are_learned_with_more_and_forgotten_by_a_fit():
    first, more = messages(60), messages(50, 1)
    model = operator(relearn=False)
    model.send(first)
    model.partial_fit(more, logistic_quadrature(more))
    assert model.learned_from_ == 110
    both = tuple(a.joined(b) for a, b in zip(first, more, strict=True))
    fresh = operator(relearn=False).fit(both, logistic_quadrature(both))
    test = messages(20, 2)
    np.testing.assert_allclose(model.predict(test).mean, fresh.predict(test).mean, atol=1e-8)
    model = operator(relearn=False)
    model.send(first)
    model.fit(more, logistic_quadrature(more))
    assert model.learned_from_ == 50
    assert model._waiting() is None


def test_a_factor_that_says_nothing_is_asked_on_and_on():
    """Nothing can be learned from answers that are all the same, and nothing breaks."""
    model = operator(warm_up=20)
    model.oracle = lambda given: given[0]
    for seed in range(3):
        given = messages(30, seed)
        sent = model.send(given)
        assert sent.asked.all()
        np.testing.assert_allclose(sent.belief.mean, given[0].mean)
    model.oracle = lambda given: Normal(given[0].mean, given[0].var / (1 + given[0].var))
    model.send(messages(50, 5))
    assert np.isfinite(model.predict(messages(20, 6), return_std=True)[1]).all()


def test_a_number_that_is_always_the_same_is_kept():
    train, test = messages(100), messages(20, 1)
    model = operator().fit(train, Normal(train[0].mean, train[0].var / (1 + train[0].var)))
    belief = model.predict(test)
    np.testing.assert_allclose(belief.mean, test[0].mean, rtol=1e-12)
    assert np.median(np.abs(belief.var * (1 + test[0].var) / test[0].var - 1)) < 0.005


@pytest.mark.parametrize(
    ("answer", "text"),
    [(np.zeros((1, 2)), "TypeError"), (Normal([0.0, 1.0], 1.0), "2 rows for 1"), (None, "RuntimeError")],
)
def test_answers_of_another_kind_are_failures(answer, text):
    model = operator()
    model.oracle = Fragile(answer)
    with pytest.warns(RuntimeWarning, match="failed for all 1"):
        sent = model.send((Normal(3.0, 1.0), Beta(2.0, 1.0)))
    assert sent.failed.all()
    assert text in model.log_[0]


def test_improper_answers_are_failures():
    model = operator()
    model.oracle = lambda given: Normal(given[0].mean, -given[0].var)
    with pytest.warns(RuntimeWarning, match="failed for all 2"):
        assert model.send(messages(2)).failed.all()
    assert "var of message 0" in model.log_[0]


# -- files, copies, refusals ------------------------------------------------------------------


@pytest.mark.slow
def test_files_hold_all_but_the_oracle(tmp_path):
    train = messages(150)
    model = operator().fit(train, logistic_quadrature(train))
    mh.save(model, tmp_path / "operator.mh")
    back = mh.load(tmp_path / "operator.mh")
    test = messages(20, 1)
    np.testing.assert_array_equal(back.predict(test).mean, model.predict(test).mean)
    assert back.oracle is None
    far = messages(20, 1, centre=60.0)
    with pytest.raises(ValueError, match=r"no oracle to ask: files do not hold it. Set operator.oracle"):
        back.send(far)
    back.oracle = logistic_quadrature
    np.testing.assert_allclose(back(far).mean, model(far).mean, rtol=1e-10)
    back.partial_fit(messages(200, 3), logistic_quadrature(messages(200, 3)))  # it has its examples
    assert back.learned_from_ > 350


def test_an_operator_in_warm_up_is_not_saved(tmp_path):
    model = operator()
    model(messages(5))
    with pytest.raises(ValueError, match="not fitted"):
        mh.save(model, tmp_path / "operator.mh")


def test_a_clone_has_the_oracle():
    assert clone(operator()).oracle is logistic_quadrature


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"max_std": 0.0}, ValueError, "max_std"),
        ({"warm_up": 1}, ValueError, "warm_up"),
        ({"noise": -1.0}, ValueError, "noise"),
        ({"representation": mh.Fourier(10)}, TypeError, "representation"),
        ({"to": 2}, ValueError, "0 to 1, got 2"),
        ({"to": 1}, TypeError, "outputs must be Beta messages"),
    ],
)
def test_bad_options(options, error, text):
    train = messages(20)
    with pytest.raises(error, match=text):
        operator(**options).fit(train, logistic_quadrature(train))


def test_bad_messages(learned):
    z, p = messages(4)
    with pytest.raises(
        ValueError, match=r"Beta\[1\], Normal\[1\], but those learned from are of Normal\[1\]"
    ):
        learned.predict((p, z))
    with pytest.raises(ValueError, match="4 rows for 3 messages"):
        learned.partial_fit((z.select([0, 1, 2]), p.select([0, 1, 2])), z)
    with pytest.raises(TypeError, match="which have no family"):
        mh.MessageOperator().fit([np.zeros(3)] * 4, z)
    with pytest.raises(ValueError, match="do not differ"):
        operator().fit((z, p), z)
