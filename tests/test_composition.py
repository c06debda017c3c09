"""conf/ and params.yaml: what is composed, and what happens when the two part."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT, Tree
from tiebench import composition
from tiebench.account.registry import published_models
from tiebench.analysis.counting import count, coupled_counts
from tiebench.analysis.rembert_parameters import printed_counts
from tiebench.analysis.shapes import Shape, read_data
from tiebench.checks import check
from tiebench.composition import Change, changes, compose, flatten, guard, parse, recompose
from tiebench.errors import SettingsError
from tiebench.published.figures import PUBLISHED_PARAMETERS
from tiebench.schema import validate
from tiebench.settings import Params

CONF = ROOT / "conf"
SIZES = sorted(path.stem for path in (CONF / "size").glob("*.yaml"))


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def composed(*overrides: str) -> dict:
    return parse(compose(overrides, CONF)[0])


def test_the_committed_settings_are_what_conf_composes() -> None:
    assert (ROOT / "params.yaml").read_text("utf-8") == compose((), CONF)[0]
    assert (ROOT / "conf.lock.yaml").read_text("utf-8") == compose((), CONF)[0]


REMBERT = [study for study in options("study") if study.startswith("rembert")]
OTHERS = [
    ("base", "decoders", "remedies"),
    ("small", "decoders", "remedies"),
    ("micro", "decoders", "remedies_micro"),
    *((size, "word_decoders", "word_forms") for size in SIZES),
]


@pytest.mark.parametrize(("size", "family", "study"), OTHERS)
def test_studies_of_other_families_compose(size: str, family: str, study: str) -> None:
    values = composed(f"size={size}", f"study@{family}={study}")
    group = getattr(check(validate(Params, values)), family)
    assert group.study == study and group.runs["tied"].coupling.option == "tied_plain"
    assert changes(values, parse(recompose(values, CONF)[0])) == []


@pytest.mark.parametrize(("size", "study"), [*itertools.product(SIZES, REMBERT)])
def test_every_study_composes_at_every_size(size: str, study: str) -> None:
    values = composed(f"size={size}", f"study@encoders={study}")
    params = check(validate(Params, values))
    assert (params.size, params.name, params.encoders.study) == (size, size, study)
    assert params.encoders.runs["tied"].coupling.tied
    assert not params.encoders.runs["untrained"].trained
    assert changes(values, parse(recompose(values, CONF)[0])) == []


@pytest.fixture(scope="module")
def with_couplings() -> dict:
    """The micro size with a run of every coupling, `new_<coupling>`."""
    chosen = [f"+coupling@encoders.runs.new_{x}.coupling={x}" for x in options("coupling")]
    values = composed("size=micro", *chosen)
    assert recompose(values, CONF)[1] == ["size=micro", *chosen]
    return values


@pytest.mark.parametrize("option", options("coupling"))
def test_every_coupling_composes_as_a_run(with_couplings: dict, option: str) -> None:
    values = with_couplings
    coupling = check(validate(Params, values)).encoders.runs[f"new_{option}"].coupling
    body = values["encoders"]["body"]["width"]
    widths = {"narrow": 8, "body": body, "wide": 48}
    assert coupling.option == option
    rembert = option.startswith(("narrow_input_", "body_input_"))
    if rembert:
        wanted_input, _, rest = option.partition("_input_")
        assert (coupling.input_width or body) == widths[wanted_input]
        assert (coupling.output_width or body) == widths[rest.split("_")[0]]
    if (rembert or option in ("tied", "tied_narrow", "untied")) and "linear_head" not in option:
        assert [x.kind for x in coupling.transform] == ["linear", "gelu", "layer_norm"]


@pytest.mark.parametrize("option", [x for x in options("body") if x != "lstm"])
def test_every_body_composes_at_every_size(option: str) -> None:
    for size in SIZES:
        choice = [f"size={size}", f"body@encoders.body={option}", "encoders.body.causal=false"]
        if option == "identity":  # which has none of what the size sets
            choice += [f"encoders.body.{x}=0" for x in ("layers", "heads", "feedforward_width")]
        if option in ("llama", "llama_suppressed"):  # matched runs want widths, and say which
            with pytest.raises(SettingsError, match="set it to"):
                check(validate(Params, composed(*choice)))
        if option in ("identity", "llama", "llama_suppressed"):
            matched = composed(*choice)["encoders"]["matched"]
            choice += [
                *(f"~encoders.matched.{run}" for run in matched),
                "encoders.matched_seeds=[]",
            ]
        body = check(validate(Params, composed(*choice))).encoders.body
        assert body.option == option
        assert body.width == composed(f"size={size}")["encoders"]["body"]["width"]


STUDIES = {
    "word_forms": "word_decoders", "remedies": "decoders", "remedies_micro": "decoders",
    **dict.fromkeys(
        (x.stem for x in (CONF / "study").glob("*.yaml") if x.stem.startswith(("press_wolf", "inan"))),
        "recurrent",
    ),
}  # fmt: skip
"""By study, its family, where it is no study of the encoders."""


def overrides(group: str, option: str) -> list[str]:
    """How a file of conf/ is chosen; a new group needs its line here.

    A task's section is the longest one that its name begins with. Beside a body go the objective
    that its direction needs, and no matched runs: their feed-forward widths were found for the
    default one.
    """
    begun = (section for section in Params.model_fields if option.startswith(section))
    places = {
        "body": "body@encoders.body",
        "corpus": "+corpus@corpora.new",
        "labels": "+labels@labels.new",
        "similarity": "similarity@tables.similarity",
        "size": "size",
        "statistics": "statistics",
        "study": f"study@{STUDIES.get(option, 'encoders')}",
        "sweep": f"sweep@sweeps.{option}",
        "task": f"task@{max(begun, key=len, default='')}",
    }
    if group == "coupling":  # all at once, each as a run
        names = sorted(path.stem for path in (CONF / group).glob("*.yaml"))
        return [f"+coupling@encoders.runs.new_{name}.coupling={name}" for name in names]
    assert group in places, f"conf/{group}: no rule to compose it"
    chosen = [f"{places[group]}={option}"]
    if option == "remedies_micro":  # the sweeps of other sizes name runs that it has not
        chosen.append("size=micro")
    if group == "body" and option == "lstm":  # which reads a stream, as one family does
        return ["body@recurrent.body=lstm"]
    if group == "body":
        encoders = composed(*chosen)["encoders"]
        chosen += [f"~encoders.matched.{run}" for run in encoders["matched"]]
        chosen += ["encoders.matched_seeds=[]"]
        if encoders["body"]["kind"] == "identity":  # which has none of what the size sets
            chosen += [f"encoders.body.{x}=0" for x in ("layers", "heads", "feedforward_width")]
        if encoders["body"]["causal"]:
            chosen += ["encoders.training.objective=causal", "encoders.training.masking=null"]
    return chosen


FILES = sorted(str(path.relative_to(CONF).with_suffix("")) for path in CONF.glob("*/*.yaml"))


def test_conf_has_no_other_files() -> None:
    held = {str(path.relative_to(CONF)) for path in CONF.rglob("*") if path.is_file()}
    bodies = {x for x in held if x.startswith("body/published/") and x.endswith(".yaml")}
    assert bodies  # each a run of a test below
    assert held == {"config.yaml", *(f"{name}.yaml" for name in FILES), *bodies}


@pytest.mark.parametrize("file", FILES)
def test_every_file_of_conf_composes_and_validates(file: str) -> None:
    group, option = file.split("/")
    values = composed(*overrides(group, option))
    check(validate(Params, values))
    recorded = "study" if group == "study" else "size" if group == "size" else "option"
    assert f"'{recorded}': '{option}'" in str(values)
    if group != "body":  # which come with values, not only choices
        assert changes(values, parse(recompose(values, CONF)[0])) == []


def test_a_wrong_value_in_a_file_of_conf_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"encoders\.body\.heads|heads that divide the width"):
        check(validate(Params, parse(compose(["encoders.body.heads=3"], CONF)[0])))


def test_statistics_are_a_choice(tree, tmp_path) -> None:
    text = (tree.root / "conf/statistics/default.yaml").read_text()
    strict = text.replace("option: default", "option: strict").replace("loss: 0.05", "loss: 0.01")
    (tree.root / "conf/statistics/strict.yaml").write_text(strict)
    tree.tiebench("params", "statistics=strict")
    assert "loss: 0.01" in tree.read("params.yaml")
    tree.tiebench("params", "--check")


def test_numbers_are_plain_in_what_is_composed() -> None:
    text, _ = compose(["size=base"], CONF)
    assert "${" not in text


def test_named_widths_are_a_choice() -> None:
    values = composed("encoders.widths.narrow=16")
    assert values["encoders"]["runs"]["narrow_input_wide_output"]["coupling"]["input_width"] == 16
    text, choices = recompose(values, CONF)
    assert choices == ["++encoders.widths.narrow=16"]
    assert parse(text) == values


@pytest.mark.parametrize("override", ["size=enormous", "encoders.stepz=3", "=", "retrieval.pool"])
def test_a_wrong_override_is_quoted(override: str) -> None:
    with pytest.raises(SettingsError) as caught:
        compose([override], CONF)
    assert override in caught.value.found


def test_flatten_and_changes() -> None:
    old, new = {"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"b": 1.0, "c": [1]}, "e": None}
    assert flatten(old) == {"a.b": 1, "a.c": [1], "d": 1}
    assert changes(old, new, base={"a": {"b": 1}, "d": 2}) == [
        Change("a.b", 1, 1.0, edited=False),
        Change("d", 1, composition.ABSENT, edited=True),
        Change("e", composition.ABSENT, None, edited=False),
    ]


def test_composing_lists_the_changes_and_marks_hand_edits(tree) -> None:
    tree.edit("params.yaml", "pool: 1000", "pool: 500")
    said = tree.tiebench("params", "encoders.training.clip=2.0")
    assert "retrieval.pool: 500 -> 1000  (overwrites a hand edit)" in said
    assert "encoders.training.clip: 1.0 -> 2.0\n" in said
    assert said.endswith("2 keys changed\n")
    assert tree.tiebench("params", "encoders.training.clip=2.0") == "no key changed\n"


def test_nothing_is_written_when_the_composition_is_wrong(tree) -> None:
    before = tree.read("params.yaml")
    assert "error: retrieval.pool: found 5000" in tree.tiebench(
        "params", "retrieval.pool=5000", fails=True
    )
    assert tree.read("params.yaml") == before


def test_check_is_strict_equality(tree) -> None:
    assert tree.tiebench("params", "--check") == "params.yaml is what conf/ composes\n"
    tree.edit("params.yaml", "pool: 1000", "pool: 500")
    said = tree.tiebench("params", "--check", fails=True)
    assert said == "retrieval.pool: 500 in params.yaml, 1000 in conf/\n1 keys differ\n"


def test_check_composes_the_recorded_choices(tree) -> None:
    tree.tiebench(
        "params",
        "size=base",
        "body@encoders.body=bert",
        "coupling@encoders.runs.untied_linear_head.coupling=untied",
    )
    assert tree.tiebench("params", "--check") == "params.yaml is what conf/ composes\n"


@pytest.fixture
def quick(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A copy in which the guard plans nothing, which is the slowest that it does."""
    monkeypatch.setattr("tiebench.plan.describe_plan", lambda _: "")
    return tree


