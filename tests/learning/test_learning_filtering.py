"""What a filter leaves free is chosen by its error on stretches that were held out."""

import numpy as np
import pytest
from filter_cases import GIVEN, KERNEL_X, KERNEL_Z, TEST, rotation
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import muhat as mh
from muhat._linalg import SingularSystem
from muhat.gram import Factored, LowRankGram
from muhat.learning import filtering
from muhat.learning.filtering import (
    BACKWARD,
    FOLDS,
    WORTH,
    FilterTask,
    choose_backward,
    choose_filter,
    column,
    folds_ahead,
    folds_of,
    track,
)
from muhat.operators.bayes import RULES
from muhat.operators.filtering import smooth_back

X, Z = rotation(32, seed=2)
FREE = {"tune_x": False, "tune_z": False, "reg": None, "reg_prior": None, "reg_transition": None}
REGS = {"reg": 5e-3, "reg_prior": 2e-3, "reg_transition": 1e-3}


def task(rule="importance", X=(X,), Z=(Z,), **changes):
    fields = {
        "rule": RULES[rule], "X": list(X), "Z": list(Z), "kernel_x": KERNEL_X, "kernel_z": KERNEL_Z,
        "target": 0.0, "normalize": True, **FREE,
    }  # fmt: skip
    return FilterTask(**{**fields, **changes})


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(filtering, "EVALUATIONS", 5)


class TestFolds:
    def numbered(self, *lengths):
        """Sequences whose rows say where they are from."""
        return [np.c_[np.full(n, i), np.arange(n)] for i, n in enumerate(lengths)]

    @pytest.mark.parametrize("lengths", [(60,), (30, 50), (5, 40, 3, 20), (1000,)])
    def test_stretches_are_held_out_from_what_they_are_tracked_by(self, lengths):
        sequences = self.numbered(*lengths)
        folds = folds_of(sequences, [10 * s for s in sequences])
        assert len(folds) == FOLDS
        for fold in folds:
            assert_allclose(10 * fold.X, fold.Z)
            learned = {tuple(row) for row in fold.X}
            assert len(learned) == len(fold.X)
            held = [tuple(row) for x, _ in fold.tests for row in x]
            assert not learned & set(held)
            assert 2 <= len(held) <= filtering.HELD_OUT
            for x, z in fold.tests:
                assert_allclose(10 * x, z)
                assert (x[:, 0] == x[0, 0]).all()  # of one sequence
                assert_array_equal(np.diff(x[:, 1]), 1)  # without a gap

    @pytest.mark.parametrize("lengths", [(60,), (5, 40, 3, 20)])
    def test_steps_neither_cross_sequences_nor_gaps(self, lengths):
        for fold in folds_of(*[self.numbered(*lengths)] * 2):
            before, after = fold.X[fold.steps.before], fold.X[fold.steps.after]
            assert_array_equal(before[:, 0], after[:, 0])
            assert_array_equal(before[:, 1] + 1, after[:, 1])

    def test_too_short_to_hold_anything_out(self):
        assert folds_of(*[self.numbered(3)] * 2) == []


