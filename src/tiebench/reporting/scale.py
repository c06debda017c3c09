"""What published models hold in their vocabulary matrices, and what a tie costs in a pipeline."""

from __future__ import annotations

from functools import partial

from tiebench.reporting import scale_figures
from tiebench.reporting.naming import joined, number, whole
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Results, Row


def models_section(results: Results) -> Section:
    """Every published model of the registry, by part, and what its printed total says."""
    return Section(
        "published-models",
        "Published models",
        models(results),
        [
            Figure(
                f"vocabulary_by_width_{place}",
                "What one matrix in place of two saves, in percent of the untied total, at bodies "
                f"of {joined([f'{int(x) / 1e9:g}B' for x in bodies])} parameters. The width is "
                "that of the embedding, which need not be the body's.",
                partial(scale_figures.vocabulary_by_width, results, bodies),
            )
            for place, bodies in enumerate(_in_pairs(results), start=1)
        ],
        [
            disagreements_table(results),
            defaults_table(results),
            three_way_table(results),
            models_table(results),
        ],
    )


def _in_pairs(results: Results) -> list[list[str]]:
    bodies = list(dict.fromkeys(row["body"] for row in results["vocabulary_by_width"]))
    return [bodies[start : start + 2] for start in range(0, len(bodies), 2)]


def models(results: Results) -> list[str]:
    """How many models tie, and where printed totals and class defaults mislead."""
    rows = results["published_models"]
    tied = [row for row in rows if row["tied"] == "true"]
    largest = max(tied, key=lambda row: int(row["shipped_total"]))
    smallest = min(
        (row for row in rows if row["tied"] == "false" and row["matrix"]),
        key=lambda row: int(row["shipped_total"]),
    )
    printed = [row for row in rows if row["agrees"]]
    wrong = [row for row in printed if row["agrees"] == "false"]
    other = _other_than_default(rows)
    shared = results["three_way_sharing"]
    t5 = [row for row in shared if row["matrices_as_shipped"] == "1"]
    sentences = [
        f"{len(tied)} of {len(rows)} models tie. Size alone does not decide it: "
        f"{largest['model']} ({billions(largest)}) ties, {smallest['model']} "
        f"({billions(smallest)}) does not.",
        f"In {len(other)} the checkpoint does otherwise than its class does by default, so that a "
        "class's default says nothing about a checkpoint.",
        f"{len(printed) - len(wrong)} of {len(printed)} printed totals agree with the count to "
        f"the digits printed; those that do not: {joined([row['model'] for row in wrong])}.",
    ]
    if t5:
        first, last = t5[0], t5[-1]
        sentences.append(
            "One matrix for three uses saves "
            f"{number(first['saving_1_of_3_percent'], 1)}% in {first['model']} and "
            f"{number(last['saving_1_of_3_percent'], 2)}% in {last['model']} of what three "
            "matrices would take."
        )
    return sentences


def billions(row: Row) -> str:
    """A total as `1.56B` or `124M`."""
    total = int(row["shipped_total"])
    return f"{total / 1e9:.3g}B" if total >= 1e9 else f"{total / 1e6:.3g}M"


def _other_than_default(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["class_ties"] and row["class_ties"] != row["tied"]]


def disagreements_table(results: Results) -> Table:
    """Printed totals that the count does not give."""
    rows = [
        [row["model"], row["printed"], number(row["shipped_total"], 2, 1e-6), row["reason"]]
        for row in results.where("published_models", agrees="false")
    ]
    caption = "Printed totals that differ from the count of the checkpoint's shape (millions)."
    return Table("printed_totals", caption, ["model", "printed", "counted (M)", "why"], rows)


def defaults_table(results: Results) -> Table:
    """Checkpoints that tie although their class does not by default, or the other way round."""
    rows = [
        [row["model"], row["model_type"], _yes(row["tied"]), _yes(row["class_ties"])]
        for row in _other_than_default(results["published_models"])
    ]
    caption = "Checkpoints that do otherwise than their class in transformers does by default."
    header = ["model", "class of", "checkpoint ties", "class ties by default"]
    return Table("class_defaults", caption, header, rows, long=True)


