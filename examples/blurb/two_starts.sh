#!/usr/bin/env bash
# Pretrains a model on texts and compares it with its random start on the sets of $OUT/sets.
#
#   two_starts.sh FOLDER TEXT...    FOLDER has pretraining.toml, experiments.toml and suite.toml
#
# PRETRAINING has more options of bmtools pretrain, such as --set precision=no; EXPERIMENTS names sets;
# SEEDS and JOBS are those of compare.py. What exists in OUT is kept, so a killed run can be continued.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
FOLDER=$1
shift
missing() { [ ! -e "$OUT/$1" ]; }
step() { printf '\n== %s (%s s)\n' "$1" "$SECONDS" >&2; }

step "The model"
missing vocabulary && bmtools build-vocab "$@" --uncased --size 10000 -o "$OUT/vocabulary" > /dev/null
new=(--architecture bert-4x256 --tokenizer "$OUT/vocabulary")
# shellcheck disable=SC2086
missing pretrained && bmtools pretrain "$@" -o "$OUT/pretrained" --resume "${new[@]}" \
    --phases "$FOLDER/pretraining.toml" ${PRETRAINING:-} > "$OUT/pretraining.jsonl"
missing random && bmtools pretrain "$1" -o "$OUT/random" "${new[@]}" \
    --steps 1 --batch-size 1 --learning-rate 1e-12 > /dev/null   # the weights as they are drawn

step "Fine-tuning"
# shellcheck disable=SC2086
python "$HERE/compare.py" "$FOLDER/experiments.toml" ${EXPERIMENTS:-}

step "Scores"
suite=(bmtools score-suite --suite "$FOLDER/suite.toml" --published none "$OUT"/scores/*.jsonl)
"${suite[@]}" -o "$OUT/suite.jsonl" --overwrite
"${suite[@]}" --table
