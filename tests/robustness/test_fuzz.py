"""Damaged input of every reader is read, or rejected with a one-line message that names it.

`make fuzz FUZZ=10000` tries that number of inputs. It keeps inputs that fail, with the message, in
out/fuzz. Without a number it tries a few inputs for each reader.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from robustness.fuzz_pool import READ, REFUSED, Input, Result, clear, fuzz, run
from robustness.fuzz_readers import READERS, make_kit

INPUTS = int(os.environ.get("BMTOOLS_FUZZ", "120"))
SEED = int(os.environ.get("BMTOOLS_FUZZ_SEED", "0"))
CHOSEN = os.environ.get("BMTOOLS_FUZZ_READERS", "")
KEPT = Path("out/fuzz")
SECONDS = 60


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Path, tiny_checkpoint: Path,
        make_tagger: Callable[[Path], Path]) -> Path:
    folder = tmp_path_factory.mktemp("kit")

    def call(*arguments: object) -> None:
        code, _, err = run(" ".join(map(str, arguments)))
        assert code == 0, err

    make_kit(folder, call, tokenizer=tiny_tokenizer, model=tiny_checkpoint,
             tagger=make_tagger(tiny_checkpoint))
    return folder


def inputs() -> Iterator[Input]:
    chosen = [number for number, reader in enumerate(READERS) if CHOSEN in reader.name]
    share = INPUTS / sum(READERS[number].weight for number in chosen)
    for reader in chosen:
        for number in range(max(1, round(share * READERS[reader].weight))):
            yield Input(reader, SEED * 1_000_000 + number)


def test_readers_accept_undamaged_files(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kit)
    for reader in READERS:
        code, _, err = run(reader.command)
        assert code == 0, (reader.name, err)
        clear()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_damaged_files_are_read_or_rejected_in_one_line(kit: Path) -> None:
    tried = sorted(inputs(), key=lambda one: one.number)  # round by round, for all readers
    processes = max(1, len(os.sched_getaffinity(0)) // int(
        os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    results = list(fuzz(kit, tried, processes, SECONDS))
    failed = [result for result in results if result.verdict not in (READ, REFUSED)]
    if "BMTOOLS_FUZZ" in os.environ:
        keep(failed, kit)
    assert not failed, "\n".join(f"{READERS[one.input.reader].name} {one.input.number}: "
                                 f"{one.verdict} {one.said}" for one in failed[:20])
    assert len(results) == len(tried)


def keep(failed: list[Result], kit: Path) -> None:
    """Write the damaged files that failed, with their messages."""
    for result in failed:
        reader = READERS[result.input.reader]
        folder = KEPT / f"{result.input.reader:02}-{result.input.number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / Path(reader.file).name).write_bytes(
            result.input.damaged((kit / reader.file).read_bytes()))
        (folder / "said.txt").write_text(f"{reader.command}\n{result.verdict}\n{result.said}\n")


def test_damage_changes_files(kit: Path) -> None:
    whole = (kit / "in.jsonl").read_bytes()
    damaged = [Input(6, number).damaged(whole) for number in range(40)]
    assert len({*damaged, whole}) > 30
    assert damaged == [Input(6, number).damaged(whole) for number in range(40)]
