import random
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
from tiebench.labels.baselines import predict_by_word_type
from tiebench.labels.parts import majority
from tiebench.labels.prepare import prepare
from tiebench.labels.read import read_baselines, read_purposes, read_treebank
from tiebench.labels.settings import TreebankSettings
from tiebench.labels.treebank import choose, write_out
from tiebench.schema import validate

Word = tuple[str, str, str, int, str]
"""Form (a trailing `+` joins it to the next), UPOS, FEATS, head, relation."""


def conllu(*sentences: list[Word]) -> str:
    blocks = []
    for number, words in enumerate(sentences):
        lines = [f"# sent_id = s{number}"]
        for index, (form, upos, feats, head, deprel) in enumerate(words, 1):
            misc = "SpaceAfter=No" if form.endswith("+") else "_"
            name = form.removesuffix("+")
            row = [index, name, "_", upos, "_", feats, head, deprel, "_", misc]
            lines.append("\t".join(map(str, row)))
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n\n"


def plain(number: int) -> list[Word]:
    """One of a hundred different sentences of four words: `the dogbc barks.`"""
    name = "dog" + "".join(chr(ord("a") + int(digit)) for digit in f"{number:02}")
    return [
        ("the", "DET", "_", 2, "det"),
        (name, "NOUN", "Case=Nom" if number % 2 else "Case=Acc", 3, "nsubj"),
        ("barks+", "VERB", "_", 0, "root"),
        (".", "PUNCT", "_", 3, "punct"),
    ]


def write(**languages: str) -> None:
    for lang, text in languages.items():
        path = Path(f"external/mine/{lang}.conllu")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def treebank(**changes: Any) -> TreebankSettings:
    files = {"en": "en.conllu", "de": "de.conllu"}
    base = {
        "option": "test",
        "kind": "treebank",
        "source": {"kind": "local", "folder": "mine", "format": "conllu", "files": files},
        "languages": ["en"],
        "seed": 0,
        "development_share": 0.2,
        "test_share": 0.3,
        "minimum": 1,
        "maximum_bytes": 100,
    }
    return validate(TreebankSettings, base | changes, "labels.test")


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def made(**changes: Any) -> Path:
    folder = Path("labels/test")
    prepare(treebank(**changes), folder)
    return folder


def test_folder(here: Path) -> None:
    write(en=conllu(*map(plain, range(20))))
    folder = made()
    assert list(contents(folder)) == [
        "baselines.parquet",
        "meta.json",
        "sentences.parquet",
        "targets.parquet",
    ]
    sentences = rows(folder / "sentences.parquet")
    assert [row["key"] for row in sentences] == [f"s{number}" for number in range(20)]
    assert sentences[12] == {
        "key": "s12",
        "lang": "en",
        "part": sentences[12]["part"],
        "text": "the dogbc barks.",
        "starts": [0, 4, 10, 15],
        "ends": [3, 9, 15, 16],
    }
    assert Counter(row["part"] for row in sentences) == {"train": 10, "development": 4, "test": 6}
    targets = [row for row in rows(folder / "targets.parquet") if row["sentence"] == 12]
    names = ("task", "first_start", "first_end", "second_start", "second_end", "label")
    assert [tuple(row[name] for name in names) for row in targets] == [
        ("upos", 0, 1, -1, -1, "DET"),
        ("deprel", 0, 1, 1, 2, "det"),
        ("upos", 1, 2, -1, -1, "NOUN"),
        ("case", 1, 2, -1, -1, "Acc"),
        ("deprel", 1, 2, 2, 3, "nsubj"),
        ("upos", 2, 3, -1, -1, "VERB"),
        ("upos", 3, 4, -1, -1, "PUNCT"),
        ("deprel", 3, 4, 2, 3, "punct"),
    ]
    treebank = read_treebank(folder)
    assert treebank.meta["kind"] == "treebank"
    assert treebank.meta["spans"] == {"case": 1, "deprel": 2, "upos": 1}
    assert treebank.meta["labels"]["deprel"] == ["det", "nsubj", "punct"]
    assert treebank.meta["sentences"] == {"train": 10, "development": 4, "test": 6}
    assert treebank.meta["targets"]["upos"] == {"train": 40, "development": 16, "test": 24}
    assert treebank.meta["dropped"] == [
        {"reason": "no_second_span", "task": "deprel", "targets": 20}
    ]
    assert treebank.meta["source"]["sha256"].keys() == {"en.conllu"}
    assert treebank.sentences.starts[12].tolist() == [0, 4, 10, 15]
    assert treebank.targets.sentence.dtype == np.int32


