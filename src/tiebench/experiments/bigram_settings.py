"""Settings of the 2-gram laboratory: couplings on an identity body, trained on bigram counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from tiebench.errors import SettingsError
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.schema import Name, Settings, distinct
from tiebench.training.settings import TrainingSettings, check_coupled

if TYPE_CHECKING:
    from tiebench.settings import Params

Positive = Annotated[int, Field(gt=0)]
Rate = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, lt=1)]
NEXT, WINDOW = "next", "window"
"""The objectives: the next token, and the tokens of a window to both sides."""
TABLES = {
    "runs": ("objective", "run", "seed", "metric", "value"),
    "curves": ("objective", "run", "seed", "update", "metric", "value"),
    "rates": ("objective", "run", "learning_rate", "loss", "area", "chosen"),
    "objectives": ("objective", "metric", "value"),
}
"""Columns of the tables that the laboratory writes."""
REFERENCES = (
    "vocabulary", "train_pairs", "valid_pairs", "coverage", "repeats", "asymmetry",
    "train_unigram", "train_bigram", "valid_unigram", "valid_bigram",
)  # fmt: skip
"""Metrics of `objectives` beside the milestones."""


def bigram_settings(params: Params) -> BigramSettings:
    """The section of params.yaml.

    Raises:
        SettingsError: params.yaml has none.
    """
    if params.bigram is None:
        raise SettingsError(
            "bigram",
            found="nothing",
            expected="the settings of the 2-gram laboratory",
            mend="run `tiebench params`",
        )
    return params.bigram


class TableTraining(Settings):
    """What a run's training does to its tables; the fields are those of a family's training."""

    input_gradient_scale: Annotated[float, Field(ge=0)] = 1.0
    """Multiplies the gradient that a shared table gets from the input side; 0 stops it."""
    output_gradient_scale: Annotated[float, Field(ge=0)] = 1.0
    """The same for the output side."""
    untie_after: Share | None = None
    """After this share of the updates a shared table becomes two, each with its values and a copy
    of the optimizer's moments."""
    tie_penalty: Annotated[float, Field(ge=0)] = 0.0
    """Adds this times |E - W|^2, the squared Frobenius distance of two tables, to the loss."""


class BigramRun(Settings):
    """A coupling on the identity body."""

    group: Literal["reference", "remedy", "dial", "relaxed", "other"]
    """What the run is for: the tied and the untied table that all others are compared with; Su's
    countermeasures against a high initial loss; the mechanism dial; relaxed tying; the rest."""
    coupling: CouplingSettings
    training: TableTraining = TableTraining()


class BigramSettings(Settings):
    """The 2-gram laboratory (Su 2023): `softmax` of the output table times the normalized rows of
    the input table, trained on the counts of a corpus with exact full-batch gradients."""

    option: str
    """Name of the file in conf/task/ that this came from."""
    corpus: str
    """Key of `corpora`; the counts are those of all its languages together."""
    vocabulary: Annotated[int, Field(ge=2)]
    """The most frequent tokens of the training part, without special tokens. Pairs with another
    token, and pairs of two strings, are left out."""
    width: Annotated[int, Field(gt=0, le=1_000_000)]
    """Of the body."""
    window: Annotated[int, Field(ge=1)]
    """Tokens to each side whose pairs the window objective counts (word2vec's skip-gram)."""
    window_runs: Annotated[list[str], AfterValidator(distinct)]
    """The runs that are trained on the window objective too; none leaves it out."""
    updates: Annotated[int, Field(ge=2)]
    """Full-batch updates."""
    learning_rates: Annotated[list[Rate], Field(min_length=1), AfterValidator(distinct)]
    """Tried by each run on the pilot seed."""
    pilot_tolerance: Annotated[float, Field(ge=0)]
    """Of the rates whose final training loss is so near to the lowest, in nats, a run takes the one
    with the lowest mean loss on the way: at a tie of the finals speed would be chance."""
    betas: Annotated[
        list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=2, max_length=2)
    ] = [0.9, 0.999]
    epsilon: Rate = 1e-8
    pilot_seed: Annotated[int, Field(ge=0)]
    """Its results are not reported."""
    seeds: Annotated[
        list[Annotated[int, Field(ge=0)]], Field(min_length=1), AfterValidator(distinct)
    ]
    milestones: Annotated[list[Share], Field(min_length=1), AfterValidator(distinct)]
    """Shares of the way from the unigram entropy of the training pairs down to their bigram
    entropy: the updates until the training loss has come so far are counted."""
    tied: str
    """The run with one table that the others are compared with."""
    untied: str
    """The run with two."""
    slowest: str
    """The remedy that converges the slowest by the source (Su 2023)."""
    runs: Annotated[dict[Name, BigramRun], Field(min_length=2)]

    @model_validator(mode="after")
    def _check(self) -> BigramSettings:
        if self.milestones != sorted(self.milestones):
            raise ValueError(f"milestones in rising order ({self.milestones})")
        if self.pilot_seed in self.seeds:
            raise ValueError(f"a pilot_seed that is not among seeds ({self.pilot_seed})")
        for name in (self.tied, self.untied, self.slowest, *self.window_runs):
            if name not in self.runs:
                raise ValueError(f"runs that exist ({name!r} is none of {', '.join(self.runs)})")
        if not self.runs[self.tied].coupling.tied or self.runs[self.untied].coupling.tied:
            raise ValueError("tied and untied that name a run with one table and one with two")
        named = {self.tied, self.untied}
        if {name for name, run in self.runs.items() if run.group == "reference"} != named:
            raise ValueError(f"the group reference for {' and '.join(sorted(named))} alone")
        if self.runs[self.slowest].group != "remedy":
            raise ValueError(f"a slowest of the group remedy ({self.slowest!r})")
        if self.window_runs and not named <= set(self.window_runs):
            raise ValueError(f"window_runs with {' and '.join(sorted(named))}, or none")
        return self

    def body(self) -> BodySettings:
        """The identity with a last RMS norm, whose gain stays 1: Su's `w / sigma`."""
        return BodySettings(
            option="identity",
            kind="identity",
            width=self.width,
            norm="rms_norm",
            norm_epsilon=1e-12,
        )

    def operations(self) -> float:
        """Floating-point operations of all runs: three products of n, n and d in each update."""
        tries = len(self.learning_rates) + len(self.seeds)
        runs = tries * (len(self.runs) + len(self.window_runs))
        return 6.0 * self.vocabulary**2 * self.width * self.updates * runs

    def check_runs(self) -> None:
        """Check that each run's coupling and training do something on the identity body.

        Raises:
            SettingsError: widths that do not meet, or a setting that does nothing there.
        """
        for name, run in self.runs.items():
            try:
                self._check_run(run)
            except SettingsError as error:
                raise error.below(f"runs.{name}") from None

    def _check_run(self, run: BigramRun) -> None:
        run.coupling.widths(self.width)
        training = TrainingSettings.model_construct(**run.training.model_dump())
        check_coupled(training, run.coupling, self.width)
        if run.coupling.input_scale != 1 and run.coupling.input_width in (None, self.width):
            raise SettingsError(
                "coupling.input_scale",
                found=f"{run.coupling.input_scale!r} on the identity body",
                expected="1: the last norm, which comes next, divides it out",
                mend="leave the run out, or set it to 1",
            )
