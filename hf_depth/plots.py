"""Pictures of results."""

from collections.abc import Mapping, Sequence
from pathlib import Path


def plot_healing(history: Sequence[Mapping[str, float]], path: Path) -> None:
    """The healing curve as a PNG: agreement with the teacher by training step.

    Args:
        history: rows with `step` and any of `cosine` and `spearman`; step 0 is the cut model.
        path: the file to write.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for name, label in (("cosine", "mean cosine"), ("spearman", "Spearman of pair similarities")):
        points = [(row["step"], row[name]) for row in history if name in row]
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", label=label)
    axes.set_xlabel("training step (0: cut, not healed)")
    axes.set_ylabel("agreement with the teacher, held-out text")
    axes.set_ylim(top=1.0)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=150)
