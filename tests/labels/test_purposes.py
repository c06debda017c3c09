import hashlib
import json
import random
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from tests.conftest import FullDisk
from tiebench.corpus.clean import normalize
from tiebench.errors import DataError
from tiebench.labels.baselines import predict_by_surface, surface_features
from tiebench.labels.prepare import prepare
from tiebench.labels.purposes import choose, class_of
from tiebench.labels.read import read_baselines, read_purposes, read_treebank
from tiebench.labels.settings import PurposeSettings
from tiebench.schema import validate

CLASSES = {"name": ["names.*"], "help": ["help.*", "*.help.*"]}
SOURCE = {
    "kind": "wheel",
    "package": "tiny",
    "version": "1.0",
    "sha256": "0" * 64,
    "files": "tiny/*/{language}.json",
    "format": "translations",
}


def purposes(**changes: Any) -> PurposeSettings:
    base = {
        "option": "test",
        "kind": "purposes",
        "source": SOURCE,
        "languages": ["en", "de"],
        "seed": 0,
        "development_share": 0.2,
        "test_share": 0.3,
        "minimum": 2,
        "classes": CLASSES,
    }
    return validate(PurposeSettings, base | changes, "labels.test")


def letters(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:02}")


def strings(count: int = 40) -> dict[str, dict[str, str]]:
    """Different texts of two classes: short names, and help that ends in a point."""
    found = {}
    for n in range(count):
        word = letters(n)
        found[f"lamp.names.{word}"] = {"en": f"Lamp {word}", "de": f"Lampe {word}"}
        found[f"lamp.step.help.{word}"] = {
            "en": f"The brightness of the lamp {word}.",
            "de": f"Die Helligkeit der Lampe {word}.",
        }
    return found


def wheel(here: Path, monkeypatch: pytest.MonkeyPatch, values: Any) -> dict[str, Any]:
    """A wheel in an empty cache with `key -> language -> text`, and its source."""
    monkeypatch.setenv("TIEBENCH_CACHE", str(here / "cache"))
    trees: dict[tuple[str, str], dict[str, Any]] = {}
    for key, texts in values.items():
        component, *inner, leaf = key.split(".")
        for lang, text in texts.items():
            node = trees.setdefault((component, lang), {})
            for name in inner:
                node = node.setdefault(name, {})
            node[leaf] = text
    path = here / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for (component, lang), tree in trees.items():
            archive.writestr(zipfile.ZipInfo(f"tiny/{component}/{lang}.json"), json.dumps(tree))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    (here / "cache" / sha256).mkdir(parents=True)
    path.rename(here / "cache" / sha256 / path.name)
    return SOURCE | {"sha256": sha256}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = strings()
    values["fan.title"] = {"en": "Fan", "de": "Ventilator"}  # no class
    values["fan.names.same"] = {"en": "Fan speed", "de": "Fan speed"}  # untranslated
    values["fan.names.x"] = {"en": "[%key:lamp::names::aa%]", "de": ""}
    folder = Path("labels/test")
    prepare(purposes(source=wheel(here, monkeypatch, values)), folder)
    assert list(contents(folder)) == ["baselines.parquet", "examples.parquet", "meta.json"]
    table = parquet.read_table(folder / "examples.parquet")
    assert table.column_names == ["key", "lang", "part", "text", "label"]
    examples = read_purposes(folder)
    assert set(examples.lang[examples.part != "test"]) == {"en"}
    # 81 pivot texts: 24 are tested, 16 choose, 41 train.
    counts = Counter(zip(examples.part.tolist(), examples.lang.tolist(), strict=True))
    untranslated = "Fan speed" in np.array(examples.text)[examples.part == "test"].tolist()
    assert counts == {
        ("train", "en"): 41,
        ("development", "en"): 16,
        ("test", "en"): 24,
        ("test", "de"): 24 - untranslated,
    }
    row = examples.key.index("lamp.step.help.bc")
    assert examples.label[row] == "help"
    assert examples.text[row] == "The brightness of the lamp bc."
    meta = examples.meta
    assert meta["labels"] == ["help", "name"]
    assert list(meta["examples"]) == ["train", "development", "test"]
    assert list(meta["examples"]["train"]) == ["en"]
    assert sum(meta["examples"]["test"]["de"].values()) == counts["test", "de"]
    dropped = {(x["reason"], x["lang"]): x["examples"] for x in meta["dropped"]}
    assert dropped == {
        ("empty", "de"): 1,
        ("no_class", "de"): 1,
        ("no_class", "en"): 1,
        ("not_tested", "de"): 80 - counts["test", "de"],
        ("reference", "en"): 1,
        ("untranslated", "de"): 1,
    }
    with pytest.raises(DataError, match=r"found kind purposes; expected kind treebank"):
        read_treebank(folder)


