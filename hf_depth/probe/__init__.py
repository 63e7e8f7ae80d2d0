"""What a model does, seen from outside: here, how far a student's sentence embeddings agree with its teacher's."""

from hf_depth.probe.agreement import Agreement, measure_agreement
from hf_depth.probe.embeddings import embed_texts, sentence_embeddings
from hf_depth.probe.measure import Row, StudentMeasure

__all__ = ["Agreement", "Row", "StudentMeasure", "embed_texts", "measure_agreement", "sentence_embeddings"]
