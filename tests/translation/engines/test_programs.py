"""Programs that translate line by line, and those that do it badly."""

from __future__ import annotations

import pytest

from bmtools.errors import BmtoolsError
from bmtools.translation.engines.programs import CommandTranslator
from bmtools.translation.settings import EngineConfig

SENTENCES = [f"Sentence {number}." for number in range(9)]
SENTENCES[5] = "BAD."
# Reads a line and answers it at once, but for one.
READS = "sh -c 'while read -r line; do case $line in BAD*) {};; *) echo \"$line\";; esac; done'"


def _translate(command: str, sentences: list[str] = SENTENCES,
               **settings: object) -> tuple[list[str], list[str], int]:
    """Return texts, faults and how often the program was started again."""
    translator = CommandTranslator(EngineConfig(
        "command", "en", "it", command=command,
        **{"timeout_seconds": 0.3, **settings}))  # type: ignore[arg-type]
    found = translator.translate(sentences)
    return ([one.text for one in found], [one.fault for one in found],
            translator.counts["restarts"])


@pytest.mark.parametrize("settings", [{}, {"workers": 3}])
def test_lines_come_back_in_order(settings: dict[str, object]) -> None:
    sentences = [f"Sentence {number} è." for number in range(100)]
    texts, faults, restarts = _translate(
        "sed -u 's/Sentence/Frase {source}  {target}/'", sentences, **settings)
    assert texts == [one.replace("Sentence", "Frase en it") for one in sentences]
    assert (set(faults), restarts) == ({""}, 0)


@pytest.mark.parametrize("command", [
    "grep -v BAD", "sed 's/BAD/x\\n&/'", "awk '/BAD/ {exit 3} {print}'", "sed 's/BAD.*//'",
    r"sed 's/BAD/\xff/'", READS.format("sleep 100")],
    ids=["too few", "too many", "death", "empty", "garbage", "silence"])
def test_the_sentence_that_upsets_a_program_is_found(command: str) -> None:
    texts, faults, _ = _translate(command)
    assert texts == [*SENTENCES[:5], "", *SENTENCES[6:]]
    assert [bool(fault) for fault in faults] == [one == "BAD." for one in SENTENCES]
    assert faults[5].endswith("gives no text back; change the sentence")


@pytest.mark.parametrize(("command", "message"), [
    ("sh -c 'echo broken >&2; exit 2'", r"^sh ended with code 2: broken; try: echo test \| sh"),
    ("sh -c 'sleep 100'", r"^sh stood still for 0.3 seconds"),
    ("no-such-program -x", r"command 'no-such-program -x': found no program"),
    ("sed 's/a/b/", r"command .*No closing quotation; expected a program"),
    (" ", "found no program ''")])
def test_a_program_that_never_works_is_named(command: str, message: str) -> None:
    with pytest.raises(BmtoolsError, match=message):
        _translate(command)


def test_no_shell_reads_the_command(tmp_path: object) -> None:
    assert _translate("sed 's/BAD/$HOME;`ls`/'", ["BAD"])[0] == ["$HOME;`ls`"]


def test_a_sentence_of_a_megabyte_passes_through_a_pipe_that_is_full() -> None:
    long = "word " * 200_000 + "end"
    assert _translate("cat", [long, "short"], timeout_seconds=10)[0] == [long, "short"]
