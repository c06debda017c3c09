"""The command line: `tiebench params|plan|fetch|prune|mend|export|import|audit|account|...`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tiebench.errors import TiebenchError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (1: the check or the command failed)."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()  # here, where a reader that is gone is no defect
    except TiebenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader, as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tiebench", description="A benchmark of tied, untied and decoupled embeddings."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    params = commands.add_parser(
        "params",
        help="compose conf/ into params.yaml, or check the two",
        description="Compose conf/ with its defaults and the given values into params.yaml, as "
        "`dvc exp run -S` does, and list every key that changes.",
    )
    params.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="size=micro, body@encoders.body=bert, retrieval.pool=50, ~encoders.runs.untied",
    )
    mode = params.add_mutually_exclusive_group()
    mode.add_argument(
        "--check",
        action="store_true",
        help="change nothing; fail unless params.yaml is what conf/ composes for its choices",
    )
    mode.add_argument("--keep", action="store_true", help="accept the hand edits of params.yaml")
    mode.add_argument("--explain", action="store_true", help="print every key: type, default, use")
    params.set_defaults(run=_params)

    plan = commands.add_parser("plan", help="print which cells dvc repro would run, why, how long")
    plan.set_defaults(run=_plan)

    fetch = commands.add_parser("fetch", help="download the pinned packages that conf/ names")
    fetch.set_defaults(run=_fetch)

    prune = commands.add_parser(
        "prune", help="list outputs of runs, seeds, sets and corpora that params.yaml does not name"
    )
    prune.add_argument("--yes", action="store_true", help="remove them (DVC's cache keeps them)")
    prune.add_argument(
        "--other-reports", action="store_true", help="also those of reports with another name"
    )
    prune.set_defaults(run=_prune)

    mend = commands.add_parser("mend", help="put right what a killed DVC left damaged (dvc.lock)")
    mend.set_defaults(run=_mend)

    export = commands.add_parser(
        "export",
        help="write a run as a checkpoint of transformers",
        description="Write a run as a checkpoint that transformers loads, and compare the two: "
        "logits and the states of every layer on random tokens.",
    )
    export.add_argument(
        "model", metavar="RUN", help="a model folder, or a run and seed: tied-s0, decoders/tied-s0"
    )
    export.add_argument("folder", metavar="FOLDER", type=Path, help="a new folder")
    export.set_defaults(run=_export)

    importing = commands.add_parser(
        "import",
        help="read a checkpoint of transformers into a model folder",
        description="Read a checkpoint of transformers (safetensors only) into a model folder of "
        "this package. Its tie is taken from its tensors and its config.json together.",
    )
    importing.add_argument(
        "source", metavar="SOURCE", help="a folder, or a repository in the local Hugging Face cache"
    )
    importing.add_argument("folder", metavar="FOLDER", type=Path, help="a new folder")
    importing.set_defaults(run=_import)

    auditing = commands.add_parser(
        "audit",
        help="say whether a checkpoint is tied, and whether its config.json agrees",
        description="Read the headers of a checkpoint in safetensors, and say whether input "
        "embedding and head are one tensor, two equal copies or two matrices, and whether "
        "config.json agrees. Exit status: 0 agrees or states nothing, 1 disagrees, 2 unreadable.",
    )
    auditing.add_argument(
        "source",
        metavar="CHECKPOINT",
        help="a folder, a .safetensors file, or a repository in the local Hugging Face cache",
    )
    auditing.add_argument("--json", action="store_true", help="print one JSON object")
    auditing.add_argument(
        "--headers-only", action="store_true", help="compare no values; instant at any size"
    )
    auditing.set_defaults(run=_audit)

    accounting = commands.add_parser(
        "account",
        help="say how many parameters a model has, and what tying saves",
        description="Count the parameters of a model by part, and say what one embedding matrix "
        "in place of two saves in parameters, bytes and optimizer memory. Nothing is loaded but "
        "config.json.",
    )
    accounting.add_argument(
        "words",
        nargs="+",
        metavar="CONFIG",
        help="a config.json, a folder that holds one, a repository in the local Hugging Face "
        "cache, a published model (`tiebench list models`), or a shape: vocab=32000 width=4096 "
        "layers=32 [heads= kv_heads= head_width= feedforward= feedforward_kind=gelu|swiglu "
        "tied=true|false input_width= output_width= positions= bias= norm=]",
    )
    form = accounting.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--markdown", action="store_true", help="print Markdown")
    accounting.set_defaults(run=_account)

    listing = commands.add_parser(
        "list",
        help="list couplings, bodies, studies, corpora, label sets, tasks, sizes, sets of word "
        "pairs (similarity), published models, claims",
    )
    kinds = (
        "couplings", "bodies", "studies", "corpora", "labels", "tasks", "sizes", "similarity",
        "models", "claims",
    )  # fmt: skip
    listing.add_argument("kind", nargs="?", choices=kinds, metavar="KIND", help=", ".join(kinds))
    listing.set_defaults(run=_list)

    showing = commands.add_parser(
        "show",
        help="show one of them: source, file, settings, parameters",
        description="Show what has this name: source, file and settings; of a coupling its "
        "parameters at a width and vocabulary, of a published model what `account` says, of a "
        "claim the verdicts of reports.",
    )
    showing.add_argument("name", metavar="NAME", help="as `tiebench list` has it, or study/rembert")
    sizes = {
        "--width": "of the body, for the parameters of a coupling",
        "--vocabulary": "entries, for the same",
        "--narrow": "width of a narrow embedding (default: a quarter of --width)",
        "--wide": "width of a wide embedding (default: three times --width)",
    }
    for key, use in sizes.items():
        showing.add_argument(key, type=int, metavar="N", help=use)
    showing.set_defaults(run=_show)
    return parser


def _params(options: argparse.Namespace) -> int:
    from tiebench import composition

    _say_mended()
    if options.overrides and (options.check or options.keep or options.explain):
        print("error: KEY=VALUE goes without --check, --keep and --explain", file=sys.stderr)
        return 2
    if options.explain:
        from tiebench.explain import explain

        print(explain())
        return 0
    if options.check:
        differing = composition.check_params()
        for change in differing:
            print(f"{change.key}: {change.old} in params.yaml, {change.new} in conf/")
        count = f"{len(differing)} keys differ"
        print(count if differing else "params.yaml is what conf/ composes")
        return 1 if differing else 0
    if options.keep:
        for change in composition.keep_params():
            print(f"kept {change.key}: {change.old} (conf/ composes {change.new})")
        return 0
    changes = composition.write_params(options.overrides)
    for change in changes:
        mark = "  (overwrites a hand edit)" if change.edited else ""
        print(f"{change.key}: {change.old} -> {change.new}{mark}")
    print(f"{len(changes)} keys changed" if changes else "no key changed")
    return 0


def _plan(options: argparse.Namespace) -> int:
    from tiebench.plan import describe_plan
    from tiebench.settings import load_params

    _say_mended()
    print(describe_plan(load_params()))
    return 0


def _fetch(options: argparse.Namespace) -> int:
    from tiebench.paths import PARAMS, cache_folder
    from tiebench.settings import load_params
    from tiebench.sources.wheel import fetch_all

    wheels = fetch_all(load_params() if PARAMS.exists() else None)
    print(f"{len(wheels)} pinned packages are in {cache_folder()}")
    return 0


def _prune(options: argparse.Namespace) -> int:
    from tiebench.prune import remove, strays
    from tiebench.settings import load_params

    found = strays(load_params(), other_reports=options.other_reports)
    for path in found:
        print(path)
    if options.yes:
        remove(found)
    word = "removed" if options.yes else "to remove with --yes"
    print(f"{len(found)} folders {word}")
    return 0


def _mend(options: argparse.Namespace) -> int:
    if not _say_mended():
        print("nothing to mend")
    return 0


def _say_mended() -> bool:
    from tiebench.mending import mend

    done = mend()
    for line in done:
        print(f"note: {line}", file=sys.stderr)
    return bool(done)


def _export(options: argparse.Namespace) -> int:
    from tiebench.model.export import export_run, resolve_run

    exported = export_run(resolve_run(options.model), options.folder)
    print(f"{exported.architecture}, {exported.parameters:,} parameters, in {options.folder}")
    for name, difference in exported.differences.items():
        print(f"largest difference in {name}: {difference:.2g}")
    for note in exported.notes:
        print(f"note: {note}")
    return 0


def _import(options: argparse.Namespace) -> int:
    from tiebench.model.exchange import import_checkpoint
    from tiebench.model.folders import new_folder, source_folder

    with new_folder(options.folder) as folder:
        said = import_checkpoint(source_folder(options.source), folder)
    count, tie = said["parameters"]["pretraining"], said["tie"]
    print(f"{said['architecture']}, {count:,} parameters, in {options.folder}")
    print(f"tables: {tie['tensors']} in the file; tie_word_embeddings says {tie['config']}")
    for note in said["notes"]:
        print(f"note: {note}")
    return 0


def _audit(options: argparse.Namespace) -> int:
    import json

    from tiebench.audit.judging import audit
    from tiebench.audit.report import as_json, as_lines, error_as_json

    try:
        audited = audit(options.source, headers_only=options.headers_only)
    except TiebenchError as error:
        if options.json:
            print(json.dumps(error_as_json(options.source, error), indent=2))
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(as_json(audited), indent=2))
    else:
        print("\n".join(as_lines(audited)))
    return 1 if audited.findings else 0


def _account(options: argparse.Namespace) -> int:
    import json

    from tiebench.account.report import as_json, as_lines, as_markdown
    from tiebench.account.sources import read_model

    model = read_model(options.words)
    if options.json:
        print(json.dumps(as_json(model), indent=2))
    else:
        print("\n".join((as_markdown if options.markdown else as_lines)(model)))
    return 0


def _list(options: argparse.Namespace) -> int:
    from tiebench.listing.catalogue import KINDS
    from tiebench.listing.report import list_lines

    for line in list_lines([options.kind] if options.kind else KINDS):
        print(line)
    return 0


def _show(options: argparse.Namespace) -> int:
    from tiebench.listing.catalogue import find
    from tiebench.listing.report import at, show_lines

    shape = at(options.width, options.vocabulary, options.narrow, options.wide)
    for number, entry in enumerate(find(options.name)):
        print("\n".join([*([""] if number else []), *show_lines(entry, shape)]))
    return 0
