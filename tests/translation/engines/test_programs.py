"""Working and failing programs that translate line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmtools.errors import BmtoolsError
from bmtools.translation.engines.programs import CommandTranslator
from bmtools.translation.settings import EngineConfig

SENTENCES = [f"Sentence {number}." for number in range(9)]
SENTENCES[5] = "BAD."
# Reads lines and answers each immediately, except for one.
READS = "sh -c 'while read -r line; do case $line in BAD*) {};; *) echo \"$line\";; esac; done'"


def _translate(command: str, sentences: list[str] = SENTENCES,
               **settings: object) -> tuple[list[str], list[str], int]:
    """Return texts, faults and the number of restarts."""
    translator = CommandTranslator(EngineConfig(
        "command", "en", "it", command=command,
        **{"timeout_seconds": 0.3, **settings}))  # type: ignore[arg-type]
    found = translator.translate(sentences)
    return ([one.text for one in found], [one.fault for one in found],
            translator.counts["restarts"])


@pytest.mark.parametrize("settings", [{}, {"workers": 3}])
def test_answers_keep_the_order(settings: dict[str, object]) -> None:
    sentences = [f"Sentence {number} è." for number in range(100)]
    texts, faults, restarts = _translate(
        "sed -u 's/Sentence/Frase {source}  {target}/'", sentences, **settings)
    assert texts == [one.replace("Sentence", "Frase en it") for one in sentences]
    assert (set(faults), restarts) == ({""}, 0)


@pytest.mark.parametrize("command", [
    "grep -v BAD", "sed 's/BAD/x\\n&/'", "awk '/BAD/ {exit 3} {print}'", "sed 's/BAD.*//'",
    r"sed 's/BAD/\xff/'", READS.format("sleep 100")],
    ids=["too few", "too many", "death", "empty", "garbage", "silence"])
def test_sentence_that_breaks_a_program_is_found(command: str) -> None:
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
def test_program_that_never_works_is_reported(command: str, message: str) -> None:
    with pytest.raises(BmtoolsError, match=message):
        _translate(command)


def test_batch_size_that_works_is_kept() -> None:
    at_its_end = "awk '{line[NR] = $0} END {system(\"sleep \" 0.15 * NR); for (i = 1; i <= NR; i++)"
    at_its_end += " print line[i]}'"
    translator = CommandTranslator(EngineConfig(
        "command", "en", "it", command=at_its_end, timeout_seconds=0.5))
    for _ in range(3):
        assert [one.text for one in translator.translate(SENTENCES[:8])] == SENTENCES[:8]
    assert translator.counts["restarts"] == 2  # eight sentences, then four
    assert _translate(at_its_end, timeout_seconds=0.5, batch_sentences=2)[::2] == (SENTENCES, 0)


def test_unanswered_sentence_does_not_reduce_the_batch_size() -> None:
    translator = CommandTranslator(EngineConfig(
        "command", "en", "it", command=READS.format("sleep 100"), timeout_seconds=0.3))
    translator.translate(SENTENCES)
    assert translator.programs[0].most_sentences >= len(SENTENCES)


def test_fingerprint_includes_the_files_of_the_command(tmp_path: Path) -> None:
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


def test_command_is_run_without_a_shell(tmp_path: object) -> None:
    assert _translate("sed 's/BAD/$HOME;`ls`/'", ["BAD"])[0] == ["$HOME;`ls`"]


def test_long_sentence_does_not_block_the_pipe() -> None:
    long = "word " * 200_000 + "end"
    assert _translate("cat", [long, "short"], timeout_seconds=10)[0] == [long, "short"]
