"""Help: a sentence, examples that run, options in groups, and topics."""

from __future__ import annotations

import difflib
import inspect
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from bmtools.errors import did_you_mean, suggestion

_SHOWS_ALL, _FIRST_NAMES = "bmtools.cli.help.shows_all", "bmtools.cli.help.first_names"
_GIVEN = "bmtools.cli.help.given"
_WIDEST_TERM = 24
# Limits for a screen; `--help-all` shows the rest.
_MOST_OPTIONS, _MOST_LINES, _FEWEST_EXAMPLES = 10, 40, 2
_MOST_VALUES = 4
_MOST_NAMES = 10
# Prevents line breaks inside `--held-out` and `[default: 1]`.
_UNBREAKABLE = str.maketrans({"-": "\u2011"})
_BREAKABLE = str.maketrans({"\u2011": "-", "\xa0": " "})
# Titles for options that several commands share; titles of settings precede `_LAST`.
_TITLES = {
    "Input": "files corpus replay evaluate retain train dev test terms lang segmenter allow-empty "
             "rejects max-record-megabytes",
    "Options": "",  # the command's own
    "Models": "model teacher student base architecture tokenizer",
    "Output": "output json table details overwrite resume",
    "Processes": "workers part processes shard ray",
    "Settings from files": "recipe phases set config",
    "Messages": "quiet traceback help",
}
_LAST = ("Processes", "Settings from files", "Messages")
_FLOAT32 = ("no", "float32", "fp32")
# Names that other libraries and tools use, by the corresponding option here.
_SYNONYMS = {
    "learning-rate": "lr learning peak-lr max-lr",
    "steps": "max-steps num-steps train-steps num-train-steps max-train-steps iterations max-iters",
    "epochs": "num-train-epochs num-epochs max-epochs n-epochs train-epochs",
    "batch-size": "train-batch-size eval-batch-size global-batch-size total-batch-size "
                  "per-device-train-batch-size per-device-eval-batch-size per-gpu-train-batch-size",
    "micro-batch-size": "per-device-train-batch-size per-device-batch-size device-batch-size "
                        "per-gpu-train-batch-size gradient-accumulation-steps",
    "max-length": "max-seq-length max-seq-len max-sequence-length max-len seq-len seq-length "
                  "sequence-length block-size model-max-length",
    "mask-rate": "mlm-probability mlm-prob masking-rate mask-prob mask-probability",
    "schedule": "lr-scheduler lr-scheduler-type scheduler",
    "warmup-ratio": "warmup warmup-proportion",
    "optimizer": "optim",
    "overwrite": "force f y yes overwrite-output-dir",
    "device cpu": "cpu no-cuda use-cpu",
    "device cuda": "cuda gpu use-cuda use-gpu",
    "precision": "mixed-precision dtype torch-dtype amp",
    "precision fp16": "fp16 half float16",
    "precision bf16": "bf16 bfloat16",
    "precision no": "fp32 float32",
    "output": "output-dir output-file output-path out outfile save-dir save-to",
    "model": "model-name-or-path model-name model-path model-dir checkpoint ckpt pretrained",
    "tokenizer": "tokenizer-name tokenizer-name-or-path tokenizer-path tokenizer-dir",
    "train": "train-file train-data training-file",
    "dev": "validation-file dev-file eval-file valid-file validation valid",
    "test": "test-file",
    "seed": "random-seed random-state manual-seed",
    "workers": "num-workers threads num-threads jobs num-proc num-jobs j "
               "preprocessing-num-workers",
    "processes": "nproc-per-node num-processes num-gpus gpus n-gpu nproc",
    "shard": "fsdp deepspeed",
    "resume": "resume-from-checkpoint continue",
    "patience": "early-stopping-patience early-stopping",
    "size": "vocab-size vocabulary-size",
    "uncased": "do-lower-case lowercase lower-case lower",
    "lang": "language",
    "source-lang": "src-lang source-language src",
    "target-lang": "tgt-lang target-language tgt",
    "beam-size": "num-beams beams beam",
    "traceback": "debug",
}
# Names in other libraries that mean the same and work. The other synonyms are only suggested.
_ALIASES = (
    "lr max-steps num-train-steps num-train-epochs num-epochs max-seq-length max-seq-len "
    "mlm-probability force overwrite-output-dir no-cuda use-cpu fp16 bf16 output-dir output-file "
    "model-name-or-path tokenizer-name tokenizer-name-or-path train-file validation-file test-file "
    "random-seed random-state num-workers num-proc nproc-per-node num-processes vocab-size "
    "do-lower-case src-lang tgt-lang num-beams")