def test_first_class_that_matches() -> None:
    classes = {"field": ["*.data.*"], "title": ["title", "*.title"], "rest": ["?"]}
    assert class_of("lamp.config.step.user.data.title", classes) == "field"
    assert class_of("lamp.title", classes) == "title"
    assert class_of("lamp.config.step.title", classes) == "title"
    assert class_of("title.x", classes) == "rest"
    assert class_of("data.subtitle", classes) is None
    assert class_of("lamp.Title", classes) is None


def chosen(values: Any, **changes: Any) -> tuple[list[Any], dict[tuple[str, str], int]]:
    dropped: Counter[tuple[str, str]] = Counter()
    examples = choose(values, purposes(**changes), dropped)
    return examples, dict(dropped)


def test_texts_of_several_classes_are_dropped_in_their_language() -> None:
    values = strings()
    values["a.names.both"] = {"en": "Brightness", "de": "Helligkeit"}
    values["b.help.both"] = {"en": "BRIGHTNESS!", "de": "Wie hell"}
    examples, dropped = chosen(values)
    assert dropped["ambiguous", "en"] == 2
    assert ("ambiguous", "de") not in dropped
    assert not {"a.names.both", "b.help.both"} & {x.key for x in examples if x.lang == "en"}


def test_equal_pivot_texts_are_in_one_part() -> None:
    values = strings()
    for n in range(40):
        word = letters(n)
        values[f"fan.names.{word}"] = {"en": f"LAMP {word}!", "de": f"Leuchte {word}"}
    examples, dropped = chosen(values)
    plain, plain_dropped = chosen(strings())
    assert dropped["duplicate", "en"] == 40
    assert [x for x in examples if x.lang == "en"] == [x for x in plain if x.lang == "en"]
    tested = {x.key for x in examples if x.lang == "de"}
    for n in range(40):
        assert (f"lamp.names.{letters(n)}" in tested) == (f"fan.names.{letters(n)}" in tested)
    assert plain_dropped == {("not_tested", "de"): 80 - sum(x.lang == "de" for x in plain)}


def test_keys_without_pivot_text_are_tested_elsewhere() -> None:
    values = strings()
    for n in range(40, 80):
        values[f"lamp.names.{letters(n)}"] = {"de": f"Lampe {letters(n)}"}
    examples, _ = chosen(values)
    alone = [x for x in examples if x.key.startswith("lamp.names.") and x.key[11:] >= letters(40)]
    assert 0 < len(alone) < 40
    assert {(x.lang, x.part) for x in alone} == {("de", "test")}


def test_test_texts_that_are_trained_on_are_dropped() -> None:
    values = strings()
    examples, _ = chosen(values)
    trained = next(x for x in examples if x.part == "train" and x.label == "name")
    key = next(x.key for x in examples if x.part == "test" and x.label == "name")
    values[key]["de"] = trained.text.upper() + " 2"
    after, dropped = chosen(values)
    assert dropped["equals_training", "de"] == 1
    assert [x for x in examples if (x.key, x.lang) != (key, "de")] == after


def test_limit_of_training_examples() -> None:
    every, _ = chosen(strings())
    some, dropped = chosen(strings(), examples=20)
    assert sum(x.part == "train" for x in every) == 40
    assert sum(x.part == "train" for x in some) == 20
    assert dropped["past_limit", "en"] == 20
    assert [x for x in every if x.part != "train"] == [x for x in some if x.part != "train"]
    fewer, _ = chosen(strings(), examples=10)
    assert {x.key for x in fewer} < {x.key for x in some}
    other, _ = chosen(strings(), examples=20, seed=1)
    assert {x.key for x in other} != {x.key for x in some}


def test_rare_classes_are_those_of_what_is_trained_on() -> None:
    values = strings()
    for n in range(4):
        values[f"fan.titles.{letters(n)}"] = {"en": f"Fan {letters(n)}", "de": f"Lüfter {n}"}
    classes = CLASSES | {"title": ["titles.*"]}
    examples, dropped = chosen(values, classes=classes, minimum=3, examples=12)
    assert {x.label for x in examples} == {"name", "help"}
    left = Counter(x.label for x in examples if x.part == "train")
    assert min(left.values()) >= 3
    assert dropped["rare", "en"] > 0


def test_a_full_disk_keeps_what_was_there(
    here: Path, monkeypatch: pytest.MonkeyPatch, full_disk: FullDisk
) -> None:
    source, folder = wheel(here, monkeypatch, strings()), Path("labels/test")
    prepare(purposes(source=source), folder)
    before = contents(folder)
    for number in range(1, len(before) + 1):
        assert full_disk.refuse(lambda: prepare(purposes(source=source, seed=1), folder), number)
        assert contents(folder) == before
        assert [path.name for path in Path("labels").iterdir()] == ["test"]


