"""What no single section of params.yaml can see: references between sections, and folders."""

from __future__ import annotations

from pathlib import Path

from tiebench.corpus.tokenizer import SPECIALS
from tiebench.errors import SettingsError
from tiebench.experiments.sweep_settings import check_sweep
from tiebench.experiments.word_forms_checks import check_word_forms
from tiebench.labels.settings import TreebankSettings
from tiebench.model.joint import check_joint
from tiebench.model.settings import MATCH_TOLERANCE, BodySettings
from tiebench.paths import EVALUATED, EXTERNAL, IMPORTED, report_folder
from tiebench.settings import (
    FamilySettings,
    GroupSettings,
    Params,
    RecurrentFamilySettings,
    all_groups,
    families,
)
from tiebench.sources.settings import LABELLED_TASKS, LocalSource
from tiebench.training.subspace_runs import subspace_runs

PUBLISHED_BODY = "published/"
"""Start of the options of conf/body/ that have a shape of their own."""
RECOMPOSE = "edit conf/ and run `tiebench params`, or edit params.yaml"


def check(params: Params) -> Params:
    """Check the references between sections, and each run's body and coupling together.

    Raises:
        SettingsError: as `load_params`.
    """
    for name, group in all_groups(params).items():
        _check_corpus(params, name, group.corpus, words=isinstance(group, RecurrentFamilySettings))
        _check_baseline(name, group)
        if isinstance(group, RecurrentFamilySettings):
            _check_recurrent(params, name, group)
    for name, family in families(params).items():
        _check_body(name, family)
        _check_validations(params, name, family)
        for run in family.all_runs:
            _check_run(name, family, run)
        for run in family.matched:
            _check_match(params, name, family, run)
    for name, sweep in params.sweeps.items():
        check_sweep(f"sweeps.{name}", sweep, params.decoders)
    if params.domains is not None:
        params.domains.check_model(params.decoders)
    _check_imported(params)
    _check_retrieval(params)
    _check_labels(params)
    check_word_forms(params)
    _check_bigram(params)
    _check_initial_loss(params)
    _check_claims(params)
    return params


def check_folders(params: Params, root: Path = Path()) -> None:
    """Check that the folders of local sources, imported models and reports of claims are there.

    Apart from `check`, since a report is rebuilt from its tables on machines without them.

    Raises:
        SettingsError: the folder that is missing and the command that links it.
    """
    corpora = {f"corpora.{name}.source": x.source for name, x in params.corpora.items()}
    labels = {f"labels.{name}.source": held.source for name, held in params.labels.items()}
    others = {"domains.source": params.domains.source} if params.domains else {}
    if params.tables and params.tables.similarity:
        sets = params.tables.similarity.sets
        others |= {f"tables.similarity.sets.{name}.source": x.source for name, x in sets.items()}
    wanted = {
        key: (source.folder, "text", "choose another source")
        for key, source in (corpora | labels | others).items()
        if isinstance(source, LocalSource)
    }
    for name, model in params.imported.models.items():
        key = f"{IMPORTED}.models.{name}"
        wanted[key] = (model.folder, "checkpoint", f"delete {key} from params.yaml")
    for key, (folder, what, otherwise) in wanted.items():
        if not (root / EXTERNAL / folder).is_dir():
            raise SettingsError(
                f"{key}.folder",
                found=f"no folder {EXTERNAL / folder}",
                expected=f"the folder that holds the {what}, or a link to it",
                mend=f"mkdir -p {EXTERNAL} && ln -s /path/to/{folder} {EXTERNAL / folder}, or "
                f"{otherwise}",
            )
    for report in params.claims.reports:
        tables = report_folder(report) / "tables"
        if not (root / tables).is_dir():
            raise SettingsError(
                "claims.reports",
                found=f"{report}, and no folder {tables}",
                expected="reports that are there: claims are decided from their tables",
                mend=f"restore it with git, make that report first, or leave {report} out: "
                "tiebench params 'claims.reports=[...]'",
            )