def test_the_guard_passes_and_notes_a_hand_edit(tree, capsys) -> None:
    guard()
    assert "note:" not in capsys.readouterr().out
    tree.edit("params.yaml", "pool: 1000", "pool: 500")
    guard()
    said = capsys.readouterr().out
    assert "note: retrieval.pool: 500 in params.yaml, 1000 in conf/ (kept)" in said
    assert "In all: about" in said
    assert tree.read("settings.ok") == "ok\n"
    assert tree.read("conf.lock.yaml") == compose((), CONF)[0]


def test_the_guard_stops_on_a_key_that_changed_in_conf_only(quick) -> None:
    guard()
    quick.edit("conf/task/retrieval.yaml", "pool: 1000", "pool: 900")
    with pytest.raises(
        SettingsError, match=r"retrieval\.pool: params\.yaml 1000, conf/ 900"
    ) as caught:
        guard()
    assert "`tiebench params`" in caught.value.mend
    assert "pool: 1000" in quick.read("conf.lock.yaml")
    quick.tiebench("params", "--keep")
    guard()
    assert "pool: 1000" in quick.read("params.yaml")


def test_the_guard_names_the_choices_to_recompose_with(quick) -> None:
    quick.tiebench("params", "size=micro")
    guard()
    quick.edit("conf/size/micro.yaml", "pool: 40", "pool: 30")
    with pytest.raises(SettingsError, match="`tiebench params size=micro`"):
        guard()


