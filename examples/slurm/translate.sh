#!/usr/bin/env bash
# Translate a corpus in a job array. Each task translates a part, and is queued again at its time limit.
#
#   sbatch examples/slurm/translate.sh corpus.jsonl.zst nllb italian
#   cat italian/part-{1..64}.jsonl > italian.partial && mv italian.partial italian.jsonl
#
# If parts are missing, the last line names them, fails and does not change italian.jsonl. Existing parts are not
# changed, so the same line, or sbatch --array=7,12 ..., repeats the failed parts.
#SBATCH --job-name=translate
#SBATCH --array=1-64
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
CORPUS=$1
MODEL=$2
OUT=$3
PARTS=64   # as in --array
export HF_HUB_OFFLINE=1 SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
mkdir -p "$OUT"

code=0
srun bmtools translate "$CORPUS" --part "$SLURM_ARRAY_TASK_ID/$PARTS" --resume \
    --engine ctranslate2 --model "$MODEL" --source-lang en --target-lang it \
    -o "$OUT/part-$SLURM_ARRAY_TASK_ID.jsonl" || code=$?
if [ "$code" -eq 143 ]; then   # ended by SIGTERM; translated records are kept
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
