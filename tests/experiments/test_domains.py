"""The experiment `domains` on small models that were trained here."""

import csv
from pathlib import Path

import numpy as np
import pytest

from tests.training.cells import make_params as make_cells
from tests.training.cells import write_corpus
from tiebench import paths
from tiebench.analysis.tables import write_table
from tiebench.checks import check_folders
from tiebench.corpus.seen import digests, write_seen
from tiebench.errors import DataError, SettingsError, TrainingError
from tiebench.evaluation import score_domains
from tiebench.experiments import domains
from tiebench.experiments.domain_text import read_domain, unseen
from tiebench.experiments.domains_settings import RAW, TEXTS, DomainsSettings
from tiebench.settings import Params
from tiebench.training.pretrain import pretrain

SETTINGS = {
    "option": "domains", "run": "tied",
    "source": {"kind": "local", "folder": "t", "format": "lines", "files": {"a": "a", "b": "b"}},
    "seed": 0, "valid_share": 0.2, "shares": [0.2, 1.0], "steps": 6, "batch_size": 4,
    "learning_rate": 0.03, "warmup_steps": 1, "evaluate_every": 2, "windows": 2,
}  # fmt: skip
FOLDER = Path("evals/t/domains")
SEEN = "the cat sat on a mat"


def make_params(**changed: object) -> Params:
    values = make_cells(steps=8, validate_every=4, objective="causal", masking=None).model_dump(
        mode="json"
    )
    values["encoders"]["body"]["causal"] = True
    values["decoders"] = values["encoders"]
    return Params.model_validate({**values, "domains": {**SETTINGS, **changed}})


def settings(**changed: object) -> DomainsSettings:
    return DomainsSettings.model_validate({**SETTINGS, **changed})


def write_text() -> None:
    """Sentences of a grammar, one of them known to the model's corpus."""
    Path("external/t").mkdir(parents=True)
    rng = np.random.default_rng(1)
    words = ["the", "a", "all", "then", "them", "home", "ran", "off", "again", "see"]
    sentences = [" ".join(rng.choice(words, 9)) for _ in range(160)]
    for language in "ab":
        lines = [
            SEEN if language == "a" else "to see",
            *(f"{line} {language}" for line in sentences),
        ]
        Path(f"external/t/{language}").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("domains")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        corpus = write_corpus()
        write_seen(corpus / "seen.parquet", [SEEN.upper()])
        write_text()
        params = make_params()
        for seed in (0, 1):
            pretrain(params, "decoders", "tied", seed)
    return folder


@pytest.fixture
def params(trained, monkeypatch):
    monkeypatch.chdir(trained)
    return make_params()


def losses() -> dict[tuple[str, ...], float]:
    with (FOLDER / "losses.csv").open(encoding="utf-8") as file:
        keys = RAW["losses"][:4]
        return {
            (*(row[key] for key in keys), row["part"]): float(row["loss"])
            for row in csv.DictReader(file)
        }


def test_both_arms_start_from_one_model_and_part(params):
    domains.run(params)
    held = losses()
    assert len(held) == 2 * 2 * 2 * 4 * 3
    for share in ("0.2", "1"):
        for seed in ("0", "1"):
            for part in ("train", "new", "old"):
                tied, untied = (
                    [held[arm, share, seed, step, part] for step in ("0", "2", "4", "6")]
                    for arm in ("tied", "untied")
                )
                assert tied[0] == untied[0]
                assert tied[1:] != untied[1:]
        assert held["tied", share, "0", "6", "train"] < held["tied", share, "0", "0", "train"] - 0.2
    assert held["tied", "1", "0", "0", "new"] == held["tied", "0.2", "0", "0", "new"]
    assert held["tied", "1", "0", "0", "train"] != held["tied", "0.2", "0", "0", "train"]


