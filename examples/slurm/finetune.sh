#!/usr/bin/env bash
# Fine-tune a model on each set of a suite in a job array, with three seeds per set. Then score the suite.
#
#   job=$(sbatch --parsable examples/slurm/finetune.sh sets model tuned)
#   sbatch --dependency=afterok:$job --wrap 'bmtools score-suite --suite blurb --json tuned/* > suite.jsonl'
#
# Each set is a folder, such as sets/NCBI-disease, with train.jsonl, dev.jsonl and test.jsonl; see bmtools split.
#SBATCH --job-name=finetune
#SBATCH --array=0-5
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-task=1
#SBATCH --time=06:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
SETS=$1
MODEL=$2
OUT=$3
export HF_HUB_OFFLINE=1 SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
TASKS=("ner BC5-chem" "ner BC5-disease" "ner NCBI-disease" "ner BC2GM" "ner JNLPBA" "multilabel HoC")
read -r task name <<< "${TASKS[SLURM_ARRAY_TASK_ID]}"
mkdir -p "$OUT"
if [ -e "$OUT/$name" ]; then
    exit   # a model exists once it is complete
fi
srun bmtools finetune "$task" --model "$MODEL" --train "$SETS/$name/train.jsonl" \
    --dev "$SETS/$name/dev.jsonl" --test "$SETS/$name/test.jsonl" --seeds 3 -o "$OUT/$name"