def _check_body(name: str, family: FamilySettings) -> None:
    """The shape of a published body is a run's: in a family the size would replace it."""
    if family.body.option.startswith(PUBLISHED_BODY):
        raise SettingsError(
            f"{name}.body.option",
            found=f"{family.body.option}, whose shape the size replaces",
            expected="a body without a shape; a published one is chosen for a run",
            mend=f"+body@{name}.runs.RUN.body={family.body.option}",
        )


def _check_imported(params: Params) -> None:
    """A name stands for one thing on the page: a model has no run's."""
    for name, group in all_groups(params).items():
        twice = sorted(set(params.imported.models) & set(group.all_runs))
        if twice:
            raise SettingsError(
                f"{IMPORTED}.models.{twice[0]}",
                found=f"the name of a run of {name}",
                expected="a name of its own",
                mend=RECOMPOSE,
            )


def _check_corpus(params: Params, family: str, corpus: str, *, words: bool = False) -> None:
    key = f"{family}.corpus"
    if corpus not in params.corpora:
        known = ", ".join(params.corpora)
        raise SettingsError(key, found=repr(corpus), expected=f"one of {known}", mend=RECOMPOSE)
    tokenizer = params.corpora[corpus].tokenizer
    if tokenizer is None:
        raise SettingsError(
            key,
            found=f"{corpus!r}, which is for evaluation only (its tokenizer is null)",
            expected="a corpus with a tokenizer",
            mend=RECOMPOSE,
        )
    if tokenizer.kind == "types" and not words:
        raise SettingsError(
            key,
            found=f"{corpus!r}, whose vocabulary (of kind types) has no special tokens",
            expected="a corpus with a tokenizer of kind bpe or words",
            mend=RECOMPOSE,
        )


def _check_recurrent(params: Params, name: str, group: RecurrentFamilySettings) -> None:
    corpus = params.corpora[group.corpus]
    if len(corpus.languages) > 1 or not corpus.has_test:
        parts = "a test part" if corpus.has_test else "no test part"
        raise SettingsError(
            f"{name}.corpus",
            found=f"{group.corpus!r} with {len(corpus.languages)} languages and {parts}",
            expected="one language, and a test part (test_share above 0, or published parts)",
            mend=RECOMPOSE,
        )
    try:
        subspace_runs(group)
    except SettingsError as error:
        raise error.below(name) from None
    for run in group.all_runs:
        try:
            group.check_training(run)
        except SettingsError as error:
            raise error.below(name) from None
        try:
            check_joint(group.all_runs[run].coupling, group.body_of(run))
        except SettingsError as error:
            raise error.below(f"{name}.runs.{run}") from None


def _check_baseline(name: str, family: GroupSettings) -> None:
    trained = [run for run, held in family.runs.items() if held.trained]
    if trained and family.baseline not in trained:
        raise SettingsError(
            f"{name}.baseline",
            found=f"{family.baseline!r}, which is not trained",
            expected=f"a trained run, one of {', '.join(trained)}",
            mend=RECOMPOSE,
        )


def _check_validations(params: Params, name: str, family: FamilySettings) -> None:
    """Whether a curve has flattened is read off the validations in its last part."""
    share, training = params.statistics.flattened.share, family.training
    most = max(1, int(share * training.steps / 2))
    if training.validate_every > most or share * training.steps < 2:
        raise SettingsError(
            f"{name}.training.validate_every",
            found=f"{training.validate_every}",
            expected=f"at most {most}: two validations in the last {share:.0%} of "
            f"{training.steps} steps",
            mend="validate more often, train longer, or raise statistics.flattened.share",
        )


