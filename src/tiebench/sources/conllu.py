"""CoNLL-U sentences as records.

Targets of a labelled record: `upos` and `case` on the token; `deprel` on the pair (token, head),
with no second span for the root. Tokens are syntactic words: of a contraction such as German
`am` (26-27) the parts `an`, `dem` are the tokens. Empty nodes are left out. A word split into
inflectional groups keeps its parts as tokens, joined by `space_after` false.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeGuard

from tiebench.errors import DataError
from tiebench.sources.records import Labelled, Target, Text


class Word(NamedTuple):
    """A syntactic word; `head` counts from 1, 0 is the root, and None is not annotated."""

    form: str
    upos: str | None
    case: str | None
    head: int | None
    deprel: str | None
    space_after: bool


def sentences(
    lines: Iterable[str], lang: str, where: str, *, labelled: bool
) -> Iterator[Text | Labelled]:
    """Records of a file's lines; the key is `sent_id`, or file and line where there is none.

    Raises:
        DataError: a malformed sentence, or text asked of one without `# text` (file and line).
    """
    block: list[str] = []
    number = 0
    for number, line in enumerate(lines, 1):
        if line.strip():
            block.append(line)
        elif block:
            yield _sentence(block, number - len(block), lang, where, labelled)
            block = []
    if block:
        yield _sentence(block, number - len(block) + 1, lang, where, labelled)


def _sentence(
    block: list[str], start: int, lang: str, where: str, labelled: bool
) -> Text | Labelled:
    import conllu

    for offset, line in enumerate(block):
        if not line.startswith("#") and line.count("\t") != 9:
            raise malformed(
                f"{where}:{start + offset}", f"{line.count(chr(9)) + 1} columns", "10, tabs between"
            )
    try:
        parsed = conllu.parse("\n".join(block) + "\n\n")[0]
    except (conllu.exceptions.ParseException, IndexError) as error:
        raise malformed(f"{where}:{start}", str(error), "a sentence in CoNLL-U") from None
    numbers = [start + offset for offset, line in enumerate(block) if not line.startswith("#")]
    _require_ids(parsed, numbers, where)
    key = parsed.metadata.get("sent_id") or f"{where}:{start}"
    if labelled:
        return labelled_sentence(key, lang, _words(parsed), f"{where}:{start}")
    text = parsed.metadata.get("text")
    if not text:
        raise malformed(f"{where}:{start}", "no `# text` comment", "one per sentence")
    return Text(key, lang, text)


def _require_ids(parsed: Any, numbers: list[int], where: str) -> None:
    """Words are numbered from 1 in order, and a range ends at one of them."""
    count = 0
    for token, number in zip(parsed, numbers, strict=True):
        if isinstance(token["id"], tuple):
            continue
        if token["id"] != count + 1:
            found = "_" if token["id"] is None else token["id"]
            raise malformed(f"{where}:{number}", f"word id {found}", f"{count + 1}")
        count += 1
    for token, number in zip(parsed, numbers, strict=True):
        if isinstance(token["id"], tuple) and token["id"][1] == "-" and token["id"][2] > count:
            found = "".join(map(str, token["id"]))
            raise malformed(f"{where}:{number}", f"range {found}", f"an end of at most {count}")


def _words(parsed: Any) -> list[Word]:
    words = [token for token in parsed if isinstance(token["id"], int)]
    spaces = [_space_after(token) for token in words]
    for token in parsed:
        if isinstance(token["id"], tuple) and token["id"][1] == "-":
            spaces[token["id"][2] - 1] = _space_after(token)
    return [
        Word(
            token["form"],
            token["upos"],
            (token["feats"] or {}).get("Case"),
            token["head"],
            token["deprel"],
            space,
        )
        for token, space in zip(words, spaces, strict=True)
    ]


def _space_after(token: Any) -> bool:
    return (token["misc"] or {}).get("SpaceAfter") != "No"


def labelled_sentence(key: str, lang: str, words: list[Word], where: str) -> Labelled:
    """The record of a sentence's words.

    Raises:
        DataError: a word without a form; a head that is no other word of the sentence.
    """
    targets: list[Target] = []
    for index, word in enumerate(words):
        if not word.form.strip():
            raise malformed(where, f"word {index + 1} without a form", "a form in every word")
        if word.head is not None and (word.head == index + 1 or not 0 <= word.head <= len(words)):
            raise malformed(
                where,
                f"head {word.head} of {word.form!r}",
                f"a head between 0 and {len(words)}, not the word itself",
            )
        span = [index, index + 1]
        for task, label in (("upos", word.upos), ("case", word.case)):
            if _annotated(label):
                targets.append({"task": task, "span1": span, "span2": None, "label": label})
        if word.head is None or not _annotated(word.deprel):
            continue
        head = [word.head - 1, word.head] if word.head else None
        targets.append({"task": "deprel", "span1": span, "span2": head, "label": word.deprel})
    return Labelled(
        key, lang, [word.form for word in words], [word.space_after for word in words], targets
    )


def _annotated(label: str | None) -> TypeGuard[str]:
    return label is not None and label.strip() not in ("", "_")


def malformed(where: str, found: str, expected: str) -> DataError:
    """The error for a damaged labelled file."""
    return DataError(where, found=found, expected=expected, mend="correct the file, or get it anew")
