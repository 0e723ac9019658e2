"""A stored notebook as a page: its cells and the outputs that it holds, nothing is executed."""

import base64
import json


def notebook_page(text, name):
    """Markdown, and the pictures in it by file name.

    >>> cells = [{"cell_type": "code", "source": ["1 + 1"], "outputs": []}]
    >>> notebook_page(json.dumps({"cells": cells}), "n")
    ('```python\\n1 + 1\\n```\\n', {})
    """
    parts, pictures = [], {}
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            parts.append(show_output(output, name, pictures))
    return "\n\n".join(part for part in parts if part) + "\n", pictures


def show_output(output, name, pictures):
    """One output: text as a block, a picture as a file of its own."""
    data = output.get("data", {})
    if "image/png" in data:
        file = f"{name}-{len(pictures) + 1}.png"
        pictures[file] = base64.b64decode("".join(data["image/png"]))
        return f"![output of the cell above]({file})"
    text = "".join(output.get("text", data.get("text/plain", "")))
    return f"```text\n{text.rstrip()}\n```" if text.strip() else ""
