"""Scatter plots of embedding spaces: words in a plane, coloured by frequency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bmtools.reports.drawing import RAMP, figure_file
from bmtools.reports.labels import short_names
from bmtools.scoring.space_metrics import principal_components

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure

    from bmtools.scoring.embedding_space import EmbeddingSpace
    from bmtools.scoring.settings import EmbeddingSpaceConfig, Projection
    from bmtools.scoring.space_sample import SampledWords

_COLUMNS = 3
_PANEL_INCHES = 3.6
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


def make_panels(lines: Sequence[Mapping[str, Any]], spaces: Sequence[EmbeddingSpace],
                config: EmbeddingSpaceConfig) -> list[Panel]:
    """Project each model's words, and put its main scores into the title."""
    return [(f"{name}\naverage cosine {line['average_cosine']:.2f}, own band "
             f"{line['own_band_neighbours']:.2f} (chance {line['chance_neighbours']:.2f})",
             project(space.word_means(), config.projection, config.seed))
            for name, line, space in zip(short_names([line["model"] for line in lines]), lines,
                                         spaces, strict=True)]


def plot_spaces(panels: Sequence[Panel], sample: SampledWords, path: Path) -> None:
    """Draw a panel for each model, words coloured from High to Low frequency; needs no display.

    Source: Pavlova and Makhlouf 2023 (BIOptimus), figure 5.

    Args:
        panels: one for each model.
        sample: the words, in the order of points.
        path: file to write, in the format of its suffix.
    """
    columns = min(len(panels), _COLUMNS)
    rows = -(-len(panels) // columns)
    with figure_file(path, _PANEL_INCHES * columns + 1.2, (_PANEL_INCHES + 0.4) * rows) as figure:
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for one, (title, points) in zip(axes, panels, strict=False):
            drawn = _scatter(one, title, points, sample.bands)
        for empty in axes[len(panels):]:
            empty.set_axis_off()
        _add_colour_bar(figure, drawn, sample)


def _scatter(axes: Axes, title: str, points: np.ndarray, bands: np.ndarray) -> PathCollection:
    """Draw points in random order, so that no band covers the others."""
    from matplotlib.colors import LinearSegmentedColormap, ListedColormap

    last = int(bands.max())
    shades = np.linspace(0, 1, last + 1)
    colours = LinearSegmentedColormap.from_list("bands", RAMP)(shades) if last >= len(RAMP) \
        else [RAMP[round(shade * (len(RAMP) - 1))] for shade in shades]
    order = np.random.default_rng(0).permutation(len(bands))
    axes.set_title(title, fontsize="small")
    axes.set_xticks([])
    axes.set_yticks([])
    x, y = points[order].T
    return axes.scatter(x, y, c=last - bands[order], s=9, linewidths=0, alpha=0.8,
                        cmap=ListedColormap(colours), vmin=-0.5, vmax=last + 0.5)


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
