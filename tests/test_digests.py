"""A stage's digest changes with what it reaches, and with nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiebench.digests import ROOT, digest_text, stage_digest, write_digests
from tiebench.errors import DataError

FILES = {
    "requirements.lock": "numpy==2.0\ntorch==2.5\nhydra-core==1.3\n",
    "stages/train.py": "from tiebench.training.loop import train\nfrom tiebench.settings import load\ntrain(load())\n",
    "stages/score.py": "from tiebench.scoring import score\nscore()\n",
    "stages/settings.py": "from tiebench.settings import load\nload()\n",
    "stages/code.py": "import tiebench.digests\n",
    "src/tiebench/__init__.py": '"""Package."""\n',
    "src/tiebench/settings.py": "import hydra\nfrom tiebench.scoring import Settings\n\n\ndef load():\n    return Settings\n",
    "src/tiebench/training/__init__.py": "",
    "src/tiebench/training/loop.py": (
        '"""Loop."""\n\nimport os\nfrom typing import TYPE_CHECKING\n\nfrom . import rates\n\n'
        "if TYPE_CHECKING:\n    from tiebench.scoring import Settings\n\n\n"
        'def train(x):\n    """Train."""\n    import torch\n    from tiebench import late\n    return late.go(rates.RATE)\n'
    ),
    "src/tiebench/training/rates.py": "RATE = 1  # per step\n",
    "src/tiebench/late.py": (
        "import numpy as np\nfrom tiebench.stage import Wrong\n\n\ndef go(x):\n"
        "    if not x:\n        raise errors.WrongError('x', found='none', expected='one', mend='add it')\n"
        "    return np.ones(x)\n"
    ),
    "src/tiebench/stage.py": "import nowhere\n",
    "src/tiebench/scoring/__init__.py": "from pathlib import Path\n\n\nclass Settings:\n    size: int\n    '''Rows.'''\n",
    "src/tiebench/scoring/rows.yaml": "a: 1\n",
    "src/tiebench/scoring/pages/page.html": "<p>\n",
    "src/tiebench/scoring/extra/unused.py": "X = 1\n",
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def named(root: Path, stage: str) -> list[str]:
    return [line.split("  ")[-1] for line in digest_text(stage, root).splitlines()]


def test_what_a_stage_reaches(root: Path) -> None:
    assert named(root, "train") == [
        "numpy==2.0", "src/tiebench/__init__.py", "src/tiebench/late.py",
        "src/tiebench/training/__init__.py", "src/tiebench/training/loop.py",
        "src/tiebench/training/rates.py", "stages/train.py", "torch==2.5",
    ]  # fmt: skip
    assert named(root, "score") == [
        "src/tiebench/__init__.py", "src/tiebench/scoring/__init__.py",
        "src/tiebench/scoring/pages/page.html", "src/tiebench/scoring/rows.yaml", "stages/score.py",
    ]  # fmt: skip


def test_only_the_settings_stage_sees_all_settings(root: Path) -> None:
    assert "src/tiebench/scoring/__init__.py" in named(root, "settings")
    assert "hydra-core==1.3" in named(root, "settings")
    assert not any("settings" in line for line in named(root, "train"))


@pytest.mark.parametrize(
    ("file", "old", "new", "stages"),
    [
        ("src/tiebench/training/rates.py", "RATE = 1", "RATE = 2", {"train"}),
        ("src/tiebench/training/rates.py", "per step", "for each step", set()),
        ("src/tiebench/training/rates.py", "RATE = 1", "RATE  =  1\n\n", set()),
        ("src/tiebench/training/loop.py", '"""Train."""', '"""Train one model."""', set()),
        ("src/tiebench/training/loop.py", '"""Loop."""\n', "", set()),
        ("src/tiebench/scoring/__init__.py", "Rows.", "Rows of the table.", set()),
        ("src/tiebench/scoring/__init__.py", "size: int", "size: float", {"score", "settings"}),
        ("src/tiebench/scoring/rows.yaml", "1", "2", {"score", "settings"}),
        ("src/tiebench/scoring/pages/page.html", "<p>", "<b>", {"score", "settings"}),
        ("src/tiebench/scoring/extra/unused.py", "1", "2", set()),
        ("src/tiebench/late.py", "ones", "zeros", {"train"}),
        ("src/tiebench/late.py", "add it", "give it", set()),
        ("src/tiebench/late.py", "'one'", "'a number'", set()),
        ("src/tiebench/late.py", "none", "nothing", {"train"}),
        ("src/tiebench/late.py", "WrongError", "OtherError", {"train"}),
        ("src/tiebench/stage.py", "nowhere", "somewhere", set()),
        ("src/tiebench/settings.py", "return Settings", "return None", {"settings"}),
        ("requirements.lock", "torch==2.5", "torch==2.6", {"train"}),
        ("stages/train.py", "train(load())", "train(load(), 1)", {"train"}),
    ],
)
def test_an_edit_reaches_its_stages_only(
    root: Path, file: str, old: str, new: str, stages: set[str]
) -> None:
    names = ("train", "score", "settings")
    before = {name: stage_digest(name, root) for name in names}
    text = (root / file).read_text()
    assert text.count(old) == 1
    (root / file).write_text(text.replace(old, new))
    assert {name for name in names if stage_digest(name, root) != before[name]} == stages


def test_one_file_a_stage(root: Path) -> None:
    write_digests(root / "code", root)
    assert sorted(x.name for x in (root / "code").iterdir()) == [
        "score.txt",
        "settings.txt",
        "train.txt",
    ]
    assert (root / "code" / "train.txt").read_text() == digest_text("train", root)


def test_an_unpinned_import_is_an_error(root: Path) -> None:
    (root / "src/tiebench/late.py").write_text("import somewhere\n")
    with pytest.raises(DataError, match=r"import of somewhere.*requirements\.lock"):
        digest_text("train", root)


def test_a_syntax_error_has_its_line(root: Path) -> None:
    (root / "src/tiebench/late.py").write_text("x = 1\nif\n")
    with pytest.raises(DataError, match="line 2"):
        digest_text("train", root)


def test_settings_of_an_evaluation_do_not_reach_pretraining() -> None:
    """The rule that keeps a change of one section from retraining every model."""
    reached = named(ROOT, "pretrain")
    assert "src/tiebench/training/settings.py" in reached
    assert "src/tiebench/model/coupling.py" in reached
    assert not [x for x in reached if "evaluation" in x or "reporting" in x or "sources" in x]
    assert "torch==2.13.0" in reached
    assert "src/tiebench/evaluation/probing_settings.py" in named(ROOT, "settings")


def test_every_stage_has_a_digest() -> None:
    for script in (ROOT / "stages").glob("*.py"):
        if script.stem != "code":
            assert f"stages/{script.name}" in named(ROOT, script.stem)
