#!/usr/bin/env bash
# BioBIT's Italian tasks: a small model pretrained on Italian medical text, and its random start.
#
#   DATA=../shared/data examples/biobit-tasks/run.sh
#
# As examples/blurb/run.sh: a BERT of 4 layers of 256 is pretrained on native Italian text and the training
# texts of the sets (4 million tokens), and both starts are fine-tuned on every set with three seeds.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
export DATA=${DATA:?set it to the data folder: DATA=../shared/data examples/biobit-tasks/run.sh}
export OUT=${OUT:-$HERE/out}
mkdir -p "$OUT"

"$HERE/prepare.sh"
if [ ! -e "$OUT/text" ]; then
    mkdir -p "$OUT/text.partial"
    bmtools import jsonl --lang it "$DATA/it/corpus/native-clinical.jsonl" -o "$OUT/text.partial/clinical.jsonl" --overwrite
    bmtools import jsonl --lang it "$DATA/it/corpus/native-leaflets.jsonl.gz" -o "$OUT/text.partial/leaflets.jsonl" --overwrite
    bmtools import text --lang it "$DATA/it/corpus/general-ud.txt" -o "$OUT/text.partial/general.jsonl" --overwrite
    mv "$OUT/text.partial" "$OUT/text"
fi
exec "$HERE/../blurb/two_starts.sh" "$HERE" \
    "$OUT"/text/*.jsonl "$OUT"/sets/{BC5CDR_CDR,NCBI_DISEASE,SPECIES_800,BIORED}/train.jsonl