def test_writes_the_same_bytes_again_also_after_a_stop(params, monkeypatch):
    domains.run(params)
    first = {name: (FOLDER / f"{name}.csv").read_bytes() for name in RAW}
    made = domains.Continuation.__init__
    count = [0]

    def stopping(self, *arguments):
        count[0] += 1
        if count[0] == 5:
            raise KeyboardInterrupt
        made(self, *arguments)

    monkeypatch.setattr(domains.Continuation, "__init__", stopping)
    with pytest.raises(KeyboardInterrupt):
        domains.run(params)
    assert len(list((paths.SCRATCH / "domains-t").iterdir())) == 4
    domains.run(params)
    assert count[0] == 9  # the fifth to the eighth training, once each, and the one that stopped
    assert {name: (FOLDER / f"{name}.csv").read_bytes() for name in RAW} == first
    assert not (paths.SCRATCH / "domains-t").exists()


def test_another_setting_takes_nothing_from_the_cache(params, tmp_path, monkeypatch):
    made = []
    fine = domains.Continuation.validate
    monkeypatch.setattr(
        domains.Continuation, "validate", lambda self, step: made.append(step) or fine(self, step)
    )
    cache = tmp_path / "cache"

    def rows(**changed: object) -> int:
        before = len(made)
        list(domains.Experiment.of(make_params(shares=[0.5], **changed), cache).rows())
        return len(made) - before

    first = rows()
    assert first > 0
    assert rows() == 0
    assert rows(learning_rate=0.01) == rows(valid_share=0.3) == first


def test_text_that_the_model_has_seen_is_left_out(params):
    text = read_domain(settings(), params.corpora["t"], paths.corpus_folder("t"))
    assert text.strings["seen", "a"] == text.strings["seen", "b"] == 1
    for language in "ab":
        counts = [text.strings[part, language] for part in ("train", "valid")]
        assert 0 < counts[1] < counts[0]
        assert sum(counts) == 160
    sizes = {
        (row["part"], row["language"]): row["value"]
        for row in text.rows()
        if row["metric"] == "tokens"
    }
    assert sizes["train", "a"] == len(text.train["a"]) > sizes["valid", "a"]


def test_a_key_goes_with_all_its_languages():
    strings = {"x.1": {"a": "One", "b": "Uno"}, "x.2": {"a": "Two"}}
    kept, left = unseen(strings, digests(["uno!"]))
    assert kept == {"x.2": {"a": "Two"}}
    assert left == {("seen", "a"): 1, ("seen", "b"): 1}


def test_text_without_anything_new_is_refused(params):
    folder = paths.corpus_folder("t")
    before = (folder / "seen.parquet").read_bytes()
    texts = [line for x in "ab" for line in Path(f"external/t/{x}").read_text().splitlines()]
    write_seen(folder / "seen.parquet", texts)
    try:
        with pytest.raises(DataError, match=r"no string that the model's corpus lacks.*domains"):
            domains.run(params)
    finally:
        (folder / "seen.parquet").write_bytes(before)


def test_a_missing_model_is_named_with_its_command(params):
    folder = Path("runs/t/decoders/tied-s1")
    away = folder.rename("away")
    try:
        with pytest.raises(DataError, match=r"dvc repro pretrain_decoders@t-tied-1"):
            domains.run(params)
    finally:
        away.rename(folder)


def test_a_training_that_diverges_names_the_setting(params):
    with pytest.raises(TrainingError, match=r"domains, tied.*lower domains\.learning_rate"):
        domains.run(make_params(learning_rate=1e30, warmup_steps=0))


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"run": "none"}, "domains.run: found 'none'; expected one of tied, wide, untrained"),
        ({"run": "wide"}, "a trained run with one table"),
        ({"run": "untrained"}, "a trained run with one table"),
    ],
)
def test_runs_that_cannot_be_untied_are_refused(changed, found):
    params = make_params(**changed)
    with pytest.raises(SettingsError) as error:
        params.domains.check_model(params.decoders)
    assert found in str(error.value)
    with pytest.raises(SettingsError, match="decoders"):
        params.domains.check_model(None)


def test_settings_that_make_no_sense_are_refused():
    for changed, found in (
        ({"shares": [0.2, 0.200000001]}, "distinct values"),
        ({"warmup_steps": 6}, "warmup_steps below steps"),
    ):
        with pytest.raises(ValueError, match=found):
            settings(**changed)


def test_the_folder_of_the_text_is_asked_for(tmp_path):
    with pytest.raises(SettingsError, match=r"corpora\.t|domains\.source\.folder"):
        check_folders(make_params(), tmp_path)


