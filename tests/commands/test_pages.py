"""The pages in docs/: their command lines and Python code run, at toy size."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands.test_examples import files  # noqa: F401
from document_blocks import DOCUMENTS, ROOT, Block, blocks

PAGES = [path for path in DOCUMENTS
         if path.name in ("tutorial.md", "scoring.md", "vocabularies.md", "formats.md")
         or path.parent.name in ("how-to", "explanations")]
# Replacements that shorten long runs.
SMALLER = ((r"--steps [\d_]+", "--steps 2"), (r"--epochs [\d.]+", "--epochs 1"),
           (r"--seeds \d+", "--seeds 1"), (r"--batch-size \d+", "--batch-size 2"),
           (r"--recipe biolm-base ", "--recipe biolm-base --architecture roberta-base "),
           (r"--architecture (bert|roberta)[\w.-]+", r"--architecture \1-1x64"),
           (r"--architecture megatron-bert-345m", "--architecture bert-1x64"),
           (r"(--phases \S+)", r"\1 --steps 2 --batch-size 2 --max-length 32"),
           (r"(--recipe \S+)",
            r"\1 --steps 2 --batch-size 2 --max-length 32 --precision no"))


def toy(code: str) -> str:
    """Return shell code with smaller sizes."""
    for pattern, replacement in SMALLER:
        code = re.sub(pattern, replacement, code)
    return code


@pytest.fixture
def sandbox(files: Path, tmp_path: Path) -> Path:  # noqa: F811
    """Make a directory with the repository's examples and the files that pages name."""
    shutil.copytree(ROOT / "examples/quickstart", tmp_path / "examples/quickstart",
                    ignore=shutil.ignore_patterns("out"))
    for file in files.iterdir():
        (tmp_path / file.name).symlink_to(file.resolve())
    return tmp_path


def script(page: list[Block]) -> str:
    """Return a shell script with the blocks of a page that can run here.

    Files that a page creates do not exist before, unless the page has named them earlier.
    """
    code = "\n".join(block.code for block in page)
    made = {found[1] for found in re.finditer(r"(?:-o|>|--ladder) ([a-z][\w.-]*)", code, re.I)
            if not re.search(rf"\b{re.escape(found[1])}\b", code[:found.start()])}
    lines = [f"rm -f {' '.join(sorted(made))}", "set -euo pipefail",
             """trap 'echo "in: $BASH_COMMAND" >&2' ERR"""]
    for number, block in enumerate(block for block in page if not block.needs):
        lines += [toy(block.code)] if block.language == "sh" else [
            f"cat > {number}.py <<'PYTHON'\n{block.code}PYTHON", f"python {number}.py"]
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=[path.stem for path in PAGES])
def test_pages_run_as_written(sandbox: Path, warm_bmtools: Path, page: Path) -> None:
    path = os.pathsep.join([str(warm_bmtools), str(Path(sys.executable).parent),
                            os.environ["PATH"]])
    done = subprocess.run(["bash", "-c", script(blocks(page, "sh", "bash", "python"))],
                          cwd=sandbox, capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1",
                               "BMTOOLS_BUILD_VOCAB_ALLOW_FEWER": "1"})
    assert done.returncode == 0, done.stderr
