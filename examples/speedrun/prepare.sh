#!/usr/bin/env bash
# Make five corpora of all Italian text in DATA, without repeats and test sentences.
#
#   DATA=../shared/data OUT=examples/speedrun/out examples/speedrun/prepare.sh
#
# Imported text is written to $OUT/raw, one file per source. clean.py writes $OUT/text/CORPUS.jsonl
# and $OUT/text/report.jsonl. Task sets contribute only texts, without labels and answers.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
DATA=${DATA:?set it to the data folder: DATA=../shared/data examples/speedrun/prepare.sh}
OUT=${OUT:-$HERE/out}
[ -e "$OUT/text" ] && exit 0
rm -rf "$OUT/raw"
mkdir -p "$OUT/raw"
RAW=$OUT/raw

standoff() {  # SET PART...: texts of a corpus whose mentions are in another file
    local set=$1 part; shift
    for part in "$@"; do
        bmtools import standoff --lang it --duplicates drop --source "$set" \
            "$DATA/it/ner/$set/${part}_corpus.txt" \
            --annotations "$DATA/it/ner/$set/${part}_annotations.txt" -o "$RAW/$set-$part.jsonl"
    done
}

echo "== Native text: clinical cases, leaflets, treebanks" >&2
bmtools import jsonl --lang it "$DATA/it/corpus/native-clinical.jsonl" -o "$RAW/clinical.jsonl"
python "$HERE/texts.py" documents "$DATA"/it/corpus/e3c-raw-sample/*.json |
    bmtools import jsonl --lang it -o "$RAW/e3c-raw.jsonl"
for part in train test; do
    bmtools import conll --lang it "$DATA/it/ner/E3C/$part.txt" -o "$RAW/e3c-$part.jsonl"
done
bmtools import jsonl --lang it "$DATA/it/corpus/native-leaflets.jsonl.gz" -o "$RAW/leaflets.jsonl"
bmtools import text --lang it "$DATA/it/corpus/general-ud.txt" -o "$RAW/general.jsonl"

echo "== Translated text: encyclopedia, abstracts and exams of task sets" >&2
python "$HERE/texts.py" squad "$DATA/it/qa/SQuAD_it-test.json.gz" |
    bmtools import jsonl --lang it -o "$RAW/encyclopedia.jsonl"
for set in neoplasm-dev neoplasm-test glaucoma-test; do
    bmtools import conll --lang it --tag-column 2 -o "$RAW/abstrct-$set.jsonl" \
        "$DATA/parallel/abstrct-en-it/$set.it-manual.tsv"
done
for part in dev test; do
    bmtools import conll --lang it --tag-column 2 -o "$RAW/casimedicos-$part.jsonl" \
        "$DATA/parallel/casimedicos-arg/IT/$part.tsv"
done
for set in BC5CDR_CDR NCBI_DISEASE SPECIES_800; do standoff "$set" train dev test; done
standoff BC5CDR_DNER test
python "$HERE/texts.py" documents "$DATA"/it/re/{BIORED,CHEMPROT}/{train,dev,test}_CORPUS.json |
    bmtools import jsonl --lang it --columns id=PMID,text=Testo --duplicates rename \
        -o "$RAW/relations.jsonl"
python "$HERE/texts.py" bioasq "$DATA"/it/qa/BioASQ_{4b,5b}_splitted.json |
    bmtools import jsonl --lang it -o "$RAW/bioasq.jsonl"

echo "== Remove repeats and test sentences; native text is first, because the first copy is kept" >&2
bmtools import curated "$DATA/it/mrr/mlm_data.json" -o "$OUT/curated.jsonl"
python "$HERE/clean.py" --test "$OUT/curated.jsonl" -o "$OUT/text" \
    --corpus clinical "$RAW"/{clinical,e3c-raw,e3c-train,e3c-test}.jsonl \
    --corpus leaflets "$RAW/leaflets.jsonl" \
    --corpus general "$RAW/general.jsonl" \
    --corpus encyclopedia "$RAW/encyclopedia.jsonl" \
    --corpus translated "$RAW"/{abstrct,casimedicos}-*.jsonl "$RAW"/{BC5CDR,NCBI,SPECIES}*.jsonl \
        "$RAW"/{relations,bioasq}.jsonl