def test_written_text_up_to_the_limit() -> None:
    tokens, spaces = ["Çok", "la", "nma", "!"], [True, False, False, True]
    whole = write_out("k", "tr", tokens, spaces, 100)
    assert (whole.text, whole.starts, whole.ends) == (
        "Çok lanma!",
        [0, 4, 6, 9],
        [3, 6, 9, 10],
    )
    assert len(whole.text.encode()) == 11
    assert write_out("k", "tr", tokens, spaces, 11) == whole
    assert write_out("k", "tr", tokens, spaces, 10).text == "Çok lanma"
    cut = write_out("k", "tr", tokens, spaces, 6)
    assert (cut.text, cut.tokens, cut.starts, cut.ends) == ("Çok", ["Çok"], [0], [3])
    assert write_out("k", "tr", tokens, spaces, 4).text == "Çok"  # the space does not count
    assert write_out("k", "tr", tokens, spaces, 3).tokens == []


def test_targets_past_the_limit_are_counted(here: Path) -> None:
    write(en=conllu(*map(plain, range(20))))
    meta = read_treebank(made(maximum_bytes=9)).meta  # `the dogbc`
    assert meta["dropped"] == [
        {"reason": "past_limit", "task": "deprel", "targets": 60},
        {"reason": "past_limit", "task": "upos", "targets": 40},
        # One relation is left, which is no task.
        {"reason": "rare", "task": "deprel", "targets": 20},
    ]
    assert list(meta["labels"]) == ["case", "upos"]
    # No word fits: its sentence is gone, its targets are counted.
    long: list[Word] = [("interminable", "NOUN", "_", 0, "root")]
    write(en=conllu(*map(plain, range(20)), long))
    treebank = read_treebank(made(maximum_bytes=9))
    assert "s20" not in treebank.sentences.key
    assert {"reason": "past_limit", "task": "upos", "targets": 41} in treebank.meta["dropped"]


def test_equal_sentences_are_in_one_part(here: Path) -> None:
    capitals = [[(form.upper(), *rest) for form, *rest in plain(n)] for n in range(20)]
    numbers = [[*plain(n)[:3], (f"{n}", "NUM", "_", 3, "num")] for n in range(20)]
    write(en=conllu(*map(plain, range(20)), *capitals, *numbers))  # type: ignore[arg-type]
    sentences = rows(made() / "sentences.parquet")
    assert len(sentences) == 60
    for index in range(20):
        assert len({sentences[index + shift]["part"] for shift in (0, 20, 40)}) == 1


def test_cut_sentences_that_become_equal_are_in_one_part(here: Path) -> None:
    longer = [[*plain(n)[:2], ("sleeps", "VERB", "_", 0, "root")] for n in range(20)]
    write(en=conllu(*map(plain, range(20)), *longer))
    sentences = rows(made(maximum_bytes=9) / "sentences.parquet")
    assert all(sentences[n]["part"] == sentences[n + 20]["part"] for n in range(20))


def test_rare_labels_are_dropped_in_every_part(here: Path) -> None:
    odd = [[(f"so{n}", "INTJ" if n < 26 else "X", "_", 0, "root")] for n in range(20, 30)]
    write(en=conllu(*map(plain, range(20)), *odd))
    for minimum in (1, 3, 4, 5):
        folder = made(minimum=minimum)
        treebank = read_treebank(folder)
        part = treebank.sentences.part[treebank.targets.sentence]
        for task, labels in treebank.meta["labels"].items():
            own = treebank.targets.task == task
            counts = Counter(treebank.targets.label[own & (part == "train")])
            assert sorted(counts) == labels
            assert min(counts.values()) >= minimum
            assert set(treebank.targets.label[own]) == set(labels)
        kept = sum(treebank.meta["targets"]["upos"].values())
        dropped = sum(x["targets"] for x in treebank.meta["dropped"] if x["task"] == "upos")
        assert kept + dropped == 90


