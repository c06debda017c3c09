"""Windows and masks: a function of seed and step, one language a window, exact counts."""

import numpy as np
import pytest

from tiebench.corpus.tokenizer import CLS, MASK, SEP, SPECIALS
from tiebench.errors import DataError
from tiebench.training.batches import Schedule, mask, predictions, validation_batches
from tiebench.training.settings import MaskingSettings, TrainingSettings

MASKED = dict(
    objective="masked",
    masking={"probability": 0.25},
    steps=40,
    batch_size=8,
    sequence_length=9,
    sampling_exponent=0.5,
    learning_rate=1e-3,
    warmup_steps=2,
    validate_every=10,
    validation_windows=4,
)
VOCABULARY = 1000


@pytest.fixture
def tokens():
    """Language a holds ids below 500, b above; b has four times the text."""
    return {
        "a": np.arange(4, 404, dtype=np.uint16),
        "b": np.tile(np.arange(500, 900, dtype=np.uint16), 4),
    }


def training(**changes):
    return TrainingSettings(**{**MASKED, **changes})


CAUSAL = {"objective": "causal", "masking": None}


def test_same_seed_and_step_same_batch(tokens):
    one, two = (Schedule(tokens, training(), VOCABULARY, 3) for _ in range(2))
    two.batch(0)  # what was asked before does not matter
    for a, b in ((one.batch(17), two.batch(17)),):
        assert all(
            np.array_equal(getattr(a, k), getattr(b, k)) for k in ("ids", "where", "targets")
        )
    other = Schedule(tokens, training(), VOCABULARY, 4).batch(17)
    assert not np.array_equal(one.batch(17).ids, other.ids)


def test_no_window_mixes_languages(tokens):
    schedule = Schedule(tokens, training(**CAUSAL), VOCABULARY, 0)
    for step in range(40):
        ids = schedule.batch(step).ids
        assert (ids[:, 0] == CLS).all()
        assert ((ids[:, 1:] < 500).all(1) | (ids[:, 1:] >= 500).all(1)).all()


def test_sampling_exponent_sets_the_shares(tokens):
    for exponent, share in ((0.0, 0.5), (0.5, 2 / 3), (1.0, 0.8)):
        schedule = Schedule(tokens, training(sampling_exponent=exponent, steps=500), VOCABULARY, 0)
        assert abs((schedule.choice == 1).mean() - share) < 0.03


def test_a_pass_covers_each_window_once(tokens):
    schedule = Schedule(tokens, training(**CAUSAL), VOCABULARY, 0)
    starts = schedule.start[schedule.choice == 0]
    windows = len(tokens["a"]) // 8 - 1
    first = np.sort(starts[:windows])
    assert (np.diff(first) == 8).all()
    assert 0 <= first[0] <= 8 and first[-1] + 8 <= len(tokens["a"])


def test_mask_counts_and_replacements():
    rng = np.random.default_rng(0)
    ids = rng.integers(SPECIALS, VOCABULARY, (400, 41))
    ids[:, 0], ids[:, 20] = CLS, SEP
    batch = mask(ids, MaskingSettings(probability=0.25), VOCABULARY, rng)
    rows, columns = np.divmod(batch.where, 41)
    assert (np.bincount(rows) == round(0.25 * 39)).all()
    assert not np.isin(columns, (0, 20)).any()
    assert np.array_equal(batch.targets, ids[rows, columns])
    shown = batch.ids[rows, columns]
    assert abs((shown == MASK).mean() - 0.8) < 0.02
    assert abs((shown == batch.targets).mean() - 0.1) < 0.02
    untouched = np.ones(ids.shape, dtype=bool)
    untouched.reshape(-1)[batch.where] = False
    assert np.array_equal(batch.ids[untouched], ids[untouched])


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_mask_share_is_exact_at_its_ends(share):
    rng = np.random.default_rng(0)
    ids = rng.integers(SPECIALS, VOCABULARY, (10, 20))
    masking = MaskingSettings(probability=0.5, mask_share=share, random_share=0.0)
    batch = mask(ids, masking, VOCABULARY, rng)
    assert (batch.ids.reshape(-1)[batch.where] == MASK).all() == (share == 1.0)
    if share == 0.0:
        assert np.array_equal(batch.ids, ids)


def test_causal_predicts_every_token_but_the_first():
    ids = np.array([[CLS, 7, 8, 9], [CLS, 5, SEP, 6]])
    batch = predictions(ids, training(**CAUSAL), VOCABULARY, np.random.default_rng(0))
    assert batch.where.tolist() == [0, 1, 2, 4, 5, 6]
    assert batch.targets.tolist() == [7, 8, 9, 5, SEP, 6]


def test_validation_masks_do_not_depend_on_the_batch_size(tokens):
    many = {x: np.tile(ids, 20) for x, ids in tokens.items()}
    small, large = (
        validation_batches(many, training(batch_size=size, validation_windows=40), 1000)["b"]
        for size in (8, 32)
    )
    assert [len(x.ids) for x in small] == [16, 16, 8]
    for one, other in zip(small, large, strict=True):
        assert np.array_equal(one.where, other.where)


def test_validation_masks_do_not_depend_on_the_run(tokens):
    one = validation_batches(tokens, training(), VOCABULARY)
    two = validation_batches(tokens, training(steps=10, learning_rate=1.0), VOCABULARY)
    assert list(one) == ["a", "b"] and len(one["a"]) == 1
    for language in one:
        for a, b in zip(one[language], two[language], strict=True):
            assert np.array_equal(a.ids, b.ids) and np.array_equal(a.where, b.where)


@pytest.mark.parametrize(
    "build",
    [lambda t: Schedule(t, training(), 1000, 0), lambda t: validation_batches(t, training(), 1000)],
)
def test_too_little_text_is_named(build):
    with pytest.raises(DataError, match="text of a: found 5 tokens; expected at least"):
        build({"a": np.arange(4, 9), "b": np.arange(4, 400)})


def test_a_share_that_leaves_no_text_is_refused(tokens):
    with pytest.raises(DataError, match=r"training text of a: found 0 tokens; expected at least"):
        Schedule(tokens, training(data_share=1e-6), VOCABULARY, 0)
