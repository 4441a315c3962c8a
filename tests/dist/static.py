"""What can be said about the packages without building them: `tests/dist/run --static`."""

import pathlib
import sys
import tempfile

from trial import ROOT, claim, end, said, step


def native():
    """The bill of materials can name all that is inside in C, and nothing is passed over."""
    step("What is in C.")
    code, output = said(sys.executable, "-c", "import bills; print(bills.native(bills.crates()))", cwd=ROOT / "packaging")
    named = [name for name in ("SQLite", "mimalloc", "BoringSSL (parts)", "fiat-crypto (parts)") if name in output]
    claim(code == 0 and len(named) == 4, f"it is named: {named}")
    code = "import bills; bills.NATIVE.pop('ring'); bills.native(bills.crates())"
    code, output = said(sys.executable, "-c", code, cwd=ROOT / "packaging")
    claim(code != 0 and "ring is linked and has parts in C" in output, "C that nobody has named is refused")


def refusals(folder):
    """What cannot be packed is refused, by what is wrong with it."""
    step("Refusals.")
    foreign = folder / "foreign"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("dear")
    code, output = said(ROOT / "packaging/dist", "--to", foreign, "chart")
    claim(code == 2 and "not empty" in output and (foreign / "letter.txt").exists(), "a folder with other files is left alone")
    code, output = said(ROOT / "packaging/program", "/bin/sh")
    claim(code == 1 and "linked dynamically" in output, "a program that needs a loader is refused")
    code, output = said(ROOT / "packaging/dist", "--to", folder / "new", "chair")
    claim(code == 2 and "chair is no part" in output, "a part that does not exist is refused")


def main():
    with tempfile.TemporaryDirectory(prefix="dist-") as name:
        native()
        refusals(pathlib.Path(name))
    end()


main()
