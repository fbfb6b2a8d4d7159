"""Intervals and tests, compared with scipy, hand-computed tables and simulations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from bmtools.scoring.evaluation import compare_models
from bmtools.statistics import resampling
from bmtools.statistics.ratios import Metric, Sums, Units, interval, paired_difference
from bmtools.statistics.resampling import FEWEST_UNITS, holm
from bmtools.statistics.settings import StatisticsConfig

MANY = StatisticsConfig(resamples=20_000)
FEW = StatisticsConfig(resamples=200)


def expanded(units: int, confidence: float) -> float:
    """Return the confidence of the expanded percentiles (Hesterberg 2015, section 5.3)."""
    quantile = stats.t.ppf((1 + confidence) / 2, units - 1) * math.sqrt(units / (units - 1))
    return float(1 - 2 * stats.norm.cdf(-quantile))


def sentences(seed: int, units: int) -> Sums:
    """Return skewed sums of nats with a mean of 2 per token, and numbers of tokens."""
    generator = np.random.default_rng(seed)
    tokens = generator.integers(1, 40, units)
    return tokens * generator.exponential(2, units), tokens


def pair(seed: int, units: int, gap: float = 0.3) -> tuple[Sums, Sums]:
    """Return two models; the second is worse and has other tokens."""
    generator = np.random.default_rng((seed, 1))
    nats, tokens = sentences(seed, units)
    other = nats + tokens * generator.normal(gap, 1, units)
    return (nats, tokens), (other, tokens + generator.integers(0, 5, units))


def ratio(numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
    return numerators.sum(axis=-1) / denominators.sum(axis=-1)


def gap_of(*columns: np.ndarray, axis: int = -1) -> np.ndarray:
    sums = [column.sum(axis=axis) for column in columns]
    return sums[0] / sums[1] - sums[2] / sums[3]


@pytest.mark.parametrize("units", [10, 40, 300])
@pytest.mark.parametrize("confidence", [0.95, 0.6])
def test_interval_equals_scipy(units: int, confidence: float) -> None:
    sums = sentences(units, units)
    settings = StatisticsConfig(20_000, confidence)
    found = interval(sums, settings)
    other = stats.bootstrap(sums, lambda n, d, axis: n.sum(axis) / d.sum(axis), paired=True,
                            vectorized=True, n_resamples=20_000, method="percentile",
                            confidence_level=expanded(units, confidence),
                            rng=np.random.default_rng(7))
    spread = float(other.standard_error)
    assert found == pytest.approx(tuple(other.confidence_interval), abs=0.06 * spread)
    assert found[1] - found[0] > spread


def test_interval_of_a_difference_equals_scipy() -> None:
    first, second = pair(3, 60)
    found = paired_difference(first, second, MANY)
    other = stats.bootstrap((*first, *second), gap_of, paired=True, vectorized=True,
                            n_resamples=20_000, method="percentile",
                            confidence_level=expanded(60, 0.95), rng=np.random.default_rng(7))
    assert found.value == pytest.approx(float(gap_of(*first, *second)))
    assert found.interval == pytest.approx(tuple(other.confidence_interval),
                                           abs=0.06 * float(other.standard_error))


@pytest.mark.parametrize(("seed", "gap"), [(0, 0.1), (1, 0.3), (2, 0.6)])
def test_p_value_of_many_units_equals_scipy(seed: int, gap: float) -> None:
    first, second = pair(seed, 60, gap)
    found = paired_difference(first, second, MANY)
    expected = permuted(first, second, 20_000)
    error = math.sqrt(2 * expected * (1 - expected) / 20_000)
    assert found.p_value == pytest.approx(expected, abs=4 * error + 1e-4)


def permuted(first: Sums, second: Sums, resamples: float) -> float:
    """Scipy exchanges unit numbers, which refer to sums in a table."""
    table = np.stack([np.stack(first), np.stack(second)])  # (models, sums, units)
    units = np.arange(table.shape[2])

    def difference(one: np.ndarray, two: np.ndarray, axis: int) -> np.ndarray:
        one, two = np.moveaxis(one, axis, -1).astype(int), np.moveaxis(two, axis, -1).astype(int)
        return gap_of(*(table[which, column, units] for which in (one, two) for column in (0, 1)))

    zeros = np.zeros(len(units))
    return float(stats.permutation_test(
        (zeros, zeros + 1), difference, permutation_type="samples", vectorized=True,
        n_resamples=resamples, rng=np.random.default_rng(5)).pvalue)


def test_exact_p_value_equals_a_hand_computed_one() -> None:
    """Signs of 1, 2 and 3 produce sums of size 6, 4, 2 and 0, each in two of eight ways."""
    ones = np.ones(3)
    settings = StatisticsConfig(9)
    for changes, extreme in (([1, 2, 3], 2), ([-1, 2, 3], 4), ([1, -2, 3], 6), ([1, 2, -3], 8)):
        found = paired_difference((np.array(changes), ones), (np.zeros(3), ones), settings)
        assert found.p_value == extreme / 8


def test_rounding_ties_count_as_extreme() -> None:
    """All units have the same difference, not a binary fraction; half of all flips are ties."""
    ones = np.ones(8)
    for scale in (0.1, 1e-7, 1e9 / 3):
        first = scale * np.array([1, 1, 1, 1, 1, 1, -1, -1])
        expected = sum(abs(sum(signs)) >= 4 for signs in itertools.product((1, -1), repeat=8)) / 256
        found = paired_difference((first, ones), (0 * ones, ones), StatisticsConfig())
        assert found.p_value == pytest.approx(expected)


def test_model_does_not_differ_from_itself() -> None:
    sums = sentences(0, 100)
    found = paired_difference(sums, sums, StatisticsConfig())
    assert (found.value, found.interval, found.p_value) == (0, (0, 0), 1)


@pytest.mark.parametrize("units", [2, 3, 6, 9])
def test_few_units_have_a_p_value_but_no_interval(units: int) -> None:
    first, second = pair(0, units)
    found = paired_difference(first, second, StatisticsConfig())
    assert (interval(first, StatisticsConfig()), found.interval) == (None, None)
    assert found.p_value == pytest.approx(permuted(first, second, math.inf), abs=1e-12)


def coverage(units: int, draws: int = 400) -> float:
    """Return the share of samples whose interval contains the population's ratio, 2."""
    found = [interval(sentences((seed, units), units), StatisticsConfig(300, seed=seed))
             for seed in range(draws)]
    return float(np.mean([one is not None and one[0] <= 2 <= one[1] for one in found]))


