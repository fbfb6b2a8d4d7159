"""`bmtools import nli`."""

from bmtools.commands.import_.importing import Reader, imports, source_format


@source_format("JSON Lines of sentence1, sentence2 and gold_label", "", "nli.jsonl -o train.jsonl",
               "nli.jsonl --source MedNLI")
@imports
def command() -> Reader:
    """MedNLI and other sets of SNLI's form, one record for every pair of sentences."""
    from bmtools.corpus.formats.sets.nli import nli_records

    return nli_records
