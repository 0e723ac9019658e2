"""What MkDocs calls while it builds the site: adds generated pages, and files outside docs/."""

import posixpath
from pathlib import Path

from api import api_page
from cells import notebook_page
from commands import command_page
from configuration import configuration_page
from mkdocs.structure.files import File
from repository import COPIED, Repository

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = "examples/first_attack.ipynb"
repository = Repository(ROOT, places={NOTEBOOK: "notebook.md"})


def generated_pages():
    """Name -> content of every page that is not a file in docs/."""
    notebook, pictures = notebook_page((ROOT / NOTEBOOK).read_text(encoding="utf-8"), "notebook")
    return {
        "reference/commands.md": command_page(),
        "reference/python.md": api_page(),
        "reference/configuration.md": configuration_page(),
        "notebook.md": notebook,
        **pictures,
    }


def on_files(files, config):
    """Add the generated pages, then every file outside docs/ that a page links to."""
    for name, content in generated_pages().items():
        files.append(File.generated(config, name, content=content))
    waiting = [file for file in files if file.src_uri.endswith(".md")]
    while waiting:
        page = waiting.pop()
        for path in repository.targets(page.content_string, page.src_uri):
            place = repository.place(path)
            if files.get_file_from_path(place) is None:
                added = add(config, path, place)
                files.append(added)
                waiting += [added] * place.endswith(".md")
    return files


def add(config, path, place):
    """A file of the repository as a part of the site."""
    if place.endswith(COPIED):
        return File.generated(config, place, abs_src_path=str(ROOT / path))
    return File.generated(config, place, content=repository.page(path))


def on_page_markdown(markdown, page, **_):
    """Let links to files outside docs/ lead to their places in the site."""
    return repository.rewrite(markdown, posixpath.normpath(page.file.src_uri))
