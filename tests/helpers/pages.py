"""Pages of the report, without a browser."""

from html.parser import HTMLParser


class Reader(HTMLParser):
    """Collects the tags of a page and the text of its data."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.data, self.inside = [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = dict(attrs).get("id") == "data"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, text):
        self.data += text if self.inside else ""
