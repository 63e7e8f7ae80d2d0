"""Distances between a student's and a teacher's outputs, as sums over items, to be divided by whoever counts them.

Shapes: N items, V classes, D width, B batch, H heads, T queries, S keys. Everything is computed in float32.
"""

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def soft_target_sum(student: Tensor, teacher: Tensor, temperature: float, chunk_size: int | None = None) -> Tensor:
    """Sum over items of `T^2 KL(teacher || student)` of tempered logits (Hinton et al. 2015, section 2).

    Args:
        student: logits `[N, V]`.
        teacher: logits `[N, V]`; `-inf` says that a class is out of the question.
        temperature: `T`.
        chunk_size: items at once, recomputed in the backward pass, so that no second `[N, V]` is kept; `None`: all.
    """
    if chunk_size is None:
        return _soft_target_sum(student, teacher, temperature)
    chunks = zip(student.split(chunk_size), teacher.split(chunk_size), strict=True)
    sums = [checkpoint(_soft_target_sum, *chunk, temperature, use_reentrant=False) for chunk in chunks]
    return torch.stack(sums).sum() if sums else student.sum() * 0


def _soft_target_sum(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    targets = F.log_softmax(teacher.float() / temperature, dim=-1)
    return kl_sum(targets, F.log_softmax(student.float() / temperature, dim=-1)) * temperature**2


def kl_sum(teacher: Tensor, student: Tensor) -> Tensor:
    """Sum of `p (log p - log q)` over log-probabilities; where `p` is 0 the term is 0, where it is NaN it is NaN."""
    probabilities = teacher.exp()
    return torch.where(probabilities == 0, 0.0, probabilities * (teacher - student)).sum()


def squared_error_sum(student: Tensor, teacher: Tensor) -> Tensor:
    """Sum over items of the mean over the width of the squared difference, `[N, D]` each."""
    return (student.float() - teacher.float()).square().mean(-1).sum()


def attention_sum(student: Tensor, teacher: Tensor, kept: Tensor) -> Tensor:
    """Sum over queries of the mean over heads of `KL(teacher || student)` (Sun et al. 2020, MobileBERT, section 3.4).

    Args:
        student: attention probabilities `[B, H, T, S]`.
        teacher: attention probabilities `[B, H, T, S]`.
        kept: `[B, T]`, which tokens are real; queries that are not are left out.
    """
    smallest = torch.finfo(torch.float32).tiny
    teacher_rows, student_rows = (
        weights.float().transpose(1, 2)[kept].clamp(min=smallest).log() for weights in (teacher, student)
    )
    return kl_sum(teacher_rows, student_rows) / teacher.shape[1]


def cosine_distance_sum(student: Tensor, teacher: Tensor) -> Tensor:
    """Sum over items of `1 - cos`, `[N, D]` each."""
    return (1 - F.cosine_similarity(student.float(), teacher.float(), dim=-1)).sum()
