"""Write the script of every figure: ``python -m slsgd_mx.figures.scripts [experiments]``."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Dict

from slsgd_mx.figures.declarations import FIGURES, file_name, full_title

SCRIPT = """\
#!/bin/sh
{about}
#   experiments/{file}                     as published
#   experiments/{file} --preset laptop     real data, hours
#   experiments/{file} --preset smoke      embedded synthetic data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run {name} "$@"
"""


def scripts() -> Dict[str, str]:
    """The text of each figure's script, by file name."""
    made = {}
    for name, figure in FIGURES.items():
        file = f"{file_name(name)}.sh"
        about = f"{full_title(name)}. {figure.about}".replace("$", "")
        about = textwrap.fill(about, 98, initial_indent="# ", subsequent_indent="# ")
        made[file] = SCRIPT.format(about=about, file=file, name=name)
    return made


def main(folder: Path) -> None:
    for file, text in scripts().items():
        (folder / file).write_text(text, encoding="utf-8")
        (folder / file).chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "experiments"))
