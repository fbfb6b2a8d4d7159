#!/usr/bin/env bash
# How much general English a model forgets in training on abstracts, and which methods reduce this.
#
#   DATA=../shared/data examples/reproduce/forgetting/run.sh
#
# A small model is pretrained on WikiText-2, then continues on abstracts of drug reviews, without and with each
# kind of regularization against forgetting in bmtools. All runs with the same seed see the same batches in the same
# order. Held-out WikiText is scored before and after (--retain), held-out abstracts at the end (--evaluate).
#
# It takes about 20 minutes on two cores. OUT is the output folder. Existing results are skipped, so a killed run can
# be continued. results.jsonl contains means and standard deviations over SEEDS. forgetting.svg shows them if
# matplotlib is installed.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
DATA=${DATA:?set it to the data folder: DATA=../shared/data examples/reproduce/forgetting/run.sh}
OUT=${OUT:-$HERE/out}
SEEDS=${SEEDS:-0 1 2}
ARMS=${ARMS:-plain replay mixout layer-decay frozen l2-start}
NEW_TOKENS=${NEW_TOKENS:-600000}
BASE_SET=${BASE_SET:-}          # such as: --set causal.tokens=2000 --set masked.tokens=2000
VOCABULARY=${VOCABULARY:-6000}
HELD_OUT=${HELD_OUT:-400}       # records of each kind that are never trained on
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
export BMTOOLS_PRETRAIN_PRECISION=no    # float32, as for the published values
mkdir -p "$OUT/arms"

missing() { [ ! -e "$OUT/$1" ]; }
split() {  # NAME: hold out HELD_OUT records, in an order by hash
    python - "$OUT/$1.jsonl" "$HELD_OUT" <<'PY'
import hashlib, pathlib, sys
path, held_out = pathlib.Path(sys.argv[1]), int(sys.argv[2])
lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
order = sorted(lines, key=lambda line: hashlib.sha256(line.encode()).digest())
path.with_name(path.stem + "-held-out.jsonl").write_text("".join(order[:held_out]), encoding="utf-8")
path.with_name(path.stem + "-train.jsonl").write_text("".join(order[held_out:]), encoding="utf-8")
PY
}

echo "== General and new text, with held-out records of each" >&2
if missing general-train.jsonl; then
    # WikiText contains unknown words and split signs; headings are not text.
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
    --phases "$HERE/../base.toml" --tokenizer "$OUT/vocabulary" --evaluate "$OUT/new-held-out.jsonl" \
    --retain "$OUT/general-held-out.jsonl" $BASE_SET > /dev/null

arm() {  # NAME OPTION...: continue from the general model with every seed
    local name=$1 seed; shift
    for seed in $SEEDS; do
        missing "arms/$name-$seed" || continue
        echo "== $name, seed $seed ($SECONDS s)" >&2
        bmtools pretrain "$OUT/new-train.jsonl" -o "$OUT/arms/$name-$seed" --resume \
            --model "$OUT/base" --seed "$seed" --tokens "$NEW_TOKENS" --max-length 128 \
            --batch-size 32 --learning-rate 1e-3 --retain "$OUT/general-held-out.jsonl" \
            --evaluate "$OUT/new-held-out.jsonl" "$@" > /dev/null
    done
}
for name in $ARMS; do
    case $name in
        plain) arm plain ;;
        replay) arm replay --replay "$OUT/general-train.jsonl" --set replay_steps=4 ;;
        mixout) arm mixout --set mixout=0.9 ;;
        layer-decay) arm layer-decay --set layer_decay=0.8 ;;
        frozen) arm frozen --set frozen_layers=2 ;;
        l2-start) arm l2-start --set l2_sp=0.01 ;;
        *) echo "ARMS: found $name, expected names from this script" >&2; exit 2 ;;
    esac
done

python "$HERE/summary.py" "$OUT"
bmtools table "$OUT/results.jsonl" --title "Nats per masked token, mean and deviation over seeds" \
    --columns retained.mean,retained.deviation,forgotten.mean,forgotten.deviation,new.mean,new.deviation
