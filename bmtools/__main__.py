"""`python -m bmtools`."""

from bmtools.cli import main

if __name__ == "__main__":
    main()
