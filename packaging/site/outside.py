#!/usr/bin/env python3
"""A preprocessor of mdBook: links to files outside docs/ lead to the repository, for the site has no such page.

LEASEHOLD_SITE_REF names the tag or branch to which they lead; default: main.
"""

import json
import os
import pathlib
import posixpath
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
REPOSITORY = "https://github.com/leasehold/leasehold"
# A link, and not what looks like one in a block of code or between backticks.
LINK = re.compile(r"(?ms)^ *(```|~~~).*?^ *\1|`+[^`\n]*`+|\]\((?P<target>\.\./[^)\s]+)\)")


def outside(text, page):
    """The text of a page with its links to other folders made absolute."""
    ref = os.environ.get("LEASEHOLD_SITE_REF", "main")

    def absolute(link):
        if not link["target"]:
            return link[0]
        target, sign, fragment = link["target"].partition("#")
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
        if path.startswith("..") or not (ROOT / path).exists():
            raise FileNotFoundError(f"docs/{page}: {link['target']} is not there")
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"]({REPOSITORY}/{kind}/{ref}/{path}{sign}{fragment})"

    return LINK.sub(absolute, text)


def chapters(items):
    """All chapters of a book, with those that are inside of others."""
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def main():
    """What mdBook asks: whether a renderer is supported, or for a book."""
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    for chapter in chapters(book.get("items", book.get("sections"))):
        if chapter.get("source_path"):
            chapter["content"] = outside(chapter["content"], chapter["source_path"])
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
