"""What travels with the weights imports nothing of ours but its neighbours."""

import ast
import sys
from pathlib import Path

import pytest

import hf_depth.modeling

FILES = sorted(path for path in Path(hf_depth.modeling.__file__).parent.glob("*.py") if path.name != "__init__.py")
ALLOWED = {"torch", "transformers", "huggingface_hub", *sys.stdlib_module_names}  # the hub's `strict` makes configs


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_imports_are_torch_transformers_and_siblings(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {name.name.split(".")[0] for name in node.names} <= ALLOWED
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert node.module.split(".")[0] in ALLOWED
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 1
            assert f"{node.module}.py" in {sibling.name for sibling in FILES}
