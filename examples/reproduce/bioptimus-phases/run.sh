#!/usr/bin/env bash
# BIOptimus's four phases in one command, on a laptop. Each phase saves a checkpoint.
#
#   DATA=../shared/data examples/reproduce/bioptimus-phases/run.sh
#
# A small general model gets a medical vocabulary by contextual initialisation. Then it is trained in the recipe's
# phases: tokens, whole words, more whole words, masks only. The recipe differs from the paper in sequence length,
# batch size and learning rates, which fit a small model. The epochs are a SHARE of the paper's 7, 8, 9 and 10. The
# checkpoint of each phase is scored on the same held-out abstracts.
#
# It takes about 10 minutes on two cores. Existing results are skipped, so a killed run can be continued.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
DATA=${DATA:?set it to the data folder: DATA=../shared/data examples/reproduce/bioptimus-phases/run.sh}
OUT=${OUT:-$HERE/out}
ABSTRACTS=${ABSTRACTS:-3000}
HELD_OUT=${HELD_OUT:-8}
SHARE=${SHARE:-0.12}            # share of the paper's epochs
BASE_TOKENS=${BASE_TOKENS:-1500000}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
export BMTOOLS_PRETRAIN_PRECISION=no    # float32, as for the published values
mkdir -p "$OUT"
missing() { [ ! -e "$OUT/$1" ]; }
epochs() { awk -v share="$SHARE" -v epochs="$1" 'BEGIN { printf "%.6g", share * epochs }'; }

echo "== General text, and abstracts" >&2
missing general.jsonl &&
    sed 's/<unk>//g; s/ @\(.\)@ /\1/g; /^ = .* = $/d' "$DATA"/en/corpus/general-wikitext2-*.txt |
        bmtools import text --lang en -o "$OUT/general.jsonl"
if missing abstracts.jsonl; then
    bmtools import jsonl --lang en --duplicates drop -o "$OUT/all.jsonl" \
        "$DATA/en/corpus/pubmed-drug-reviews.jsonl.gz"
    head -n "$HELD_OUT" "$OUT/all.jsonl" | bmtools import jsonl --sentences -o "$OUT/held-out.jsonl"
    sed -n "$((HELD_OUT + 1)),$((HELD_OUT + ABSTRACTS))p" "$OUT/all.jsonl" > "$OUT/abstracts.partial"
    mv "$OUT/abstracts.partial" "$OUT/abstracts.jsonl"
fi

echo "== A general model, a medical vocabulary, and initial weights for its tokens ($SECONDS s)" >&2
missing general-vocabulary && bmtools build-vocab "$OUT/general.jsonl" --uncased --size 6000 --allow-fewer \
    -o "$OUT/general-vocabulary"
missing base && bmtools pretrain "$OUT/general.jsonl" -o "$OUT/base" --resume \
    --architecture bert-2x128 --tokenizer "$OUT/general-vocabulary" --objective causal \
    --tokens "$BASE_TOKENS" --learning-rate 2e-3 > /dev/null
missing vocabulary && bmtools build-vocab "$OUT/abstracts.jsonl" --uncased --size 6000 --allow-fewer \
    -o "$OUT/vocabulary"
missing start && bmtools init-weights "$OUT/abstracts.jsonl" --base "$OUT/base" \
    --tokenizer "$OUT/vocabulary" --lang en --method contextual --rescale -o "$OUT/start"

echo "== Four phases in one command ($SECONDS s)" >&2
missing model && bmtools pretrain "$OUT/abstracts.jsonl" -o "$OUT/model" --resume \
    --recipe bioptimus --model "$OUT/start" --max-length 128 --batch-size 32 --set dropout=0 \
    --evaluate "$OUT/held-out.jsonl" \
    --set tokens.epochs="$(epochs 7)" --set tokens.learning_rate=2e-3 \
    --set words.epochs="$(epochs 8)" --set words.learning_rate=1.6896e-3 \
    --set more-words.epochs="$(epochs 9)" --set more-words.learning_rate=1.189e-3 \
    --set masks-only.epochs="$(epochs 10)" --set masks-only.learning_rate=6.258e-4 \
    > "$OUT/model.log"

echo "== A checkpoint of each phase ($SECONDS s)" >&2
cd "$OUT"
ls -d model.kept/phase-* >&2
bmtools score-pppl held-out.jsonl --baseline abstracts.jsonl -o pppl.jsonl --model start \
    --model model.kept/phase-1-tokens --model model.kept/phase-2-words \
    --model model.kept/phase-3-more-words --model model.kept/phase-4-masks-only
bmtools table pppl.jsonl --columns pppl,bits_per_character \
    --title "After each phase, on held-out abstracts"