@pytest.mark.parametrize(("units", "least"), [(10, 0.86), (20, 0.88), (50, 0.9), (200, 0.92)])
def test_intervals_contain_the_true_value_at_their_level(units: int, least: float) -> None:
    """Losses are exponential here, which is more skewed than for sentences.

    Plain percentiles of ten such losses contain the true value in 84 % of samples.
    """
    assert least <= coverage(units) <= 0.975


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("units", [FEWEST_UNITS, 20, 1000])
def test_expanded_percentiles_equal_scipy(units: int, confidence: float) -> None:
    assert resampling.expanded_tail(units, confidence) == pytest.approx(
        (1 - expanded(units, confidence)) / 2, abs=1e-4)


def test_same_seed_has_the_same_results() -> None:
    first, second = pair(0, 50)
    found = [paired_difference(first, second, StatisticsConfig(seed=seed)) for seed in (0, 0, 1)]
    assert found[0] == found[1]
    assert found[0].interval != found[2].interval
    assert found[0].p_value != found[2].p_value
    assert interval(first, StatisticsConfig()) == interval(first, StatisticsConfig())


@pytest.mark.parametrize("units", [9, 33, 100])
def test_results_do_not_depend_on_the_chunk_size(units: int,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = pair(0, units)
    settings = StatisticsConfig(1001)
    expected = paired_difference(first, second, settings)
    for numbers in (1, 7 * units, 1000 * units):
        monkeypatch.setattr(resampling, "_NUMBERS_AT_ONCE", numbers)
        found = paired_difference(first, second, settings)
        assert (found.value, found.p_value) == (expected.value, expected.p_value)
        assert found.interval == (expected.interval and pytest.approx(expected.interval, rel=1e-13))


@pytest.mark.parametrize(("numerators", "denominators"), [
    ([], []), ([1.5], [3]), ([0.0, 0.0], [0, 0]), ([0.0, 2.5], [0, 4]), ([math.inf, 1.0], [2, 2]),
])
def test_constant_scores_have_no_interval(numerators: list[float], denominators: list[int]) -> None:
    sums = np.array(numerators), np.array(denominators)
    other = np.ones(len(numerators)), np.ones(len(numerators))
    assert interval(sums, StatisticsConfig()) is None
    for first, second in ((sums, other), (other, sums), (sums, sums)):
        found = paired_difference(first, second, StatisticsConfig())
        assert (found.interval, found.p_value) == (None, None)


def test_units_without_counts_are_ignored() -> None:
    first, second = pair(0, 50)
    settings = StatisticsConfig()
    longer = [tuple(np.insert(column, [0, 20, 50], 0) for column in sums)
              for sums in (first, second)]
    assert paired_difference(*longer, settings) == paired_difference(first, second, settings)
    assert interval(longer[0], settings) == interval(first, settings)


def test_models_may_count_different_units() -> None:
    """Words that are complete in only one vocabulary are left out for the other."""
    first = np.array([1.0, 0.5, 0, 0.25]), np.array([1, 1, 0, 1])
    second = np.array([0.5, 0, 0.2, 0.25]), np.array([1, 0, 1, 1])
    found = paired_difference(first, second, MANY)
    assert found.value == pytest.approx(1.75 / 3 - 0.95 / 3)
    bounds = paired_difference(np.tile(first, 5), np.tile(second, 5), MANY).interval
    assert bounds is not None and bounds[0] < found.value < bounds[1]
    # By hand: units two and three each belong to either model, so denominators are 2 to 4.
    sizes = []
    for flips in itertools.product((0, 1), repeat=4):
        models = [np.where(flips, second, first), np.where(flips, first, second)]
        sizes.append(abs(ratio(*models[0]) - ratio(*models[1])))
    assert found.p_value == np.mean(np.array(sizes) >= sizes[0] - 1e-9)


def test_holm_equals_a_hand_computed_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1, 1]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


