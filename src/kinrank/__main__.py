"""``python -m kinrank``: the same as the command ``kinrank``."""

from kinrank.cli import main

if __name__ == "__main__":
    main()