# The scores, from losses that are made up.


def write_raw(difference: float, seeds: int, *, gap: float = 0.0) -> None:
    """Raw tables in which two tables change the loss on the new domain, and the gap."""
    rows = [
        {
            "arm": arm, "share": share, "seed": seed, "step": step, "epochs": step / 3,
            "part": part,
            "loss": 5 + 0.1 * seed - step / 10
            + (step == 6 and arm == "untied")
            * ({"new": difference, "train": difference - gap, "old": 0.0}[part])
            + 0.001 * (-1) ** seed * (arm == "tied" and step == 6 and part != "train"),
        }
        for arm in ("tied", "untied") for share in (0.2, 1.0) for seed in range(seeds)
        for step in (0, 6) for part in ("train", "new", "old")
    ]  # fmt: skip
    write_table(FOLDER / "losses.csv", RAW["losses"], rows)
    texts = [
        {"part": part, "language": language, "metric": metric, "value": 5}
        for part, metric in TEXTS for language in "ab"
    ]  # fmt: skip
    write_table(FOLDER / "texts.csv", RAW["texts"], texts)


def scored(seeds: int) -> dict[str, list[dict[str, object]]]:
    params = make_params()
    group = params.decoders.model_copy(update={"seeds": list(range(seeds))})
    found = score_domains.tables(params.model_copy(update={"decoders": group}))
    return {name: rows for name, (_, rows) in found.items()}


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def verdicts(seeds: int) -> dict[object, object]:
    return {row["metric"]: row["verdict"] for row in scored(seeds)["domains_pairs"]}


def test_verdicts(empty):
    write_raw(-0.2, 5)
    assert verdicts(5) == {
        "new": "different",
        "lowest_new": "different",
        "gap": "equivalent",
        "forgotten": "equivalent",
    }
    write_raw(0.0, 5)
    assert verdicts(5)["lowest_new"] == "equivalent"
    write_raw(-0.2, 4)
    rows = scored(4)["domains_pairs"]
    assert {(row["verdict"], row["reason"]) for row in rows} == {
        ("undecided", "fewer than 5 seeds")
    }


def test_metrics(empty):
    write_raw(0.9, 5, gap=0.3)
    held = {(row["share"], row["arm"], row["metric"]): row for row in scored(5)["domains_summary"]}
    end, lowest = (held["1", "untied", metric]["mean"] for metric in ("new", "lowest_new"))
    assert end == pytest.approx(5.2 - 0.6 + 0.9)
    assert lowest == pytest.approx(5.2)
    assert held["0.2", "untied", "gap"]["mean"] == pytest.approx(0.3)
    assert held["0.2", "untied", "forgotten"]["mean"] == pytest.approx(-0.6)
    assert held["1", "untied", "new"]["baseline"] == "tied"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda text: text.replace("tied,0.2,1,0,0,old,5.1\n", "", 1), "row of tied, share 0.2"),
        (lambda text: text.replace("tied,1,4,6,2,new", "tied,1,9,6,2,new", 1), "row of"),
        (lambda text: text.replace("arm,", "arms,", 1), "columns"),
        (lambda text: text.rsplit(",", 1)[0] + ",inf\n", "found loss 'inf'"),
        (lambda text: text.rsplit("\n", 2)[0] + "\n", "no row of untied, share 1, seed 4, step 6"),
    ],
)
def test_a_damaged_table_is_named_with_its_command(empty, change, found):
    write_raw(-0.2, 5)
    path = FOLDER / "losses.csv"
    path.write_text(change(path.read_text()))
    with pytest.raises(DataError, match="dvc repro domains") as error:
        scored(5)
    assert found in str(error.value)


def test_without_the_section_there_are_no_rows(empty):
    params = make_params().model_copy(update={"domains": None})
    assert not any(rows for _, rows in score_domains.tables(params).values())


def test_sizes_that_are_lacking_are_named(empty):
    write_raw(-0.2, 5)
    path = FOLDER / "texts.csv"
    path.write_text(path.read_text().replace("valid,b,tokens,5\n", ""))
    with pytest.raises(DataError, match=r"texts.csv: found no row valid, b, tokens"):
        scored(5)
