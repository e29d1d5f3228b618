"""The filter's machinery: steps of sequences, states as weights or as features, one answer either way."""

import numpy as np
import pytest
from filter_cases import KERNEL_X, KERNEL_Z, REGS, TEST, DenseFilter, X, Z
from numpy.testing import assert_allclose

import muhat as mh
from muhat.learning.filtering import column
from muhat.operators.bayes import RULES, Pairs
from muhat.operators.bayes.third_order import ThirdOrder
from muhat.operators.filtering import FeatureMachine, Machine, Steps, machine, smooth_back

N = len(X)


def make(rule="importance", representation=None, normalize=False, target=0.0, lengths=None):
    representation = representation or mh.Exact()
    pairs = Pairs(
        representation.gram(KERNEL_X, X, 0), representation.gram(KERNEL_Z, Z, 0), REGS["reg_prior"], target
    )
    steps = Steps.of(lengths or [N])
    return machine(pairs, steps, RULES[rule], REGS["reg"], REGS["reg_transition"], normalize)


def run(filter_, test=TEST):
    state, states = filter_.at(np.full(N, 1 / N)), []
    cross = filter_.pairs.gram_x.cross(test)
    for t in range(len(test)):
        state = filter_.predict(state) if t else state
        state = filter_.condition(state, column(cross, t)).state
        states.append(state)
    return states


def weights(filter_, states):
    return np.array([filter_.weights(s) for s in states])


class TestSteps:
    def test_one_sequence(self):
        steps = Steps.of([4])
        assert_allclose(steps.before, [0, 1, 2])
        assert_allclose(steps.after, [1, 2, 3])

    def test_none_across_the_end_of_a_sequence(self):
        steps = Steps.of([3, 2, 4])
        assert_allclose(steps.before, [0, 1, 3, 5, 6, 7])
        assert_allclose(steps.after, [1, 2, 4, 6, 7, 8])


def test_representation_decides_the_machine():
    assert type(make()) is Machine
    assert type(make(representation=mh.Nystrom(N))) is FeatureMachine


@pytest.mark.parametrize("rule", ["importance", "kbr_a", "kbr_b"])
@pytest.mark.parametrize("normalize", [False, True])
class TestDense:
    def test_filter_is_algorithm_2(self, rule, normalize):
        filter_ = make(rule, normalize=normalize)
        expected = DenseFilter(X, Z, rule=rule, normalize=normalize).filter(TEST)
        assert_allclose(weights(filter_, run(filter_)), expected, rtol=1e-5, atol=1e-8)

    def test_smoother_is_bayes_rule_backwards(self, rule, normalize):
        filter_ = make(rule, normalize=normalize)
        smoothed = smooth_back(filter_, filter_.backward(0.01), run(filter_))
        expected = DenseFilter(X, Z, rule=rule, normalize=normalize).smooth(TEST, 0.01)
        assert_allclose(weights(filter_, smoothed), expected, rtol=1e-5, atol=1e-7)
        assert np.abs(expected - DenseFilter(X, Z, rule=rule, normalize=normalize).filter(TEST)).max() > 0.01


@pytest.mark.parametrize("lengths", [[40], [13, 2, 25]])
def test_target_one_and_several_sequences(lengths):
    filter_ = make(target=1.0, normalize=True, lengths=lengths)
    dense = DenseFilter(X, Z, lengths, target=1.0, normalize=True)
    assert_allclose(weights(filter_, run(filter_)), dense.filter(TEST), rtol=1e-6, atol=1e-9)
    smoothed = smooth_back(filter_, filter_.backward(0.01), run(filter_))
    assert_allclose(weights(filter_, smoothed), dense.smooth(TEST, 0.01), rtol=1e-6, atol=1e-8)


def test_no_transition_leads_across_the_end_of_a_sequence():
    lengths = [13, 2, 25]
    predicted = make(lengths=lengths).predict(make(lengths=lengths).at(np.full(N, 1 / N))).weights
    assert (predicted[[0, 13, 15]] == 0).all()
    assert (predicted[1:13] != 0).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("normalize", [False, True])
