"""`bmtools score-space`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bmtools.cli.options import (
    Command,
    existing_directory,
    reads_records,
    writes_records,
)
from bmtools.cli.progress import tracked
from bmtools.cli.settings import takes_settings
from bmtools.errors import Reject
from bmtools.io.atomic import new_file
from bmtools.io.jsonl import RecordReader, encode_line, open_output
from bmtools.scoring.space_settings import EmbeddingSpaceConfig, StateReadingConfig
from bmtools.vocab.plot import FORMATS, require_matplotlib

if TYPE_CHECKING:
    from bmtools.scoring.embedding_space import Space

Told = Sequence[tuple[dict[str, Any], "Space"]]


@click.command("score-space", cls=Command)
@reads_records
@click.option("--model", "models", type=existing_directory, multiple=True, required=True,
              metavar="CKPT", help="Checkpoint to look at; repeat it, changes are told from the "
                                   "first one.")
@takes_settings(EmbeddingSpaceConfig, "settings")
@takes_settings(StateReadingConfig, "passes")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Draw the words of each model to this .png, .svg or .pdf.")
@click.option("--vectors", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write the words' mean vectors to this .npz.")
@writes_records
def command(records: RecordReader, reject: Reject, models: tuple[Path, ...],
            settings: EmbeddingSpaceConfig, passes: StateReadingConfig, plot: Path | None,
            vectors: Path | None, output: str) -> None:
    """Score how checkpoints spread words in space, and whether rare ones lie apart.

    Words are runs of letters whatever their case; as many are drawn from each band of frequency,
    and the same places of each are read by all models. Prints a JSON line per checkpoint:

    \b
    average_cosine       between places of different words: 0 isotropic, 1 all alike
    partition_isotropy   1 isotropic, 0 not at all
    top_components       share of variance in the first 1, 3 and 10 components
    self_similarity      mean cosine between places of one word; adjusted: less
                         average_cosine
    own_band_neighbours  share of nearest words of a word's own band, beside
                         chance_neighbours
    silhouette           of bands, -1 to 1; extremes: of the first and last alone
    frequency_correlation  of log frequency with the first component and with
                         length, by ranks

    with 95 % intervals over words, the change from the first checkpoint, the same by band, and a
    signature.
    """
    _check_names(plot, vectors)
    if plot is not None:
        _require_plotting(settings.projection)
    from bmtools.scoring.embedding_space import compare_spaces
    from bmtools.scoring.space_sample import sample_contexts
    from bmtools.scoring.space_vectors import are_whole, load_reader

    readers = [load_reader(model, settings.layers, passes) for model in models]
    choose = partial(are_whole, readers=readers) if settings.whole else None
    words, contexts = sample_contexts(tracked(records, "reading"), settings, choose)
    told = []
    with open_output(output) as stream:
        for line, space in tracked(compare_spaces(readers, words, contexts, settings), "scoring",
                                   len(readers)):
            stream.write(encode_line(line))
            stream.flush()
            told.append((line, space))
    if plot is not None:
        _draw(told, settings, plot)
    if vectors is not None:
        _save_vectors(told, vectors)


def _check_names(plot: Path | None, vectors: Path | None) -> None:
    if plot is not None and plot.suffix.lower() not in FORMATS:
        raise click.UsageError(f"--plot: found {plot}, expected a name in {', '.join(FORMATS)}")
    if vectors is not None and vectors.suffix != ".npz":
        raise click.UsageError(f"--vectors: found {vectors}, expected a name in .npz")


def _require_plotting(projection: str) -> None:
    require_matplotlib()
    if projection == "tsne":
        from bmtools.scoring.space_plot import require_tsne

        require_tsne()


def _draw(told: Told, settings: EmbeddingSpaceConfig, path: Path) -> None:
    from bmtools.scoring.space_plot import Panel, draw_spaces, project, shorten_names

    names = shorten_names([line["model"] for line, _ in told])
    panels = [Panel(f"{name}\naverage cosine {line['average_cosine']:.2f}, own band "
                    f"{line['own_band_neighbours']:.2f} (chance {line['chance_neighbours']:.2f})",
                    project(space.by_word(), settings.projection, settings.seed))
              for name, (line, space) in zip(names, told, strict=True)]
    draw_spaces(panels, told[0][1].sample, path)


def _save_vectors(told: Told, path: Path) -> None:
    """Write words, counts, bands from 1 on, and a matrix for each model, vectors_1 and so on."""
    import numpy as np

    sample = told[0][1].sample
    columns = {"models": np.array([line["model"] for line, _ in told]),
               "words": np.array(sample.words), "counts": sample.counts, "bands": sample.bands + 1}
    with new_file(path) as stream:
        np.savez(stream, allow_pickle=False, **columns, **{
            f"vectors_{number}": space.by_word().astype(np.float32)
            for number, (_, space) in enumerate(told, 1)})