@pytest.mark.parametrize(("options", "message"), [
    ({"resamples": -1}, "resamples: found -1, expected 0 or more"),
    ({"confidence": 1.0}, "confidence: found 1.0, expected above 0, less than 1"),
    ({"confidence": 0.0}, "confidence: found 0.0, expected above 0, less than 1"),
    ({"seed": -1}, "seed: found -1, expected 0 to 4294967295"),
])
def test_wrong_settings_are_errors(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        StatisticsConfig(**options)  # type: ignore[arg-type]
    assert str(refused.value) == message


def totals(name: str, values: list[float], counts: list[float] | None = None,
           vocabulary: str = "") -> tuple[str, dict[str, Metric]]:
    """Return a model whose metric `loss` has these sums."""
    sums = np.array([values, counts or [1.0] * len(values)])
    return name, {"loss": Metric(sums, np.arange(len(values)), vocabulary)}


def documents(seed: int, models: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return sums of 20 documents of 10 similar sentences, (models, 2, 200), and the unit keys.

    All models have a mean of 2 nats per token, which differs by document.
    """
    generator = np.random.default_rng(seed)
    tokens = generator.integers(8, 12, 200).astype(float)
    rates = [np.repeat(generator.normal(2, 0.5, 20), 10) + generator.normal(0, 0.1, 200)
             for _ in range(models)]
    units = Units(None)
    for number in range(200):
        units.add({"id": f"D{number // 10}-s{number % 10 + 1}"})
    return np.array([[tokens * rate, tokens] for rate in rates]), units.keys


def test_intervals_over_documents_contain_the_true_value() -> None:
    """Intervals over sentences contain it too rarely."""
    held = np.zeros(2)
    for seed in range(400):
        [sums], keys = documents(seed)
        for number, units in enumerate((keys, np.arange(200))):
            low, high = interval(Metric(sums, units).by_unit(), FEW) or (0.0, 0.0)
            held[number] += low < 2 < high
    assert 0.92 <= held[0] / 400 <= 0.98
    assert held[1] / 400 < 0.65


def test_p_values_over_documents_reject_equal_models_at_their_level() -> None:
    found = np.zeros(2)
    for seed in range(400):
        both, keys = documents(seed, models=2)
        for number, units in enumerate((keys, np.arange(200))):
            [line] = compare_models([(name, {"loss": Metric(sums, units, unit="document")})
                                     for name, sums in zip("ab", both, strict=True)], FEW)
            assert (line["unit"], line["units"], line["sentences"]) == (
                "document", 200 - 180 * (number == 0), 200)
            found[number] += line["p"] <= 0.05
    assert 0.02 <= found[0] / 400 <= 0.08
    assert found[1] / 400 > 0.3


def test_interval_over_documents_equals_a_cluster_bootstrap() -> None:
    """Each resample concatenates the sentences of the sampled documents."""
    [sums], keys = documents(3)
    clusters = [sums[:, keys == key] for key in dict.fromkeys(keys.tolist())]
    generator = np.random.default_rng(1)
    drawn = [np.hstack([clusters[number] for number in generator.integers(0, 20, 20)])
             for _ in range(20_000)]
    scores = np.array([nats.sum() / tokens.sum() for nats, tokens in drawn])
    tail = (1 - expanded(20, 0.95)) / 2
    assert interval(Metric(sums, keys).by_unit(), MANY) == pytest.approx(
        np.quantile(scores, [tail, 1 - tail]), abs=0.15 * scores.std())


def test_exchanges_are_enough_to_correct_all_comparisons() -> None:
    """One of eleven models is far worse; with 1,000 exchanges p_holm is at least 55/1001."""
    generator = np.random.default_rng(0)
    models = [totals(f"m{number}", [*(generator.normal(2, 0.01, 40) + 5 * (number == 0))])
              for number in range(11)]
    lines = compare_models(models, StatisticsConfig())
    worst = [line["p_holm"] for line in lines if "m0" in line["compared"]]
    assert len(worst) == 10 and max(worst) <= 0.01
    assert StatisticsConfig().for_comparisons(10).resamples == 1000
    assert StatisticsConfig(resamples=0).for_comparisons(55).resamples == 0


def test_items_of_a_unit_are_summed_in_any_order() -> None:
    sums = np.array([[1.0, 2, 4, 8], [1, 1, 0, 3]])
    metric = Metric(sums, np.array([7, 3, 5, 7], np.uint64))
    assert metric.counted.tolist() == [True, True, False, True]
    assert metric.by_unit().tolist() == [[2, 9], [1, 4]]
    assert metric.value == 3
    for order in itertools.permutations(range(4)):
        shuffled = metric.select(np.array(order))
        assert (shuffled.by_unit() == metric.by_unit()).all()


def test_product_of_ratios_equals_a_hand_computed_example() -> None:
    """Nats per scored token, times tokens per character."""
    rng = np.random.default_rng(0)
    scored = rng.integers(0, 4, 30)
    sums = np.array([scored * rng.exponential(2, 30), scored, scored + rng.integers(1, 9, 30),
                     rng.integers(20, 60, 30)])
    metric = Metric(sums, np.arange(30))
    nats, scored, tokens, characters = sums.sum(axis=1)
    assert metric.counted.all()
    assert metric.value == pytest.approx(nats / scored * tokens / characters)
    other = stats.bootstrap(
        [*sums], lambda n, s, t, c, axis: n.sum(axis) / s.sum(axis) * t.sum(axis) / c.sum(axis),
        paired=True, vectorized=True, n_resamples=20_000, method="percentile",
        confidence_level=expanded(30, 0.95), rng=np.random.default_rng(7))
    assert interval(metric.by_unit(), MANY) == pytest.approx(
        tuple(other.confidence_interval), abs=0.06 * float(other.standard_error))
    found = paired_difference(sums, sums[:, ::-1], MANY)
    assert found.value == pytest.approx(0, abs=1e-12)
    assert found.p_value == 1


def test_all_pairs_of_models_are_compared_on_shared_sentences() -> None:
    one = totals("one", [1, 2, 3, 9] * 6, [1, 1, 1, 0] * 6)
    two = totals("two", [2, 3, 9, 5] * 6, [1, 1, 0, 1] * 6)
    three = totals("three", [1, 2, 3, 4] * 6)
    lines = compare_models([one, two, three], FEW)
    assert [line["compared"] for line in lines] == [
        ["one", "two"], ["one", "three"], ["two", "three"]]
    first, second, _ = lines
    assert (first["difference"], first["sentences"]) == (-1, 12)
    assert first["interval"] == [-1, -1]
    assert (second["difference"], second["sentences"], second["p"]) == (0, 18, 1)


def test_metrics_of_other_vocabularies_are_not_compared() -> None:
    first = totals("a", [1, 2], vocabulary="x")
    same = compare_models([first, totals("b", [2, 2], vocabulary="x")], FEW)
    other = compare_models([first, totals("b", [2, 2], vocabulary="y")], FEW)
    assert (len(same), len(other)) == (1, 0)
