"""Scatter plots of embedding spaces: words in a plane, coloured by frequency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bmtools.errors import DataError
from bmtools.records import JsonMapping
from bmtools.scoring.space_metrics import principal_components
from bmtools.study.reports.charts import Cell, Chart, Table, page_canvas
from bmtools.study.reports.drawing import RAMP, Plot, figure_file, panels
from bmtools.study.reports.labels import model_names, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure
    from matplotlib.typing import ColorType

    from bmtools.scoring.embedding_space import EmbeddingSpace
    from bmtools.scoring.settings import EmbeddingSpaceConfig, Projection
    from bmtools.scoring.space_sample import SampledWords

_COLUMNS = 3
_PANEL_INCHES = 3.6
_PAGE_PIXELS = 330
_PERPLEXITY = 30.0


Panel = tuple[str, np.ndarray]
"""A model's title, and its words in the plane, (words, 2)."""


def project(vectors: np.ndarray, projection: Projection, seed: int) -> np.ndarray:
    """Project vectors, (words, width), onto a plane, (words, 2); deterministic.

    Args:
        vectors: one for each word.
        projection: pca, or tsne (van der Maaten and Hinton 2008) by cosine distance, initialized
            by PCA. Pavlova and Makhlouf 2023 (BIOptimus), figure 5, do not describe theirs.
        seed: of t-SNE.
    """
    if projection == "pca":
        return principal_components(vectors, 2)
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    # More threads would add in another order each time.
    with threadpool_limits(1):
        points: np.ndarray = TSNE(
            perplexity=min(_PERPLEXITY, (len(vectors) - 1) / 3), metric="cosine", init="pca",
            random_state=seed).fit_transform(vectors)
    return points


def make_panels(lines: Sequence[JsonMapping], spaces: Sequence[EmbeddingSpace],
                config: EmbeddingSpaceConfig) -> list[Panel]:
    """Project each model's words, and put its main scores into the title."""
    return [(f"{name}\naverage cosine {line['average_cosine']:.2f}, own band "
             f"{line['own_band_neighbours']:.2f} (chance {line['chance_neighbours']:.2f})",
             project(space.word_means(), config.projection, config.seed))
            for name, line, space in zip(model_names(lines), lines, spaces, strict=True)]


def plot_spaces(models: Sequence[Panel], sample: SampledWords, path: Path) -> None:
    """Draw a panel for each model, words coloured from High to Low frequency; needs no display.

    Source: Pavlova and Makhlouf 2023 (BIOptimus), figure 5.

    Args:
        models: a panel for each.
        sample: the words, in the order of points.
        path: file to write, in the format of its suffix.
    """
    columns = min(len(models), _COLUMNS)
    rows = -(-len(models) // columns)
    with figure_file(path, _PANEL_INCHES * columns + 1.2, (_PANEL_INCHES + 0.4) * rows) as figure:
        for axes, (title, points) in zip(panels(figure, len(models), columns), models, strict=True):
            drawn = _scatter(axes, title, points, sample.bands)
        _add_colour_bar(figure, drawn, sample)


def vectors_charts(path: Path) -> Iterator[Chart]:
    """Draw the words of a file of `score-space --vectors` for a page, a chart for each model.

    Raises:
        DataError: the file holds other arrays.
    """
    with np.load(path, allow_pickle=False) as arrays:
        if not {"models", "counts", "bands", "vectors_1"} <= {*arrays.files}:
            raise DataError(f"{path}: found the arrays {', '.join(arrays.files)}, expected those "
                            "of score-space --vectors")
        bands = arrays["bands"] - 1
        rows: list[list[Cell]] = [
            [str(band + 1), int(own.min()), int(own.max()), len(own)] for band in np.unique(bands)
            for own in (arrays["counts"][bands == band],)]
        for number, name in enumerate(short_names([*map(str, arrays["models"])]), 1):
            title = f"Words of {name} by frequency"
            plot = _draw_page(f"{path.stem}-{number}", title, project(
                arrays[f"vectors_{number}"].astype(np.float64), "pca", 0), bands, rows)
            yield Chart(plot, Table(title, ["band", "least times", "most times", "words"], rows))


def _draw_page(name: str, title: str, points: np.ndarray, bands: np.ndarray,
               rows: Sequence[Sequence[Cell]]) -> Plot:
    """Draw the dots of each band as one line of strokes without length, which takes few bytes."""
    from matplotlib.patches import Patch, PathPatch
    from matplotlib.path import Path as Outline

    colours = _colours(int(bands.max()) + 1)[::-1]
    with page_canvas(_PAGE_PIXELS) as canvas:
        axes = canvas.figure.add_subplot()
        for band, colour in enumerate(colours):
            dots = np.repeat(points[bands == band], 2, axis=0)
            axes.add_patch(PathPatch(
                Outline(dots, [Outline.MOVETO, Outline.LINETO] * (len(dots) // 2)), fill=False,
                edgecolor=colour, linewidth=3, capstyle="round", alpha=0.8))
        axes.autoscale_view()
        axes.set(xticks=[], yticks=[])
        canvas.figure.legend([Patch(color=colour) for colour in colours],
                             [f"{least:,} to {most:,}" for _, least, most, _ in rows],
                             title="times in the text", loc="outside lower left", ncols=3)
        return canvas.finish(name, "svg", title, f"{title}, by principal components: "
                             f"{len(points):,} words in {len(rows)} bands.")


def _colours(bands: int) -> list[ColorType]:
    """Choose a colour for each band, the most frequent first."""
    from matplotlib.colors import LinearSegmentedColormap

    shades = np.linspace(0, 1, bands)
    return [*LinearSegmentedColormap.from_list("bands", RAMP)(shades)] if bands > len(RAMP) \
        else [RAMP[round(shade * (len(RAMP) - 1))] for shade in shades]


def _scatter(axes: Axes, title: str, points: np.ndarray, bands: np.ndarray) -> PathCollection:
    """Draw points in random order, so that no band covers the others."""
    from matplotlib.colors import ListedColormap

    last = int(bands.max())
    order = np.random.default_rng(0).permutation(len(bands))
    axes.set_title(title, fontsize="small")
    axes.set(xticks=[], yticks=[])
    x, y = points[order].T
    return axes.scatter(x, y, c=last - bands[order], s=9, linewidths=0, alpha=0.8,
                        cmap=ListedColormap(_colours(last + 1)), vmin=-0.5, vmax=last + 0.5)


def _add_colour_bar(figure: Figure, points: PathCollection, sample: SampledWords) -> None:
    """Explain the colours: the most frequent words at the top, with the counts of each band."""
    last = int(sample.bands.max())
    bar = figure.colorbar(points, ax=figure.axes, ticks=range(last + 1), shrink=0.7, aspect=30)
    if bar.solids is not None:
        bar.solids.set_alpha(1)
    counts = [sample.counts[sample.bands == band] for band in range(last, -1, -1)]
    labels = [f"{own.min():,}\u2013{own.max():,}" if len(own) else "" for own in counts]
    bar.ax.set_yticklabels(labels, fontsize="x-small")
    bar.ax.set_title("High", fontsize="small")
    bar.ax.set_xlabel("Low", fontsize="small")
    bar.set_label("times in the text", fontsize="small")
