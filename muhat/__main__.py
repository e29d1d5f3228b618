"""``python -m muhat``: the command line."""

from muhat.cli import main

if __name__ == "__main__":
    main()
