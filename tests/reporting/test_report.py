"""The page: self-contained, deterministic, what the tables say, at any number of seeds."""

import re
import runpy
import shutil
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tiebench.errors import DataError
from tiebench.evaluation.score import score
from tiebench.reporting import language_modeling
from tiebench.reporting.naming import (
    amount,
    counted,
    difference,
    direction,
    joined,
    metric_name,
    number,
    percent,
    probe,
    signed,
    unit,
    with_interval,
)
from tiebench.reporting.parts import Table
from tiebench.reporting.report import latex, markdown, render
from tiebench.reporting.results import read_results
from tiebench.reporting.sections import sections
from tiebench.settings import Params

FAKE = runpy.run_path(str(Path(__file__).with_name("artefacts.py")))
REPORT = Path("reports/small")


def params(**changed: object) -> Params:
    return FAKE["make_params"](pool=30, **changed)


def build(folder: Path, **changed: object) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        FAKE["write_artefacts"](params(**changed))
        score(params(**changed))
        render(params(**changed))
    return folder / REPORT


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of five runs at three seeds and three languages."""
    folder = tmp_path_factory.mktemp("report")
    return build(folder, seeds=(0, 1, 2), languages=("en", "de", "tr"))


class Page(HTMLParser):
    """Checks nesting, and collects ids, references and visible text."""

    VOID = frozenset({"meta", "link", "br", "img", "hr", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href", "srcset", "action", "data"):
                self.references.append(value or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)


def test_page_is_whole_and_refers_to_nothing_outside(report: Path) -> None:
    text = (report / "index.html").read_text()
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    inside = {ref.removeprefix("#") for ref in page.references if ref.startswith("#")}
    assert inside and inside <= set(page.ids)
    assert {ref for ref in page.references if not ref.startswith("#")} == {"claims.html"}
    assert not re.search(r"https?:|//\w|@import|url\((?!#)", text)
    assert len(text.encode()) < 3_000_000


def test_page_follows_light_and_dark_and_the_width(report: Path) -> None:
    text = (report / "index.html").read_text()
    assert 'name="viewport"' in text and "prefers-color-scheme: dark" in text
    assert "currentColor" in text and "#16191d" not in text.partition("</style>")[2]
    tables = re.findall(r'<div class="scroll" tabindex="0">\s*<table>', text)
    assert len(tables) == text.count("<table>")


def test_every_section_has_findings_and_figures_before_tables(report: Path) -> None:
    text = (report / "index.html").read_text()
    parts = re.findall(r'<section id="([\w-]+)">(.*?)</section>', text, re.DOTALL)
    assert [name for name, _ in parts] == [
        "claims", "encoders-language-modeling", "encoders-retrieval", "encoders-probing",
        "encoders-transfer", "encoders-views", "encoders-pairs", "encoders-against-loss",
        "encoders-published", "encoders-parameters", "bigram", "savings", "published-models",
            "pipeline-parallel", "rembert-parameters",
        "vocabulary-scaling", "corpus-home", "made",
    ]  # fmt: skip
    for name, body in parts:
        assert 'class="findings"' in body and "<table>" in body
        if name != "made":
            assert body.index("<svg") < body.index("<table>")


def test_figures_are_plain_svg_without_dates(report: Path) -> None:
    paths = sorted((report / "figures").glob("*.svg"))
    assert {path.stem for path in paths} >= {
        "encoders_validation_loss", "encoders_training_loss", "encoders_loss_by_bin",
        "encoders_loss_by_language", "encoders_retrieval", "encoders_retrieval_no_shared_token",
        "encoders_retrieval_other_half", "encoders_retrieval_home_en_tr", "published_retrieval",
        "encoders_published", "encoders_parameters", "savings_by_scale", "rembert_parameters",
        "corpus_home", "encoders_loss_by_operations", "encoders_probing_upos",
        "encoders_probing_weights_upos", "encoders_transfer", "encoders_transfer_excess",
        "encoders_views_loss", "encoders_pairs", "encoders_against_loss_transfer",
        "vocabulary_optimum", "vocabulary_ratio", "vocabulary_share", "vocabulary_tying",
    }  # fmt: skip
    for path in paths:
        text = path.read_text()
        assert "<metadata" not in text and "Matplotlib v" not in text
        assert ElementTree.fromstring(text).tag.endswith("svg")


def test_tables_are_rendered_twice(report: Path) -> None:
    names = {path.stem for path in (report / "rendered").iterdir()}
    for name in names:
        assert (report / "rendered" / f"{name}.md").read_text().count("\n|") >= 3
        assert "\\toprule" in (report / "rendered" / f"{name}.tex").read_text()
    assert {"encoders_language_modeling", "parameter_savings", "rembert_parameters"} <= names


def test_same_bytes_again_and_on_another_folder(report: Path, tmp_path: Path) -> None:
    shutil.copytree(report / "tables", tmp_path / REPORT / "tables")
    (tmp_path / REPORT / "figures").mkdir()
    (tmp_path / REPORT / "figures" / "stale.svg").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        render(params(seeds=(0, 1, 2), languages=("en", "de", "tr")))
    for path in report.rglob("*"):
        if path.is_file() and path.name != "metrics.json":
            assert (tmp_path / REPORT / path.relative_to(report)).read_bytes() == path.read_bytes()
    assert not (tmp_path / REPORT / "figures" / "stale.svg").exists()


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report whose five seeds decide verdicts both ways."""
    runs = ("tied", "untied", "narrow_input_wide_output", "narrow_input_body_output")
    controls = ("untrained", "untrained_narrow_input")
    folder = tmp_path_factory.mktemp("decided")
    return build(folder, languages=("en", "de"), runs=(*runs, *controls))


