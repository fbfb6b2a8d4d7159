#!/usr/bin/env bash
# What half an hour of pretraining on a laptop is worth: biomedical tasks, two starts, three seeds.
#
#   DATA=../shared/data examples/blurb/run.sh
#
# 1. A BERT of 4 layers of 256 is pretrained on the abstracts of 11 drug reviews (22 million tokens).
# 2. It, and the same architecture with random weights, are fine-tuned on every set of DATA that has a
#    line in experiments.txt; variants (how pairs are told to the model, schemes of tags, heads) from it alone.
# 3. Their predictions are compared with each other and with a baseline without a model.
#
# SEEDS and JOBS are those of compare.py, RECORDS that of prepare.sh; EXPERIMENTS names sets. Existing results are kept,
# so a killed run can be continued. OUT/scores/ has what score-tasks prints of each set, OUT/suite.jsonl all
# sets side by side.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
export DATA=${DATA:?set it to the data folder: DATA=../shared/data examples/blurb/run.sh}
export OUT=${OUT:-$HERE/out}
PRETRAINING=${PRETRAINING:-}     # more options of bmtools pretrain, such as --set mixed_precision=no
mkdir -p "$OUT"
missing() { [ ! -e "$OUT/$1" ]; }
step() { printf '\n== %s (%s s)\n' "$1" "$SECONDS" >&2; }

step "The model"
missing reviews.jsonl && bmtools import jsonl --lang en --duplicates drop \
    "$DATA/en/corpus/pubmed-drug-reviews.jsonl.gz" -o "$OUT/reviews.jsonl"
missing vocabulary && bmtools build-vocab "$OUT/reviews.jsonl" --uncased --size 10000 -o "$OUT/vocabulary" > /dev/null
new=(--architecture bert-4x256 --tokenizer "$OUT/vocabulary")
# shellcheck disable=SC2086
missing pretrained && bmtools pretrain "$OUT/reviews.jsonl" -o "$OUT/pretrained" --resume "${new[@]}" \
    --phases "$HERE/pretraining.toml" $PRETRAINING > "$OUT/pretraining.jsonl"
missing random && bmtools pretrain "$OUT/reviews.jsonl" -o "$OUT/random" "${new[@]}" \
    --steps 1 --batch-size 1 --learning-rate 1e-12 > /dev/null   # the weights as they are drawn

step "The sets"
"$HERE/prepare.sh"

step "Fine-tuning"
# shellcheck disable=SC2086
python "$HERE/compare.py" "$HERE/experiments.toml" ${EXPERIMENTS:-}

step "Scores"
scores=("$OUT"/scores/*.jsonl)
suite=(bmtools score-suite --suite "$HERE/suite.toml" --published none)
"${suite[@]}" "${scores[@]}" -o "$OUT/suite.jsonl" --overwrite
"${suite[@]}" "${scores[@]}" --table
