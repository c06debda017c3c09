from collections import Counter

import pytest

from tiebench.corpus.clean import Dropped, clean, collapse, drop_duplicates, normalize
from tiebench.sources.records import Text, text_dataset


def test_collapse() -> None:
    assert collapse(" a\u00a0b\n\tc\u2028d ") == "a b c d"
    assert collapse("u\u0308ber") == "über"


def test_clean() -> None:
    records = [
        Text("a", "en", "Turn  on\n{name}"),
        Text("a", "de", "{name} einschalten"),
        Text("b", "en", "Wi-Fi"),
        Text("b", "de", " Wi-Fi "),
        Text("b", "tr", "Kablosuz"),
        Text("c", "en", "   "),
        Text("d", "de", "[%key:common::state::on%]"),
        Text("d", "tr", "Siehe [%key:common::state::on%]!"),
        Text("e", "de", "Ohne Vorlage"),
    ]
    dropped: Dropped = Counter()
    strings = clean(text_dataset(records, "test"), ["en", "de", "tr"], dropped)
    assert strings == {
        "a": {"en": "Turn on {name}", "de": "{name} einschalten"},
        "b": {"en": "Wi-Fi", "tr": "Kablosuz"},
        "e": {"de": "Ohne Vorlage"},
    }
    assert dropped == {
        ("untranslated", "de"): 1,
        ("empty", "en"): 1,
        ("reference", "de"): 1,
        ("reference", "tr"): 1,
    }


def test_published_set_keeps_untranslated_strings() -> None:
    records = [Text("a", "en", "Tom!"), Text("a", "de", "Tom!")]
    dropped: Dropped = Counter()
    strings = clean(text_dataset(records, "t"), ["en", "de"], dropped, as_published=True)
    assert strings == {"a": {"en": "Tom!", "de": "Tom!"}}
    assert not dropped


def test_languages_are_in_the_order_asked_for() -> None:
    records = [Text("a", "de", "Hund"), Text("a", "en", "Dog")]
    strings = clean(text_dataset(records, "t"), ["en", "de"], Counter())
    assert list(strings["a"]) == ["en", "de"]


def test_first_of_equal_texts_stays() -> None:
    dropped: Dropped = Counter()
    strings = {
        "a": {"en": "Key", "de": "Schlüssel"},
        "b": {"en": "Password", "de": "Schlüssel"},
        "c": {"en": "Key", "de": "Schlüssel"},
        "d": {"de": "Key"},
    }
    assert drop_duplicates(strings, dropped) == {
        "a": {"en": "Key", "de": "Schlüssel"},
        "b": {"en": "Password"},
        "d": {"de": "Key"},
    }
    assert dropped == {("duplicate", "de"): 2, ("duplicate", "en"): 1}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Turn on {name}!", "turn ON"),
        ("Battery 2 level", "Battery level"),
        ("Power (L1–N)", "power l-n"),
        ("İPTAL", "iptal"),
        ("Iptal", "İptal"),
        ("ISI AYARI", "ısı ayarı"),
        ("Straße", "STRASSE"),
        ("ﬁlter", "Filter"),
        ("{count} of %s, %1$s and $[name]", "of and"),
        ("Host { host_1.name }: {}", "host {x}"),
    ],
)
def test_normalize_unites(one: str, other: str) -> None:
    assert normalize(one) == normalize(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Öffnen", "Offnen"),
        ("हिन्दी", "हनद"),
        ("{a} {b}", "{a}"),
        ("100", "200"),
        ("{n, plural, one {# day} other {# days}}", "{n, plural, one {# hour} other {# hours}}"),
    ],
)
def test_normalize_keeps_apart(one: str, other: str) -> None:
    assert normalize(one) != normalize(other)


def test_normalize_of_a_text_without_letters() -> None:
    assert normalize("{name}  1%") == "{name} 1%"