def test_nothing_says_reproduced(decided: Path) -> None:
    text = (decided / "index.html").read_text()
    ledger = re.search(r'<section id="claims">.*?</section>', text, re.DOTALL)
    assert ledger and not re.search(r"\d reproduced", text)
    text = text.replace(ledger.group(), "")  # what `reproduced` means is said there
    words = " ".join(Page(text).words)
    rows = read_results(decided / "tables", "small")["published"]
    assert {row["verdict"] for row in rows} >= {"", "agrees", "disagrees at this scale"}
    assert "disagrees at this scale" in words and "None is a reproduction" in words
    assert not re.search(r"reproduced|replicat|confirm", text, re.IGNORECASE)


def test_fewer_seeds_decide_nothing(report: Path) -> None:
    words = " ".join(Page((report / "index.html").read_text()).words)
    assert "inconclusive (fewer than 5 seeds)" in words and "None is a reproduction" in words


def test_numbers_on_the_page_are_those_of_the_tables(report: Path) -> None:
    results = read_results(report / "tables", "small")
    loss = results.summary("encoders", "untied", "loss")
    assert loss is not None
    shown = (report / "rendered/encoders_language_modeling.md").read_text()
    assert with_interval(loss, 3) in shown and difference(loss, 3) in shown
    sentence = language_modeling.findings(results, "encoders")[0]
    tied = results.summary("encoders", "tied", "loss")
    assert tied is not None and number(tied["mean"], 3) in sentence


def test_two_seeds_and_two_languages(tmp_path: Path) -> None:
    page = build(tmp_path, seeds=(0, 1), languages=("en", "de")) / "index.html"
    assert "95% t interval over 2 seeds" in page.read_text()


def test_a_run_with_other_layers_is_shown_at_its_own(tmp_path: Path) -> None:
    page = build(tmp_path, seeds=(0, 1), languages=("en", "de"), runs=("tied", "deep", "untrained"))
    results = read_results(page / "tables", "small")
    pair = results.pairs[0]
    last = results.chosen("encoders", pair, last=True)
    assert {run: layer for run, (layer, _) in last.items()} == {
        "tied": "4", "deep": "6", "untrained": "4",
    }  # fmt: skip
    summary = results.summary("encoders", "deep", "retrieval_home_en_de_last")
    assert summary is not None and summary["mean"] == last["deep"][1]["mean"]
    rows = [
        line.split("|")
        for line in (page / "rendered/encoders_retrieval_home_en_de.md").read_text().splitlines()
        if line.startswith("| tied")
    ]
    assert rows[0][8].strip() == rows[0][9].strip() == "" and rows[0][7].strip()
    assert (page / "figures/encoders_retrieval.svg").exists()


def test_figures_ignore_the_users_matplotlib_settings(report: Path, tmp_path: Path) -> None:
    import matplotlib

    shutil.copytree(report / "tables", tmp_path / REPORT / "tables")
    changed = {"axes.grid.which": "minor", "lines.solid_capstyle": "round", "xtick.direction": "in"}
    with matplotlib.rc_context(changed), pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        render(params(seeds=(0, 1, 2), languages=("en", "de", "tr")))
    for path in (report / "figures").iterdir():
        assert (tmp_path / REPORT / "figures" / path.name).read_bytes() == path.read_bytes()