def test_the_guard_stops_when_a_recorded_choice_is_edited_alone(quick) -> None:
    guard()
    quick.edit("params.yaml", "narrow: 32", "narrow: 16")
    with pytest.raises(SettingsError, match=r"coupling\.input_width: params\.yaml 32, conf/ 16"):
        guard()


def test_the_guard_stops_on_a_report_that_is_not_there(quick) -> None:
    quick.tiebench("params", "size=micro", "claims.reports=[small,nothere]")
    with pytest.raises(SettingsError) as caught:
        guard()
    said = str(caught.value)
    assert said.startswith("claims.reports: found nothere, and no folder reports/nothere/tables")
    assert "leave nothere out" in said


def test_the_guard_stops_on_a_missing_folder(quick) -> None:
    quick.tiebench("params", "+corpus@corpora.help=libreoffice")
    with pytest.raises(SettingsError, match="ln -s"):
        guard()


def test_the_guard_passes_what_exp_run_composes_whatever_was_composed_before(quick, capsys) -> None:
    guard()  # leaves the lock of `small`, whose seeds and windows are the same
    seeds, windows = "encoders.seeds=[0,1,2,3,4]", "encoders.training.validation_windows=96"
    text, _ = compose(["size=micro", seeds, windows])
    (quick.root / "params.yaml").write_text(text)
    guard()
    assert "note: encoders.training.validation_windows: 96" in capsys.readouterr().out


