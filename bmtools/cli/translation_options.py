"""Options of translation engines, which `translate` and `project` share."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

import click

from bmtools.cli.help import Choice
from bmtools.cli.options import Decorator, Values, add_options, existing_directory
from bmtools.cli.parameters import InputFile
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.translation.settings import Engine, ModelConfig, ProgramConfig, ServerConfig

ENGINE_GROUPS = {
    "Engine": "engine memory memory-threshold via model tokenizer model-licence",
    "Generation by a model": "beam-size repetition-penalty no-repeat-ngram-size batch-tokens "
                             "max-length compute-type threads convert-to device",
}
"""Options of engines in the groups of a command's help, beside those of settings."""


def takes_engine(required: bool = True) -> Decorator:
    """Add the options of engines; the function gets the values of `EngineConfig`, but languages.

    Args:
        required: whether the command needs an engine.
    """
    return partial(add_options, [
        click.option("--engine", required=required, type=Choice(get_args(Engine)),
                     help="Engine that translates."),
        click.option("--memory", type=InputFile(Path, allow_dash=False),
                     help="Translation memory, asked before the engine: a TMX file, or a TSV with "
                          "a column for each language."),
        click.option("--memory-threshold", type=click.FloatRange(0.5, 1),
                     show_default="equal sentences",
                     help="Least similarity of a sentence in the memory, from its words; what "
                          "differs in numbers alone has 1."),
        click.option("--via", metavar="LANG",
                     help="Language in between, such as ca, for engine apertium."),
        click.option("--model", type=existing_directory, metavar="DIR",
                     help="Model, for engines ctranslate2 and transformers, as published or "
                          "converted."),
        click.option("--tokenizer", type=existing_directory, metavar="DIR",
                     help="Tokenizer of the model, where its directory has none."),
        click.option("--model-licence", metavar="TEXT", show_default="of the model card",
                     help="Licence of the engine's model or of the memory, for the records' "
                          "licence."),
        takes_settings(ModelConfig, "generation", without=("model", "tokenizer")),
        takes_settings(ProgramConfig, "program"),
        takes_settings(ServerConfig, "server")], _name_model)


def _name_model(_step: CommandStep, values: Values) -> None:
    """Put the model and its tokenizer into the settings of generation."""
    values["model"] = replace(values.pop("generation"), model=values["model"],
                              tokenizer=values.pop("tokenizer"))