def _yes(cell: str) -> str:
    return "yes" if cell == "true" else "no"


def three_way_table(results: Results) -> Table:
    """Encoder-decoders with one, two and three matrices."""
    rows = [
        [
            row["model"],
            number(row["matrix"], 1, 1e-6),
            row["matrices_as_shipped"],
            *(number(row[f"total_{count}"], 1, 1e-6) for count in (1, 2, 3)),
            number(row["saving_1_of_3_percent"], 2),
            number(row["saving_2_of_3_percent"], 2),
        ]
        for row in results["three_way_sharing"]
    ]
    header = ["model", "matrix (M)", "matrices as shipped", "one matrix (M)", "two (M)",
              "three (M)", "one saves (%)", "two save (%)"]  # fmt: skip
    caption = (
        "Encoder-decoders: parameters with one matrix for three uses (T5), with one for both "
        "inputs and one for the output (T5 1.1, mT5), and with three; savings against three."
    )
    return Table("three_way_sharing", caption, header, rows)


def models_table(results: Results) -> Table:
    """Every model by part."""
    rows = [
        [
            row["model"],
            whole(row["vocabulary"]),
            row["layers"],
            whole(row["width"]),
            _yes(row["tied"]),
            number(row["shipped_total"], 2, 1e-6),
            *(
                number(row[part], 2, 1e-6)
                for part in (
                    "input_embedding", "output_embedding", "maps", "positions", "attention",
                    "feedforward", "norms", "head", "fine_tuning_total", "counted_twice_total",
                )
            ),
            number(row["head_flops_per_token"], 1, 1e-6),
            number(row["adam_bytes"], 2, 1e-9) if row["adam_bytes"] else "",
            row["source"],
        ]
        for row in results["published_models"]
    ]  # fmt: skip
    header = ["model", "vocabulary", "layers", "width", "ties", "total (M)", "input embedding (M)",
              "output embedding (M)", "maps (M)", "positions (M)", "attention (M)",
              "feed-forward (M)", "norms (M)", "head (M)", "fine-tuning (M)",
              "every use counted (M)", "head (MFLOPs a token)", "Adam's moments of a matrix (GB)",
              "source"]  # fmt: skip
    caption = (
        "Parameters of published models by part, from their shapes. The output embedding is given "
        "as a matrix of its own, of which a tied model holds none; the total is as shipped."
    )
    return Table("published_models", caption, header, rows, long=True)


def shares_table(results: Results) -> Table:
    """RemBERT's table 1 as printed and as counted."""
    rows, models = [], dict.fromkeys(row["model"] for row in results["embedding_shares"])
    for model in models:
        held = {r["quantity"]: r for r in results.where("embedding_shares", model=model)}
        cells = [model]
        for quantity, digits in (
            ("vocabulary", 1), ("parameters", 1), ("embedding", 1), ("share", 1)
        ):  # fmt: skip
            row = held[quantity]
            mark = "" if row["agrees"] == "true" else " *"
            cells.append(f"{row['printed']} / {number(row['counted'], digits)}{mark}")
        rows.append(cells)
    header = ["model", "vocabulary (k)", "parameters (M)", "embedding (M)", "share (%)"]
    caption = (
        "RemBERT's table 1 (Chung et al. 2021), printed / counted from the checkpoints' shapes. "
        "* does not agree to the digits printed."
    )
    return Table("embedding_shares", caption, header, rows)


