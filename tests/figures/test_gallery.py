"""figures/README.md opens with every figure: its picture, its verdict, its command."""

import re
from pathlib import Path

import pytest

from slsgd_mx.figures.declarations import FIGURES, file_name

PAGE = Path(__file__).resolve().parents[2] / "figures" / "README.md"
CELLS = re.findall(r"<td.*?</td>", PAGE.read_text(encoding="utf-8").split("\n## ")[0], re.S)


@pytest.mark.parametrize("name", FIGURES)
def test_the_gallery_shows_a_figure_with_verdict_and_command(name):
    picture = f"laptop/{file_name(name)}.png"
    (cell,) = [cell for cell in CELLS if f'<img src="{picture}"' in cell]
    assert (PAGE.parent / picture).is_file() and f'<a href="{picture}">' in cell
    title, verdict, command = re.sub(r"<(?!br>)[^>]*>", "", cell).strip("<br>").split("<br>")
    assert title and re.search(r"^C\d|^as Figure \d|^FedAvg", verdict)
    assert command == f"slsgd-mx {name} --preset laptop"


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: re.findall(r'src="(.*?)"', cell)[0])
def test_every_picture_of_the_gallery_exists_once_and_has_a_command(cell):
    (picture,) = re.findall(r'<img src="(.*?)"', cell)
    assert (PAGE.parent / picture).is_file() and f'<a href="{picture}">' in cell
    assert sum(picture in other for other in CELLS) == 1
    assert re.search(r"<code>slsgd-mx [a-z0-9 -]+</code></td>$", cell)