class TestChoice:
    def test_nothing_free(self):
        choice = choose_filter(task(**REGS), np.random.default_rng(0))
        assert (choice.reg, choice.reg_prior, choice.reg_transition) == (5e-3, 2e-3, 1e-3)
        assert (choice.kernel_x, choice.kernel_z) == (KERNEL_X, KERNEL_Z)
        assert np.isnan(choice.score)
        assert len(choice.path) == 0

    def test_too_short(self):
        choice = choose_filter(task(X=[X[:3]], Z=[Z[:3]], tune_x=True), np.random.default_rng(0))
        assert np.isnan(choice.score)
        assert choice.reg > 0

    @pytest.mark.parametrize("free", ["reg", "reg_prior", "reg_transition", "tune_x", "tune_z"])
    def test_what_is_given_is_kept_exactly(self, free, quick):
        odd = {"reg": 0.1, "reg_prior": 0.3, "reg_transition": 1e-12}  # beyond the bounds of the search
        free_one = {free: True} if free.startswith("tune") else {free: None}
        choice = choose_filter(task(**{**odd, **free_one}), np.random.default_rng(0))
        for name in set(odd) - {free}:
            assert getattr(choice, name) == odd[name]
        if free != "tune_x":
            assert choice.kernel_x == KERNEL_X
        if free != "tune_z":
            assert choice.kernel_z == KERNEL_Z
        # Everything but what is free stays the same in all that was tried.
        column_ = {"tune_x": 0, "tune_z": 1, "reg": 2, "reg_prior": 3, "reg_transition": 4}[free]
        assert np.ptp(choice.path[:, column_]) > 0
        assert_allclose(
            np.ptp(np.delete(choice.path, [column_, choice.path.shape[1] - 1], axis=1), axis=0), 0
        )

    def test_score_is_the_error_of_the_choice(self, quick):
        problem = task(tune_z=True)
        choice = choose_filter(problem, np.random.default_rng(0))
        assert np.isfinite(choice.score)
        assert choice.score <= choice.path[0, -1]  # where it started
        assert choice.score < 1.05 * choice.path[:, -1].min()
        scale = Z.std(axis=0)
        rng = np.random.default_rng(0)
        losses = []
        for fold in folds_of([X], [Z]):
            landmarks = [filtering._landmarks(k, A, rng) for k, A in ((KERNEL_X, fold.X), (KERNEL_Z, fold.Z))]
            losses.append(filtering._fold_error(problem, choice, fold, landmarks, scale))
        assert_allclose(np.mean(losses), choice.score, rtol=1e-6)

    def test_fold_error_is_that_of_the_filter(self):
        """In few points the search is exact: the same error as the estimator's."""
        problem = task(**REGS)
        choice = choose_filter(problem, np.random.default_rng(0))
        fold = folds_of([X], [Z])[0]
        got = filtering._fold_error(problem, choice, fold, [fold.X, fold.Z], np.ones(2))
        parts = [len(fold.X)]
        model = mh.KernelBayesFilter(**GIVEN, target="zero").fit(fold.X, fold.Z)
        assert parts == model.lengths_
        (test, truth) = fold.tests[0]
        error = ((model.filter(test).mean() - truth) ** 2).sum(axis=1).mean()
        assert_allclose(got, error, rtol=1e-4)

    def test_regularisers_stay_inside_their_bounds(self, monkeypatch, quick):
        bounds = np.log([1e-3, 2e-3])
        monkeypatch.setattr(filtering, "BOUNDS", bounds)
        choice = choose_filter(task(), np.random.default_rng(0))
        for reg in (choice.reg, choice.reg_prior, choice.reg_transition):
            assert 1e-3 * (1 - 1e-9) <= reg <= 2e-3 * (1 + 1e-9)
        assert np.isfinite(choice.score)

    def test_candidates_that_cannot_be_solved_are_passed_over(self, monkeypatch, quick):
        original, calls = filtering._fold_error, []

        def sometimes(*arguments):
            calls.append(1)
            if len(calls) > 2 * FOLDS:
                raise SingularSystem("no")
            return original(*arguments)

        monkeypatch.setattr(filtering, "_fold_error", sometimes)
        choice = choose_filter(task(), np.random.default_rng(0))
        assert np.isinf(choice.path[-1, -1])
        assert choice.score == choice.path[:2, -1].min()

    def test_the_same_seed_gives_the_same_choice(self, quick):
        a, b = (choose_filter(task(tune_x=True), np.random.default_rng(3)) for _ in range(2))
        assert_array_equal(a.path, b.path)


class TestAhead:
    def numbered(self, *lengths):
        return [np.c_[np.full(n, i), np.arange(n)] for i, n in enumerate(lengths)]

    @pytest.mark.parametrize("lengths", [(60,), (30, 50), (5, 40, 3, 20), (2000,)])
    def test_stretches_come_after_what_they_are_tracked_by(self, lengths):
        sequences = self.numbered(*lengths)
        order = {tuple(row): i for i, row in enumerate(np.concatenate(sequences))}
        folds = folds_ahead(sequences, [10 * s for s in sequences])
        assert len(folds) == filtering.STRETCHES
        for fold in folds:
            assert_allclose(10 * fold.X, fold.Z)
            learned = [order[tuple(row)] for row in fold.X]
            held = [order[tuple(row)] for x, _ in fold.tests for row in x]
            assert max(learned) < min(held)
            assert len(held) <= filtering.AHEAD
            assert len(learned) > 0.4 * sum(lengths)
            for i, j in zip(fold.steps.before, fold.steps.after, strict=True):
                assert_array_equal(fold.X[j] - fold.X[i], [0, 1])

    def test_too_short(self):
        assert folds_ahead([X[:3]], [Z[:3]]) == []


