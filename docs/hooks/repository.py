"""Files outside docs/ that pages link to, as parts of the site.

In the repository a page links to ``../figures/README.md``, which a file browser can follow. In the
site that file has a place below ``repository/``: Markdown as a page, pictures and archives as they
are, all else as a page that shows the text. Links are rewritten, also those between such files and
back to docs/.
"""

import posixpath
import re
from pathlib import Path

HOME = "repository"
LINK = re.compile(r"""(?:(?<=\]\()|(?<=src=")|(?<=href="))([^)"\s#]+)""")  # Markdown and HTML
COPIED = (".png", ".svg", ".gz")  # as they are


class Repository:
    """Knows where each file of the repository is in the site; ``places`` are exceptions."""

    def __init__(self, root, docs="docs", places=None):
        self.root, self.docs, self.places = Path(root), docs, places or {}

    def is_outside(self, path):
        """Whether a path, relative to the repository, is a file or folder outside docs/."""
        inside = path == self.docs or path.startswith(f"{self.docs}/")
        return not inside and not path.startswith("..") and (self.root / path).exists()

    def place(self, path):
        """Where a file of the repository is in the site's sources.

        >>> here = Repository(".")
        >>> here.place("docs/runs.md"), here.place("figures/README.md"), here.place("figures/a.png")
        ('runs.md', 'repository/figures/README.md', 'repository/figures/a.png')
        >>> here.place("setup.py")
        'repository/setup.py.md'
        """
        if path in self.places:
            return self.places[path]
        if path.startswith(f"{self.docs}/"):
            return path[len(self.docs) + 1 :]
        suffix = "" if path.endswith((".md", *COPIED)) else ".md"
        return f"{HOME}/{path}{suffix}"

    def origin(self, place):
        """The folder that the links of a page are relative to, in the repository."""
        path = place[len(HOME) + 1 :] if place.startswith(f"{HOME}/") else f"{self.docs}/{place}"
        folder = Path(path[: -len(".md")])
        return path[: -len(".md")] if (self.root / folder).is_dir() else posixpath.dirname(path)

    def targets(self, text, place):
        """The files outside docs/ that a page links to."""
        paths = [self.resolve(link, place) for link in LINK.findall(text)]
        return [path for path in paths if path and self.is_outside(path)]

    def resolve(self, link, place):
        """The path of a link's target, relative to the repository; "" if it is no path."""
        if ":" in link or link.startswith("/"):
            return ""
        return posixpath.normpath(posixpath.join(self.origin(place), link))

    def rewrite(self, text, place):
        """The text of a page with links to where their targets are in the site."""
        here = posixpath.dirname(place)

        def relocate(match):
            path = self.resolve(match.group(), place)
            moved = path and (place.startswith(f"{HOME}/") or self.is_outside(path))
            if not moved or not (self.root / path).exists():
                return match.group()
            return posixpath.relpath(self.place(path), here or ".")

        return LINK.sub(relocate, text)

    def page(self, path):
        """The text of a file of the repository as a page."""
        file = self.root / path
        if file.is_dir():
            names = sorted(each.name for each in file.iterdir() if each.is_file())
            return f"# {path}/\n\n" + "".join(f"- [{name}]({name})\n" for name in names)
        text = file.read_text(encoding="utf-8")
        if path.endswith(".md"):
            return text
        kind = {".py": "python", ".sh": "bash", ".cff": "yaml"}.get(file.suffix, "text")
        return f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n````{kind}\n{text}````\n"
