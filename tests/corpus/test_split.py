from collections import Counter
from typing import Any

import pytest

from tiebench.corpus.clean import Dropped, Strings, normalize
from tiebench.corpus.settings import CorpusSettings
from tiebench.corpus.split import Split, group, rank, split
from tiebench.errors import DataError, SettingsError
from tiebench.schema import validate


def settings(**changes: Any) -> CorpusSettings:
    base = {
        "option": "test",
        "source": {"kind": "local", "folder": "x", "format": "text", "files": {"en": "x"}},
        "languages": ["en", "de"],
        "seed": 0,
        "valid_share": 0.2,
        "heldout": {"sentences": 5, "minimum_words": 3},
        "tokenizer": {"vocabulary": 300},
    }
    return validate(CorpusSettings, base | changes, "corpora.test")


LETTERS = "abcdefghij"


def word(number: int) -> str:
    return "".join(LETTERS[int(digit)] for digit in str(number))


def corpus(size: int = 100) -> Strings:
    return {
        f"c{index % 7}.k{index}": {
            "en": f"the long string {word(index)}",
            "de": f"der lange Text {word(index)}",
        }
        for index in range(size)
    }


def said(part: Strings) -> set[str]:
    return {normalize(text) for texts in part.values() for text in texts.values()}


def assert_apart(parts: Split) -> None:
    assert said(parts.train).isdisjoint(said(parts.valid))
    assert said(parts.train).isdisjoint(said(parts.heldout))
    assert said(parts.valid).isdisjoint(said(parts.heldout))


def split_counted(strings: Strings, chosen: CorpusSettings) -> tuple[Split, Dropped]:
    dropped: Dropped = Counter()
    parts = split(strings, chosen, dropped)
    for lang in chosen.languages:
        read = sum(lang in texts for texts in strings.values())
        kept = sum(
            lang in texts
            for part in (parts.train, parts.valid, parts.heldout)
            for texts in part.values()
        )
        assert read == kept + sum(n for (_, at), n in dropped.items() if at == lang)
    return parts, dropped


def test_sizes() -> None:
    parts, dropped = split_counted(corpus(), settings())
    assert [len(part) for part in (parts.train, parts.valid, parts.heldout)] == [76, 19, 5]
    assert not dropped
    assert_apart(parts)


def test_order_depends_on_the_seed_alone() -> None:
    strings = corpus()
    parts, again = split(strings, settings(), Counter()), split(strings, settings(), Counter())
    assert list(parts.heldout) == list(again.heldout)
    turned = split(dict(reversed(strings.items())), settings(), Counter())
    assert list(parts.heldout) == list(turned.heldout)
    assert parts.train == turned.train
    assert set(parts.heldout) != set(split(strings, settings(seed=1), Counter()).heldout)


def test_rank() -> None:
    assert rank(0, "a", "b") != rank(0, "ab")
    assert rank(0, "a") != rank(1, "a")


def test_groups_join_inside_a_component_in_any_language() -> None:
    normal = {
        "lamp.a": {"en": "on", "de": "an"},
        "lamp.b": {"en": "active", "de": "an"},
        "lamp.c": {"en": "active"},
        "lamp.d": {"en": "off", "de": "aus"},
        "fan.a": {"en": "on", "de": "an"},
        "fan.b": {"de": "aus"},
    }
    assert group(normal, "en") == {
        ("active", "lamp.a"): ["lamp.a", "lamp.b", "lamp.c"],
        ("off", "lamp.d"): ["lamp.d"],
        ("on", "fan.a"): ["fan.a"],
        ("aus", "fan.b"): ["fan.b"],
    }


def test_a_group_stays_on_one_side() -> None:
    strings = corpus(40)
    for index in range(40):
        strings[f"c{index % 7}.again{index}"] = {"en": f"The long string {word(index)}: {index}"}
    parts, dropped = split_counted(strings, settings())
    assert dropped["group_of_heldout", "en"] == 5
    assert ("group_of_heldout", "de") not in dropped
    assert_apart(parts)


@pytest.mark.parametrize("lang", ["en", "de"])
def test_a_text_of_another_component_and_language_is_dropped(lang: str) -> None:
    strings = corpus()
    chosen = split(strings, settings(), Counter())
    key = next(iter(chosen.heldout))
    # the held-out German text, in a string whose own language is `lang`
    strings["other.k"] = {
        "en": "of another component",
        "de": "aus einer anderen Komponente",
        lang: f"{strings[key]['de'].upper()}!",
    }
    parts, dropped = split_counted(strings, settings())
    assert key in parts.heldout
    assert "other.k" not in parts.train | parts.valid
    assert dropped["equals_heldout", "en"] == dropped["equals_heldout", "de"] == 1
    assert_apart(parts)


def test_training_gives_way_to_validation() -> None:
    strings = corpus()
    plain = split(strings, settings(), Counter())
    for number, key in enumerate(plain.valid):
        strings[f"new{number}.k"] = {"de": plain.valid[key]["de"] + f" {number}"}
    parts, dropped = split_counted(strings, settings())
    assert dropped["equals_valid", "de"] > 0
    assert ("equals_valid", "en") not in dropped or dropped["equals_valid", "en"] > 0
    assert_apart(parts)