def test_one_seed_has_no_interval_and_says_so(tmp_path: Path) -> None:
    page = build(tmp_path, seeds=(4,), languages=("en", "de"), runs=("tied", "untied"))
    words = " ".join(Page((page / "index.html").read_text()).words)
    assert "One seed: no interval." in words and "one seed: no interval" in words
    assert "in the mean over 1 seed, without a claim" in words
    assert "±" not in words and "inconclusive" in words
    told = words.partition("What the tables were made from")[0]
    assert not re.search(r"(?<!no )intervals? over seeds|mean over seeds", told)
    assert not re.search(r"\b1 (seeds|pairs|layers|encoders|labels|strings|sentences)\b", words)


def test_one_run_that_is_not_trained(tmp_path: Path) -> None:
    page = build(tmp_path, seeds=(0,), languages=("en", "de"), runs=("untrained",))
    words = " ".join(Page((page / "index.html").read_text()).words)
    assert "No run of this report is trained." in words and "None of them is trained." in words
    assert " tokens of home" not in words


def test_a_causal_family_has_bits_per_byte(tmp_path: Path) -> None:
    page = build(tmp_path, seeds=(0, 1), languages=("en", "de"), objective="causal")
    assert "bits per byte" in (page / "rendered/encoders_language_modeling.md").read_text()


def test_a_missing_table_is_named(report: Path, tmp_path: Path) -> None:
    shutil.copytree(report / "tables", tmp_path / REPORT / "tables")
    (tmp_path / REPORT / "tables" / "runs.csv").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        with pytest.raises(DataError, match=r"runs\.csv: found no such file.*dvc repro score"):
            render(params())


def test_cells_are_escaped() -> None:
    table = Table("t", "a & b", ["x|y", "n"], [["a|b", "1"], ["50% <b>", "2"]])
    assert (
        Table.unbroken("1.0 ± 2 [3, 4]")
        == "1.0\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}2 [3,\N{NO-BREAK SPACE}4]"
    )
    assert "x\\|y" in markdown(table) and "a\\|b" in markdown(table)
    assert "50\\% \\ensuremath{<}b" in latex(table)


def test_words() -> None:
    assert direction("en", "de") == "English to German" and direction("xx", "en") == "xx to English"
    assert joined(["a"]) == "a" and joined(["a", "b", "c"]) == "a, b and c" and joined([]) == ""
    assert joined(["x (1, 2)", "y"]) == "x (1, 2) and y"
    assert joined(["probing, case", "loss", "x"]) == "probing, case; loss; x"
    assert counted(1, "pair") == "1 pair" and counted(1200, "pair") == "1,200 pairs"
    assert metric_name("retrieval_home_micro_en_de_drop") == (
        "English to German, best minus last layer (home_micro)"
    )
    assert signed("-0.00004", 3) == "+0.000" and number("", 2) == ""
    assert metric_name("probing_deprel") == "probing, dependency relation"
    assert metric_name("transfer_de") == "transfer, German"
    assert unit("loss") == ("nats", 1.0, 3) and unit("transfer") == ("points", 100.0, 1)
    assert probe("mix_upto_1") == "mix of layers 0 to 1" and probe("layer_2") == "layer 2"
    assert with_interval({"mean": "0.5", "low": "", "high": ""}, 1, 100) == "50.0"
    assert with_interval({"mean": "0.5", "low": "0.4", "high": "0.6"}, 1, 100) == "50.0 ± 10.0"
    assert percent({"mean": "0.5", "low": "0.4", "high": "0.6"}) == "50.0 ± 10.0"
    assert percent({"mean": "0.01", "low": "-0.01", "high": "0.03"}) == "1.0 (0.0 to 3.0)"
    assert percent({"mean": "0.98", "low": "0.95", "high": "1.01"}) == "98.0 (95.0 to 100.0)"
    assert amount(3_072_000) == "3.07 million" and amount(5_120) == "5,120"


def test_sections_have_unique_names(report: Path) -> None:
    content = list(sections(read_results(report / "tables", "small")))
    for names in (
        [s.anchor for s in content],
        [f.name for s in content for f in s.figures],
        [t.name for s in content for t in s.tables],
    ):
        assert len(names) == len(set(names))
