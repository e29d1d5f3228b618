"""Tests: each is done by us, by bare arithmetic and by the peers; the answer is a p-value, or None."""

from __future__ import annotations

import numpy as np

import muhat as mh
from benchmarks.peers import bare
from benchmarks.peers.contestant import Contestant, Workload, needs
from benchmarks.peers.packages import peer

D, PERMUTATIONS, ELL = 10, 500, 4.5  # ELL is about the median distance of ten standard normals
FEATURES = 256


def _share(seconds: float, limit: float = 3.0) -> float:
    """The share of 500 permutations that takes about ``limit`` seconds, at least five of them."""
    return max(min(1.0, limit / seconds), 5 / PERMUTATIONS)


def shifted(n: int, shift: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two samples of n rows and ten columns; the mean of the second is moved by ``shift`` in each."""
    x, y = np.random.default_rng(seed).standard_normal((2, n, D))
    return x, y + shift


def dependent(n: int, strength: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten columns, and ten that depend on their squares."""
    x, y = np.random.default_rng(seed).standard_normal((2, n, D))
    return x, y + strength * (x**2 - 1.0)


def mmd(n: int) -> dict[str, Contestant]:
    """Two-sample test with one given kernel by 500 permutations."""
    x, y = shifted(n, 0.05, 0)
    z = np.concatenate([x, y]).astype(np.float32)
    H = bare.signs(n, n, PERMUTATIONS, np.random.default_rng(0))

    def ours() -> float:
        return mh.two_sample_test(
            x,
            y,
            kernel=mh.Gaussian(ELL),
            permutations=PERMUTATIONS,
            representation=mh.Exact(),
            random_state=0,
        ).pvalue

    def arithmetic() -> float:
        null = bare.quadratic_forms(z, H, ELL)
        return float(np.mean(null >= null[0]))

    def dcor_energy() -> float:
        count = round(slow * PERMUTATIONS)
        return float(peer("dcor").homogeneity.energy_test(x, y, num_resamples=count, random_state=0).pvalue)

    def hyppo_mmd() -> float:
        test = peer("hyppo.ksample").MMD(gamma=0.5 / ELL**2)
        return float(test.test(x, y, reps=round(slower * PERMUTATIONS), auto=False)[1])

    slow, slower = _share(9.0 * (n / 1000) ** 2), _share(175.0 * (n / 1000) ** 2)
    found = {
        "ours": Contestant(ours),
        "bare arithmetic": Contestant(arithmetic),
        "NumPy end to end": Contestant(lambda: bare.mmd_test(x, y, ELL, PERMUTATIONS, 0)),
    }
    if n <= 2000:
        found["dcor energy"] = Contestant(dcor_energy, needs("dcor"), slow, once=True)
        found["hyppo"] = Contestant(hyppo_mmd, needs("hyppo.ksample"), slower, once=True)
    return found


def mmd_blocks(n: int) -> dict[str, Contestant]:
    """The exact test at a size whose Gram matrix would not fit in 2 GB."""
    return {"ours": Contestant(mmd(n)["ours"].run, once=True)}


def hsic(n: int) -> dict[str, Contestant]:
    """Independence test with one given kernel a side by 500 permutations."""
    x, y = dependent(n, 0.3, 0)
    kernel = mh.Gaussian(ELL)

    def ours() -> float:
        return mh.independence_test(
            x, y, kernel_x=kernel, kernel_y=kernel, permutations=PERMUTATIONS, random_state=0
        ).pvalue

    def dcor_covariance() -> float:
        count = round(slow * PERMUTATIONS)
        test = peer("dcor").independence.distance_covariance_test
        return float(test(x, y, num_resamples=count, random_state=0).pvalue)

    def hyppo_hsic() -> float:
        test = peer("hyppo.independence").Hsic(gamma=0.5 / ELL**2)
        return float(test.test(x, y, reps=round(slower * PERMUTATIONS), auto=False)[1])

    slow, slower = _share(5.0 * (n / 1000) ** 2), _share(37.0 * (n / 1000) ** 2)
    found = {
        "ours": Contestant(ours),
        "compiled loop": Contestant(
            lambda: bare.hsic_test(x, y, (ELL, ELL), PERMUTATIONS, 0), bare.compiled_traces
        ),
    }
    if n <= 2000:
        found["dcor"] = Contestant(dcor_covariance, needs("dcor"), slow, once=True)
        found["hyppo"] = Contestant(hyppo_hsic, needs("hyppo.independence"), slower, once=True)
    return found


def hsic_gamma(n: int) -> dict[str, Contestant]:
    """Independence test by the gamma approximation, median lengthscales."""
    x, y = dependent(n, 0.3, 0)

    def ours() -> float:
        return mh.independence_test(x, y, kernel_x="median", kernel_y="median", method="gamma").pvalue

    def lingam() -> float:
        return float(peer("lingam.hsic").hsic_test_gamma(x, y)[1])

    def causal_learn() -> float:
        return float(peer("causallearn.search.FCMBased.lingam.hsic").hsic_test_gamma(x, y)[1])

    return {
        "ours": Contestant(ours),
        "lingam": Contestant(lingam, needs("lingam.hsic")),
        "causal-learn": Contestant(causal_learn, needs("causallearn.search.FCMBased.lingam.hsic")),
    }


def aggregate(n: int) -> dict[str, Contestant]:
    """The aggregated two-sample test: 20 kernels, 500 permutations."""
    x, y = shifted(n, 0.05, 0)
    scales = np.geomspace(0.25, 4.0, 10) * ELL
    kernels = [family(c) for family in (mh.Gaussian, mh.Laplace) for c in scales]

    def ours() -> float:
        return mh.two_sample_test(x, y, kernels, permutations=PERMUTATIONS, random_state=0).pvalue

    def mmdagg() -> None:
        test = peer("mmdagg.jax").mmdagg
        test(np.float32(x), np.float32(y), B1=PERMUTATIONS, B2=PERMUTATIONS).block_until_ready()

    def mmdfuse() -> float:
        key = peer("jax").random.PRNGKey(0)
        test = peer("mmdfuse").mmdfuse
        options = {"number_permutations": PERMUTATIONS, "return_p_val": True}
        return float(test(np.float32(x), np.float32(y), key, **options)[1])

    found = {"ours": Contestant(ours), "MMDAgg": Contestant(mmdagg, needs("mmdagg.jax"))}
    if n <= 2000:
        found["MMD-FUSE"] = Contestant(mmdfuse, needs("mmdfuse"))
    return found


def features_test(x: np.ndarray, y: np.ndarray, seed: int) -> float:
    """Our near-linear two-sample test: random Fourier features of one given kernel."""
    return mh.two_sample_test(
        x,
        y,
        kernel=mh.Gaussian(ELL),
        representation=mh.Fourier(FEATURES),
        permutations=PERMUTATIONS,
        random_state=seed,
    ).pvalue


def compress_then_test(x: np.ndarray, y: np.ndarray, seed: int) -> float:
    """goodpoints' CTT with the same kernel; it counts no p-value, so its decision at .05 stands for one."""
    result = peer("goodpoints.ctt").ctt(
        x,
        y,
        g=4,
        B=PERMUTATIONS - 1,
        lam=np.sqrt(2.0) * ELL,
        null_seed=seed,
        statistic_seed=seed,
    )
    return 0.0 if result.rejects else 1.0


def near_linear(n: int) -> dict[str, Contestant]:
    """A two-sample test in near-linear time: features against compression."""
    x, y = shifted(n, 0.02, 0)
    return {
        "ours": Contestant(lambda: features_test(x, y, 0)),
        "goodpoints CTT": Contestant(lambda: compress_then_test(x, y, 0), needs("goodpoints.ctt")),
    }


def chain(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x ← z → y, nonlinear: x and y are independent given z and strongly dependent without it."""
    z, e, f = np.random.default_rng(seed).standard_normal((3, n, 1))
    return np.tanh(z) + 0.5 * e, z**2 / 2.0 + z + 0.5 * f, z


def kci_ours(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> float:
    return mh.conditional_independence_test(x, y, z, method="kci").pvalue


def kci_causal_learn(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> float:
    return float(peer("causallearn.utils.KCI.KCI").KCI_CInd().compute_pvalue(x, y, z)[0])


def kci(n: int) -> dict[str, Contestant]:
    """Conditional independence by KCI."""
    x, y, z = chain(n, 0)
    return {
        "ours": Contestant(lambda: kci_ours(x, y, z)),
        "causal-learn": Contestant(lambda: kci_causal_learn(x, y, z), needs("causallearn.utils.KCI.KCI")),
    }


SKELETON = ((0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (2, 5))


def six_variables(n: int, seed: int = 0) -> np.ndarray:
    """A nonlinear graph on six variables, some of whose edges show no linear correlation."""
    e = np.random.default_rng(seed).standard_normal((n, 6))
    v = np.empty_like(e)
    v[:, 0] = e[:, 0]
    v[:, 1] = np.tanh(1.5 * v[:, 0]) + 0.5 * e[:, 1]
    v[:, 2] = v[:, 0] ** 2 - 1.0 + 0.5 * e[:, 2]
    v[:, 3] = v[:, 1] + np.cos(2.0 * v[:, 2]) + 0.4 * e[:, 3]
    v[:, 4] = np.abs(v[:, 3] - v[:, 3].mean()) + 0.3 * e[:, 4]
    v[:, 5] = np.sin(2.0 * v[:, 2]) + 0.4 * e[:, 5]
    return (v - v.mean(axis=0)) / v.std(axis=0)


def missing_and_extra(adjacency: np.ndarray) -> float:
    """Edges of the true skeleton that are missing, plus a hundredth for each that is too many."""
    adjacent = (np.asarray(adjacency) != 0) | (np.asarray(adjacency).T != 0)
    found = {(i, j) for i in range(6) for j in range(i + 1, 6) if adjacent[i, j]}
    return len(set(SKELETON) - found) + len(found - set(SKELETON)) / 100.0


def discover(n: int) -> dict[str, Contestant]:
    """The PC algorithm on six nonlinear variables; the answer is missing edges, extra ones as hundredths."""
    table = six_variables(n)
    searches = needs("causallearn.search.ConstraintBased.PC")

    def causal_learn(test: str) -> float:
        pc = peer("causallearn.search.ConstraintBased.PC").pc
        return missing_and_extra(pc(table, 0.05, test, show_progress=False).G.graph)

    return {
        "ours": Contestant(lambda: missing_and_extra(mh.discover(table, alpha=0.05).adjacency)),
        "causal-learn KCI": Contestant(lambda: causal_learn("kci"), searches, once=True),
        "causal-learn RCIT": Contestant(lambda: causal_learn("rcit"), searches),
        "causal-learn Fisher-z": Contestant(lambda: causal_learn("fisherz"), searches),
    }


def learn(n: int) -> dict[str, Contestant]:
    """Learning a kernel by its pseudolikelihood, five columns."""
    table = np.random.default_rng(0).standard_normal((n, 5))

    def ours() -> None:
        mh.learn_kernel(table, random_state=0)

    return {"ours": Contestant(ours)}


WORKLOADS = {
    "mmd": Workload("two-sample test, one kernel", mmd, (1000, 2000, 5000)),
    "mmd-blocks": Workload("two-sample test by blocks", mmd_blocks, (20_000,)),
    "hsic": Workload("independence test, one kernel", hsic, (1000, 2000, 5000)),
    "hsic-gamma": Workload("independence test, gamma approximation", hsic_gamma, (1000, 2000, 5000)),
    "aggregate": Workload("two-sample test, 20 kernels", aggregate, (1000, 5000)),
    "near-linear": Workload("two-sample test, features", near_linear, (5000,)),
    "kci": Workload("conditional independence test", kci, (2000,)),
    "discover": Workload("causal graph of six variables", discover, (1000,), "edges"),
    "learn": Workload("learning a kernel", learn, (2000,), ""),
}
