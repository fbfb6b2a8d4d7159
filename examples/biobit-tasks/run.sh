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
PRETRAINING=${PRETRAINING:-}     # more options of bmtools pretrain, such as --set mixed_precision=no
mkdir -p "$OUT"
missing() { [ ! -e "$OUT/$1" ]; }
step() { printf '\n== %s (%s s)\n' "$1" "$SECONDS" >&2; }

step "The sets"
"$HERE/prepare.sh"

step "The model"
if missing text; then
    mkdir -p "$OUT/text.partial"
    bmtools import jsonl --lang it "$DATA/it/corpus/native-clinical.jsonl" -o "$OUT/text.partial/clinical.jsonl" --overwrite
    bmtools import jsonl --lang it "$DATA/it/corpus/native-leaflets.jsonl.gz" -o "$OUT/text.partial/leaflets.jsonl" --overwrite
    bmtools import text --lang it "$DATA/it/corpus/general-ud.txt" -o "$OUT/text.partial/general.jsonl" --overwrite
    mv "$OUT/text.partial" "$OUT/text"
fi
TEXT=("$OUT"/text/*.jsonl "$OUT"/sets/{BC5CDR_CDR,NCBI_DISEASE,SPECIES_800,BIORED}/train.jsonl)
missing vocabulary && bmtools build-vocab "${TEXT[@]}" --uncased --size 10000 -o "$OUT/vocabulary" > /dev/null
new=(--architecture bert-4x256 --tokenizer "$OUT/vocabulary")
# shellcheck disable=SC2086
missing pretrained && bmtools pretrain "${TEXT[@]}" -o "$OUT/pretrained" --resume "${new[@]}" \
    --phases "$HERE/pretraining.toml" $PRETRAINING > "$OUT/pretraining.jsonl"
missing random && bmtools pretrain "$OUT/text/general.jsonl" -o "$OUT/random" "${new[@]}" \
    --steps 1 --batch-size 1 --learning-rate 1e-12 > /dev/null   # the weights as they are drawn

step "Fine-tuning"
# shellcheck disable=SC2086
python "$HERE/../blurb/compare.py" "$HERE/experiments.toml" ${EXPERIMENTS:-}

step "Scores"
scores=("$OUT"/scores/*.jsonl)
suite=(bmtools score-suite --suite "$HERE/suite.toml" --published none)
"${suite[@]}" "${scores[@]}" -o "$OUT/suite.jsonl" --overwrite
"${suite[@]}" "${scores[@]}" --table