def _check_run(name: str, family: FamilySettings, run: str) -> None:
    key, training = f"{name}.runs.{run}", family.training
    try:
        body = family.body_of(run)
        family.check_training(run, body.width)
    except SettingsError as error:
        raise error.below(name) from None
    if body.kind == "lstm":
        raise SettingsError(
            f"{key}: body.kind",
            found="'lstm', which reads one stream and carries its state",
            expected="a body of a family that is trained on windows",
            mend="put the run into the family `recurrent`, or choose another body",
        )
    if body.causal != (training.objective == "causal"):
        raise SettingsError(
            f"{key}: body.causal",
            found=f"{body.causal} with objective {training.objective}",
            expected="true with objective causal, and false with masked",
            mend=RECOMPOSE,
        )
    if training.sequence_length > body.maximum_length:
        raise SettingsError(
            f"{key}: training.sequence_length",
            found=f"{training.sequence_length}",
            expected=f"at most body.maximum_length ({body.maximum_length})",
            mend=RECOMPOSE,
        )
    try:
        check_joint(family.all_runs[run].coupling, body)
    except SettingsError as error:
        raise error.below(key) from None


def _check_match(params: Params, name: str, family: FamilySettings, run: str) -> None:
    """The counts are equal to MATCH_TOLERANCE; the error has the width that makes them so."""
    from tiebench.analysis.counting import coupled_counts, matching_feedforward_width

    key, held = f"{name}.matched.{run}", family.matched[run]
    matches, trained = held.matches, [x for x in family.runs if family.runs[x].trained]
    if matches.run not in trained:
        raise SettingsError(
            f"{key}.matches.run",
            found=repr(matches.run),
            expected=f"a trained run, one of {', '.join(trained)}",
            mend=RECOMPOSE,
        )

    def rest(of: str) -> BodySettings:
        return family.body_of(of).model_copy(update={"feedforward_width": 0})

    alike = [
        x for x in trained
        if family.runs[x].coupling == held.coupling and rest(x) == rest(run)
        and family.training_of(x) == family.training_of(run)
    ]  # fmt: skip
    same = family.body_of(run) == family.body_of(matches.run)
    if not held.trained or not alike or (same and matches.run in alike):
        raise SettingsError(
            key,
            found=f"trained {held.trained}, body {held.body}, coupling {held.coupling.option}",
            expected="a run that differs from a trained one of the family in "
            "body.feedforward_width alone",
            mend="give it the coupling of a trained run as it now is, value for value, and its "
            "training and other keys of the body",
        )
    tokenizer = params.corpora[family.corpus].tokenizer
    assert tokenizer is not None, "checked before"

    def count(body: BodySettings, of: str) -> int:
        counts = coupled_counts(family.final_coupling(of), body, tokenizer.vocabulary)
        return counts.as_dict()[matches.parameters]

    wanted, body = count(family.body_of(matches.run), matches.run), family.body_of(run)
    found = count(body, run)
    if not body.layers:
        raise SettingsError(
            f"{key}.body.kind",
            found=body.kind,
            expected="a Transformer, whose feed-forward width can be matched",
            mend=f"leave the run out (`~{key}`)",
        )
    if abs(found - wanted) <= MATCH_TOLERANCE * wanted:
        return
    width = matching_feedforward_width(body, wanted - found)
    raise SettingsError(
        f"{key}.body.feedforward_width",
        found=f"{body.feedforward_width}, with which it has {found:,} parameters in "
        f"{matches.parameters.replace('_', '-')}",
        expected=f"{wanted:,} as {matches.run} has, to {MATCH_TOLERANCE:.0%}",
        mend=f"set it to {width}"
        if width > 0
        else "leave the run out (`~" + key + "`): a body "
        "without any feed-forward parameters would still be larger",
    )


