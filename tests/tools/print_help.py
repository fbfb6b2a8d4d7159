"""Print the complete help of every command and subcommand of bmtools, in one process."""

from __future__ import annotations

import sys
from pathlib import Path

from click.testing import CliRunner

from bmtools.cli.main import bmtools

sys.path.insert(0, str(Path(__file__).parents[1]))
from every_command import every_command


def main() -> None:
    """Print `--help`, and `--help-all` of commands that have it."""
    runner = CliRunner()
    for words, _, _ in every_command():
        for option in ("--help", "--help-all"):
            outcome = runner.invoke(bmtools, [*words, option], prog_name="bmtools")
            if outcome.exit_code == 0:
                print(f"== {' '.join(words)} {option}\n{outcome.output}")
            elif option == "--help":
                raise SystemExit(f"{' '.join(words)} {option}: {outcome.output}")


if __name__ == "__main__":
    main()
