"""``python -m slsgd_mx`` is ``slsgd-mx``."""

from slsgd_mx.cli import main

if __name__ == "__main__":
    main(prog_name="slsgd-mx")