def _check_retrieval(params: Params) -> None:
    retrieval = params.retrieval
    for field in ("sets", "distances", "offsets"):
        values = getattr(retrieval, field)
        if len(set(values)) != len(values):
            raise SettingsError(
                f"retrieval.{field}", found=str(values), expected="distinct values", mend=RECOMPOSE
            )
    for corpus in retrieval.sets:
        if corpus not in params.corpora:
            found, expected = repr(corpus), f"some of {', '.join(params.corpora)}"
            raise SettingsError("retrieval.sets", found=found, expected=expected, mend=RECOMPOSE)
        heldout = params.corpora[corpus].heldout
        if heldout is None:
            raise SettingsError(
                "retrieval.sets",
                found=f"{corpus!r}, which sets no sentences aside (its heldout is null)",
                expected="corpora with held-out sentences",
                mend=RECOMPOSE,
            )
        if retrieval.pool > heldout.sentences:
            raise SettingsError(
                "retrieval.pool",
                found=f"{retrieval.pool}",
                expected=f"at most corpora.{corpus}.heldout.sentences ({heldout.sentences})",
                mend=RECOMPOSE,
            )


def _check_initial_loss(params: Params) -> None:
    settings = params.initial_loss
    if settings is None:
        return
    for point in settings.points():
        try:
            check_joint(settings.runs[point.run].coupling, point.body)
        except SettingsError as error:
            raise error.below(f"initial_loss.runs.{point.run}") from None


def _check_bigram(params: Params) -> None:
    settings = params.bigram
    if settings is None:
        return
    _check_corpus(params, "bigram", settings.corpus)
    tokenizer = params.corpora[settings.corpus].tokenizer
    assert tokenizer is not None, "checked above"
    most = tokenizer.vocabulary - SPECIALS
    if settings.vocabulary > most:
        raise SettingsError(
            "bigram.vocabulary",
            found=f"{settings.vocabulary}",
            expected=f"at most {most}, the ordinary tokens of corpora.{settings.corpus}",
            mend=RECOMPOSE,
        )
    try:
        settings.check_runs()
    except SettingsError as error:
        raise error.below("bigram") from None


def _check_claims(params: Params) -> None:
    if params.name in params.claims.reports:
        raise SettingsError(
            "claims.reports",
            found=f"{params.name!r}, which is this report",
            expected="other reports: this one always decides claims",
            mend=f"leave {params.name} out in conf/ and run `tiebench params`, or edit params.yaml",
        )


def _check_labels(params: Params) -> None:
    for section, kind in (("probing", "treebank"), ("transfer", "purposes")):
        name = getattr(params, section).labels
        known = [key for key, held in params.labels.items() if held.kind == kind]
        if name not in known:
            raise SettingsError(
                f"{section}.labels",
                found=repr(name),
                expected=f"a label set of kind {kind}, one of: {', '.join(known) or '(none)'}",
                mend=RECOMPOSE,
            )
    for section, field in (("probing", "tasks"), ("transfer", "learning_rates")):
        values = getattr(getattr(params, section), field)
        if len(set(values)) != len(values):
            raise SettingsError(
                f"{section}.{field}", found=str(values), expected="distinct values", mend=RECOMPOSE
            )
    treebank = params.labels[params.probing.labels]
    assert isinstance(treebank, TreebankSettings), "checked above"
    tasks = LABELLED_TASKS.get(treebank.source.format, ())
    unknown = [task for task in params.probing.tasks if task not in tasks]
    if unknown:
        raise SettingsError(
            "probing.tasks",
            found=repr(unknown[0]),
            expected=f"some of {', '.join(tasks) or '(none)'}, which format "
            f"{treebank.source.format} has",
            mend=RECOMPOSE,
        )
    for name in EVALUATED & families(params).keys():
        family = families(params)[name]
        for run in family.all_runs:
            limit = family.body_of(run).maximum_length - 2
            if treebank.maximum_bytes > limit:
                raise SettingsError(
                    f"labels.{params.probing.labels}.maximum_bytes",
                    found=f"{treebank.maximum_bytes}",
                    expected=f"at most {limit}: body.maximum_length of {name}.{run} less the two "
                    "special tokens",
                    mend=RECOMPOSE,
                )
