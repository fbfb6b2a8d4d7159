"""Entry point: the commands in pipeline order, and errors as one line with an exit code."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

import click

from bmtools import __version__
from bmtools.cli.help import DocumentedCommand, Group, meant_options, write_rows
from bmtools.cli.origins import message_by_origin
from bmtools.cli.streams import (
    ended_by_signals,
    finish_stdout,
    guard_standard_streams,
    reader_has_left,
    say,
    warnings_as_lines,
)
from bmtools.distributed import SUPERVISED
from bmtools.errors import BmtoolsError, GateError, settings_spelled_as_flags
from bmtools.io.failures import not_utf8_name, system_fault
from bmtools.io.system import Ended

COMMANDS = {
    "import": "Convert biomedical source formats to records.",
    "export": "Convert records to common file formats, and models for other engines.",
    "clean": "Repair the texts of records, and remove records unfit for a corpus.",
    "translate": "Translate records sentence by sentence.",
    "project": "Transfer annotations from records to their translations.",
    "decontaminate": "Find records that contain evaluation texts, and leave them out.",
    "dedup": "Remove exact and near duplicates of records, compared by text.",
    "sample": "Choose records at random by size, words, number or share.",
    "mix": "Mix corpora into one by weights, and shuffle it.",
    "split": "Split records into train, dev and test or folds, by document and text.",
    "check-data": "Check an annotated set for faults that lower scores, and name a fix for each.",
    "describe": "Describe corpora and sets: sizes, lengths, origins, words, topics, labels.",
    "build-vocab": "Train or extend a tokenizer, and write its directory.",
    "compare-vocab": "Compare how vocabularies split text, entities and terms.",
    "tokenize": "Tokenize records once, into memory-mapped shards for pretrain and distill.",
    "find-contexts": "Sample sentences that contain new words, for init-weights.",
    "init-weights": "Give a checkpoint a new vocabulary, a larger size or both.",
    "recipe": "List and show the papers' pretraining settings.",
    "pretrain": "Train a masked language model from scratch or from a checkpoint, in phases.",
    "distill": "Train a smaller masked language model to imitate a larger one.",
    "finetune": "Train a checkpoint on an annotated task, with several seeds.",
    "convert": "Convert a published checkpoint into one that all commands can read.",
    "merge": "Average the weights of checkpoints: seeds, folds or stages of one run.",
    "predict": "Add a fine-tuned model's predictions to records.",
    "score-tasks": "Score predictions of a task against gold records, and compare models.",
    "score-suite": "Average scores on a benchmark suite in the same way as its paper.",
    "score-translation": "Score translations against references.",
    "score-pppl": "Score checkpoints by pseudo-perplexity.",
    "score-mrr": "Score checkpoints by mean reciprocal rank of masked words.",
    "score-masking": "Score checkpoints by how well they restore masked tokens.",
    "score-space": "Score the spread of words in embedding space and the separation of rare words.",
    "compare-models": "Compare models by size, speed and memory.",
    "table": "Show JSON Lines of several models as one table.",
    "study": "Run a study of models, sets, seeds and settings from one file.",
    "lineage": "Trace outputs to their first inputs: commands, hashes, licences, hours.",
    "verify": "Hash outputs and their inputs again, and report changes.",
    "energy": "Add up the energy and emissions of all steps, and state them.",
    "card": "Write the card of a checkpoint, an exported model or a vocabulary.",
    "report": "Draw a run or a whole study on one page that opens without a network.",
    "doctor": "Show what this installation contains, what is missing and how to add it.",
    "help": "Explain a command, or a topic such as phases.",
}
TRACEBACK = "--traceback"
_OBJECTS_BETWEEN_COLLECTIONS = 50_000
_SECONDS_FOR_OTHERS = 1.0
# Titles in the list of commands, by the first command below them.
_STAGES = {"import": "Text", "build-vocab": "Vocabulary", "recipe": "Models",
           "score-tasks": "Scores", "doctor": "Help"}
_MOST_NAMES = 10  # to list in a message
_QUIET = "progress and messages are on stderr, and 2> /dev/null hides them"
_VERBOSE = f"all messages are shown, and {TRACEBACK} adds the traceback of an error"
_STREAM_OPTIONS = {"-q": _QUIET, "--quiet": _QUIET, "--silent": _QUIET,
                   "-v": _VERBOSE, "--verbose": _VERBOSE}
_GROUPS = ("import", "export", "recipe", "finetune")


def stages() -> dict[str, list[tuple[str, str]]]:
    """Return names and descriptions of the commands by the title of their stage."""
    found: dict[str, list[tuple[str, str]]] = {}
    title = ""
    for name, sentence in COMMANDS.items():
        title = _STAGES.get(name, title)
        found.setdefault(title, []).append((name, sentence))
    return found


class LazyGroup(Group):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        # `import` is a Python keyword.
        module = "import_" if name == "import" else name.replace("-", "_")
        command: click.Command = importlib.import_module(f"bmtools.commands.{module}").command
        return command

    def command_names(self, ctx: click.Context) -> list[str]:
        """List the commands and subcommands: `import`, `import pubmed` ..."""
        groups = {name: self.get_command(ctx, name) for name in _GROUPS}
        return [*COMMANDS, *(f"{name} {one}" for name, group in groups.items()
                             if isinstance(group, click.Group)
                             for one in group.list_commands(ctx))]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, rows in stages().items():
            with formatter.section(title):
                write_rows(rows, formatter, width=max(map(len, COMMANDS)))


@click.group(cls=LazyGroup, context_settings={
    "auto_envvar_prefix": "BMTOOLS", "help_option_names": ["-h", "--help"]}, examples=(
        "bmtools import text notes.txt --lang it -o notes.jsonl",
        "bmtools build-vocab notes.jsonl --size 8000 --allow-fewer -o words"))
@click.version_option(__version__, message="bmtools %(version)s")
@click.option(TRACEBACK, is_flag=True, expose_value=False,
              help="Show the traceback of an error.")
def bmtools() -> None:
    """Build biomedical language models from composable commands.

    Commands exchange records as JSON Lines on stdin and stdout, and models as directories.
    Options can also be set by BMTOOLS_<COMMAND>_<OPTION> or --config FILE.toml.
    """


def run() -> None:
    """Run the command line as a program that starts and ends fast.

    Garbage collection during imports has no effect and takes a fifth of their time. At the end, the
    operating system frees all memory at once, which is faster than freeing each object.
    """
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, 20, 50)
    code: int | str | None = 1
    try:
        main()
    except SystemExit as request:
        code = request.code
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):  # closed, by us or by its reader
            stream.flush()
    os._exit(code if isinstance(code, int) else 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 wrong data, 2 wrong usage, 128 + signal if ended.

    3 means that a score is outside its limit. 75 means that a run was stopped by a signal or its
    budget, saved its state and can be resumed.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    code = 0
    try:
        guard_standard_streams()
        with settings_spelled_as_flags(), ended_by_signals(), warnings_as_lines():
            if "_BMTOOLS_COMPLETE" in os.environ:
                bmtools.main(args=arguments, prog_name="bmtools")
            _check_encoding(arguments)
            # click's own `main` exits with 1 when a pipe closes.
            with bmtools.make_context("bmtools", [*arguments]) as context:  # empties the list
                bmtools.invoke(context)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as no_arguments:
        # On stderr, as click does: stdout may be a file of records.
        no_arguments.show()
        code = 2
    except click.exceptions.Exit as exit_request:
        code = exit_request.exit_code
    except (KeyboardInterrupt, click.Abort, Ended) as signal:
        code = _print_error(*message_and_code(signal))
    except Exception as error:
        if not (isinstance(error, BrokenPipeError) and reader_has_left()):
            if TRACEBACK in arguments:
                raise
            code = _print_error(*message_and_code(error))
    finish_stdout()
    sys.exit(code)


def _check_encoding(arguments: Sequence[str]) -> None:
    """Raise an error for arguments that are not UTF-8, such as old file names.

    Results and manifests contain names of inputs in UTF-8, and the libraries for weights and
    tokenizers cannot open other names.
    """
    for word in arguments:
        if fault := not_utf8_name(word):
            raise click.UsageError(f"{fault}; rename the file, or make a link to it (ln -s)")


def message_and_code(error: BaseException) -> tuple[str, int]:
    """Return an error's message and exit code."""
    if isinstance(error, click.exceptions.Exit | Ended):
        return str(error) if isinstance(error, Ended) else "", error.exit_code
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return "interrupted", 130
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "bmtools"
        message = " ".join(_usage_message(error).split()).removesuffix(".")
        return f"{message}{'' if message.endswith('?') else '.'} See '{path} --help'.", 2
    if isinstance(error, click.ClickException):
        return error.format_message(), error.exit_code
    if isinstance(error, OSError):
        return system_fault(error), 1
    if isinstance(error, BmtoolsError):
        return str(error), 3 if isinstance(error, GateError) else 1
    if SUPERVISED in os.environ:
        time.sleep(_SECONDS_FOR_OTHERS)  # the launcher ends this one if another failed first
    kind = type(error).__name__
    return f"unexpected {kind}: {error}; {TRACEBACK} shows where, please report it", 1


