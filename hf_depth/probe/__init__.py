"""What a model's layers do, seen from outside: here, how far a student's sentence embeddings agree with a teacher's."""

from hf_depth.probe.agreement import Agreement, measure_agreement
from hf_depth.probe.embeddings import embed_texts, sentence_embeddings

__all__ = ["Agreement", "embed_texts", "measure_agreement", "sentence_embeddings"]
