"""``python -m headrace``: the command line without its script."""

from headrace.cli.main import main

if __name__ == "__main__":
    main()