class TestMethod:
    """Kernel filter, linear filter or both."""

    @pytest.mark.usefixtures("quick")
    def test_what_has_the_least_error_ahead(self, monkeypatch):
        for kernel, method in ((10.0, "linear"), (1.0, "both"), (0.0, "kernel")):
            monkeypatch.setattr(
                filtering,
                "_kernel_means",
                lambda task, choice, fold, landmarks, k=kernel: [
                    # An error of k times that of the linear filter, in the other direction.
                    z + k * (z - m)
                    for (_, z), m in zip(fold.tests, filtering._linear_means(fold), strict=True)
                ],
            )
            x, z = rotation(120, seed=3)
            choice = choose_filter(task(X=[x], Z=[z], method="auto"), np.random.default_rng(0))
            assert choice.method == method
            assert_allclose(choice.score_kernel, kernel**2 * choice.score_linear, atol=1e-12)
            assert_allclose(choice.score_both, ((kernel - 1) / 2) ** 2 * choice.score_linear, atol=1e-12)

    @pytest.mark.usefixtures("quick")
    def test_not_compared_where_rows_are_few_or_a_method_is_given(self):
        choices = [choose_filter(task(X=[X[:n]], Z=[Z[:n]], method=m), np.random.default_rng(0))
                   for n, m in ((20, "auto"), (32, "kernel"), (32, "both"))]  # fmt: skip
        assert [c.method for c in choices] == ["kernel", "kernel", "both"]
        assert all(np.isnan(c.score_linear) for c in choices)

    def test_a_linear_filter_needs_no_search(self):
        choice = choose_filter(task(method="linear"), np.random.default_rng(0))
        assert choice.method == "linear"
        assert len(choice.path) == 0


class TestApart:
    """What is reported and what is carried forward may be regressed in different ways."""

    def test_only_where_both_are_free(self):
        assert task(tune_x=True).apart
        assert not task(tune_x=True, reg=1e-3).apart
        assert not task(tune_x=False).apart
        assert not task(tune_x=True, normalize=False).apart
        assert not task("kbr_b", tune_x=True).apart

    def test_choice_has_both(self, quick):
        choice = choose_filter(task(tune_x=True), np.random.default_rng(0))
        assert choice.kernel_carried is not None
        assert choice.reg_carried > 0
        assert choice.path.shape[1] == 8
        plain = choose_filter(task(tune_x=False), np.random.default_rng(0))
        assert (plain.kernel_carried, plain.reg_carried) == (None, None)

    def test_the_carried_state_alone_decides_what_comes_next(self, quick, monkeypatch):
        monkeypatch.setattr(filtering, "STARTS", np.repeat(filtering.STARTS[:1], 4, axis=0))
        model = mh.KernelBayesFilter(method="kernel").fit(X, Z)
        out, c = model.filter(TEST), model.choice_
        rest = {
            "kernel_z": c.kernel_z,
            "reg_prior": c.reg_prior,
            "reg_transition": c.reg_transition,
        }
        carry = mh.KernelBayesFilter(kernel_x=c.kernel_carried, reg=c.reg_carried, **rest).fit(X, Z)
        report = mh.KernelBayesFilter(kernel_x=c.kernel_x, reg=c.reg, **rest).fit(X, Z)._machine
        carried = carry.filter(TEST)
        assert_allclose(model.state_, carried.weights[-1], rtol=1e-8, atol=1e-12)
        state = report.at(np.full(len(X), 1 / len(X)))
        for t, x in enumerate(TEST):
            state = report.predict(report.at(carried.weights[t - 1])) if t else state
            told = report.condition(state, c.kernel_x(X, x[None])).state
            assert_allclose(out.weights[t], told.weights, rtol=1e-6, atol=1e-10)
        assert np.abs(out.weights - carried.weights).max() > 1e-3
        # What the future adds is found from the carried states, and added to the reported ones.
        model.reg_backward_ = 0.1
        smoothed = model.smooth(TEST)
        assert_allclose(smoothed.weights[-1], out.weights[-1])
        machine = carry._machine
        states = [[machine.at(w) for w in result.weights] for result in (carried, out)]
        expected = smooth_back(machine, machine.backward(0.1), *states)
        assert_allclose(smoothed.weights, [s.weights for s in expected], rtol=1e-6, atol=1e-9)

    def test_same_regression_twice_is_the_plain_filter(self):
        from dataclasses import replace

        problem = task(**REGS)
        choice = choose_filter(problem, np.random.default_rng(0))
        twice = replace(choice, kernel_carried=choice.kernel_x, reg_carried=choice.reg)
        fold = folds_of([X], [Z])[1]
        landmarks = [fold.X, fold.Z]
        for a, b in zip(
            track(*filtering._machines(problem, choice, fold, landmarks), TEST),
            track(*filtering._machines(problem, twice, fold, landmarks), TEST),
            strict=True,
        ):
            assert_allclose([s.coefficients for s in a], [s.coefficients for s in b], rtol=1e-9, atol=1e-12)


