#!/usr/bin/env bash
# Bio-LM's table 6 at small size: a student distilled, trained longer, or trained from scratch.
#
#   DATA=../shared/data examples/reproduce/biolm-distill/run.sh
#
# The teacher is a BERT with 4 layers of width 256. The student has 2 layers of width 128 and some training. With
# every seed the student continues in three ways that take the same processor time: distillation, distillation with
# aligned last states, and training without a teacher for RATIO times the steps. A fourth model starts from scratch
# and also gets the time of the student's first training. All models train on abstracts of drug reviews. They are
# scored on case reports, and fine-tuned on two of Bio-LM's sets.
#
# It takes about 50 minutes on two cores, 35 of them for the teacher. Existing results are skipped, so a killed run
# can be continued. results.jsonl contains means and deviations over SEEDS, suite.jsonl the scores of the sets.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
export DATA=${DATA:?set it to the data folder: DATA=../shared/data examples/reproduce/biolm-distill/run.sh}
export OUT=${OUT:-$HERE/out}
SEEDS=${SEEDS:-0 1 2}
JOBS=${JOBS:-2}                 # seeds at the same time, one core each
ROWS=${ROWS:-student longer teacher distill align scratch}
SETS=${SETS:-NCBI-disease ChemProt}
START=${START:-1200}            # steps of the student's first training
STEPS=${STEPS:-150}             # steps of distillation
RATIO=${RATIO:-2.4}             # processor time of a distillation step, relative to a step without a teacher
RECORDS=${RECORDS:-900}         # per set for fine-tuning; a third of this number chooses the epoch
HELD_OUT=${HELD_OUT:-250}       # case reports
TEACHER_SET=${TEACHER_SET:-}    # such as: --architecture bert-1x64 --set short.tokens=2000
LONGER=$(awk -v steps="$STEPS" -v ratio="$RATIO" 'BEGIN { printf "%d", steps * ratio + 0.5 }')
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
TIMEFORMAT="%U %S"
missing() { [ ! -e "$OUT/$1" ]; }

# The recipe's settings, with other sizes and Muon, which is better than AdamW after few steps (recipe laptop).
small=(--recipe biolm-distill --max-length 128 --batch-size 16 --set dropout=0 --set optimizer=muon --precision no)
train() {  # NAME COMMAND OPTION...: run it, and record its processor time
    local name=$1; shift
    missing "$name" || return 0
    echo "== $name ($SECONDS s)" >&2
    { time bmtools "$1" "$OUT/shards" -o "$OUT/$name" --resume "${@:2}" > "$OUT/$name.jsonl" 2>&3; } \
        3>&2 2>> "$OUT/$name.seconds"
}
new() { train "$1" pretrain --architecture bert-2x128 --tokenizer "$OUT/vocabulary" "${small[@]}" \
    --learning-rate 2e-3 --seed "$2" --steps "$3"; }
longer=("${small[@]}" --learning-rate 1e-3)
distilled=(distill --teacher "$OUT/teacher" --student "$OUT/student" "${longer[@]}" --steps "$STEPS")
model() { case $1 in teacher | student) echo "$OUT/$1" ;; *) echo "$OUT/models/$1-$2" ;; esac; }

tune() {  # ROW SEED: fine-tune on every set, and predict its test part; the model is not kept
    local set task found
    for set in $SETS; do
        case $set in ChemProt) task=relations ;; *) task=ner ;; esac
        found=predictions/$set/$1-$2.jsonl
        missing "$found" || continue
        echo "== $set: $1, seed $2 ($SECONDS s)" >&2
        bmtools finetune "$task" --model "$(model "$1" "$2")" -o "$OUT/tuned-$1-$2" --overwrite \
            --train "$OUT/sets/$set/train.jsonl" --dev "$OUT/sets/$set/dev.jsonl" --seed-list "$2" \
            --epochs 4 --batch-size 32 --learning-rate 5e-4 --max-length 128 --precision no > /dev/null
        bmtools predict "$OUT/sets/$set/test.jsonl" --model "$OUT/tuned-$1-$2" -o "$OUT/$found"
        rm -r "$OUT/tuned-$1-$2"
    done
}

if [ "${1:-}" = --seed ]; then  # one seed: the script calls itself
    for row in $ROWS; do
        case $row in
            teacher | student) ;;
            distill) train "models/$row-$2" "${distilled[@]}" --seed "$2" ;;
            align) train "models/$row-$2" "${distilled[@]}" --recipe biolm-distill-align --seed "$2" ;;
            longer) train "models/$row-$2" pretrain --model "$OUT/student" "${longer[@]}" --steps "$LONGER" --seed "$2" ;;
            scratch) new "models/$row-$2" "$2" $((START + LONGER)) ;;
            *) echo "ROWS: found $row, expected names from this script" >&2; exit 2 ;;
        esac
        tune "$row" "$2"
    done
    exit
