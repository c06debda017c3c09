"""What is wrong between the matrices of a checkpoint and its config.json, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tiebench.audit.comparison import Comparison, comparable, compare
from tiebench.audit.families import COMPOSED, HEADS, ends_with
from tiebench.audit.headers import Checkpoint, StoredTensor, read_checkpoint
from tiebench.audit.matrices import Matrices, find_matrices, side
from tiebench.audit.settings import FLAG, Stated, read_stated
from tiebench.audit.words import size_words

RELATIONS = {
    "one": "one tensor, which is input embedding and head",
    "equal": "two equal copies",
    "different": "two different matrices",
    "not-compared": "two stored matrices, not compared",
    "no-head": "no head",
    "no-input": "a head without input embedding",
    "unstated": "one matrix, and nothing says whether it is the head too",
}
"""How input embedding and head stand to each other."""


@dataclass(frozen=True)
class Finding:
    """One disagreement: a fixed code, what it is here, and the mend."""

    code: str
    what: str
    mend: str


@dataclass(frozen=True)
class Audit:
    """All that is known of a checkpoint.

    Attributes:
        relation: a key of RELATIONS.
        comparison: of input embedding and head, where their bytes were compared.
        wasted: bytes of copies that equal another matrix.
        remarks: what is no disagreement and worth knowing.
    """

    checkpoint: Checkpoint
    stated: Stated
    matrices: Matrices
    relation: str
    comparison: Comparison | None
    wasted: int
    findings: list[Finding]
    remarks: list[str]

    @property
    def verdict(self) -> str:
        """`agrees`, `disagrees`, or `unstated` where config.json states no tie."""
        if self.findings:
            return "disagrees"
        return "unstated" if self.stated.tied is None else "agrees"


def audit(source: str, *, headers_only: bool = False) -> Audit:
    """Audit one checkpoint.

    Args:
        source: a folder, a safetensors file, or the id of a repository in the local cache.
        headers_only: compare no values.

    Raises:
        DataError: no such checkpoint, one in another format, or a damaged one.
    """
    checkpoint = read_checkpoint(source)
    stated = read_stated(checkpoint)
    return _Judge(checkpoint, stated, find_matrices(checkpoint, stated), headers_only).judge()


@dataclass
class _Judge:
    """One audit while it is made."""

    checkpoint: Checkpoint
    stated: Stated
    matrices: Matrices
    headers_only: bool
    wasted: int = 0
    remarks: list[str] = field(default_factory=list)

    def judge(self) -> Audit:
        first, head = self.matrices.input, self.matrices.head
        comparison = self._compare(first, head)
        relation = self._relation(comparison)
        if relation == "equal" and head:
            self.wasted += head.size
        findings = [
            *self._flags(),
            *self._tie(relation, comparison),
            *self._name(),
            *self._second_heads(),
            *self._three_uses(relation),
            *self._vocabulary(comparison),
            *self._widths(),
        ]
        self._remark(relation)
        return Audit(
            self.checkpoint, self.stated, self.matrices, relation, comparison, self.wasted,
            findings, self.remarks,
        )  # fmt: skip

    def _compare(self, one: StoredTensor | None, other: StoredTensor | None) -> Comparison | None:
        if self.headers_only or one is None or other is None or not comparable(one, other):
            return None
        return compare(one, other)

    def _equal(self, one: StoredTensor, other: StoredTensor) -> bool | None:
        """Whether two matrices are equal; None where their bytes were not compared."""
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        comparison = self._compare(one, other)
        return None if comparison is None else comparison.equal

    def _relation(self, comparison: Comparison | None) -> str:
        first, head, stated = self.matrices.input, self.matrices.head, self.stated
        if first is None:
            return "no-input"
        if head is None:
            if stated.head is False or stated.tied is False:
                return "no-head"
            return "one" if stated.tied else "unstated"
        if first.shape != head.shape or first.dtype != head.dtype:
            return "different"
        if comparison is None:
            return "not-compared"
        return "equal" if comparison.equal else "different"

    def _flags(self) -> Iterator[Finding]:
        if len(set(self.stated.flags.values())) > 1:
            said = " and ".join(f"{key} {_word(value)}" for key, value in self.stated.flags.items())
            yield Finding(
                "flags-contradict",
                f"config.json says {said}; the first is taken here",
                "write the same value at both",
            )

    def _tie(self, relation: str, comparison: Comparison | None) -> Iterator[Finding]:
        """Where the flag and what is stored contradict each other."""
        stated, first, head = self.stated, self.matrices.input, self.matrices.head
        if first is None:
            if head:
                yield Finding(
                    "input-embedding-missing",
                    f"only {head.name} is stored, and no input embedding",
                    "save the matrix under the name of the input embedding, under which a tied "
                    "model is read"
                    if stated.tied
                    else "restore the input embedding from the checkpoint this was made from",
                )
            return
        if head is None:
            if stated.tied is False and stated.head is not False and not self.matrices.unknown:
                yield Finding(
                    "untied-flag-no-head",
                    f"{stated.key} is false, and no head is stored beside {first.name}",
                    f"set {stated.key} to true if the model was trained tied; if not, the head "
                    "is lost: restore it from the checkpoint this was made from",
                )
            return
        if relation == "equal":
            tail = f"the same {size_words(head.size)} as {first.name}"
            if stated.tied is False:
                yield Finding(
                    "equal-under-untied-flag",
                    f"{stated.key} is false, and {head.name} holds {tail}",
                    f"set {stated.key} to true and leave {head.name} out, unless it is to be "
                    "trained apart from here on",
                )
            else:
                also = "" if stated.tied else f", and state {FLAG} as true"
                yield Finding(
                    "head-saved-twice",
                    f"{head.name} holds {tail}",
                    f"leave {head.name} out of the file{also}",
                )
        elif stated.tied and relation == "not-compared":
            yield Finding(
                "tied-flag-two-stored",
                f"{stated.key} is true, and {head.name} is stored beside {first.name}",
                "run again without --headers-only, to see whether it is a copy or another matrix",
            )
        elif stated.tied and not (comparison and comparison.equal):
            yield Finding(
                "tied-flag-two-matrices",
                f"{stated.key} is true, and {head.name} differs from {first.name}"
                f"{_difference(first, head, comparison)}",
                f"set {stated.key} to false if the head was trained; if it is left over from "
                "before tying, leave it out of the file",
            )

    def _name(self) -> Iterator[Finding]:
        """A head where the class does not look for it."""
        family, unknown = self.stated.family, self.matrices.unknown
        wanted = family.heads[0] if family else HEADS[4]
        held = [x for x in (self.matrices.head, *self.matrices.other_heads) if x]
        if held and family and not any(ends_with(x.name, family.heads) for x in held):
            if self.stated.head is False or self.stated.model_type in COMPOSED:
                return
            yield Finding(
                "head-under-another-name",
                f"the head is {held[0].name}; {self.stated.model_type} reads {wanted}",
                f"leave it out of the file, or rename it to {wanted}"
                if self.stated.tied
                else f"rename it to {wanted}, or it is not read",
            )
        elif unknown and self.stated.tied is False and self.stated.head is not False:
            yield Finding(
                "head-under-another-name",
                f"{unknown.name} has the shape of a head and the name of none",
                f"rename it to the name that the class reads, such as {wanted}",
            )

    def _second_heads(self) -> Iterator[Finding]:
        head = self.matrices.head
        for other in self.matrices.other_heads if head else ():
            assert head
            equal = self._equal(head, other)
            self.wasted += other.size if equal else 0
            words = {None: "not compared", True: "equal", False: "different"}
            yield Finding(
                "two-heads",
                f"a head under two names, {head.name} and {other.name}: {words[equal]}",
                f"keep the one that the class reads, and leave {other.name} out"
                if equal
                else "find out which one was trained, and leave the other out",
            )

    def _three_uses(self, relation: str) -> Iterator[Finding]:
        """Encoder input, decoder input and head, of which one flag says one thing."""
        first, stated = self.matrices.input, self.stated
        if first is None or not (self.matrices.three_uses or self.matrices.copies):
            return
        apart = stated.shared is False or stated.model_type in COMPOSED
        same = True
        for copy in self.matrices.copies:
            equal = self._equal(first, copy)
            same = same and bool(equal)
            self.wasted += copy.size if equal else 0
            use = f"the {side(copy)}'s input" if side(copy) != "shared" else "the shared input"
            if equal:
                yield Finding(
                    "embedding-saved-twice",
                    f"{copy.name}, {use}, holds the same {size_words(copy.size)} as {first.name}",
                    f"leave {copy.name} out of the file",
                )
            elif apart:
                self.remarks.append(f"{copy.name}, {use}, is a matrix of its own, as stated")
            else:
                how = "is stored beside" if equal is None else "differs from"
                yield Finding(
                    "encoder-decoder-three-uses",
                    f"three uses (encoder input, decoder input, head), and {copy.name} {how} "
                    f"{first.name}: {FLAG} cannot say so",
                    "run again without --headers-only"
                    if equal is None
                    else "keep the one that was trained; if both were, state "
                    "share_encoder_decoder_embeddings as false for a class that reads it",
                )
        if same and relation in ("one", "different", "unstated", "not-compared"):
            uses = {
                "one": "one tensor for three uses: encoder input, decoder input, head",
                "unstated": f"{first.name} is the input of encoder and decoder",
            }
            text = f"{first.name} is the input of encoder and decoder; {FLAG} is about the head"
            self.remarks.append(uses.get(relation, text))

    def _vocabulary(self, comparison: Comparison | None) -> Iterator[Finding]:
        """Added tokens that reached one side only."""
        first, head, said = self.matrices.input, self.matrices.head, self.stated.vocabulary
        beside = "" if said is None else f"; vocab_size is {said:,}"
        if first and head and first.shape[0] != head.shape[0]:
            short, long = sorted((first, head), key=lambda x: x.shape[0])
            shared = ""
            if comparison and comparison.compared == comparison.rows:
                equal = comparison.rows - comparison.differing
                shared = f"; {equal:,} of the first {comparison.rows:,} rows are equal"
            yield Finding(
                "one-side-resized",
                f"{first.name} has {first.shape[0]:,} rows and {head.name} {head.shape[0]:,}"
                f"{beside}{shared}",
                f"resize {short.name} to {long.shape[0]:,} rows (resize_token_embeddings does "
                "both), or cut the rows that were added",
            )
            return
        held = first or head
        if held and said is not None and held.shape[0] != said:
            yield Finding(
                "vocabulary-size-differs",
                f"{held.name} has {held.shape[0]:,} rows{beside}",
                f"set vocab_size to {held.shape[0]:,}, or restore config.json and weights from "
                "one save",
            )

    def _widths(self) -> Iterator[Finding]:
        """Widths that need a map which is not there."""
        first, head, stated = self.matrices.input, self.matrices.head, self.stated
        if first and stated.input_width not in (None, first.shape[1]):
            yield Finding(
                "width-differs",
                f"{first.name} is {first.shape[1]:,} wide; config.json says {stated.input_width:,}",
                "restore config.json and weights from one save",
            )
        if stated.width is None:
            return
        if first and first.shape[1] != stated.width and not self._maps_input(first, stated.width):
            yield Finding(
                "factorized-input-without-map",
                f"{first.name} is {first.shape[1]:,} wide and the body {stated.width:,}, and no "
                "map from one to the other is stored",
                "restore the map (embedding_hidden_mapping_in, embeddings_project, project_in) "
                "from the checkpoint this was made from",
            )
        last = head or (first if stated.tied and stated.head is not False else None)
        if last is None or last.shape[1] == stated.width or stated.model_type == "tiebench":
            return
        if not self._maps_output(last, stated.width):
            yield Finding(
                "factorized-output-without-map",
                f"{last.name}, the head, is {last.shape[1]:,} wide and the body "
                f"{stated.width:,}, and no map from one to the other is stored",
                "restore the map (project_out, predictions.dense) from the checkpoint this was "
                "made from",
            )

    def _maps_input(self, first: StoredTensor, width: int) -> bool:
        """A map `[width, input width]`, or a multiple of the input for several tokens at once."""
        return any(
            len(x.shape) == 2
            and x.shape[0] == width
            and x.shape[1] > 0
            and x.shape[1] % first.shape[1] == 0
            for x in self.matrices.input_maps
        )

    def _maps_output(self, last: StoredTensor, width: int) -> bool:
        """A map `[output width, width]`, or the rest of a head that is stored in two parts."""
        rows, narrow = last.shape
        fitting = ((narrow, width), (width - narrow, rows))
        return any(x.shape in fitting for x in self.matrices.output_maps)

    def _remark(self, relation: str) -> None:
        stated, family, head = self.stated, self.stated.family, self.matrices.head
        if stated.path is None:
            self.remarks.append("no config.json: nothing is stated")
        elif stated.tied is None:
            self.remarks.append(f"config.json does not state {FLAG}: state it")
            if family:
                default = "tied" if family.tied else "untied"
                self.remarks.append(
                    f"the class default of {stated.model_type} is {default}, which is no statement "
                    f"about this checkpoint{self._consequence(family.tied, relation)}"
                )
        if stated.operations:
            self.remarks.append(
                f"trained beside the stored matrices: {', '.join(stated.operations)}; the two "
                "sides compute with different matrices"
            )
        if relation == "not-compared":
            self.remarks.append("values are not compared (--headers-only)")
        if stated.head is False and head is None:
            self.remarks.append(f"{stated.architectures[0]} has no language-model head")
        if self.matrices.unknown and stated.tied is not False:
            name = self.matrices.unknown.name
            self.remarks.append(f"{name} has the shape of a head and the name of none")
        for other in self.matrices.ignored:
            self.remarks.append(f"{other.name} is not audited: an input embedding of another part")

    def _consequence(self, tied: bool, relation: str) -> str:
        head = self.matrices.head
        if tied and head and relation in ("different", "not-compared"):
            return f"; a loader that follows it may drop {head.name}"
        if not tied and relation == "unstated" and self.stated.head:
            return "; a loader that follows it starts a missing head at random"
        return ""


def _difference(first: StoredTensor, head: StoredTensor, comparison: Comparison | None) -> str:
    if first.shape != head.shape:
        return f" in shape: {list(head.shape)} beside {list(first.shape)}"
    if first.dtype != head.dtype:
        return f" in dtype: {head.dtype} beside {first.dtype}"
    if comparison is None:
        return ""
    sampled = " sampled" if comparison.compared < comparison.rows else ""
    return f" in {comparison.differing:,} of {comparison.compared:,}{sampled} rows"


def _word(value: bool) -> str:
    return "true" if value else "false"