def test_number_of_sentences(here: Path) -> None:
    write(en=conllu(*map(plain, range(40))))
    folder = made(sentences=20)
    meta = read_treebank(folder).meta
    assert sum(meta["sentences"].values()) == 20
    assert {"reason": "not_selected", "task": "upos", "targets": 80} in meta["dropped"]
    chosen = [row["key"] for row in rows(folder / "sentences.parquet")]
    assert chosen == sorted(chosen, key=lambda key: int(key[1:]))
    assert chosen != [row["key"] for row in rows(made(sentences=20, seed=1) / "sentences.parquet")]


def test_a_limit_on_targets_keeps_the_same_first_ones(here: Path) -> None:
    write(en=conllu(*map(plain, range(60))))
    held = {}
    for limit in (10, 25, None):
        treebank = read_treebank(made(targets=limit))
        targets, part = treebank.targets, treebank.sentences.part
        train = (targets.task == "upos") & (part[targets.sentence] == "train")
        rows = zip(targets.sentence[train], targets.first_start[train], strict=True)
        held[limit] = {(int(row), int(first)) for row, first in rows}
        assert treebank.meta["targets"]["upos"]["test"] > 25  # only training is limited
        if limit:
            dropped = {
                d["reason"]: d["targets"] for d in treebank.meta["dropped"] if d["task"] == "upos"
            }
            assert len(held[limit]) == limit
            assert dropped["not_trained"] == 4 * (part == "train").sum() - limit
    assert held[10] < held[25] < held[None]


def test_rare_labels_are_those_of_what_is_trained_on(here: Path) -> None:
    write(en=conllu(*map(plain, range(60))))
    whole, part = (read_treebank(made(targets=limit, minimum=3)) for limit in (None, 10))
    assert set(part.meta["labels"]["upos"]) < set(whole.meta["labels"]["upos"])
    targets, train = part.targets, part.sentences.part[part.targets.sentence] == "train"
    for task, labels in part.meta["labels"].items():
        for label in labels:
            assert ((targets.task == task) & (targets.label == label) & train).sum() >= 3


def test_forms_are_normalized_as_a_tokenizer_does(here: Path) -> None:
    sentence = write_out("k", "en", ["be\u0301", "\u0958"], [True, False], 100)
    assert sentence.text == "b\u00e9 \u0915\u093c"
    assert (sentence.starts, sentence.ends) == ([0, 3], [2, 5])


def test_control_label_belongs_to_the_word_type(here: Path) -> None:
    write(en=conllu(*map(plain, range(60))))
    treebank = read_treebank(made())
    targets, sentences = treebank.targets, treebank.sentences
    drawn: dict[tuple[str, str], set[str]] = {}
    for task, row, first, control in zip(
        targets.task, targets.sentence, targets.first_start, targets.control, strict=True
    ):
        word = sentences.text[row][sentences.starts[row][first] : sentences.ends[row][first]]
        drawn.setdefault((task, word), set()).add(control)
    assert all(len(labels) == 1 for labels in drawn.values())
    case = Counter(next(iter(labels)) for (task, _), labels in drawn.items() if task == "case")
    assert sum(case.values()) == 60  # each word once, those of the test part too
    assert 18 <= case["Nom"] <= 42  # near the marginal of one half
    assert (targets.control != targets.label).any()
    other = read_treebank(made(seed=1)).targets
    assert Counter(other.control) != Counter(targets.control)


def test_control_follows_the_training_marginal() -> None:
    records = [
        {
            "key": f"s{n}",
            "lang": "en",
            "tokens": [f"w{n}", f"v{n}"],
            "space_after": [True, True],
            "targets": [
                {"task": "t", "span1": [i, i + 1], "span2": None, "label": "ab"[n % 10 == 0]}
                for i in range(2)
            ],
        }
        for n in range(2000)
    ]
    # Texts without letters are their own groups: `w1 v1` differs from `w2 v2` by digits alone.
    for record in records:
        record["tokens"] = [word.translate(DIGITS) for word in record["tokens"]]  # type: ignore[attr-defined]
    sentences, targets = choose(records, treebank(), Counter())
    training = [t.label for t in targets if sentences[t.sentence].part == "train"]
    share = sum(label == "b" for label in training) / len(training)
    controls = [target.control for target in targets]
    assert abs(sum(label == "b" for label in controls) / len(controls) - share) < 0.02


DIGITS = str.maketrans("0123456789", "abcdefghij")


