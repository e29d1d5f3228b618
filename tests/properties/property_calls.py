"""The table: each call that the invariances are asked of is one row, with the reason wherever one ends."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from laws import VARYING, Answer, Call, Limit, Table

import muhat as mh
from muhat.messages import Beta, Normal, logistic_quadrature

LEVELS = np.array([0.1, 0.5, 0.9])
# Lengthscales from the columns' standard deviations and the median distance: free of units.
KERNEL = mh.Gaussian("scaled")
RULES = ("importance", "kbr_a", "kbr_b", "deconditional")

X, QUERY = Table("x", "pairs"), Table("x", "query")
Y = Table("y", "pairs")
Ask = Callable[..., dict[str, Answer]]


# -- what is asked --------------------------------------------------------------------------------


def readouts(mu: Any, space: str, rows: str = "query") -> dict[str, Answer]:
    """What is read off embeddings over a space: one, or a batch with one for each of ``rows``."""
    return {
        "mean": Answer(mu.mean(), "points", space, rows),
        "cov": Answer(mu.cov(), "cov", space, rows),
        "norm": Answer(mu.norm(), rows=rows),
        "quantile": Answer(mu.quantile(LEVELS), "points", space, rows),
    }


def gram(kernel: mh.Kernel) -> Ask:
    return lambda X, query: {"gram": Answer(kernel.gram(X, query), rows=("pairs", "query"))}


def embed(**options: Any) -> Ask:
    def ask(X: Any, query: Any) -> dict[str, Answer]:
        mu = mh.embed(X, **options)
        return {
            **readouts(mu, "x", ""),
            "values": Answer(mu(query), rows="query"),
            "effective_size": Answer(mu.effective_size()),
        }

    return ask


def herd(X: Any) -> dict[str, Answer]:
    return {"herd": Answer(mh.embed(X, KERNEL).herd(3), "points", "x")}


def embedded_density(X: Any, query: Any) -> dict[str, Answer]:
    p = mh.embed(X).density()
    return {
        "pdf": Answer(p.pdf(query), "density", "x", "query"),
        "mean": Answer(p.mean(), "points", "x"),
        "cov": Answer(p.cov(), "cov", "x"),
        "quantile": Answer(p.quantile(LEVELS), "points", "x"),
        "interval": Answer(p.interval().T, "points", "x"),
    }


def conditional_mean(**options: Any) -> Ask:
    def ask(X: Any, Y: Any, query: Any) -> dict[str, Answer]:
        model = mh.ConditionalMean(**options).fit(X, Y)
        mu = mh.embed(np.asarray(query, dtype=np.float64), model.kernel_x_)
        return {
            "predict": Answer(model.predict(query), "points", "y", "query"),
            **readouts(model.at(query), "y"),
            "score": Answer(model.score(X, Y)),
            "push": Answer(model.push(mu).mean(), "points", "y"),
            "reg": Answer(model.reg_),
        }

    return ask


def conditional_density(**options: Any) -> Ask:
    def ask(X: Any, Y: Any, query: Any, query_y: Any) -> dict[str, Answer]:
        model = mh.ConditionalDensity(**options).fit(X, Y)
        mean, std = model.predict(query, return_std=True)
        return {
            "pdf": Answer(model.pdf(query, query_y), "density", "y", ("query", "query_y")),
            "mean": Answer(mean, "points", "y", "query"),
            "std": Answer(std, "spread", "y", "query"),
            "interval": Answer(np.swapaxes(model.interval(query), 1, 2), "points", "y", "query"),
        }

    return ask


def density_ratio(**options: Any) -> Ask:
    def ask(P: Any, Q: Any, query: Any) -> dict[str, Answer]:
        model = mh.DensityRatio(**options).fit(P, Q)
        return {"ratio": Answer(model.predict(query), rows="query"), "reg": Answer(model.reg_)}

    return ask


def bayes(rule: str, **options: Any) -> Ask:
    def ask(X: Any, Y: Any, prior: Any, query: Any) -> dict[str, Answer]:
        model = mh.KernelBayes(rule, **options).fit(X, Y)
        mu = model.posterior(query, prior)
        return {**readouts(mu, "y"), "familiarity": Answer(mu.familiarity, rows="query")}

    return ask


def bayes_filter(rule: str, **options: Any) -> Ask:
    def ask(X: Any, Y: Any, query: Any) -> dict[str, Answer]:
        model = mh.KernelBayesFilter(rule, **options).fit(X, Y)
        found = {f"filtered {k}": v for k, v in readouts(model.filter(query), "y", "").items()}
        found["forecast"] = Answer(model.forecast(2).mean(), "points", "y")
        found["smoothed"] = Answer(model.smooth(query).mean(), "points", "y")
        return found

    return ask


def task_transformed(**options: Any) -> Ask:
    def ask(X: Any, Y: Any, task: Any, z: Any, query: Any, query_y: Any) -> dict[str, Answer]:
        model = mh.TaskTransformedGP(**options).fit(X, Y, task, z)
        mean, std = model.predict(query, return_std=True)
        return {
            "predict": Answer(mean, "point", "z", "query"),
            "std": Answer(std, "length", "z", "query"),
            "predict_task": Answer(model.predict_task(query_y), "point", "z", "query_y"),
        }

    return ask


def direct(X: Any, z: Any, query: Any) -> dict[str, Answer]:
    mean, std = mh.TaskTransformedGP().fit_direct(X, z).predict(query, return_std=True)
    return {"predict": Answer(mean, "point", "z", "query"), "std": Answer(std, "length", "z", "query")}


def likelihood_free(method: Any, **options: Any) -> Ask:
    def ask(X: Any, Y: Any, query: Any, **prior: Any) -> dict[str, Answer]:
        mu = mh.LikelihoodFree(method, **options).fit(Y, X).posterior(query, **prior)
        return {
            "mean": Answer(mu.mean(), "points", "y", "query"),
            "cov": Answer(mu.cov(), "cov", "y", "query"),
            "quantile": Answer(mu.quantile(LEVELS), "points", "y", "query"),
            "remoteness": Answer(mu.remoteness, rows="query"),
        }

    return ask


def distribution_regressor(**options: Any) -> Ask:
    def ask(bags: Any, y: Any, query: Any) -> dict[str, Answer]:
        model = mh.DistributionRegressor(random_state=0, **options).fit(bags, y)
        mean, std = model.predict(query, return_std=True)
        return {"predict": Answer(mean, "point", "y", "query"), "std": Answer(std, "length", "y", "query")}

    return ask


def distribution_classifier(**options: Any) -> Ask:
    def ask(bags: Any, y: Any, query: Any) -> dict[str, Answer]:
        model = mh.DistributionClassifier(random_state=0, **options).fit(bags, y)
        return {"proba": Answer(model.predict_proba(query), rows="query")}

    return ask


def bayesian_embedding(**options: Any) -> Ask:
    def ask(X: Any, query: Any) -> dict[str, Answer]:
        model = mh.BayesianEmbedding(**options).fit(X)
        return {
            "mean": Answer(model.mean(query), rows="query"),
            "std": Answer(model.std(query), rows="query"),
        }

    return ask


def learn_kernel(X: Any, points: Any = None) -> dict[str, Answer]:
    found = mh.learn_kernel(X, points=points)
    rows = len(X) if points is None else len(X) + len(points)
    lengths = np.broadcast_to(np.asarray(found.parameters["lengthscale"]), (found.points.shape[1],))
    return {
        "lengthscale": Answer(lengths, "spread", "x"),
        "noise": Answer(found.noise),
        "log_likelihood": Answer(found.log_likelihood / (rows - len(found.points)), "log density", "x"),
    }


def witness(X: Any, other: Any, query: Any) -> dict[str, Answer]:
    kernel = KERNEL.resolve(np.asarray(mh.embed(X).points, dtype=np.float64))
    found = mh.witness_posterior(
        X, other, [kernel, kernel.replace(lengthscale=0.5 * kernel.lengthscale)], query
    )
    return {
        "mean": Answer(found.mean, rows="query"),
        "std": Answer(found.std, rows="query"),
        "draws": Answer(found.draws),
    }


def discover(test: str, **options: Any) -> Ask:
    def ask(table: Any) -> dict[str, Answer]:
        graph = mh.discover(table, test=test, **options)
        d = len(graph.names)
        P = np.eye(d)
        for a, b in graph.pvalues:
            i, j = graph.names.index(a), graph.names.index(b)
            P[i, j] = P[j, i] = graph.pvalues[a, b]
        return {
            "adjacency": Answer(graph.adjacency.astype(float), "graph", "x"),
            "pvalues": Answer(P, "graph", "x"),
        }

    return ask


def cause_effect(x: Any, y: Any) -> dict[str, Answer]:
    trees, code = mh.CauseEffect().evidence(x, y)
    # Rounding may send a feature to the other side of a split.
    return {"trees": Answer(trees, within=0.2), "code": Answer(code)}


def message_operator(
    mean: Any, variance: Any, label: Any, query_mean: Any, query_var: Any
) -> dict[str, Answer]:
    label = np.asarray(label, dtype=float)
    messages = Normal(mean, variance), Beta(1 + label, 2 - label)
    model = mh.MessageOperator(representation=(mh.Fourier(40), mh.Fourier(60)), noise=0.01, random_state=0)
    model.fit(messages, logistic_quadrature(messages))
    belief, std = model.predict((Normal(query_mean, query_var), Beta([2.0] * 3, [1.0] * 3)), return_std=True)
    return {
        "mean": Answer(belief.mean, rows="query"),
        "var": Answer(belief.var, rows="query"),
        "std": Answer(std, rows="query"),
    }


def outcome(result: Any, **more: Any) -> dict[str, Answer]:
    found = {k: Answer(getattr(result, k)) for k in ("statistic", "pvalue", "effect_size")}
    return {**found, **{k: Answer(v) for k, v in more.items()}}


def two_sample(**options: Any) -> Ask:
    def ask(P: Any, Q: Any) -> dict[str, Answer]:
        result = mh.two_sample_test(P, Q, permutations=49, random_state=0, **options)
        return outcome(result, mmd2=result.mmd2)

    return ask


def independence(**options: Any) -> Ask:
    def ask(X: Any, Y: Any) -> dict[str, Answer]:
        result = mh.independence_test(X, Y, permutations=49, random_state=0, **options)
        return outcome(result, hsic=result.hsic)

    return ask


def conditional_independence(**options: Any) -> Ask:
    def ask(X: Any, Y: Any, Z: Any) -> dict[str, Answer]:
        return outcome(mh.conditional_independence_test(X, Y, Z, permutations=49, random_state=0, **options))

    return ask


def quiet(ask: Ask) -> Ask:
    """Without the library's advice, of which so few rows earn much."""

    def asked(**tables: Any) -> dict[str, Answer]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return ask(**tables)

    return asked