class TestBackward:
    @pytest.mark.parametrize("rule", ["importance", "kbr_b"])
    def test_least_error_of_the_smoothed_means_that_are_not_too_sure(self, rule):
        problem = task(rule, **REGS)
        choice = choose_filter(problem, np.random.default_rng(0))
        reg = choose_backward(problem, choice, np.random.default_rng(0))
        regs = BACKWARD**2 if rule == "kbr_b" else BACKWARD
        errors, scores = np.zeros((2, len(regs)))
        for fold in folds_ahead([X], [Z]):
            forward, report = filtering._machines(problem, choice, fold, [fold.X, fold.Z])
            test, truth = fold.tests[0]
            states, _ = track(forward, report, test)
            for j, r in enumerate(regs):
                smoothed = smooth_back(forward, forward.backward(min(r, 1e9)), states)
                W = np.array([forward.weights(s) for s in smoothed])
                W = W if np.isfinite(r) else np.array([forward.weights(s) for s in states])
                error = (W @ fold.Z - truth) / Z.std(axis=0)
                centred = fold.Z - fold.Z.mean(axis=0)
                # Of weights that do not quite sum to one, the mean that is told is that of the weights.
                var = (W @ centred**2 - (W @ fold.Z - fold.Z.mean(axis=0)) ** 2) / Z.var(axis=0)
                pdf = norm.pdf(error, scale=np.sqrt(np.maximum(var, 1e-6)))
                errors[j] += (error**2).sum()
                scores[j] += np.log(0.95 * pdf + 0.05 * norm.pdf(error)).sum()
        count = sum(truth.size for fold in folds_ahead([X], [Z]) for _, truth in fold.tests)
        best = int(np.argmin(np.where(scores >= scores[-1] - filtering.TOO_SURE * count, errors, np.inf)))
        assert reg == (regs[best] if errors[best] < WORTH * errors[-1] else np.inf)

    def test_infinite_where_the_future_only_harms(self, monkeypatch):
        monkeypatch.setattr(filtering, "smooth_back", lambda f, b, c, r: [f.at(0 * f.weights(s)) for s in r])
        problem = task(**REGS)
        choice = choose_filter(problem, np.random.default_rng(0))
        assert choose_backward(problem, choice, np.random.default_rng(0)) == np.inf

    @pytest.mark.parametrize(("spread", "helps"), [(1.0, True), (0.02, False)])
    def test_states_that_are_too_sure_do_not_help(self, spread, helps, monkeypatch):
        """The smoother's errors are half the filter's; its spread is that of its errors, or far less."""
        rng = np.random.default_rng(0)

        def smoothed(task, choice, fold, landmarks, regs):
            out, errors = [], [rng.normal(size=Z.shape) for _, Z in fold.tests]
            for reg in regs:
                share, sd = (1.0, 1.0) if np.isinf(reg) else (0.5, 0.5 * spread)
                means = [Z + share * e for e, (_, Z) in zip(errors, fold.tests, strict=True)]
                second = [sd**2 + (m - fold.Z.mean(axis=0)) ** 2 for m in means]
                out.append([np.hstack(both) for both in zip(means, second, strict=True)])
            return out

        monkeypatch.setattr(filtering, "_smoothed", smoothed)
        problem = task(**REGS)
        choice = choose_filter(problem, np.random.default_rng(0))
        assert np.isfinite(choose_backward(problem, choice, np.random.default_rng(0))) == helps

    def test_too_short(self):
        problem = task(X=[X[:3]], Z=[Z[:3]], **REGS)
        assert choose_backward(problem, choose_filter(problem, None), None) in BACKWARD