_NEAR_OPTION = 0.75
_FILES_ARE = "Records as JSON Lines, plain, .gz or .zst; no file or - means stdin."
_TOPICS = ("records", "pipelines", "masking", "phases", "checkpoints", "devices", "studies",
           "completion")


class SettingOption(click.Option):
    """An option made from a field of settings, with the title of its group.

    Args:
        group: title of the group.
    """

    def __init__(self, *args: Any, group: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.group = group


class KeyOption(SettingOption):
    """A setting without an option; set by `--set KEY=VALUE`, or by a key in a TOML file."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.opts, self.secondary_opts = [], []

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Leave the parser unchanged, because there is no flag."""

    def get_error_hint(self, ctx: click.Context | None) -> str:
        return f"'--set {self.name}'"

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, Any]:
        given = ctx.meta.get(_GIVEN, {})
        if self.name in given:
            return given[self.name], ParameterSource.COMMANDLINE
        return super().consume_value(ctx, opts)


def set_option() -> click.Option:
    """Return the option `--set` for commands with settings that have no option."""
    return click.Option(
        ["--set", "assignments"], multiple=True, is_eager=True, expose_value=False,
        allow_from_autoenv=False, metavar="KEY=VALUE", callback=_read_assignments,
        help="Give a setting that has no option; --help-all lists the keys.")


def _read_assignments(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> None:
    assert isinstance(ctx.command, DocumentedCommand)
    keys = ctx.command.set_keys()
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f"found {text!r}, expected KEY=VALUE", ctx, param)
        if key not in keys:
            raise click.BadParameter(f"found the unknown key {key!r}{meant(key, keys)}", ctx, param)
        ctx.meta.setdefault(_GIVEN, {})[key] = value


class Choice(click.Choice[str]):
    """A choice that accepts all names of float32 and suggests the most similar value."""

    def convert(self, value: object, param: click.Parameter | None,
                ctx: click.Context | None) -> str:
        """Convert a value. In training, float32 is named `no`, like in Accelerate."""
        if value in _FLOAT32:
            value = next((one for one in self.choices if one in _FLOAT32), value)
        return super().convert(value, param, ctx)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        listed = super().get_invalid_choice_message(value, ctx).removesuffix(".")
        meant = did_you_mean(str(value), self.choices)
        return f"{listed}{meant and f'; {meant}'}"


