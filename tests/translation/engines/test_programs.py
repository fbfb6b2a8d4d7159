"""Programs that translate line by line, and those that do it badly."""

from __future__ import annotations

from pathlib import Path

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
    assert faults[5].endswith("returned no text; change the sentence")


@pytest.mark.parametrize(("command", "message"), [
    ("sh -c 'echo broken >&2; exit 2'", r"^sh ended with code 2: broken; try: echo test \| sh"),
    ("sh -c 'sleep 100'", r"^sh did not answer for 0.3 seconds"),
    ("no-such-program -x", r"command 'no-such-program -x': found no program"),
    ("sed 's/a/b/", r"command .*No closing quotation; expected a program"),
    (" ", "found no program ''")])
def test_a_program_that_never_works_is_named(command: str, message: str) -> None:
    with pytest.raises(BmtoolsError, match=message):
        _translate(command)


def test_a_size_that_is_answered_in_time_is_kept_for_later_batches() -> None:
    at_its_end = "awk '{line[NR] = $0} END {system(\"sleep \" 0.15 * NR); for (i = 1; i <= NR; i++)"
    at_its_end += " print line[i]}'"
    translator = CommandTranslator(EngineConfig(
        "command", "en", "it", command=at_its_end, timeout_seconds=0.5))
    for _ in range(3):
        assert [one.text for one in translator.translate(SENTENCES[:8])] == SENTENCES[:8]
    assert translator.counts["restarts"] == 2  # eight sentences, then four
    assert _translate(at_its_end, timeout_seconds=0.5, batch_sentences=2)[::2] == (SENTENCES, 0)


def test_a_sentence_that_is_never_answered_leaves_the_size_as_it_was() -> None:
    translator = CommandTranslator(EngineConfig(
        "command", "en", "it", command=READS.format("sleep 100"), timeout_seconds=0.3))
    translator.translate(SENTENCES)
    assert translator.programs[0].most_sentences >= len(SENTENCES)


def test_the_fingerprint_has_the_files_that_a_command_names(tmp_path: Path) -> None:
    script, log = tmp_path / "to.sed", tmp_path / "log"
    log.write_text("")

    def fingerprint(command: str, content: str) -> str:
        script.write_text(content)
        return CommandTranslator(EngineConfig("command", "en", "it", command=command)).fingerprint

    for command in (f"sed -f {script}", f"sed --file={script}", f"sh -c 'cat | sed -f {script}'"):
        assert fingerprint(command, "s/a/b/") == fingerprint(command, "s/a/b/")
        assert fingerprint(command, "s/a/b/") != fingerprint(command, "s/a/c/")
    written = f"sh -c 'cat 2> {log}'"
    before = fingerprint(written, "")
    log.write_text("warning")
    assert fingerprint(written, "") == before


def test_no_shell_reads_the_command(tmp_path: object) -> None:
    assert _translate("sed 's/BAD/$HOME;`ls`/'", ["BAD"])[0] == ["$HOME;`ls`"]


def test_a_sentence_of_a_megabyte_passes_through_a_pipe_that_is_full() -> None:
    long = "word " * 200_000 + "end"
    assert _translate("cat", [long, "short"], timeout_seconds=10)[0] == [long, "short"]