def _usage_message(error: click.UsageError) -> str:
    """Return click's message, with a suggestion for an unknown option."""
    if (message := message_by_origin(error)) is not None:
        return message
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error.format_message()
    command, message = error.ctx.command, error.message.removesuffix(".")
    if error.option_name in _STREAM_OPTIONS:
        return f"{message}; {_STREAM_OPTIONS[error.option_name]}"
    if isinstance(command, click.Group):
        names = command.list_commands(error.ctx)
        listed = f": {', '.join(names)}" if len(names) <= _MOST_NAMES else ""
        return f"{message}; expected a command before options{listed}"
    keys = command.set_keys() if isinstance(command, DocumentedCommand) else []
    flags = {key.replace("_", "-"): f"--set {key}=VALUE" for key in keys} | {
        name.removeprefix("--"): name for option in command.get_params(error.ctx)
        for name in (*option.opts, *option.secondary_opts) if name.startswith("--")}
    options = [one.replace(name := one.split()[0], flags[name], 1)
               for one in meant_options(error.option_name, flags)]
    if any("=" in one for one in options):
        return f"{message}; expected {' or '.join(options)}"
    listed = " or ".join(map(repr, options))
    return f"{message}; did you mean {listed}?" if options else message


def _print_error(message: str, code: int) -> int:
    from bmtools.errors import without_controls

    say(without_controls(" ".join(message.split())))
    return code