def test_baselines(here: Path) -> None:
    write(en=conllu(*map(plain, range(20))))
    folder = made()
    found = read_baselines(folder)
    columns, targets = found.columns, read_treebank(folder).targets
    assert (columns["reference"] == targets.label[columns["target"]]).all()
    assert (columns["sentence"] == targets.sentence[columns["target"]]).all()
    assert (columns["task"] == targets.task[columns["target"]]).all()
    by_word = (columns["baseline"] == "word_type") & (columns["task"] == "upos")
    predicted = dict(
        zip(columns["reference"][by_word], columns["prediction"][by_word], strict=True)
    )
    # `the`, `barks` and `.` are known; the dogs are not: the first of equally frequent labels.
    assert predicted == {"DET": "DET", "NOUN": "DET", "VERB": "VERB", "PUNCT": "PUNCT"}
    assert by_word.sum() == 24
    most = (columns["baseline"] == "majority") & (columns["task"] == "upos")
    assert set(columns["prediction"][most]) == {"DET"}


def test_ties_go_to_the_first_label() -> None:
    assert majority(["b", "a", "b", "a"]) == "a"
    assert majority(["b", "a", "b"]) == "b"
    words, labels = ["x", "x", "x", "y", "y"], ["B", "C", "C", "B", "B"]
    assert predict_by_word_type(words, labels, ["x", "y", "z", "X"]) == ["C", "B", "B", "B"]


def test_twice_the_same_bytes(here: Path) -> None:
    write(en=conllu(*map(plain, range(40))))
    before = contents(made())
    random.seed(99)
    np.random.seed(99)
    state = np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    assert contents(made()) == before
    assert np.random.get_state()[1].tolist() == state  # type: ignore[index, union-attr]


def test_whole_or_not_at_all(here: Path) -> None:
    write(en=conllu(*map(plain, range(20))))
    before = contents(made())
    with pytest.raises(DataError, match="minimum"):
        made(minimum=1000)
    assert contents(Path("labels/test")) == before
    assert [path.name for path in Path("labels").iterdir()] == ["test"]
    Path("labels/.test.partial").mkdir()  # left by a kill
    Path("labels/.test.partial/stray").touch()
    assert contents(made()) == before
    assert [path.name for path in Path("labels").iterdir()] == ["test"]


def test_a_full_disk_keeps_what_was_there(here: Path, full_disk: FullDisk) -> None:
    write(en=conllu(*map(plain, range(20))))
    before = contents(made())
    for number in range(1, len(before) + 1):
        assert full_disk.refuse(lambda: made(seed=1), number)
        assert contents(Path("labels/test")) == before
        assert [path.name for path in Path("labels").iterdir()] == ["test"]
    assert contents(made(seed=1)) != before


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        ("", {}, "label set test: found 0 sentences without a label"),
        ("\n# sent_id = s1\n\n", {}, "label set test: found 1 sentences without a label"),
        (conllu(*map(plain, range(2))), {}, "no sentence in the development part"),
        (conllu(*map(plain, range(20))), {"sentences": 2}, "no sentence in the development part"),
        (
            "\n".join(
                line if line.startswith("#") or not line else "\t".join(
                    [*line.split("\t")[:2], *["_"] * 8]
                )
                for line in conllu(plain(1)).split("\n")
            ),
            {},
            "label set test: found 1 sentences without a label",
        ),
        (conllu(*map(plain, range(20))), {"minimum": 41}, "no task with two labels of 41 training"),
        (conllu(*map(plain, range(20))), {"languages": ["tr"]}, "expected a file for tr"),
        (
            conllu(*map(plain, range(20))),
            {
                "source": {
                    "kind": "local",
                    "folder": "mine",
                    "format": "text",
                    "files": {"en": "en.conllu"},
                }
            },
            "format text, which has no labels",
        ),
    ],
)  # fmt: skip
def test_refused(here: Path, text: str, changes: dict[str, Any], expected: str) -> None:
    write(en=text)
    with pytest.raises(DataError, match=expected) as caught:
        made(**changes)
    assert caught.value.mend
    assert not Path("labels/test").exists()


def test_a_task_without_targets_in_a_part_is_refused(here: Path) -> None:
    sentences = [
        [(form, upos, feats if n == 3 or not n % 7 else "_", head, deprel)
         for form, upos, feats, head, deprel in plain(n)]
        for n in range(20)
    ]  # fmt: skip
    write(en=conllu(*sentences))
    seeds = range(20)
    refused = 0
    for seed in seeds:
        try:
            meta = read_treebank(made(seed=seed)).meta
        except DataError as error:
            assert "no case target in the" in str(error)
            refused += 1
        else:
            assert all(n for parts in meta["targets"].values() for n in parts.values())
    assert 0 < refused < len(seeds)


