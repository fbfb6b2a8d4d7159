#!/usr/bin/env bash
# Pretrain on the GPUs of several nodes. Before the time limit, the run saves its state, exits with 75 and is queued
# again, until the model is complete.
#
#   sbatch examples/slurm/pretrain.sh shards vocabulary model
#
# srun starts one process per GPU. The processes find each other by the variables that torchrun would set. They
# receive Slurm's warning (--signal), not this script.
#SBATCH --job-name=pretrain
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
DATA=$1
VOCABULARY=$2
OUT=$3
export HF_HUB_OFFLINE=1 SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR=${hosts%%$'\n'*} MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=$SLURM_NTASKS_PER_NODE

code=0
# shellcheck disable=SC2016  # each process has its own SLURM_PROCID
srun --kill-on-bad-exit=0 --wait=120 bash -c '
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID
    exec bmtools pretrain "$@"' pretrain \
    "$DATA" --architecture bert-base --tokenizer "$VOCABULARY" --max-length 512 --batch-size 256 \
    --epochs 3 --save-steps 1000 --resume -o "$OUT" || code=$?
if [ "$code" -eq 75 ]; then   # stopped and saved
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
