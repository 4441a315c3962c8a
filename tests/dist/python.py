"""The wheel `leasehold-sidecar`, as a person with Python only installs it."""

import sys
import venv

from trial import VERSION, claim, holds_a_lock, must, said, step

PROBLEM = "it was removed or moved; install the package again"


def check(dist, folder):
    """An empty virtual environment, without an index."""
    step("With Python only: pip install --no-index --find-links dist leasehold-sidecar")
    venv.create(folder / "venv", with_pip=True)
    commands = folder / "venv/bin"
    install = [commands / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--find-links", dist]
    must(*install, "leasehold-sidecar")
    claim(must(commands / "leasehold", "--version") == f"leasehold {VERSION}", "pip installs the program")
    holds_a_lock([commands / "leasehold"], folder)

    find = [commands / "python", "-c", "import leasehold_sidecar; print(leasehold_sidecar.find_program())"]
    claim(must(*find) == str(commands / "leasehold"), "find_program() finds it")
    by_module = must(commands / "python", "-m", "leasehold_sidecar", "--version")
    claim(by_module == f"leasehold {VERSION}", "python -m leasehold_sidecar runs it")
    must(*install, "--target", folder / "target", "leasehold-sidecar")
    by_target = must(sys.executable, "-S", "-c", find[-1], cwd=folder / "target")
    claim(by_target == str(folder / "target/bin/leasehold"), "find_program() finds it below pip's --target")
    (commands / "leasehold").unlink()
    code, output = said(*find)
    claim(code == 1 and PROBLEM in output, "find_program() says what to do when it is gone")
    shown = must(commands / "pip", "show", "--files", "leasehold-sidecar")
    for part in ("licenses/THIRD-PARTY-LICENSES.txt", "sboms/leasehold.cdx.json", "leasehold_sidecar/py.typed"):
        claim(part in shown, f"the wheel has {part}")