class DocumentedCommand(click.Command):
    """A command with examples and grouped options.

    Args:
        examples: command lines; each runs in a directory that contains the files it names.
        essential: long names of the options that `--help` lists first.
        meanings: help for this command that replaces the help of shared options, by long name.
        topics: related topics of `bmtools help`.
        next_command: command to suggest at the end; {output} is replaced by the value of --output.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), essential: str = "",
                 meanings: Mapping[str, str] | None = None, topics: str = "",
                 next_command: str = "", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples, self.topics, self.next_command = examples, topics.split(), next_command
        self.essential, self.meanings = essential.split(), meanings or {}
        self.params.append(click.Option(
            ["--help-all"], is_flag=True, is_eager=True, expose_value=False,
            allow_from_autoenv=False, callback=_show_all, help="Show all options and exit."))

    def set_keys(self) -> Sequence[str]:
        """Return the keys of `--set`: settings without an option."""
        return [one.name or "" for one in self.params if isinstance(one, KeyOption)]

    def get_help(self, ctx: click.Context) -> str:
        """Return the full help after `--help-all`, otherwise help that fits on a screen."""
        whole, found = super().get_help(ctx), list(self.records(ctx))
        if ctx.meta.get(_SHOWS_ALL):
            return whole.translate(_BREAKABLE)
        required = [long_name(one) for one in self.params if one.required]
        names = [name for _, name, _ in found]
        first = [name for name in dict.fromkeys(["files", *required, *self.essential, *names])
                 if name in names]
        for few in range(_MOST_OPTIONS + ("files" in names), 0, -1):
            ctx.meta[_FIRST_NAMES] = first[:few]
            whole = super().get_help(ctx)
            if whole.count("\n") < _MOST_LINES:
                break
        return whole.translate(_BREAKABLE)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        is_short = _FIRST_NAMES in ctx.meta
        sentence = (self.help or "").partition("\n\n")[0] if is_short else self.help
        write_help_text(sentence, self.examples[:_FEWEST_EXAMPLES] if is_short else self.examples,
                        formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each non-empty group under its title."""
        groups: dict[str, list[tuple[str, str]]] = {}
        shown = ctx.meta.get(_FIRST_NAMES)
        for title, name, (term, text) in self.records(ctx):
            if shown is None or name in shown:
                title = title if shown is None else "Options"
                groups.setdefault(title, []).append((term, text.translate(_UNBREAKABLE)))
        widest = max((len(term) for records in groups.values() for term, _ in records
                      if len(term) <= _WIDEST_TERM), default=0)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl([(term.ljust(widest), text) for term, text in records],
                                   col_max=widest)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Mention `--help-all`, if it shows more, and related topics."""
        shown = ctx.meta.get(_FIRST_NAMES)
        further = shown and sum(name not in shown for _, name, _ in self.records(ctx))
        formatter.write_paragraph()
        if further:
            formatter.write(f"{ctx.command_path} --help-all lists {further} further options.\n")
        elif shown is not None:
            formatter.write(f"{ctx.command_path} --help-all explains more.\n")
        if self.topics:
            formatter.write(f"bmtools help explains {', '.join(self.topics)}.\n")

    def records(self, ctx: click.Context) -> Iterator[tuple[str, str, tuple[str, str]]]:
        """Yield the group, the name, and flags and help of each parameter, in the order of help."""
        common = {name: title for title, names in _TITLES.items() for name in names.split()}
        found = []
        if any(one.name == "files" for one in self.params):
            found.append(("Input", "files", ("FILES", self.meanings.get("files", _FILES_ARE))))
        for one in self.get_params(ctx):
            name = long_name(one)
            # The last line of help mentions --help-all if it lists more.
            if isinstance(one, click.Option) and not one.hidden and name != "help-all":
                title = getattr(one, "group", "") or common.get(name, "Options")
                found.append((title, name, self._record(one, name, ctx)))
        order = [title for title in _TITLES if title not in _LAST]
        order = list(dict.fromkeys([*order, *(
            title for title, *_ in found if title not in _LAST), *_LAST]))
        yield from sorted(found, key=lambda record: order.index(record[0]))

    def _record(self, option: click.Option, name: str, ctx: click.Context) -> tuple[str, str]:
        """Return an option's flags with its values, and its help with its default."""
        flags = {one.name: f"--{long_name(one)}" for one in self.params if one.name and one.opts
                 and isinstance(one, click.Option)}
        text = re.sub(r"`(\w+)`|\b([a-z]+(?:_[a-z0-9]+)+)\b",
                      lambda found: flags.get(found[1] or found[2], found[1] or found[2]),
                      self.meanings.get(name, option.help or "")).replace("`", "")
        return _term(option, ctx), f"{text}{_remark(option, ctx)}"