fi

echo "== Text for training and scoring" >&2
mkdir -p "$OUT/models" "$OUT/sets" "$OUT/predictions" "$OUT/scores"
missing reviews.jsonl && bmtools import jsonl --lang en --duplicates drop -o "$OUT/reviews.jsonl" \
    "$DATA/en/corpus/pubmed-drug-reviews.jsonl.gz"
missing held-out.jsonl && bmtools import jsonl --lang en --duplicates drop "$DATA/en/corpus/pubmed-case-reports.jsonl.gz" |
    bmtools decontaminate --evaluation "$OUT/reviews.jsonl" |
    bmtools sample --records "$HELD_OUT" --allow-fewer -o "$OUT/held-out.jsonl"
import() {  # SET COMMAND PATH SUFFIX: its three parts
    missing "sets/$1" || return 0
    mkdir -p "$OUT/sets/$1.partial"
    for part in train dev test; do
        file=$part
        [ "$2-$part" = conll-dev ] && file=devel
        bmtools import "$2" --lang en "$DATA/en/$3/$file.$4" -o "$OUT/sets/$1.partial/$part-whole.jsonl" --overwrite
    done
    cd "$OUT/sets/$1.partial"
    bmtools sample train-whole.jsonl --records "$RECORDS" --allow-fewer -o train.jsonl --overwrite
    bmtools sample dev-whole.jsonl --records $((RECORDS / 3)) --allow-fewer -o dev.jsonl --overwrite
    mv test-whole.jsonl test.jsonl
    cd - > /dev/null
    mv "$OUT/sets/$1.partial" "$OUT/sets/$1"
}
for set in $SETS; do
    case $set in
        NCBI-disease) import "$set" conll "ner/$set" tsv ;;
        ChemProt) import "$set" chemprot re/chemprot txt ;;
        *) echo "SETS: found $set, expected names from suite.toml" >&2; exit 2 ;;
    esac
done

echo "== Teacher and student ($SECONDS s)" >&2
missing vocabulary && bmtools build-vocab "$OUT/reviews.jsonl" --uncased --size 10000 --allow-fewer -o "$OUT/vocabulary"
missing shards && bmtools tokenize "$OUT/reviews.jsonl" --tokenizer "$OUT/vocabulary" -o "$OUT/shards" > /dev/null
# shellcheck disable=SC2086
missing teacher && bmtools pretrain "$OUT/reviews.jsonl" -o "$OUT/teacher" --resume --architecture bert-4x256 \
    --tokenizer "$OUT/vocabulary" --phases "$HERE/teacher.toml" $TEACHER_SET > /dev/null
new student 0 "$START"

# shellcheck disable=SC2086
printf '%s\n' $SEEDS | ROWS=$ROWS SETS=$SETS xargs -P "$JOBS" -I SEED "$HERE/run.sh" --seed SEED

echo "== Scores ($SECONDS s)" >&2
models=()
for row in $ROWS; do
    for seed in $SEEDS; do
        model=$(model "$row" "$seed")
        [[ " ${models[*]} " == *" $model "* ]] || models+=(--model "$model")
    done
done
bmtools score-masking "$OUT/held-out.jsonl" --masking tokens "${models[@]}" -o "$OUT/masked.jsonl" --overwrite
bmtools score-mrr "$OUT/sets/${SETS%% *}/test.jsonl" --ignore-case "${models[@]}" -o "$OUT/mrr.jsonl" --overwrite
for set in $SETS; do
    files=()
    for row in $ROWS; do
        for seed in $SEEDS; do files+=("$row=$OUT/predictions/$set/$row-$seed.jsonl"); done
    done
    bmtools score-tasks "$OUT/sets/$set/test.jsonl" "${files[@]}" -o "$OUT/scores/$set.jsonl" --overwrite
done
suite=(bmtools score-suite --suite "$HERE/suite.toml" --published none "$OUT"/scores/*.jsonl)
"${suite[@]}" -o "$OUT/suite.jsonl" --overwrite
"${suite[@]}" --table
python "$HERE/summary.py" "$OUT"
bmtools table "$OUT/suite.jsonl" "$OUT/results.jsonl" --title "Bio-LM's table 6, with masked loss (nats) and MRR"
