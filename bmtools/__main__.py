"""`python -m bmtools`."""

from bmtools.cli.main import run

if __name__ == "__main__":
    run()
