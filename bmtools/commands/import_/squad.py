"""`bmtools import squad`."""

from bmtools.commands.import_.importing import Reader, imports, source_format


@source_format("JSON of SQuAD's form", "", "squad.json -o train.jsonl", "squad.json --lang en")
@imports
def command() -> Reader:
    """SQuAD of both versions, and BioASQ in its form, one record for every question.

    An answer that is not at its offset moves to its nearest occurrence; one that the text does not
    contain is counted, and collected under --rejects. answers is empty where there is none.
    """
    from bmtools.corpus.formats.sets.squad import squad_records

    return squad_records
