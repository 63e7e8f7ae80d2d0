"""Parameters and latency at BERT base widths by depth: the table in the README.

    python tests/benchmarks/depth_table.py

Latency is the forward pass at batch 8 x 128 against the 12-layer model, the models taking turns in one process.
"""

import torch

from hf_depth import DepthEncoderConfig, DepthEncoderModel
from hf_depth.cost import count_parameters, latency_ratios

DEPTHS = (1, 2, 4, 6, 12, 24)


def main() -> None:
    """Print the table."""
    models = {
        depth: DepthEncoderModel(DepthEncoderConfig(position="learned", num_hidden_layers=depth)).eval()
        for depth in DEPTHS
    }
    ids = torch.randint(1000, 30000, (8, 128))
    runs = {str(depth): (lambda model=model: model(ids)) for depth, model in models.items()}
    ratios = latency_ratios(runs, reference="12", repeats=10, warmup=2)
    print("| layers | parameters | latency / 12 layers |\n|---:|---:|---:|")
    for depth, model in models.items():
        print(f"| {depth} | {count_parameters(model) / 1e6:.1f} M | {ratios[str(depth)]:.2f} |")


if __name__ == "__main__":
    main()
