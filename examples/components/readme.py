#!/usr/bin/env python3
"""Checks that the code in an example's README is the example's code.

A block under a comment such as `<!-- from job.py -->` has to stand in that file as it is; indentation may be less.

    python3 examples/components/readme.py examples/two-deployments
"""

import re
import sys
import textwrap
from pathlib import Path

BLOCK = re.compile(
    r"(?:<!-- from (?P<file>\S+) -->\n+)?```(?P<language>\w*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
CODE = {"go", "lua", "python", "sql", "typescript", "ts"}


def main() -> int:
    """The number of blocks that differ."""
    wrong = 0
    for folder in map(Path, sys.argv[1:]):
        seen = 0
        for block in BLOCK.finditer((folder / "README.md").read_text()):
            if block["language"] not in CODE:
                continue
            seen += 1
            if not block["file"]:
                wrong += 1
                print(
                    f"{folder}/README.md: a block of {block['language']} does not say from which file it is",
                    file=sys.stderr,
                )
            elif not stands_in(block["code"], (folder / block["file"]).read_text()):
                wrong += 1
                print(
                    f"{folder}/README.md: a block is not in {block['file']} as it is:\n{block['code']}", file=sys.stderr
                )
        if not seen:
            wrong += 1
            print(f"{folder}/README.md: shows no code", file=sys.stderr)
    return min(wrong, 100)


def stands_in(code: str, text: str) -> bool:
    """Whether some lines of `text`, without their common indentation, are `code`."""
    wanted = code.rstrip("\n").split("\n")
    lines = text.split("\n")
    places = (lines[at : at + len(wanted)] for at in range(len(lines) - len(wanted) + 1))
    return any(textwrap.dedent("\n".join(place)).split("\n") == wanted for place in places)


if __name__ == "__main__":
    sys.exit(main())
