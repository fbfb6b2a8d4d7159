#!/usr/bin/env bash
# What a model forgets of general English while it learns abstracts, and what holds it back.
#
#   DATA=../shared/data examples/reproduce/forgetting/run.sh
#
# A small model learns WikiText-2 from scratch, then goes on with abstracts of drug reviews: plainly
# and under each way that bmtools has to hold a model to what it knew. Every way meets the same
# batches in the same order under one seed. WikiText kept out of training is scored before and
# after (--retain), abstracts kept out of training are scored at the end (--evaluate).
#
# About 20 minutes on two cores. OUT says where to write; what is there already is passed over, so
# a killed run goes on. results.jsonl has means and standard deviations over SEEDS, forgetting.svg
# shows them if matplotlib is installed.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
DATA=${DATA:?say where the data are: DATA=../shared/data examples/reproduce/forgetting/run.sh}
OUT=${OUT:-$HERE/out}
SEEDS=${SEEDS:-0 1 2}
ARMS=${ARMS:-plain replay mixout layer-decay frozen l2-start}
NEW_TOKENS=${NEW_TOKENS:-600000}
BASE_SET=${BASE_SET:-}          # such as: --set causal.tokens=2000 --set masked.tokens=2000
VOCABULARY=${VOCABULARY:-6000}
HELD_OUT=${HELD_OUT:-400}       # records of each kind that are never trained on
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
mkdir -p "$OUT/arms"

missing() { [ ! -e "$OUT/$1" ]; }
split() {  # NAME: the first HELD_OUT records apart from the others, by an order of their own
    python - "$OUT/$1.jsonl" "$HELD_OUT" <<'PY'
import hashlib, pathlib, sys
path, held = pathlib.Path(sys.argv[1]), int(sys.argv[2])
lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
order = sorted(lines, key=lambda line: hashlib.sha256(line.encode()).digest())
path.with_name(path.stem + "-held.jsonl").write_text("".join(order[:held]), encoding="utf-8")
path.with_name(path.stem + "-train.jsonl").write_text("".join(order[held:]), encoding="utf-8")
PY
}

echo "== General and new text, some of each kept out of training" >&2
if missing general-train.jsonl; then
    # Unknown words and split signs are WikiText's own; headings are no text.
    sed 's/<unk>//g; s/ @\(.\)@ /\1/g; /^ = .* = $/d' "$DATA"/en/corpus/general-wikitext2-*.txt |
        bmtools import text --lang en -o "$OUT/general.jsonl"
    split general
fi
if missing new-train.jsonl; then
    bmtools import jsonl --lang en --duplicates drop -o "$OUT/new.jsonl" \
        "$DATA/en/corpus/pubmed-drug-reviews.jsonl.gz"
    split new
fi

echo "== The general model" >&2
missing vocabulary && bmtools build-vocab "$OUT/general-train.jsonl" --uncased \
    --size "$VOCABULARY" --allow-fewer -o "$OUT/vocabulary"
# shellcheck disable=SC2086
missing base && bmtools pretrain "$OUT/general-train.jsonl" -o "$OUT/base" --resume \
    --phases "$HERE/../base.toml" --tokenizer "$OUT/vocabulary" --evaluate "$OUT/new-held.jsonl" \
    --retain "$OUT/general-held.jsonl" $BASE_SET > /dev/null

arm() {  # NAME OPTION...: go on from the general model under every seed
    local name=$1 seed; shift
    for seed in $SEEDS; do
        missing "arms/$name-$seed" || continue
        echo "== $name, seed $seed ($SECONDS s)" >&2
        bmtools pretrain "$OUT/new-train.jsonl" -o "$OUT/arms/$name-$seed" --resume \
            --model "$OUT/base" --seed "$seed" --tokens "$NEW_TOKENS" --max-length 128 \
            --batch-size 32 --learning-rate 1e-3 --retain "$OUT/general-held.jsonl" \
            --evaluate "$OUT/new-held.jsonl" "$@" > /dev/null
    done
}
for name in $ARMS; do
    case $name in
        plain) arm plain ;;
        replay) arm replay --replay "$OUT/general-train.jsonl" --replay-steps 4 ;;
        mixout) arm mixout --mixout 0.9 ;;
        layer-decay) arm layer-decay --layer-decay 0.8 ;;
        frozen) arm frozen --frozen-layers 2 ;;
        l2-start) arm l2-start --l2-sp 0.01 ;;
        *) echo "ARMS: found $name, expected names from this script" >&2; exit 2 ;;
    esac
done

python "$HERE/summary.py" "$OUT"
bmtools table "$OUT/results.jsonl" --title "Nats per hidden token, mean and deviation over seeds" \
    --columns retained.mean,retained.deviation,forgotten.mean,forgotten.deviation,new.mean,new.deviation
