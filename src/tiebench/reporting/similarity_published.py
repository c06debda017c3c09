"""Word similarity of masked encoders as Chung et al. 2021 (table 8) print it, beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tiebench.claims.schema import PRINTED
from tiebench.experiments.word_similarity_settings import DOT
from tiebench.reporting.naming import joined, number, signed
from tiebench.reporting.parts import Table
from tiebench.reporting.plotting import legend, new_figure, run_styles, wrapped
from tiebench.reporting.results import Results, Row
from tiebench.reporting.similarity_figures import SPREAD, set_name
from tiebench.reporting.svg import TEXT

NARROW = 128 / 768
PRINTED_AS = {
    (1.0, 1.0): "decoupled",
    (NARROW, NARROW): "output 128",
    (NARROW, 1.0): "output 768",
    (NARROW, 4.0): "output 3072",
}
"""The printed model with two tables, by their widths over the body's: input and output."""
NEAR = 0.1
"""Of the body's width, by which a table may differ from the printed one."""
SETS = {"men": "MEN", "mturk_771": "MTurk771", "rare_words": "RareWord", "simlex_999": "SimLex999"}
"""By set, its printed name; Verb143 is not measured here."""
PLACE = "Chung et al. 2021, table 8"


@dataclass(frozen=True)
class Beside:
    """A printed model and set beside a run whose tables have the same widths over its body's.

    Attributes:
        printed_as: the printed model.
        printed: rank correlations of its input and output table, of 1.
        ours: the row of our output minus input table, by dot product.
    """

    printed_as: str
    printed: tuple[float, float]
    ours: Row

    @property
    def difference(self) -> float:
        """Printed output minus input."""
        return self.printed[1] - self.printed[0]

    @property
    def agrees(self) -> str:
        """Whether ours lies on the printed side."""
        if self.ours["verdict"] not in ("input", "output"):
            return "undecided"
        return "yes" if (self.ours["verdict"] == "output") == (self.difference > 0) else "no"


def besides(results: Results, family: str) -> list[Beside]:
    """All that is printed and measured, by run and set."""
    held = {
        (row["row"], row["column"]): float(row["value"]) / 100
        for row in results.where(PRINTED, source="chung_2021")
        if row["table"] == "word_similarity"
    }
    return list(_besides(results, family, held))


def _besides(results: Results, family: str, held: dict[tuple[str, str], float]) -> Iterator[Beside]:
    masked = {
        row["run"]: _printed_as(row)
        for row in results.runs(family)
        if row["objective"] == "masked" and not row["matches"]
    }
    rows = results.where("word_similarity_differences", family=family, similarity=DOT)
    for row in rows:
        name, column = masked.get(row["run"]), SETS.get(row["set"])
        if name and column and (f"{name} input", column) in held:
            sides = held[f"{name} input", column], held[f"{name} output", column]
            yield Beside(name, sides, row)


def _printed_as(run: Row) -> str | None:
    """The printed model whose tables have these widths, to a tenth of the body's."""
    input_width, output_width, width = (
        float(run[x]) for x in ("input_width", "output_width", "width")
    )
    near = (
        name
        for (first, second), name in PRINTED_AS.items()
        if max(abs(input_width / width - first), abs(output_width / width - second)) <= NEAR
    )
    return None if run["tied"] == "true" else next(near, None)


def finding(results: Results, family: str) -> list[str]:
    """On how many printed differences ours are on the same side."""
    held = besides(results, family)
    if not held:
        return []
    said = {
        "yes": "on the printed side", "no": "on the other side", "undecided": "undecided",
    }  # fmt: skip
    counts = [
        f"{count} {words}"
        for key, words in said.items()
        if (count := sum(x.agrees == key for x in held))
    ]
    better = "input" if all(x.difference < 0 for x in held) else "input or the output"
    return [
        f"In print ({PLACE}; larger models, much longer training) the {better} table is the better "
        f"word representation by dot product. Beside the printed differences ours are: "
        f"{joined(counts)}."
    ]


def figure(results: Results, family: str) -> object:
    """Printed differences as crosses, ours with their intervals over seeds."""
    held = besides(results, family)
    sets = list(dict.fromkeys(x.ours["set"] for x in held))
    if not sets:
        return None
    drawn, axes = new_figure()
    styles = run_styles(results, family)
    axes.axhline(0, color=TEXT, linewidth=0.8)
    runs = list(dict.fromkeys(x.ours["run"] for x in held))
    for index, run in enumerate(runs):
        mine = [x for x in held if x.ours["run"] == run]
        style = {**styles[run], "linestyle": "", "markersize": 5}
        shift = SPREAD * ((index + 0.5) / len(runs) - 0.5)
        places = [sets.index(x.ours["set"]) + shift for x in mine]
        name = results.called(family, run)
        values = [float(x.ours["difference"]) for x in mine]
        axes.plot(places, values, label=name, **style)
        for place, beside in zip(places, mine, strict=True):
            if beside.ours["low"]:
                ends = (float(beside.ours[x]) for x in ("low", "high"))
                axes.vlines(place, *ends, color=style["color"], linewidth=2.2)
        printed = {**style, "marker": "x", "markersize": 7}
        axes.plot(
            places, [x.difference for x in mine], label=f"{mine[0].printed_as}, printed", **printed
        )
    width = 9 if len(sets) > 3 else 16
    axes.set_xticks(range(len(sets)), [wrapped(set_name(x), width) for x in sets], fontsize=9)
    axes.set_xlim(-0.5, len(sets) - 0.5)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel("output minus input, dot product")
    legend(drawn, axes)
    return drawn


def table(results: Results, family: str) -> Table:
    """Printed correlations of both tables beside ours."""
    rows = []
    for x in besides(results, family):
        ours = signed(x.ours["difference"], 3)
        if x.ours["low"]:
            ours += f" ({signed(x.ours['low'], 3)} to {signed(x.ours['high'], 3)})"
        rows.append(
            [
                results.called(family, x.ours["run"]), x.printed_as, set_name(x.ours["set"]),
                *(number(str(value), 3) for value in x.printed),
                signed(str(x.difference), 3),
                number(x.ours["input"], 3), number(x.ours["output"], 3), ours, x.agrees,
            ]
        )  # fmt: skip
    header = ["run", "printed model", "set", "printed input", "printed output",
              "printed output less input", "our input", "our output", "our output less input",
              "on the printed side"]  # fmt: skip
    caption = (
        f"Rank correlations by dot product that are printed ({PLACE}, divided by 100) beside ours. "
        "The printed models have a vocabulary of 120,000 pieces, 12 layers of 768 and more than "
        "26 billion tokens of training."
    )
    return Table(f"{family}_similarity_published", caption, header, rows, long=True)
