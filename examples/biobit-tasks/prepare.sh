#!/usr/bin/env bash
# BioBIT's Italian sets in DATA, and E3C's native cases, to OUT/sets/SET/{train,dev,test}.jsonl.
#
# Types of NCBI's and Species-800's mentions are made one. Of BioRED's training and development documents
# BIORED (100) and a third as many are taken; everything else is whole.
set -euo pipefail
DATA=${DATA:?set it to the data folder: DATA=../shared/data examples/biobit-tasks/prepare.sh}
OUT=${OUT:-$(cd "$(dirname "$0")" && pwd)/out}
mkdir -p "$OUT/sets"
cd "$OUT/sets"
exec 3>&2 2>> "$OUT/prepare.log"
trap 'tail -n 3 "$OUT/prepare.log" >&3' ERR
import() { bmtools import "$@" --lang it --overwrite; }

for set in BC5CDR_CDR NCBI_DISEASE SPECIES_800; do
    mkdir -p "$set"
    for part in train dev test; do
        [ -e "$set/$part.jsonl" ] || import standoff "$DATA/it/ner/$set/${part}_corpus.txt" --duplicates drop \
            --annotations "$DATA/it/ner/$set/${part}_annotations.txt" -o "$set/$part.jsonl"
    done
done
sed -i -E 's/"type":"[A-Z_]+"/"type":"DISEASE"/g' NCBI_DISEASE/*.jsonl
sed -i -E 's/"type":"[A-Z_]+"/"type":"SPECIES"/g' SPECIES_800/*.jsonl

mkdir -p BIORED
for part in train dev test; do
    [ -e "BIORED/$part.jsonl" ] || import biored "$DATA/it/re/BIORED/${part}_CORPUS.json" \
        --entities "$DATA/it/re/BIORED/${part}_ANN.txt" --relations "$DATA/it/re/BIORED/${part}_REL.txt" \
        --rejects "$OUT/biored-$part-rejects.jsonl" -o "BIORED/$part.jsonl"
done
documents=${BIORED:-100}
sed -i "$((documents + 1)),\$d" BIORED/train.jsonl
sed -i "$((documents / 3 + 1)),\$d" BIORED/dev.jsonl

for year in 4b 5b; do
    mkdir -p "BioASQ-$year"
    for part in train dev test; do
        [ -e "BioASQ-$year/$part.jsonl" ] || import biobit-qa "$DATA/it/qa/BioASQ_${year}_splitted.json" \
            --split "$part" --rejects "$OUT/bioasq-$year-$part-rejects.jsonl" -o "BioASQ-$year/$part.jsonl"
    done
done

if [ ! -e E3C ]; then
    import conll "$DATA/it/ner/E3C/train.txt" -o "$OUT/e3c.jsonl"
    bmtools split "$OUT/e3c.jsonl" --ratios 0.8,0.2,0 --together documents -o "$OUT/e3c" --overwrite > /dev/null
    import conll "$DATA/it/ner/E3C/test.txt" -o "$OUT/e3c/test.jsonl"
    mv "$OUT/e3c" E3C
fi
