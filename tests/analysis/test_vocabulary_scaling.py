"""Vocabulary scaling: table 1 as printed, the small end, tying, shares, and what moves them."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tiebench.account.registry import published_models
from tiebench.analysis.published_totals import published_models_rows
from tiebench.analysis.vocabulary_scaling import tables
from tiebench.analysis.vocabulary_scaling.law import Law, published, released_law
from tiebench.analysis.vocabulary_scaling.shares import law_shares, power
from tiebench.analysis.vocabulary_scaling.tables import vocabulary_tables
from tiebench.analysis.vocabulary_scaling.tying import READINGS
from tiebench.errors import DataError

Row = dict[str, Any]
Tables = dict[str, list[Row]]

SMALL_END = {
    "33M": (5755, 6144, 4662),
    "85M": (8436, 9029, 7032),
    "151M": (13612, 14592, 11549),
    "302M": (18183, 19528, 15759),
    "631M": (22391, 24094, 19853),
    "1.13B": (27280, 29401, 24631),
    "2.87B": (37942, 40993, 35272),
}
"""By size: vocabularies of the three approaches, from the released code, rounded."""


def model(name: str, vocabulary: int, width: int, other: int, **changed: Any) -> Row:
    row = {
        "model": name, "family": "llama", "vocabulary": vocabulary, "width": width,
        "input_width": width, "output_width": width, "tied": False, "non_vocabulary": other,
    }  # fmt: skip
    return {**row, **changed}


MODELS = [
    model("GPT-2 small", 50257, 768, 85_842_432, family="gpt2", tied=True),
    model("OLMo-2 1B", 100352, 2048, 1_073_874_944),
    model("LLaMA-1 65B", 32000, 8192, 64_761_373_696),
    model("Gemma-2 9B", 256000, 3584, 8_324_201_984, family="gemma2", tied=True),
    model("BERT-base", 30522, 768, 86_040_576, family="bert", tied=True),
    model("OPT-350M", 50272, 1024, 305_000_000, family="opt", input_width=512, output_width=512),
]


@pytest.fixture(scope="module")
def held() -> Tables:
    return vocabulary_tables(MODELS)


@pytest.fixture(scope="module")
def law() -> Law:
    return released_law()


def where(rows: list[Row], **cells: Any) -> list[Row]:
    return [row for row in rows if all(row[key] == value for key, value in cells.items())]


def one(rows: list[Row], **cells: Any) -> Row:
    (row,) = where(rows, **cells)
    return row


def test_the_small_end_as_the_released_code_gives_it(held: Tables) -> None:
    found: dict[str, tuple[int, ...]] = {}
    for row in where(held["vocabulary_scaling"], source="small end"):
        found[row["name"]] = (*found.get(row["name"], ()), round(row["vocabulary"]))
    assert found == SMALL_END


def test_table_1_but_for_one_rounding_and_one_width(held: Tables) -> None:
    rows = where(held["vocabulary_scaling"], source="printed table")
    assert len(rows) == 24 and all(row["parameters_agree"] and row["flops_agree"] for row in rows)
    wrong = {(row["name"], row["approach"]) for row in rows if not row["vocabulary_agrees"]}
    printed_width = "130B, width 12,888 as printed"
    assert wrong == {
        ("300B", "loss_fit"),
        *((printed_width, x) for x in ("isoflops", "derivative", "loss_fit")),
    }
    assert {(row["name"], row["approach"]) for row in rows if not row["agrees"]} == wrong
    assert one(rows, name="300B", approach="loss_fit")["difference"] == pytest.approx(
        0.6593, abs=1e-4
    )
    at = {row["width"]: row["vocabulary"] for row in where(rows, approach="isoflops")}
    assert at[12888] * 12888 == pytest.approx(at[12288] * 12288)
    assert [round(at[width], -3) for width in (12888, 12288)] == [225_000, 237_000]


def test_vocabularies_of_the_text(held: Tables) -> None:
    rows = where(held["vocabulary_scaling"], source="text")
    told = [(row["printed_vocabulary"], round(row["vocabulary"]), row["agrees"]) for row in rows]
    assert told == [(35, 35272, True), (43, 42211, False), (216, 211860, False)]


def test_tokens_per_character_and_compute(law: Law) -> None:
    assert law.tokens(1) == 1.20470122
    assert law.tokens(32_000) == pytest.approx(0.2525, abs=1e-4)
    assert law.tokens(10**6) == law.tokens(200_000) < law.tokens(199_000)
    assert law.flops(1e9, 1, 0, 1e3) == 6e12 * law.tokens(1)
    more = law.flops(1e9, 32_000, 1000, 1e9, matrices=2) / law.flops(1e9, 32_000, 1000, 1e9)
    assert more == pytest.approx(1.064 / 1.032)


def test_approach_3_is_the_minimum_of_its_loss_at_a_budget(law: Law) -> None:
    for n, budget in ((33e6, 1e17), (3e9, 1.3e21), (300e9, 1e26)):
        for ways in ({}, {"held": 2.0}, {"used": 2.0}, {"counted": 2.0, "held": 1.0}):
            best = law.by_loss(n, budget, **ways)
            least = law.loss(n, best, budget, **ways)
            assert all(
                least < law.loss(n, best * factor, budget, **ways)
                for factor in (0.5, 0.99, 1.01, 2)
            )
    # more text, more tokens: a longer training of the same model
    assert law.by_loss(3e9, 4e21) > law.by_loss(3e9, 1e21)


def test_approach_2_fitted_anew_gives_the_released_exponent(law: Law, held: Tables) -> None:
    models = [(x["non_vocabulary"], x["width"]) for x in published()["small_end"]["models"]]
    assert law.fitted_gamma(models) == pytest.approx(0.8353974, abs=2e-6)
    least = law.least_compute(33e6, 512)
    costs = [law.flops(33e6, least * factor, 512, 1) for factor in (0.99, 1, 1.01)]
    assert min(costs) == costs[1] and round(least) == 10323
    # past the cap of f(V) a larger vocabulary only costs
    assert law.least_compute(1e13, 16384) == 200_000
    assert law.least_compute(33e6, 512, 2) < least
    refits = {
        row["source"]: row["exponent"]
        for row in held["vocabulary_exponents"]
        if row["source"].startswith("refit")
    }
    assert refits["refit, one product"] == law.fitted_gamma(models)
    assert refits["refit, two products"] == pytest.approx(0.8737, abs=1e-4)


def test_printed_exponents_beside_the_released(held: Tables) -> None:
    rows = where(held["vocabulary_exponents"], source="law")
    assert [(row["printed"], row["agrees"]) for row in rows] == [
        ("0.50", True), ("0.42", True), ("0.84", False), ("0.83", False)
    ]  # fmt: skip
    limits = {
        row["approach"]: row["exponent"]
        for row in where(
            held["vocabulary_exponents"], source="law, limit", quantity="vocabulary_parameters"
        )
    }
    assert limits["isoflops"] == pytest.approx(0.8327, abs=1e-4)
    assert limits["loss_fit"] == pytest.approx(1.4466 / 1.6707, abs=1e-4)


def test_tokens_grow_slower_than_their_parameters(held: Tables) -> None:
    fits = where(held["vocabulary_exponents"], source="paper's sizes", against="non_vocabulary")
    width = one(fits, quantity="width")["exponent"]
    for approach in ("isoflops", "derivative"):
        matrix, tokens = (
            one(fits, approach=approach, quantity=x)["exponent"]
            for x in ("vocabulary_parameters", "vocabulary")
        )
        assert tokens == pytest.approx(matrix - width) and 0.4 < tokens < 0.5
    assert all(row["low"] is None for row in fits)


def test_models_beside_the_optimum(held: Tables) -> None:
    rows = where(held["vocabulary_scaling"], source="models")
    assert len(rows) == 3 * len(MODELS)
    below = {
        name: [row["below"] for row in where(rows, name=name)]
        for name in ("GPT-2 small", "LLaMA-1 65B", "Gemma-2 9B")
    }
    assert below == {
        "GPT-2 small": [False] * 3, "LLaMA-1 65B": [True] * 3, "Gemma-2 9B": [False] * 3
    }  # fmt: skip
    told = {
        row["name"]: (row["decoder"], row["square"], row["inside_fit"])
        for row in where(rows, approach="isoflops")
    }
    assert told == {
        "GPT-2 small": (True, True, True),
        "OLMo-2 1B": (True, True, False),
        "LLaMA-1 65B": (True, True, False),
        "Gemma-2 9B": (True, True, False),
        "BERT-base": (False, True, True),
        "OPT-350M": (True, False, True),
    }
    row = one(rows, name="GPT-2 small", approach="derivative")
    assert row["ratio"] == 50257 / row["vocabulary"] and round(row["vocabulary"]) == 9103


def test_only_names_of_other_objectives_are_no_decoders() -> None:
    rows = vocabulary_tables(published_models_rows(published_models()))["vocabulary_share"]
    others = {row["name"] for row in rows if row["decoder"] is False}
    assert {"BERT-base", "mBERT cased"} & others or "BERT base" in others
    assert not any(name.startswith(("GPT", "Llama", "LLaMA")) for name in others)


def test_the_fit_counts_one_of_its_models_two_matrices(held: Tables) -> None:
    rows = held["vocabulary_matrices"]
    assert [row["agrees"] for row in where(rows, matrices=2)] == [True] * 7
    assert not any(row["agrees"] for row in where(rows, matrices=1))
    assert where(rows, matrices=2)[0]["non_vocabulary"] == 50_000_000 - 2 * 16384 * 512


def test_what_counting_matrices_does_to_the_optimum(held: Tables) -> None:
    rows = where(held["vocabulary_tying"], approach="loss_fit")
    assert len(rows) == 14 * len(READINGS)
    ratios = {
        name: [row["ratio"] for row in where(rows, reading=name)]
        for name in (reading.name for reading in READINGS)
    }
    assert set(ratios["as published"]) == {1.0}
    assert ratios["untied, fit's own models"] == pytest.approx([1.0] * 14)
    assert ratios["two in both"] == pytest.approx([0.5] * 14)
    first = {name: round(ratio[0], 3) for name, ratio in ratios.items()}
    assert first["tied, half of the fit's"] == 1.331
    assert (first["two in the loss"], first["two in the FLOPs"]) == (0.753, 0.665)
    for row in rows:
        unmoved = row["reading"] in ("as published", "untied, fit's own models")
        assert row["excess_loss"] == 0 if unmoved else 1e-5 < row["excess_loss"] < 0.04
    least = where(held["vocabulary_tying"], approach="least_compute", used=2)
    ratios_of_compute = [row["ratio"] for row in least]
    assert len(least) == 14 and ratios_of_compute == sorted(ratios_of_compute)
    assert (round(ratios_of_compute[0], 3), round(ratios_of_compute[-1], 3)) == (0.554, 0.872)


def test_the_share_falls_as_the_exact_exponents_say(held: Tables) -> None:
    for approach in ("isoflops", "derivative", "loss_fit", "derivative_printed"):
        rows = where(held["vocabulary_share"], source="law", approach=approach)
        assert len(rows) == 17 and all(row["falls"] for row in rows[1:])
        assert rows[0]["falls"] is None
        slopes = [row["saved_exponent"] for row in rows]
        assert slopes == sorted(slopes, reverse=True)
        assert all(
            row["limit_exponent"] < slope < 0 for row, slope in zip(rows, slopes, strict=True)
        )
        # the local exponents are between those of the chords on both sides
        chords = [
            power(
                [row["untied_total"] for row in pair] * 2,
                [row["saved_percent"] for row in pair] * 2,
            )["exponent"]
            for pair in pairwise(rows)
        ]
        for before, slope, after in zip(chords, slopes[1:], chords[1:], strict=False):
            assert after < slope < before
    row = one(held["vocabulary_share"], approach="derivative", name="33M")
    assert row["saved_percent"] == pytest.approx(100 * 3.145728 / (33 + 2 * 3.145728))
    assert row["share_of_tied_percent"] == pytest.approx(100 * 3.145728 / (33 + 3.145728))
    assert row["saved_exponent_non_vocabulary"] == pytest.approx(
        (0.8353974 - 1) / (1 + 2 * 3.145728 / 33), abs=1e-6
    )


def test_minus_0_17_is_the_limit_of_the_printed_exponent_alone(held: Tables) -> None:
    rows = where(held["vocabulary_share"], approach="derivative_printed")
    assert {round(row["limit_exponent"], 9) for row in rows} == {-0.17}
    digits = {row["name"]: round(row["saved_exponent"], 2) for row in rows}
    assert (digits["33M"], digits["3B"], digits["300B"], digits["1T"]) == (
        -0.15,
        -0.16,
        -0.16,
        -0.17,
    )


def test_shares_of_models_and_their_slope(held: Tables) -> None:
    rows = where(held["vocabulary_share"], source="models")
    assert len(rows) == len(MODELS)
    gpt = one(rows, name="GPT-2 small")
    assert gpt["saved_percent"] == pytest.approx(23.67, abs=0.01)
    fits = {
        row["source"]: row
        for row in held["vocabulary_exponents"]
        if row["source"].startswith("models")
    }
    assert (fits["models"]["points"], fits["models, decoders"]["points"]) == (6, 5)
    assert fits["models"]["low"] < fits["models"]["exponent"] < fits["models"]["high"]
    unequal = [*MODELS, model("RemBERT", 250300, 1152, 500_000_000, input_width=256)]
    again = vocabulary_tables(unequal)
    assert len(where(again["vocabulary_share"], source="models")) == len(MODELS)
    assert len(where(again["vocabulary_scaling"], name="RemBERT")) == 3


def test_a_power_law_is_found_with_its_interval() -> None:
    exact = power([1, 10, 100, 1000], [5 * x**-0.17 for x in (1, 10, 100, 1000)])
    assert exact["exponent"] == pytest.approx(-0.17)
    assert exact["high"] - exact["low"] < 1e-6
    noisy = power([1, 10, 100, 1000], [1, 0.5, 0.6, 0.2])
    assert noisy["low"] < -0.3 < noisy["exponent"] < noisy["high"] < 0.2


@pytest.mark.parametrize(
    ("fit", "changed", "moved", "kept"),
    [
        ("derivative", {"gamma": 0.9}, "derivative", "isoflops"),
        ("isoflops", {"vocabulary_exponent": 0.43}, "isoflops", "derivative"),
        ("loss_fit", {"alpha": 0.6}, "loss_fit", "derivative"),
    ],
)
def test_coefficients_move_the_tables(
    monkeypatch: pytest.MonkeyPatch,
    held: Tables,
    fit: str,
    changed: dict[str, float],
    moved: str,
    kept: str,
) -> None:
    data = published()
    data["fits"][fit] |= changed
    monkeypatch.setattr(tables, "published", lambda: data)
    again = vocabulary_tables(MODELS)

    def of(found: Tables, approach: str) -> list[bool | None]:
        rows = where(found["vocabulary_scaling"], source="printed table", approach=approach)
        return [row["vocabulary_agrees"] for row in rows]

    assert of(again, kept) == of(held, kept)
    assert sum(map(bool, of(again, moved))) < sum(map(bool, of(held, moved)))
    before, after = (one(x["vocabulary_share"], approach=moved, name="70B") for x in (held, again))
    assert before["limit_exponent"] != after["limit_exponent"]
    assert before["saved_percent"] != after["saved_percent"]


def test_vocabulary_parameters_that_outgrow_the_body_are_seen(law: Law) -> None:
    growing = replace(law, derivative={**law.derivative, "gamma": 1.1})
    sizes = [{"name": str(n), "non_vocabulary": n, "inside_fit": True} for n in (1e8, 1e9, 1e10)]
    rows = [x for x in law_shares(growing, 0.83, sizes) if x["approach"] == "derivative"]
    assert [row["falls"] for row in rows[1:]] == [False] * 5
    assert all(row["saved_exponent"] > 0 for row in rows)


def _unknown(law: Law) -> float:
    return law.vocabulary_parameters("approach 4", 1e9)


def _no_minimum(law: Law) -> float:
    return replace(law, loss_fit={**law.loss_fit, "b": 0.0}).by_loss(1e9, 1e20)


@pytest.mark.parametrize(
    ("call", "said"), [(_unknown, "approach 'approach 4'"), (_no_minimum, "no minimum between")]
)
def test_what_has_no_optimum_is_refused(law: Law, call: Callable[[Law], float], said: str) -> None:
    with pytest.raises(DataError, match=said):
        call(law)
