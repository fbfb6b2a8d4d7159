"""Words of a space as points in a plane, coloured by how frequent they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from bmtools.errors import BmtoolsError
from bmtools.io.atomic import new_file
from bmtools.scoring.space_metrics import principal_components
from bmtools.scoring.space_sample import SampledWords

_DATES: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
_COLUMNS = 3
_PANEL_INCHES = 3.6
_PERPLEXITY = 30.0
_LIGHTEST = 0.88  # of the colours; lighter ones are lost on white


@dataclass(frozen=True)
class Panel:
    """One model's words in the plane.

    Args:
        title: above it.
        points: (words, 2).
    """

    title: str
    points: np.ndarray


def require_tsne() -> None:
    """Say what is missing before any work is done.

    Raises:
        BmtoolsError: scikit-learn is not installed.
    """
    try:
        import_module("sklearn.manifold")
    except ImportError as error:
        raise BmtoolsError(f"--projection tsne: {error}; pip install scikit-learn, or take "
                           "--projection pca") from error


def project(vectors: np.ndarray, projection: str, seed: int) -> np.ndarray:
    """Project vectors, (words, width), on a plane, (words, 2); the same each time.

    Args:
        vectors: one for each word.
        projection: pca, by singular values of centred vectors; or tsne (van der Maaten and Hinton
            2008), by cosine distance and from the PCA on. Pavlova and Makhlouf 2023 (BIOptimus),
            figure 5, do not tell theirs.
        seed: of t-SNE.
    """
    if projection == "pca":
        return principal_components(vectors, 2)
    # More threads would add in another order each time.
    with import_module("threadpoolctl").threadpool_limits(1):
        found: np.ndarray = import_module("sklearn.manifold").TSNE(
            perplexity=min(_PERPLEXITY, (len(vectors) - 1) / 3), metric="cosine", init="pca",
            random_state=seed).fit_transform(vectors)
    return found


def draw_spaces(panels: Sequence[Panel], sample: SampledWords, path: Path) -> None:
    """Draw a panel for each model, words coloured from High to Low frequency; needs no display.

    The same points give the same bytes.

    Source: Pavlova and Makhlouf 2023 (BIOptimus), figure 5.

    Args:
        panels: one for each model.
        sample: the words, in the order of points.
        path: file to write, in the format that its ending names.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(len(panels), _COLUMNS)
    rows = -(-len(panels) // columns)
    # Names are text, not formulas.
    with rc_context({"text.parse_math": False, "svg.hashsalt": "bmtools"}), \
            new_file(path) as stream:
        figure = Figure(figsize=(_PANEL_INCHES * columns + 1.2, (_PANEL_INCHES + 0.4) * rows),
                        layout="constrained")
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for one, panel in zip(axes, panels, strict=False):
            shown = _scatter(one, panel, sample.bands)
        for empty in axes[len(panels):]:
            empty.set_axis_off()
        _add_colour_bar(figure, shown, sample)
        suffix = path.suffix.lower()
        figure.savefig(stream, format=suffix[1:], dpi=150, metadata=_DATES.get(suffix, {}))


def _scatter(axes: Any, panel: Panel, bands: np.ndarray) -> Any:
    """Draw points in an order drawn at random, so that no band covers the others."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    last = int(bands.max())
    colours = colormaps["plasma"](np.linspace(0, _LIGHTEST, last + 1))
    order = np.random.default_rng(0).permutation(len(bands))
    axes.set_title(panel.title, fontsize="small")
    axes.set_xticks([])
    axes.set_yticks([])
    return axes.scatter(*panel.points[order].T, c=last - bands[order], s=9, linewidths=0,
                        alpha=0.8, cmap=ListedColormap(colours), vmin=-0.5, vmax=last + 0.5)


def _add_colour_bar(figure: Any, shown: Any, sample: SampledWords) -> None:
    """Say what colours mean: the most frequent words at the top, with the counts of each band."""
    last = int(sample.bands.max())
    bar = figure.colorbar(shown, ax=figure.axes, ticks=range(last + 1), shrink=0.7, aspect=30)
    bar.solids.set_alpha(1)
    labels = []
    for band in range(last, -1, -1):
        counts = sample.counts[sample.bands == band]
        labels.append(f"{counts.min():,}\u2013{counts.max():,}" if len(counts) else "")
    bar.ax.set_yticklabels(labels, fontsize="x-small")
    bar.ax.set_title("High", fontsize="small")
    bar.ax.set_xlabel("Low", fontsize="small")
    bar.set_label("times in the text", fontsize="small")


def shorten_names(names: Sequence[str]) -> list[str]:
    """Leave as many last parts of paths as tell them apart."""
    parts = [PurePath(name).parts or (name,) for name in names]
    for number in range(1, max(map(len, parts)) + 1):
        tails = [str(PurePath(*part[-number:])) for part in parts]
        if len(set(tails)) == len(set(names)):
            return tails
    return list(names)
