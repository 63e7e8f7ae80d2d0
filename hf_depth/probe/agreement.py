"""How far two sets of sentence embeddings of the same texts agree."""

from dataclasses import asdict, dataclass

import torch
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn import functional as F

from hf_depth.errors import DepthError


@dataclass(frozen=True)
class Agreement:
    """A student's embeddings against a teacher's.

    Attributes:
        cosine: mean over the texts of the cosine between the two embeddings of a text; it needs equal widths, else
            `None`.
        spearman: rank correlation between the two models' cosine similarities of all pairs of texts.
    """

    cosine: float | None
    spearman: float

    def metrics(self) -> dict[str, float]:
        """What was measured, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def measure_agreement(student: Tensor, teacher: Tensor) -> Agreement:
    """Compare embeddings `[texts, hidden]` of the same texts in the same order.

    Raises:
        DepthError: for fewer than three texts, which have no ranks to compare, or unequal numbers of them.
    """
    if len(student) != len(teacher) or len(student) < 3:
        raise DepthError(
            f"Agreement is measured on the same texts, three or more; got {len(student)} and {len(teacher)} embeddings"
        )
    student, teacher = F.normalize(student.double(), dim=-1), F.normalize(teacher.double(), dim=-1)
    rows, columns = torch.triu_indices(len(student), len(student), offset=1)
    similarities = [(side @ side.T)[rows, columns].numpy() for side in (student, teacher)]
    same_width = student.shape == teacher.shape
    return Agreement(
        cosine=(student * teacher).sum(-1).mean().item() if same_width else None,
        spearman=float(spearmanr(*similarities).statistic),
    )