def test_damaged_settings_are_named_and_mended(quick) -> None:
    conflict = "<<<<<<< ours\nsize: small\n=======\n"
    (quick.root / "conf.lock.yaml").write_text(conflict)
    with pytest.raises(SettingsError, match=r"conf\.lock\.yaml: found a damaged file"):
        guard()
    (quick.root / "params.yaml").write_text(conflict)
    with pytest.raises(SettingsError, match=r"params\.yaml"):
        guard()
    quick.tiebench("params")
    guard()


def test_settings_of_hydra_itself_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"hydra.run.dir=x: found a setting of Hydra itself"):
        compose(["hydra.run.dir=x"], CONF)


PUBLISHED = sorted(path.stem for path in (CONF / "body/published").glob("*.yaml"))
ABLATION = {
    "rembert_ablation": "input 128, output 3072",
    "rembert_wide": "width 1024",
    "rembert_deep": "23 layers",
}
"""By published body that was not released, the row of RemBERT's tables that it is of."""


def published_shape(name: str) -> tuple[Shape, bool]:
    """A published shape, and whether it is tied."""
    models = published_models()
    if name not in ABLATION:
        return models[name].shape, models[name].tied
    rows = printed_counts(read_data(PUBLISHED_PARAMETERS)["rembert"], models)
    return next((row.shape, row.tied) for row in rows if row.row == ABLATION[name])


@pytest.fixture(scope="module")
def with_published_bodies() -> dict[str, Any]:
    """The micro size with a run of every published body, under its published coupling."""
    chosen = []
    for name in PUBLISHED:
        shape, tied = published_shape(name)
        masked = yaml.safe_load((CONF / "body/published" / f"{name}.yaml").read_text())["defaults"]
        family, coupling = "decoders", "tied_plain" if tied else "untied_plain"
        if "bert" in masked[0]:
            family, coupling = "encoders", "tied_bert_head" if tied else "narrow_input_wide_output"
        run = f"{family}.runs.{name}"
        chosen += [f"+coupling@{run}.coupling={coupling}", f"+body@{run}.body=published/{name}"]
        if family == "encoders" and not tied:
            for side, width in zip(("input", "output"), shape.widths, strict=True):
                chosen.append(f"{run}.coupling.{side}_width={width}")
        if name in ABLATION:  # positions as RemBERT's own
            chosen.append(f"++{run}.body.embedding_width=input")
    values = composed("size=micro", *chosen)
    recorded = recompose(values, CONF)[1]
    assert sorted(recorded) == sorted(["size=micro", *(x for x in chosen if "@" in x)])
    return values


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_shape_composes_as_a_run(
    with_published_bodies: dict[str, Any], name: str
) -> None:
    """With every parameter that it has, but for BERT's table of token types."""
    params = check(validate(Params, with_published_bodies))
    family = next(x for x in (params.encoders, params.decoders) if x and name in x.runs)
    shape, tied = published_shape(name)
    ours = coupled_counts(family.runs[name].coupling, family.body_of(name), shape.vocabulary)
    published = count(shape)
    total = published.fine_tuning + published.head + (0 if tied else published.output_embedding)
    token_types = shape.token_types * ours.positions // family.body_of(name).maximum_length
    assert ours.pretraining == total - token_types
    assert family.body_of(name).option == f"published/{name}"


def test_a_published_shape_is_a_runs() -> None:
    values = composed("body@encoders.body=published/bert_base")
    with pytest.raises(
        SettingsError, match=r"\+body@encoders\.runs\.RUN\.body=published/bert_base"
    ):
        check(validate(Params, values))