class TestFeatures:
    def test_nystrom_with_all_points_is_exact(self, rule, normalize):
        exact, low = make(rule, normalize=normalize), make(rule, mh.Nystrom(N), normalize)
        ours = [weights(m, run(m)) for m in (exact, low)]
        assert_allclose(ours[1], ours[0], rtol=1e-4, atol=1e-6)

    def test_and_for_the_smoother(self, rule, normalize):
        both = [make(rule, normalize=normalize), make(rule, mh.Nystrom(N), normalize)]
        out = [weights(m, smooth_back(m, m.backward(0.01), run(m))) for m in both]
        assert_allclose(out[1], out[0], rtol=1e-4, atol=1e-5)

    def test_coefficients_are_those_of_the_weights(self, rule, normalize):
        low = make(rule, mh.Nystrom(15), normalize)
        for state in run(low):
            ahead = low.predict(state)
            assert_allclose(state.coefficients, low.weights(state) @ low.gram_z.Phi, rtol=1e-6, atol=1e-9)
            assert_allclose(ahead.coefficients, low.weights(ahead) @ low.gram_z.Phi, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("normalize", [False, True])
def test_third_order_moments_are_the_sum_over_pairs(normalize, monkeypatch):
    out = []
    for pays in (False, True):
        monkeypatch.setattr(ThirdOrder, "pays", staticmethod(lambda n, p, q, pays=pays: pays))
        low = make("kbr_b", mh.Nystrom(12), normalize)
        states = run(low)
        assert (low._moments is not None) is pays
        assert (states[0].factors is not None) is pays
        smoothed = smooth_back(low, low.backward(0.01), states)
        out.append([weights(low, s) for s in (states, smoothed)])
    assert_allclose(out[1][0], out[0][0], rtol=1e-6, atol=1e-9)
    assert_allclose(out[1][1], out[0][1], rtol=1e-6, atol=1e-9)


def test_third_order_is_for_kbr_b_alone(monkeypatch):
    monkeypatch.setattr(ThirdOrder, "pays", staticmethod(lambda n, p, q: True))
    assert make("importance", mh.Nystrom(12))._moments is None
    assert make("kbr_a", mh.Nystrom(12))._moments is None


class TestUnmet:
    """An observation that leaves no mass is passed over when weights are normalised."""

    far = np.array([[1e3, 1e3]])

    @pytest.mark.parametrize("representation", [None, mh.Nystrom(N)])
    @pytest.mark.parametrize("rule", RULES)
    def test_the_prediction_stays(self, rule, representation):
        filter_ = make(rule, representation, normalize=True)
        state = run(filter_)[-1]
        step = filter_.condition(state, filter_.pairs.gram_x.cross(self.far))
        assert not step.met
        assert step.mass < 0.02
        assert_allclose(filter_.weights(step.state), filter_.weights(state))

    def test_as_in_the_papers_it_is_used(self):
        filter_ = make()
        step = filter_.condition(run(filter_)[-1], filter_.pairs.gram_x.cross(self.far))
        assert step.met
        assert_allclose(step.state.weights, 0.0, atol=1e-12)

    def test_a_state_without_overlap_is_left_as_it_is(self):
        filter_ = make(normalize=True)
        state = filter_.at(np.full(N, -1 / N))
        step = filter_.condition(state, filter_.pairs.gram_x.cross(X[:1]))
        assert (step.met, step.mass) == (False, 0.0)
        assert step.state is state


def test_mass_is_what_the_observation_leaves_of_the_prediction():
    filter_, dense = make(normalize=True), DenseFilter(X, Z, normalize=True)
    w = np.full(N, 1 / N)
    seen = KERNEL_X(X, X[3:4])[:, 0]
    raw = dense.bayes(dense.Gx, dense.Gz, dense.Gz, w, seen, REGS["reg"])
    step = filter_.condition(filter_.at(w), filter_.pairs.gram_x.cross(X[3:4]))
    assert_allclose(step.mass, raw.sum(), rtol=1e-8)
    assert_allclose(step.state.weights.sum(), 1.0)
