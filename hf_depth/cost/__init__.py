"""What a depth costs: parameters and measured time."""

from hf_depth.cost.latency import latency_ratios
from hf_depth.cost.parameters import count_parameters

__all__ = ["count_parameters", "latency_ratios"]