# -- the table ------------------------------------------------------------------------------------

# Weights of conditional embeddings need not sum to one (they shrink to none where data are few), so what is
# read off them shrinks to the origin of y, and moves with its unit but not with its origin.
FIXED = Table("y", "pairs", shift=False)
SAMPLE = {"X": X, "query": QUERY}
TWO = {"P": Table("x", "p"), "Q": Table("x", "q")}
RATIO = {**TWO, "query": QUERY}
REGRESSION = {"X": X, "Y": FIXED, "query": QUERY}
DENSITY = {"X": X, "Y": Y, "query": QUERY, "query_y": Table("y", "query_y")}
CONDITIONED = {"X": X, "Y": FIXED, "prior": Table("y", "prior", n=7), "query": QUERY}
TRACKED = {"X": X, "Y": Y, "query": QUERY}
# Positive and bounded columns are taken on their logarithm and logit: their origin means something.
SIMULATIONS = {"X": Table("x", "pairs", shift=False), "Y": FIXED, "query": QUERY}
TASK = {
    "X": X,
    "Y": Y,
    "task": Table("y", "task", n=12),
    "z": Table("z", "task", d=1, flat=True, n=12),
    "query": QUERY,
    "query_y": Table("y", "query_y"),
}
BAGS = {
    "bags": Table("x", "pairs", bag=6),
    "y": Table("y", "pairs", d=1, flat=True),
    "query": Table("x", "query", bag=6),
}
LABELS = Table("y", "pairs", d=1, flat=True, make=lambda v: np.where(v > np.median(v), 1.0, 0.0), shift=False)
POSITIVE: Any = {"d": 1, "flat": True, "make": lambda v: np.exp(v / 2)}
MESSAGES = {
    "mean": Table("x", "pairs", d=1, flat=True, plain=True),
    "variance": Table("v", "pairs", **POSITIVE),
    "label": Table("l", "pairs", d=1, flat=True, make=lambda v: (v > 0).astype(float)),
    "query_mean": Table("x", "query", d=1, flat=True, plain=True),
    "query_var": Table("v", "query", **POSITIVE),
}
SERIES = Table("x", "pairs", d=1, flat=True)
PARTS = {"X": X, "Y": Y, "Z": Table("z", "pairs")}

