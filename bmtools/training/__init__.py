"""The training loop, its objectives and schedules."""