def test_columns_of_cross_matrices():
    K = np.arange(12.0).reshape(3, 4)
    assert_array_equal(column(K, 2), K[:, [2]])
    low = Factored(np.arange(6.0).reshape(3, 2), np.arange(8.0).reshape(2, 4))
    part = column(low, 1)
    assert part.left is low.left
    assert_array_equal(part.dense(), low.dense()[:, [1]])


def test_search_works_in_landmarks(monkeypatch):
    monkeypatch.setattr(filtering, "LANDMARKS", 12)
    rng = np.random.default_rng(0)
    landmarks = filtering._landmarks(KERNEL_X, X, rng)
    assert landmarks.shape == (12, 2)
    gram = filtering._gram(KERNEL_X, X, landmarks)
    assert isinstance(gram, LowRankGram)
    assert gram.Phi.shape[1] <= 12
    assert_allclose(filtering._gram(KERNEL_X, X, X).dense(), KERNEL_X(X), atol=1e-8)


class TestUnexplained:
    """Landmarks do not stand for noisy images: there the search does without them, or with more."""

    rng = np.random.default_rng(5)
    # Two coordinates that are seen through 400 noisy pixels.
    IMAGES = np.tanh(Z @ rng.standard_normal((2, 400))) + rng.standard_normal((len(Z), 400))

    @pytest.fixture(autouse=True)
    def few(self, monkeypatch, quick):
        monkeypatch.setattr(filtering, "LANDMARKS", 8)
        monkeypatch.setattr(filtering, "MORE_LANDMARKS", 12)

    def noisy(self, rule="importance", **changes):
        kernel = mh.Gaussian(30.0)
        return task(rule, X=[self.IMAGES], kernel_x=kernel, **changes)

    def test_share_is_that_of_the_trace(self):
        landmarks = self.IMAGES[:8]
        kernel = mh.Gaussian(30.0)
        K, A, B = kernel(self.IMAGES), kernel(self.IMAGES, landmarks), kernel(landmarks)
        rest = np.trace(K - A @ np.linalg.solve(B, A.T)) / np.trace(K)
        assert rest > filtering.UNEXPLAINED
        assert_allclose(filtering.unexplained(kernel, self.IMAGES, landmarks), rest, rtol=1e-8)
        assert filtering.unexplained(kernel, self.IMAGES, self.IMAGES) == 0

    def test_landmarks_that_explain_are_kept_and_nothing_more_is_drawn(self):
        problem = task(kernel_x=mh.Gaussian(5.0), kernel_z=mh.Gaussian(5.0))
        fold = folds_of(problem.X, problem.Z)[0]
        a, b = (np.random.default_rng(1) for _ in range(2))
        got = filtering._both_landmarks(problem, fold, a)
        expected = [filtering._landmarks(mh.Gaussian(5.0), A, b) for A in (fold.X, fold.Z)]
        for x, y in zip(got, expected, strict=True):
            assert_array_equal(x, y)
        assert a.random() == b.random()

    @pytest.mark.parametrize(
        ("rule", "rows", "size"), [("importance", 1000, None), ("importance", 20, 12), ("kbr_b", 1000, 12)]
    )
    def test_else_exact_or_more(self, rule, rows, size, monkeypatch):
        monkeypatch.setattr(filtering, "EXACT_ROWS", rows)
        problem = self.noisy(rule)
        fold = folds_of(problem.X, problem.Z)[0]
        of_x, of_z = filtering._both_landmarks(problem, fold, np.random.default_rng(0))
        assert (None if of_x is None else len(of_x)) == size
        assert len(of_z) == 8

    @pytest.mark.parametrize("rule", ["importance", "kbr_b"])
    def test_exact_is_all_rows_as_landmarks(self, rule):
        problem = self.noisy(rule, **REGS)
        choice = choose_filter(problem, np.random.default_rng(0))
        fold = folds_of(problem.X, problem.Z)[1]
        errors = [
            filtering._fold_error(problem, choice, fold, [x, fold.Z], np.ones(2)) for x in (None, fold.X)
        ]
        assert_allclose(*errors, rtol=1e-6)

    def test_search_scores_exactly_and_has_one_more_start(self):
        problem = self.noisy(tune_x=True, tune_z=True)
        choice = choose_filter(problem, np.random.default_rng(0))
        assert_allclose(choice.path[:4, :7], filtering.STARTS)
        assert_allclose(choice.path[4:5, :7], filtering.STARTS_UNEXPLAINED)
        rng, losses = np.random.default_rng(0), []
        for fold in folds_of(problem.X, problem.Z):
            filtering._landmarks(problem.kernel_x, fold.X, rng)  # drawn, and found wanting
            of_z = filtering._landmarks(KERNEL_Z, fold.Z, rng)
            losses.append(filtering._fold_error(problem, choice, fold, [fold.X, of_z], Z.std(axis=0)))
        assert_allclose(choice.score, np.mean(losses), rtol=1e-5)

    def test_other_starts_where_landmarks_explain(self):
        problem = task(kernel_x=mh.Gaussian(5.0), tune_x=True, tune_z=True)
        path = choose_filter(problem, np.random.default_rng(0)).path
        assert not np.isclose(path[:, :7], filtering.STARTS_UNEXPLAINED).all(axis=1).any()

    def test_no_step_makes_the_gram_of_the_images(self):

        class Counted(mh.Gaussian):
            made = 0

            def __call__(self, A, B=None):
                Counted.made += B is None
                return super().__call__(A, B)

        model = mh.KernelBayesFilter(kernel_x=Counted(30.0), kernel_z=KERNEL_Z, **REGS)
        model.fit(self.IMAGES, Z)
        Counted.made = 0
        model.filter(self.IMAGES[:10])
        assert Counted.made == 0