LANDMARKS = Limit("Landmarks are drawn by row number; with as many as there are rows the order is free.")
LANDMARKS_COLUMNS = Limit("kmeans++ draws by distances, whose ties rounding breaks either way.")
FREQUENCIES = Limit("Random frequencies belong to columns by their position.")
FOLDS = Limit("What is chosen is chosen on folds, which are drawn by row number.")
TREES = Limit("Of cuts that are as good, trees take one by the order of the columns and by a seed.")
ROUNDED = Limit("Columns are standardised first, and rounding then decides between cuts that are as good.")
TIME = Limit("Rows are moments in time: their order is the data.")
AGGREGATE = Limit("Kernels are aggregated by their scores under permutations, which are drawn by row number.")
NULL = Limit("The null is drawn by row number; the statistic is not.", ("statistic", "effect_size"))
SERIES_NULL = Limit("The wild bootstrap is for series: the order of the rows is the data.")
SORTED = Limit(
    "Points are drawn from the rows sorted by their columns in turn: any order of rows, one of columns."
)
DRAWN = Limit("Points of the prior are drawn one column after the other.", ("remoteness",))
# With ties, settings have equal scores, and rounding says which is taken.
UNTIED = ("plain", "scales")
GIVEN_BAYES: Any = {"kernel_x": KERNEL, "kernel_z": KERNEL, "reg": 1e-2, "reg_prior": 1e-2}
SINGLE = Limit("An embedding of JAX arrays stays in JAX and in their precision, to be differentiated.")