def test_a_frequent_string_is_not_drawn_into_validation_more_often() -> None:
    strings = corpus(400)
    for number in range(300):
        strings[f"frequent{number}.k"] = {"en": "password", "de": "passwort"}
    sides = Counter()
    for seed in range(20):
        parts = split(strings, settings(seed=seed, valid_share=0.1), Counter())
        sides["password" in said(parts.valid)] += 1
    assert sides[True] <= 6  # 2 expected; independent draws of 300 keys would make it 20


def test_heldout_needs_every_language_and_enough_words() -> None:
    strings = corpus(30)
    for index in range(30, 60):
        strings[f"c0.k{index}"] = {"en": f"no german for this {word(index)}"}
        strings[f"c1.k{index}"] = {"en": f"short {word(index)}", "de": f"kurz {word(index)}"}
    chosen = settings(heldout={"sentences": 30, "minimum_words": 3})
    parts, _ = split_counted(strings, chosen)
    assert len(parts.heldout) == 30
    assert all(list(texts) == ["en", "de"] for texts in parts.heldout.values())
    assert all(len(texts["en"].split()) >= 3 for texts in parts.heldout.values())
    with pytest.raises(DataError, match=r"found 30 distinct .* 3 words .*sentences to 30 or fewer"):
        split(strings, settings(heldout={"sentences": 31, "minimum_words": 3}), Counter())


def test_heldout_is_distinct_in_every_language() -> None:
    strings = corpus(40)
    for index in range(40):
        strings[f"d{index}.k"] = {"en": f"other string {word(index)}", "de": "immer der selbe Text"}
        strings[f"e{index}.k"] = {
            "en": f"the long string {word(index)}!",
            "de": f"neu {word(index)}",
        }
        strings[f"f{index}.k"] = {
            "en": f"Open the USB-{word(index)}",
            "de": f"open the USB {word(index)}!",
        }
    with pytest.raises(DataError, match="found 41 distinct"):
        split(strings, settings(heldout={"sentences": 99, "minimum_words": 3}), Counter())


def test_duplicates_leave_after_the_split() -> None:
    """A key whose German an earlier one has too is still whole for the held-out part."""
    strings = {f"a{i}.k": {"en": word(i), "de": f"der lange Text {word(i)}"} for i in range(10)}
    with pytest.raises(DataError, match="found 10 distinct"):
        split(
            strings | corpus(10), settings(heldout={"sentences": 11, "minimum_words": 3}), Counter()
        )


def test_published_set_stays_whole() -> None:
    strings = {str(i): {"en": f"Tom {i % 3} ran.", "de": "Tom rannte."} for i in range(6)}
    strings["half"] = {"en": "nothing"}
    heldout = {"sentences": 6, "minimum_words": 1, "as_published": True}
    whole = settings(heldout=heldout, tokenizer=None, valid_share=0.0)
    parts, dropped = split_counted(strings, whole)
    assert set(parts.heldout) == set("012345")
    assert not parts.train
    assert not parts.valid
    assert dropped == {("not_selected", "en"): 1}


def test_without_translations_each_key_has_one_language() -> None:
    strings = corpus(200)
    for index in range(100):  # the same strings in other components follow the first
        strings[f"z.{index}"] = {
            "en": f"the long string {word(index)} {index}",
            "de": f"anders {word(index)}",
        }
    parts, dropped = split_counted(strings, settings(parallel=False))
    both = parts.train | parts.valid
    assert all(len(texts) == 1 for texts in both.values())
    shares = Counter(lang for texts in both.values() for lang in texts)
    assert 0.4 < shares["en"] / shares.total() < 0.6
    language = {}
    for key, texts in both.items():
        pivot = normalize(strings[key]["en"])
        assert language.setdefault(pivot, set(texts)) == set(texts)
    assert dropped["other_language", "en"] + dropped["other_language", "de"] > 150
    assert list(parts.heldout) == list(split(strings, settings(), Counter()).heldout)
    assert_apart(parts)


def test_no_heldout() -> None:
    parts, _ = split_counted(corpus(), settings(heldout=None))
    assert [len(part) for part in (parts.train, parts.valid, parts.heldout)] == [80, 20, 0]


def test_a_language_without_text() -> None:
    strings = {key: {"en": texts["en"]} for key, texts in corpus().items()}
    with pytest.raises(DataError, match="language de: found no string in the training part"):
        split(strings, settings(heldout=None), Counter())


@pytest.mark.parametrize(
    "changes",
    [
        {"heldout": {"sentences": 5, "minimum_words": 3, "as_published": True}},
        {"tokenizer": None},
        {"valid_share": 0.0},
        {"languages": ["en"]},
        {"languages": ["en", "en"]},
        {"heldout": None, "tokenizer": None, "valid_share": 0.0},
    ],
)
def test_impossible_settings(changes: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"corpora\.test"):
        settings(**changes)
