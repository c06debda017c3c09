"""Entity spans tagged IOB2: lines of `token ... tag` (CoNLL 2003), or of `number token tag ...`
with tabs between (Universal NER). Target: `entity` on the span."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tiebench.sources.conllu import malformed
from tiebench.sources.records import Labelled, Target


def sentences(lines: Iterable[tuple[int, str]], lang: str, path: Path) -> Iterator[Labelled]:
    """Records of a file's numbered lines; the key is `sent_id`, or file and line.

    Raises:
        DataError: a line without token and tag, or a tag that does not continue its entity.
    """
    block: list[tuple[int, str]] = []
    for number, line in lines:
        if line.strip():
            block.append((number, line))
        elif block:
            yield from _sentence(block, lang, path)
            block = []
    if block:
        yield from _sentence(block, lang, path)


def _sentence(block: list[tuple[int, str]], lang: str, path: Path) -> Iterator[Labelled]:
    comments: dict[str, str] = {}
    tokens: list[str] = []
    targets: list[Target] = []
    for number, line in block:
        if comment := re.match(r"#\s*([\w ]+?)\s*=\s*(.*)", line):
            comments[comment[1]] = comment[2]
            continue
        columns = line.split("\t") if "\t" in line else line.split()
        numbered = "\t" in line and len(columns) > 2 and columns[0] == str(len(tokens) + 1)
        token, tag = (columns[1], columns[2]) if numbered else (columns[0], columns[-1])
        if len(columns) < 2 or not re.fullmatch(r"O|[BI]-\S+", tag):
            if line.startswith("#") or token == "-DOCSTART-":
                continue
            raise malformed(f"{path}:{number}", f"{line!r:.60}", "a token and an IOB2 tag")
        position, label = len(tokens), tag[2:]
        tokens.append(token)
        if tag.startswith("B-"):
            span = [position, position + 1]
            targets.append({"task": "entity", "span1": span, "span2": None, "label": label})
        elif tag.startswith("I-"):
            last = targets[-1] if targets else None
            if last is None or last["span1"][1] != position or last["label"] != label:
                raise malformed(f"{path}:{number}", f"{tag} without a {label} before", "IOB2")
            last["span1"][1] += 1
    if tokens:
        key = comments.get("sent_id") or f"{path.name}:{block[0][0]}"
        yield Labelled(key, lang, tokens, _spaces(tokens, comments.get("text", "")), targets)


def _spaces(tokens: list[str], text: str) -> list[bool]:
    """Where white space follows a token in `text`; everywhere when the tokens do not spell it."""
    spaces, rest = [], text
    for token in tokens:
        if not rest.startswith(token):
            return [True] * len(tokens)
        after = rest[len(token) :]
        rest = after.lstrip()
        spaces.append(rest != after or not after)
    return spaces