def rows(limit: Limit) -> dict[str, Limit]:
    return {"rows": limit}


CALLS = [
    Call("gram gaussian", SAMPLE, gram(KERNEL)),
    Call("gram matern", SAMPLE, gram(mh.Matern(1.5, "scaled"))),
    Call("gram laplace", SAMPLE, gram(mh.Laplace("scaled"))),
    Call("embed", SAMPLE, embed(), limits={"jax single": SINGLE}),
    Call(
        "embed shrunk",
        {**SAMPLE, "X": Table("x", "pairs", shift=False)},
        embed(shrink="loo"),
        limits={"jax single": SINGLE},
    ),
    Call(
        "embed nystrom",
        SAMPLE,
        embed(representation=mh.Nystrom(5)),
        limits={"rows": LANDMARKS, "columns": LANDMARKS_COLUMNS, "jax single": SINGLE},
    ),
    Call(
        "embed nystrom of all rows",
        SAMPLE,
        embed(representation=mh.Nystrom(50)),
        limits={"jax single": SINGLE},
    ),
    Call(
        "embed fourier",
        SAMPLE,
        embed(representation=mh.Fourier(20)),
        limits={"columns": FREQUENCIES, "jax single": SINGLE},
    ),
    Call("herd", {"X": X}, herd, kinds=("plain", "scales", "constant"), limits={"jax single": SINGLE}),
    Call("density", SAMPLE, embedded_density, examples=3, kinds=VARYING),
    Call("mmd", TWO, lambda P, Q: {"mmd": Answer(mh.mmd(P, Q))}, limits={"jax single": SINGLE}),
    Call("ConditionalMean", REGRESSION, conditional_mean()),
    Call("ConditionalMean given", REGRESSION, conditional_mean(kernel_x=KERNEL, kernel_y=KERNEL, reg=1e-3)),
    Call(
        "ConditionalMean nystrom",
        REGRESSION,
        conditional_mean(kernel_x=KERNEL, reg=1e-3, representation=mh.Nystrom(5)),
        limits={"rows": LANDMARKS, "columns": LANDMARKS_COLUMNS},
    ),
    Call(
        "ConditionalDensity",
        DENSITY,
        conditional_density(),
        (12,),
        2,
        VARYING,
        limits=rows(Limit("The loss of the search is summed in single precision, in the order of the rows.")),
    ),
    Call(
        "ConditionalDensity given",
        DENSITY,
        conditional_density(kernel_x=KERNEL, kernel_y=KERNEL, reg_x=1e-2, reg_y=1e-2),
        kinds=VARYING,
        limits={"units": Limit("reg_y has the units of a density of y; learned, it moves with them.")},
    ),
    *(Call(f"DensityRatio {m}", RATIO, density_ratio(method=m)) for m in ("kulsif", "ulsif", "rulsif")),
    Call("DensityRatio given", RATIO, density_ratio(kernel=KERNEL, reg=1e-2)),
    *(Call(f"KernelBayes {r}", CONDITIONED, bayes(r), examples=3, limits=rows(FOLDS)) for r in RULES),
    *(Call(f"KernelBayes {r} given", CONDITIONED, bayes(r, **GIVEN_BAYES)) for r in RULES),
    Call(
        "KernelBayesFilter", TRACKED, bayes_filter("importance"), (24,), 2, tolerance=1e-6, limits=rows(TIME)
    ),
    *(
        Call(
            f"KernelBayesFilter {r} given",
            TRACKED,
            bayes_filter(r, **GIVEN_BAYES, reg_transition=1e-2),
            examples=12,
            limits=rows(TIME),
        )
        for r in RULES
    ),
    Call("TaskTransformedGP", TASK, task_transformed(), (16,), 3, tolerance=1e-4),
    Call(
        "TaskTransformedGP direct",
        {"X": X, "z": Table("z", "pairs", d=1, flat=True), "query": QUERY},
        direct,
        (16,),
        3,
        tolerance=1e-4,
    ),
    *(
        Call(
            f"LikelihoodFree {m or 'default'}",
            SIMULATIONS,
            likelihood_free(m),
            (24,),
            2,
            UNTIED,
            limits={
                **rows(Limit(FOLDS.because, ("remoteness",))),
                **({"columns": DRAWN} if m in (None, "surrogate") else {}),
            },
        )
        for m in (None, "adjusted", "surrogate", "dme", "kelfi", "kbr", "importance", "k2abc")
    ),
    Call("LikelihoodFree kabc", SIMULATIONS, likelihood_free("kabc"), (24,), kinds=VARYING),
    Call(
        "LikelihoodFree rejection", SIMULATIONS, likelihood_free("rejection", share=0.2), (24,), 20, VARYING
    ),
    Call("DistributionRegressor", BAGS, distribution_regressor(), (16,), 3, tolerance=0.05),
    Call(
        "DistributionClassifier",
        {**BAGS, "y": LABELS},
        distribution_classifier(),
        (16,),
        3,
        tolerance=0.05,
        limits=rows(FOLDS),
    ),
    Call(
        "BayesianEmbedding",
        SAMPLE,
        bayesian_embedding(),
        (16,),
        2,
        tolerance=1e-4,
        limits={"columns": SORTED},
    ),
    Call("BayesianEmbedding median", SAMPLE, bayesian_embedding(kernel="median")),
    Call("learn_kernel", {"X": X}, learn_kernel, (16,), 3, tolerance=1e-4, limits={"columns": SORTED}),
    Call(
        "learn_kernel points",
        {"X": X, "points": Table("x", "points", n=8)},
        learn_kernel,
        (16,),
        3,
        tolerance=1e-4,
    ),
    Call(
        "witness_posterior",
        {"X": TWO["P"], "other": TWO["Q"], "query": QUERY},
        witness,
        limits=rows(Limit("Draws are random numbers, one for each point in its turn.", ("mean", "std"))),
    ),
    *(
        Call(f"discover {t}", {"table": Table("x", "pairs", d=4)}, discover(t), (24, 32), kinds=VARYING)
        for t in ("kci", "residual", "fisher-z")
    ),
    Call(
        "CauseEffect",
        {"x": SERIES, "y": Table("y", "pairs", d=1, flat=True)},
        cause_effect,
        (40,),
        kinds=VARYING,
    ),
    Call(
        "MessageOperator",
        MESSAGES,
        message_operator,
        (24,),
        3,
        limits={
            "rows": Limit("Scales are found from draws of the messages, drawn by row number."),
            "columns": Limit("A message has one column."),
            "units": Limit("The factor that is learned has the units of its messages."),
        },
    ),
    Call("two_sample_test", TWO, two_sample(), limits=rows(AGGREGATE)),
    Call("two_sample_test median", TWO, two_sample(kernel="median"), limits=rows(NULL)),
    Call("two_sample_test gamma", TWO, two_sample(method="gamma")),
    Call("two_sample_test wild", TWO, two_sample(method="wild"), limits=rows(SERIES_NULL)),
    Call(
        "two_sample_test fourier",
        TWO,
        two_sample(representation=mh.Fourier(20)),
        limits={"rows": AGGREGATE, "columns": FREQUENCIES},
    ),
    Call("independence_test", {"X": X, "Y": Y}, independence(), limits=rows(AGGREGATE)),
    Call(
        "independence_test median",
        {"X": X, "Y": Y},
        independence(kernel_x="median", kernel_y="median"),
        limits=rows(NULL),
    ),
    Call("independence_test gamma", {"X": X, "Y": Y}, independence(method="gamma")),
    Call("independence_test wild", {"X": X, "Y": Y}, independence(method="wild"), limits=rows(SERIES_NULL)),
    Call(
        "independence_test nystrom",
        {"X": X, "Y": Y},
        independence(representation=mh.Nystrom(5)),
        limits={"rows": LANDMARKS, "columns": LANDMARKS_COLUMNS},
    ),
    *(
        Call(
            f"conditional_independence_test {method} {null}",
            PARTS,
            conditional_independence(method=method, null=null),
            (12, 24),
            limits={
                **({} if limit is None else rows(limit)),
                **({"columns": TREES, "units": ROUNDED} if method == "stacked" else {}),
            },
        )
        for method, null, limit in (
            ("kci", "bootstrap", NULL),
            ("kci", "gamma", None),
            ("residual", "bootstrap", AGGREGATE),
            ("residual", "gamma", None),
            ("stacked", "bootstrap", FOLDS),
        )
    ),
]