class Group(click.Group):
    """A group of commands with examples; for an unknown name, the error suggests a known one.

    Args:
        examples: as in `DocumentedCommand`.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples = examples

    def get_help(self, ctx: click.Context) -> str:
        return super().get_help(ctx).translate(_BREAKABLE)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_help_text(self.help, self.examples, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, then the options."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their complete first sentence."""
        with formatter.section("Commands"):
            write_rows(((name, first_sentence(self.get_command(ctx, name)))
                        for name in self.list_commands(ctx)), formatter)

    def command_names(self, ctx: click.Context) -> list[str]:
        """List the names to suggest for an unknown name."""
        return self.list_commands(ctx)

    def resolve_command(
            self, ctx: click.Context, args: list[str],
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raise an error for an unknown command, with a suggestion."""
        name = args[0]
        if not name.startswith("-") and not ctx.resilient_parsing \
                and self.get_command(ctx, name) is None:
            if Path(name).exists():
                raise click.UsageError(f"found the file {name!r}, expected a command before it: "
                                       f"{', '.join(self.list_commands(ctx))}", ctx)
            raise click.UsageError(
                f"No such command {name!r}{meant(name, self.command_names(ctx))}", ctx)
        return super().resolve_command(ctx, args)


def meant(name: str, known: Sequence[str]) -> str:
    """Return the end of a message that suggests a known name, or lists all if they are few."""
    said = suggestion(name, known) if len(known) <= _MOST_NAMES else did_you_mean(name, known)
    return said and f"; {said}"


def meant_options(name: str, known: Collection[str]) -> list[str]:
    """Return options similar to a name: by names in other libraries, otherwise by spelling.

    Args:
        name: the unknown option.
        known: names of options without leading dashes and with `-` inside.

    Returns:
        known names, some followed by a value: `device cpu`.
    """
    plain = name.lower().lstrip("-").replace("_", "-")
    return [plain] if plain in known else [
        ours for ours, others in _SYNONYMS.items()
        if plain in others.split() and ours.split()[0] in known
    ] or difflib.get_close_matches(plain, known, 1, _NEAR_OPTION)


def same_option(name: str, known: Collection[str]) -> str:
    """Return the option, and its value if any, that another library calls by this name.

    Args:
        name: the unknown option: --lr, --max_length.
        known: names of options without leading dashes and with `-` inside.
    """
    plain = name.lstrip("-").replace("_", "-")
    found = meant_options(name, known) if plain in known or plain in _ALIASES.split() \
        else []
    return f"--{found[0]}" if len(found) == 1 else ""


def write_help_text(text: str | None, examples: Iterable[str],
                    formatter: click.HelpFormatter) -> None:
    """Write the first sentence, the examples, then the rest of a command's description."""
    sentence, _, rest = inspect.cleandoc(text or "").partition("\n\n")
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(sentence.translate(_UNBREAKABLE))
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{wrapped_example(example, formatter.width)}\n")
    if rest:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(rest.translate(_UNBREAKABLE))


def wrapped_example(example: str, width: int) -> str:
    """Wrap a command line with backslashes; an option and its value stay on one line."""
    whole = re.sub(r"( --?[\w-]+) (?=[^-|>])", "\\1\xa0", example)
    lines = textwrap.wrap(whole, width - 2, initial_indent="  ", subsequent_indent="      ",
                          break_long_words=False, break_on_hyphens=False)
    return " \\\n".join(lines)


def write_rows(rows: Iterable[tuple[str, str]], formatter: click.HelpFormatter,
               width: int = 0) -> None:
    """Write names and descriptions in two columns.

    Args:
        rows: pairs of a name and a description.
        formatter: formatter of the help.
        width: minimum width of the first column, to align several lists.
    """
    formatter.write_dl([(name.ljust(width), text.translate(_UNBREAKABLE)) for name, text in rows])


def first_sentence(command: click.Command | None) -> str:
    """Return the first sentence of a command's description."""
    text = inspect.cleandoc(command.help or "") if command else ""
    return " ".join(text.partition("\n\n")[0].split())


def _show_all(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_SHOWS_ALL] = True
        click.echo(ctx.get_help())
        ctx.exit()


def long_name(option: click.Parameter) -> str:
    """Return the longest name of an option without dashes; dashes also replace `_` in keys."""
    return max(option.opts, key=len, default=str(option.name).replace("_", "-")).lstrip("-")


def _term(option: click.Option, ctx: click.Context) -> str:
    """Return an option's flags and its values."""
    if isinstance(option, KeyOption):
        value = "BOOL" if option.is_flag else option.metavar or _metavar(option, ctx)
        return f"--set {option.name}={value}"
    names = ", ".join(sorted(option.opts, key=len))
    if option.is_flag:
        shows_both = option.secondary_opts and option.get_default(ctx) is not False
        return f"{names} / {option.secondary_opts[0]}" if shows_both else names
    return f"{names} {option.metavar or _metavar(option, ctx)}"


def _metavar(option: click.Option, ctx: click.Context) -> str:
    kind = option.type
    if isinstance(kind, click.Path):
        return "FILE" if kind.file_okay else "DIR"
    names = {"integer": "N", "integer range": "N", "float": "X"}
    return names.get(kind.name) or option.make_metavar(ctx)


def _remark(option: click.Option, ctx: click.Context) -> str:
    """Return an option's default in brackets, or that it is required."""
    extra = option.get_help_extra(ctx)
    value = option.get_default(ctx, call=False)
    if value is False:
        return ""
    if isinstance(value, str) and value.count(",") > _MOST_VALUES:
        first, *_, last = value.split(",")
        return f"  [default:\xa0{first},...,{last}]"
    default = f"{value:g}" if isinstance(value, float) else extra.get("default", "").strip('()"')
    if option.required or (default and option.show_default):
        return "  [required]" if option.required else f"  [default:\xa0{default}]"
    return ""


def topics() -> dict[str, str]:
    """Return the titles of all help topics, in reading order."""
    lines = {name: topic_text(name).partition("\n")[0] for name in _TOPICS}
    return {name: line.partition(": ")[2] for name, line in lines.items()}


def topic_text(name: str) -> str:
    """Read the text of a topic."""
    from importlib.resources import files

    from bmtools.recipes.phases import settings_text

    text = files(__package__).joinpath("topics", f"{name}.txt").read_text(encoding="utf-8")
    return text + settings_text() if name == "phases" else text