@pytest.mark.parametrize(
    ("values", "changes", "expected"),
    [
        ({}, {}, r"fewer than two classes with 2 training examples \(name 0, help 0\)"),
        (
            strings(),
            {"minimum": 60},
            r"fewer than two classes with 60 training examples \(name \d+, help \d+\); expected two",
        ),
        (strings(), {"classes": {"a": ["x"], "b": ["y"]}}, r"fewer than two classes .*a 0, b 0"),
        (
            {key: {"en": texts["en"]} for key, texts in strings().items()},
            {},
            "label set test, language de: found no example in the test part",
        ),
        (strings(2), {"minimum": 1}, "no example in the development part"),
        (strings(), {"examples": 1}, "fewer than two classes with 2 training examples"),
    ],
)
def test_refused(values: Any, changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(DataError, match=expected) as caught:
        chosen(values, **changes)
    assert caught.value.mend
    assert ("raise examples" in caught.value.mend) == ("examples" in changes)


def test_treebanks_are_refused(here: Path) -> None:
    files = {"en": "a", "de": "b"}
    source = {"kind": "local", "folder": "mine", "format": "conllu", "files": files}
    with pytest.raises(DataError, match=r"label set test: found format conllu.*kind treebank"):
        prepare(purposes(source=source), Path("labels/test"))


def test_twice_the_same_bytes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = purposes(source=wheel(here, monkeypatch, strings()), examples=20)
    folder = Path("labels/test")
    prepare(settings, folder)
    before = contents(folder)
    random.seed(99)
    np.random.seed(99)
    prepare(settings, folder)
    assert contents(folder) == before


def test_baselines(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path("labels/test")
    prepare(purposes(source=wheel(here, monkeypatch, strings())), folder)
    examples, columns = read_purposes(folder), read_baselines(folder).columns
    tested = np.flatnonzero(examples.part == "test")
    assert columns["example"].tolist() == tested.tolist() * 2
    assert (columns["reference"] == examples.label[columns["example"]]).all()
    assert (columns["lang"] == examples.lang[columns["example"]]).all()
    surface = columns["baseline"] == "surface"
    assert (columns["prediction"] == columns["reference"])[surface].all()
    counts = examples.meta["examples"]["train"]["en"]
    most = min(counts, key=lambda label: (-counts[label], label))
    assert set(columns["prediction"][~surface]) == {most}


def test_surface_features_see_form_alone() -> None:
    here = surface_features(["Open the {name} door, now!", "Öffne die {tür} jetzt, da!"])
    assert here.shape == (2, 24)
    assert here[0].tolist() == here[1].tolist()
    assert (surface_features(["Really?"]) != surface_features(["Really!"])).any()
    assert surface_features(["もう一度？"])[0][:5].tolist() == [0, 0, 1, 0, 0]
    assert surface_features(["Open (**now**.)"])[0][:5].tolist() == [1, 0, 0, 0, 0]
    assert np.isfinite(surface_features(["", "{}", "..."])).all()


def test_surface_predictions_ignore_the_global_generator() -> None:
    texts = ["Lamp", "Is it on?", "It is on.", "A longer text of words."] * 5
    labels = ["a", "b", "c", "c"] * 5
    first = predict_by_surface(texts, labels, ["Fan", "Was?", "Nein."])
    np.random.seed(5)
    assert predict_by_surface(texts, labels, ["Fan", "Was?", "Nein."]) == first == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["home_purposes_micro", "home_purposes"])
def test_real_option(here: Path, option: Callable[[str], dict[str, Any]], name: str) -> None:
    settings = validate(PurposeSettings, option(name), "labels")
    if name == "home_purposes":
        settings = settings.model_copy(update={"languages": ["en", "tr"]})
    folder = Path("labels") / name
    prepare(settings, folder)
    examples = read_purposes(folder)
    meta = examples.meta
    assert len(meta["labels"]) >= (8 if name == "home_purposes" else 4)
    for languages in meta["examples"].values():
        for counts in languages.values():
            assert min(counts.values()) > 0
    assert (examples.part == "train").sum() == settings.examples
    normal = np.array([normalize(text) for text in examples.text], dtype=object)
    learned = set(normal[examples.part != "test"])
    assert learned.isdisjoint(normal[examples.part == "test"])
    for lang in settings.languages:
        own = normal[examples.lang == lang]
        assert len(set(own)) == len(own)
    by_text: dict[tuple[str, str], set[str]] = {}
    for text, lang, label in zip(normal, examples.lang, examples.label, strict=True):
        by_text.setdefault((lang, text), set()).add(label)
    assert max(map(len, by_text.values())) == 1
    columns = read_baselines(folder).columns
    right = columns["prediction"] == columns["reference"]
    surface, foreign = columns["baseline"] == "surface", columns["lang"] != "en"
    assert right[surface & foreign].mean() > right[~surface & foreign].mean() + 0.05
