#!/usr/bin/env bash
# Five initial weights for new tokens compared: the loss at step 0 and while training.
#
#   DATA=../shared/data examples/reproduce/bioptimus-init/run.sh
#
# A small model is pretrained on WikiText-2, then gets a vocabulary of drug-review abstracts. Its new tokens are
# initialised at random, as means of their pieces ("BM averaged"), as means of hidden states in contexts ("BM
# contextualized", as in the paper and rescaled to the norm of embeddings), and as mixtures of known tokens (FOCUS).
# For each seed, every model then trains on the same batches of abstracts in the same order. Held-out abstracts are
# scored before the first step and during training.
#
# It takes about 25 minutes on two cores. OUT is the output folder. Existing results are skipped, so a killed run can
# be continued. results.jsonl contains means and standard deviations over SEEDS. losses.svg shows the losses over
# steps if matplotlib is installed.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
DATA=${DATA:?set it to the data folder: DATA=../shared/data examples/reproduce/bioptimus-init/run.sh}
OUT=${OUT:-$HERE/out}
SEEDS=${SEEDS:-0 1 2}
ARMS=${ARMS:-random average contextual contextual-rescaled focus}
ABSTRACTS=${ABSTRACTS:-3000}
HELD_OUT=${HELD_OUT:-200}       # abstracts that are never trained on
VOCABULARY=${VOCABULARY:-6000}
BASE_SET=${BASE_SET:-}          # such as: --set causal.tokens=2000 --set masked.tokens=2000
STEPS=${STEPS:-120}
EVERY=${EVERY:-30}              # steps between scores
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
export BMTOOLS_PRETRAIN_PRECISION=no    # float32, as for the published values
mkdir -p "$OUT/initialised" "$OUT/arms"
missing() { [ ! -e "$OUT/$1" ]; }

echo "== General text, and abstracts" >&2
# WikiText contains unknown words and split signs; headings are not text.
missing general.jsonl &&
    sed 's/<unk>//g; s/ @\(.\)@ /\1/g; /^ = .* = $/d' "$DATA"/en/corpus/general-wikitext2-*.txt |
        bmtools import text --lang en -o "$OUT/general.jsonl"
missing all.jsonl && bmtools import jsonl --lang en --duplicates drop -o "$OUT/all.jsonl" \
    "$DATA/en/corpus/pubmed-drug-reviews.jsonl.gz"
part() {  # NAME FROM TO: some of the abstracts
    missing "$1" || return 0
    sed -n "$2,$3p" "$OUT/all.jsonl" > "$OUT/$1.partial"
    mv "$OUT/$1.partial" "$OUT/$1"
}
part held-out.jsonl 1 "$HELD_OUT"
part train.jsonl $((HELD_OUT + 1)) $((HELD_OUT + ABSTRACTS))

echo "== A general model, and a medical vocabulary ($SECONDS s)" >&2
missing general-vocabulary && bmtools build-vocab "$OUT/general.jsonl" --uncased \
    --size "$VOCABULARY" --allow-fewer -o "$OUT/general-vocabulary"
# shellcheck disable=SC2086
missing base && bmtools pretrain "$OUT/general.jsonl" -o "$OUT/base" --resume \
    --phases "$HERE/../base.toml" --tokenizer "$OUT/general-vocabulary" $BASE_SET > /dev/null
missing vocabulary && bmtools build-vocab "$OUT/train.jsonl" --uncased --size "$VOCABULARY" --allow-fewer \
    -o "$OUT/vocabulary"

arm() {  # NAME OPTION...: initialise, then train, with every seed
    local name=$1 seed; shift
    for seed in $SEEDS; do
        if missing "initialised/$name-$seed"; then
            echo "== $name, seed $seed ($SECONDS s)" >&2
            bmtools init-weights "$OUT/train.jsonl" --base "$OUT/base" --lang en --seed "$seed" \
                --tokenizer "$OUT/vocabulary" -o "$OUT/initialised/$name-$seed" "$@" > /dev/null
        fi
        missing "arms/$name-$seed" && bmtools pretrain "$OUT/train.jsonl" \
            -o "$OUT/arms/$name-$seed" --resume --model "$OUT/initialised/$name-$seed" \
            --seed "$seed" --steps "$STEPS" --max-length 128 --batch-size 32 \
            --learning-rate 1e-3 --retain "$OUT/held-out.jsonl" --evaluate "$OUT/held-out.jsonl" \
            --eval-steps "$EVERY" > /dev/null
    done
    return 0
}
for name in $ARMS; do
    case $name in
        random | average | contextual | focus) arm "$name" --method "$name" ;;
        contextual-rescaled) arm "$name" --method contextual --rescale ;;
        *) echo "ARMS: found $name, expected names from this script" >&2; exit 2 ;;
    esac
done

python "$HERE/summary.py" "$OUT"
bmtools table "$OUT/results.jsonl" --title "Nats per masked token, mean and deviation over seeds" \
    --columns initial.mean,initial.deviation,early.mean,early.deviation,end.mean,end.deviation,seconds.mean