def pie_table(results: Results) -> Table:
    """The tutorial's pie beside the model."""
    rows = [
        [
            row["slice"],
            f"{row['printed_millions']}M / {number(row['counted_millions'], 1)}M",
            f"{number(row['printed_share_percent'], 1)}% / "
            f"{number(row['counted_share_percent'], 1)}%",
        ]
        for row in results["tutorial_pie"]
    ]
    caption = (
        "The tutorial's pie of a model of 7B (it calls it a sketch), printed / counted in "
        f"{results['tutorial_pie'][0]['model']}, whose two matrices stand for the slice that "
        "is shared and the one that is saved."
    )
    return Table("tutorial_pie", caption, ["slice", "parameters", "share"], rows)


def pipeline_section(results: Results) -> Section:
    """What a tie costs where the model is split into stages."""
    return Section(
        "pipeline-parallel",
        "Tying under pipeline parallelism",
        pipeline(results),
        [
            Figure(
                "pipeline_share",
                "The all-reduce that keeps the two copies of a tied matrix equal, in percent of "
                "the bytes that neighbouring stages send each other: vocabulary / ((stages - 1) x "
                f"tokens) times {_factor(results):g}, whatever the width.",
                partial(scale_figures.pipeline_share, results),
            )
        ],
        [pipeline_table(results)],
    )


def pipeline(results: Results) -> list[str]:
    """What tying saves with one stage and with more, and the range of its traffic."""
    rows = results["pipeline_parallel"]
    split = [row for row in rows if int(row["stages"]) > 1]
    saving = [row for row in split if int(row["saved_parameters"])]
    shares = sorted(split, key=lambda row: float(row["share_of_states_percent"]))
    few, most = shares[0], shares[-1]
    whole_one = next(row for row in rows if row["model"] == most["model"])
    start = (
        "From two stages on, first and last stage hold a copy each and the tie saves no memory "
        if not saving
        else f"The tie saves memory in {len(saving)} of {len(split)} cases with several stages "
    )
    return [
        start
        + f"(with one stage it saves {number(whole_one['saved_bytes'], 1, 1e-9)} GB of training "
        f"state in {whole_one['model']}). The checkpoint is smaller all the same.",
        "Each step it adds one all-reduce of the matrix's gradient, whatever the number of "
        f"stages: {number(few['share_of_states_percent'], 2)}% of the states that stages send each "
        f"other ({_case(few)}) to {number(most['share_of_states_percent'], 1)}% ({_case(most)}).",
    ]


def _factor(results: Results) -> float:
    """What multiplies vocabulary / ((stages - 1) tokens): two all-reduced numbers over two sent."""
    row = results["pipeline_parallel"][0]
    return int(row["gradient_bytes"]) / int(row["activation_bytes"])


def _case(row: Row) -> str:
    return f"{row['model']}, {row['stages']} stages, {whole(row['tokens'])} tokens a step"


def pipeline_table(results: Results) -> Table:
    """Memory and traffic by stages."""
    rows = [
        [
            row["model"],
            row["stages"],
            whole(row["tokens"]),
            row["copies"],
            number(row["saved_bytes"], 2, 1e-9),
            *(number(row[key], 2, 1e-9) for key in ("tie_bytes", "state_bytes", "replica_bytes")),
            number(row["share_of_states_percent"], 2) if row["share_of_states_percent"] else "",
            number(row["share_of_others_percent"], 2),
        ]
        for row in results["pipeline_parallel"]
    ]
    header = ["model (as if tied)", "stages", "tokens a step", "copies", "saved (GB)",
              "tie (GB)", "states (GB)", "replicas (GB)", "tie (% of states)",
              "tie (% of all else)"]  # fmt: skip
    one = results["pipeline_parallel"][0]
    caption = (
        "Tying under pipeline parallelism, per pipeline and step: training state that is saved "
        f"({one['training_bytes']} bytes a parameter), bytes of the tie's all-reduce, of the "
        f"states and their gradients between stages ({one['activation_bytes']} bytes a number), "
        f"and of the gradients between {one['replicas']} replicas ({one['gradient_bytes']} bytes "
        "a number). The set-up is a usual one, not a published one."
    )
    return Table("pipeline_parallel", caption, header, rows, long=True)
