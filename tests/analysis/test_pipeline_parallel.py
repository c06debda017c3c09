"""What a tie costs in a pipeline, on a model whose figures are worked out by hand."""

from tiebench.analysis.pipeline_parallel import Assumptions, pipeline_costs

MODEL = {"vocabulary": 100, "matrix": 1_000, "width": 10, "tied_total": 5_000, "tied": True}


def costs(**changed) -> dict[tuple[int, int], dict]:
    held = {
        "models": ["one"], "stages": [1, 2, 4], "tokens": [100, 200], "replicas": 4,
        "activation_bytes": 2, "gradient_bytes": 4, "training_bytes": 18,
    }  # fmt: skip
    rows = pipeline_costs({"one": MODEL}, Assumptions(**{**held, **changed}))
    return {(row["stages"], row["tokens"]): row for row in rows}


def test_one_stage_saves_and_several_do_not() -> None:
    rows = costs()
    assert [rows[n, 100]["copies"] for n in (1, 2, 4)] == [1, 2, 2]
    assert [rows[n, 100]["saved_parameters"] for n in (1, 2, 4)] == [1_000, 0, 0]
    assert rows[1, 100]["saved_bytes"] == 18_000
    assert rows[1, 100]["tie_bytes"] == 0
    assert rows[1, 100]["share_of_states_percent"] is None


def test_traffic_by_hand() -> None:
    rows = costs()
    # two ranks send the matrix's gradient in float32, however many stages stand between them
    assert rows[2, 100]["tie_bytes"] == rows[4, 200]["tie_bytes"] == 2 * 1_000 * 4
    # forward and backward, three boundaries, 100 tokens of width 10 in two bytes
    assert rows[4, 100]["state_bytes"] == 2 * 3 * 100 * 10 * 2
    # a ring over four replicas sends 3/2 of the gradients, those of both copies
    assert rows[4, 100]["replica_bytes"] == 1.5 * 6_000 * 4
    assert rows[1, 100]["replica_bytes"] == 1.5 * 5_000 * 4
    assert rows[4, 100]["share_of_states_percent"] == 100 * 8_000 / 12_000
    assert rows[4, 100]["share_of_others_percent"] == 100 * 8_000 / (12_000 + 36_000)


def test_the_share_falls_with_stages_and_tokens() -> None:
    rows = costs()
    shares = [rows[key]["share_of_states_percent"] for key in ((2, 100), (2, 200), (4, 200))]
    assert shares == sorted(shares, reverse=True)
    assert costs(replicas=1)[4, 100]["replica_bytes"] == 0