def test_damaged_files(here: Path) -> None:
    write(en=conllu(*map(plain, range(20))))
    folder = made()
    mend = r"run `dvc repro -f labels@test`"
    with pytest.raises(DataError, match=r"meta\.json: found kind treebank; expected kind purposes"):
        read_purposes(folder)
    table = parquet.read_table(folder / "targets.parquet")
    parquet.write_table(table[:-1], folder / "targets.parquet")
    with pytest.raises(DataError, match=rf"targets\.parquet: found \d+ rows.*{mend}"):
        read_treebank(folder)
    parquet.write_table(table.drop_columns(["control"]), folder / "targets.parquet")
    with pytest.raises(DataError, match=rf"targets\.parquet: found a damaged file.*{mend}"):
        read_treebank(folder)
    (folder / "sentences.parquet").write_bytes(b"cut")
    with pytest.raises(DataError, match=rf"sentences\.parquet: found a damaged file.*{mend}"):
        read_treebank(folder)
    (folder / "sentences.parquet").unlink()
    with pytest.raises(
        DataError, match=r"sentences\.parquet: found no such file.*repro labels@test"
    ):
        read_treebank(folder)
    (folder / "baselines.parquet").unlink()
    with pytest.raises(
        DataError, match=r"baselines\.parquet: found no such file.*repro labels@test"
    ):
        read_baselines(folder)
    (folder / "meta.json").unlink()
    with pytest.raises(DataError, match=r"meta\.json: found no such file.*repro labels@test"):
        read_treebank(folder)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "lower minimum, or read more files"),
        ({"targets": 5}, "lower minimum, raise targets, or read more files"),
        ({"targets": 5, "sentences": 19}, "raise targets or sentences, or read"),
    ],
)
def test_too_few_training_targets_names_the_limits(
    here: Path, changes: dict[str, Any], expected: str
) -> None:
    write(en=conllu(*map(plain, range(20))))
    with pytest.raises(DataError, match="no task with two labels of 60") as caught:
        made(minimum=60, **changes)
    assert expected in caught.value.mend


def _no_leak(folder: Path) -> None:
    sentences = read_treebank(folder).sentences
    said: dict[str, str] = {}
    for text, part in zip(sentences.text, sentences.part, strict=True):
        assert said.setdefault(normalize(text), part) == part


def test_micro_option(here: Path, option: Callable[[str], dict[str, Any]]) -> None:
    plain_settings = option("turkish_treebanks_micro")
    settings = validate(TreebankSettings, plain_settings, "labels")
    folder = Path("labels/micro")
    prepare(settings, folder)
    _no_leak(folder)
    treebank = read_treebank(folder)
    assert sum(treebank.meta["sentences"].values()) == 120
    assert list(treebank.meta["labels"]) == ["case", "deprel", "upos"]
    assert "ig" in treebank.meta["labels"]["deprel"]
    assert max(len(text.encode()) for text in treebank.sentences.text) <= 200
    for text, starts, ends in zip(
        treebank.sentences.text,
        treebank.sentences.starts,
        treebank.sentences.ends,
        strict=True,
    ):
        assert ends[-1] == len(text)
        assert all(text[a:b].strip() == text[a:b] != "" for a, b in zip(starts, ends, strict=True))
        assert all(text[a:b].strip() == "" for a, b in zip(ends[:-1], starts[1:], strict=True))


def test_real_english_treebank(here: Path, request: pytest.FixtureRequest) -> None:
    shared = request.config.rootpath.parent / "shared" / "data" / "ud" / "en_ewt"
    if not shared.is_dir():
        pytest.skip(f"no Universal Dependencies treebank ({shared})")
    Path("external").mkdir()
    Path("external/ewt").symlink_to(shared)
    source = {
        "kind": "local",
        "folder": "ewt",
        "format": "conllu",
        "files": {"en": "en_ewt-ud-dev.conllu*"},
    }
    folder = made(source=source, minimum=10, maximum_bytes=400)
    _no_leak(folder)
    meta = read_treebank(folder).meta
    assert "NOUN" in meta["labels"]["upos"]
    assert "nsubj" in meta["labels"]["deprel"]
    assert sum(meta["sentences"].values()) == 2001
