"""Charts of embedding spaces: words as dots in a plane, coloured by frequency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bmtools.scoring.space_metrics import principal_components
from bmtools.study.reports.charts import Cell, Chart, Table
from bmtools.study.reports.drawing import RAMP
from bmtools.study.reports.labels import short_names

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from bmtools.scoring.embedding_space import EmbeddingSpace
    from bmtools.scoring.settings import EmbeddingSpaceConfig, Projection

_HEIGHT = 330
_PERPLEXITY = 30.0


def project(vectors: np.ndarray, projection: Projection, seed: int) -> np.ndarray:
    """Project vectors onto a plane. The result is deterministic.

    Args:
        vectors: (words, width).
        projection: pca, or tsne (van der Maaten and Hinton 2008) with cosine distance, initialized
            by PCA. Pavlova and Makhlouf 2023 (BIOptimus) do not describe the method of figure 5.
        seed: seed of t-SNE.

    Returns:
        points, (words, 2).
    """
    if projection == "pca":
        return principal_components(vectors, 2)
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    # Several threads would add numbers in a different order in each run.
    with threadpool_limits(1):
        points: np.ndarray = TSNE(
            perplexity=min(_PERPLEXITY, (len(vectors) - 1) / 3), metric="cosine", init="pca",
            random_state=seed).fit_transform(vectors)
    return points


def space_charts(models: Sequence[str], spaces: Sequence[EmbeddingSpace],
                 config: EmbeddingSpaceConfig) -> Iterator[Chart]:
    """Yield a chart of the words of each model (BIOptimus, figure 5)."""
    for name, space in zip(short_names(models), spaces, strict=True):
        yield word_chart(name, project(space.word_means(), config.projection, config.seed),
                          space.sample.counts, space.sample.bands)


def word_chart(name: str, points: np.ndarray, counts: np.ndarray, bands: np.ndarray) -> Chart:
    """Draw the words of a model, at points (words, 2); bands are numbered from 0.

    The dots of a band are one path of strokes without length, which needs few bytes.
    """
    title = f"Words of {name} by frequency"
    rows: list[list[Cell]] = [
        [str(band + 1), int(own.min()), int(own.max()), len(own)] for band in np.unique(bands)
        for own in (counts[bands == band],)]

    def draw(axes: Axes) -> dict[str, Artist]:
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.patches import Patch, PathPatch
        from matplotlib.path import Path as Outline

        shades = LinearSegmentedColormap.from_list("bands", RAMP)(
            np.linspace(1, 0, int(bands.max()) + 1)) if len(rows) > len(RAMP) else \
            [RAMP[round(shade)] for shade in np.linspace(len(RAMP) - 1, 0, int(bands.max()) + 1)]
        for band, colour in enumerate(shades):
            dots = np.repeat(points[bands == band], 2, axis=0)
            axes.add_patch(PathPatch(
                Outline(dots, [Outline.MOVETO, Outline.LINETO] * (len(dots) // 2)), fill=False,
                edgecolor=colour, linewidth=3, capstyle="round", alpha=0.8))
        axes.autoscale_view()
        axes.set(xticks=[], yticks=[])
        return {f"{least:,} to {most:,} times": Patch(color=shades[int(str(band)) - 1])
                for band, least, most, _ in rows}

    return Chart(Table(title, ["band", "least times", "most times", "words"], rows),
                 f"{title}, in a plane: {len(points):,} words in {len(rows)} bands.", _HEIGHT, draw)