class TestMoreColumnsThanRows:
    """The search works in the coordinates of the span of the observations, and answers in their own."""

    wide = np.split(0.3 * np.c_[X, np.random.default_rng(5).normal(size=(32, 48))], 2)

    @pytest.mark.usefixtures("quick")
    @pytest.mark.parametrize(
        "kernel",
        [mh.Gaussian(3.0), mh.Gaussian(np.linspace(2.0, 4.0, 50)), mh.Matern(1.5, 3.0), mh.Laplace(20.0)],
        ids=["Gaussian", "ARD", "Matern", "Laplace"],
    )
    @pytest.mark.parametrize("rule", ["importance", "kbr_b"])
    def test_the_answer_is_that_of_all_columns(self, rule, kernel, monkeypatch):
        problem = task(rule, X=self.wide, Z=[Z[:16], Z[16:]], kernel_x=kernel, tune_x=True)
        few = choose_filter(problem, np.random.default_rng(0))
        monkeypatch.setattr(filtering, "_in_few_columns", lambda task: task)
        all_columns = choose_filter(problem, np.random.default_rng(0))
        assert_allclose(few.path, all_columns.path, rtol=1e-6)
        assert_allclose(few.kernel_x.lengthscale, all_columns.kernel_x.lengthscale, rtol=1e-6)
        assert np.ptp(few.path[:, 0]) > 0  # lengthscales were tried

    @pytest.mark.parametrize(("norm", "columns"), [(1, 50), (2, 32)])
    def test_only_distances_that_a_rotation_keeps(self, norm, columns):
        problem = task(X=self.wide, Z=[Z[:16], Z[16:]], kernel_x=mh.Laplace(20.0, norm))
        assert [x.shape for x in filtering._in_few_columns(problem).X] == [(16, columns)] * 2

    def test_few_columns_stay(self):
        problem = task()
        assert filtering._in_few_columns(problem) is problem
