#!/usr/bin/env bash
# Run a part of a study in each task of a job array. A task is queued again at its time limit.
#
#   shared=$(sbatch --parsable --array=1-1 examples/slurm/study.sh blurb out \
#       train dev import-test pretrain start)
#   parts=$(sbatch --parsable --dependency=afterok:$shared examples/slurm/study.sh blurb out \
#       predict predict-encoding predict-tagging)
#   sbatch --array=1-1 --dependency=afterok:$parts examples/slurm/study.sh blurb out
#
# The first job makes the sets and models that all parts need, the last one makes the tables. Options of bmtools study
# can follow `out`; write the same ones in all three lines. Finished work is not repeated,
# so the same lines also continue a study in which a task has failed.
#SBATCH --job-name=study
#SBATCH --array=1-8
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-task=1
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
STUDY=$1
OUT=$2
shift 2     # the rest: steps, up to which the study runs, and options
export HF_HUB_OFFLINE=1 SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK

code=0
srun bmtools study "$STUDY" "$@" -o "$OUT" --part "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" || code=$?
if [ "$code" -eq 75 ] || [ "$code" -eq 143 ]; then   # stopped; finished work is kept
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
