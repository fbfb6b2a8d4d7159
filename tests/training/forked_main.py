"""Runs the command line in a process forked from one that has imported everything.

Not imported: `runpy` runs it, with ARGUMENTS, OUT, ERR, ENVIRONMENT and HOOK set. HOOK is code that
runs first, to trigger rare events.
"""
# ruff: noqa: F821

import os
import signal
import sys

import torch

from bmtools.cli.main import main

os.environ.update(ENVIRONMENT)
for number, path in ((1, OUT), (2, ERR)):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
sys.stdout = os.fdopen(1, "w", closefd=False)
sys.stderr = os.fdopen(2, "w", closefd=False)
signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)
exec(HOOK)
main(ARGUMENTS)
