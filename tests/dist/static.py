"""What can be said about the packages without building them: `tests/dist/run --static`."""

import ast
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

from trial import ROOT, VERSION, claim, end, said, step


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


def parts(folder):
    """A part is built beside what is there of the same version."""
    step("Some parts.")
    to = folder / "dist"
    for part in ("go", "rust", "go"):
        code, output = said(ROOT / "packaging/dist", "--to", to, part)
        claim(code == 0, f"{part} is built {output if code else ''}")
    there = {str(path.relative_to(to)) for path in to.rglob("*") if path.is_file()}
    crate, module = f"rust/leasehold-client-{VERSION}.crate", "go/github.com/leasehold/leasehold/clients/go/@v"
    claim({crate, f"{module}/list", f"{module}/v{VERSION}.zip"} <= there, "the crate is kept, and so are Go's modules")
    code, output = said("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=to)
    listed = len((to / "SHA256SUMS").read_text().splitlines())
    claim(code == 0 and listed == len(there) - 1, f"SHA256SUMS has all {listed} files {output}")
    (to / crate).write_text("changed")
    old = to / "java/leasehold-client-9.9.9.jar"
    old.parent.mkdir()
    old.write_text("old")
    with (to / "SHA256SUMS").open("a") as sums:
        sums.write(f"{hashlib.sha256(b'old').hexdigest()}  java/{old.name}\n")
    code, output = said(ROOT / "packaging/dist", "--to", to, "go")
    told = output.count("is of another version or was changed, and is left out")
    claim(code == 0 and told == 2 and not (to / crate).exists() and not old.exists(), f"what was changed or is of another version is not: {output}")


def central():
    """The Java client says of itself what Maven Central needs."""
    step("Maven Central.")
    pom = (ROOT / "clients/java/pom.xml").read_text()
    code = "import sys, central; print(central.lacking(sys.stdin.read().encode()))"

    def lacking(text):
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "packaging", input=text, capture_output=True, text=True, check=True)
        return ast.literal_eval(done.stdout)

    claim(lacking(pom) == [], "the pom has all that is needed")
    claim(lacking(pom.replace("<developers>", "<others>").replace("</developers>", "</others>")) == ["developers/developer/name"], "what it lacks is found")
    claim(lacking(pom.replace(f"<version>{VERSION}</version>", f"<version>{VERSION}-SNAPSHOT</version>")) == [f"{VERSION}-SNAPSHOT"], "and so is what is no release")


def site(folder):
    """Links of docs/ to other folders lead to the repository, and what leads nowhere is found: without mdBook, which takes minutes."""
    step("The site of docs/.")
    code = "import sys, outside; print(outside.outside(sys.argv[1], 'a.md'), end='')"
    environment = {**os.environ, "LEASEHOLD_SITE_REF": f"v{VERSION}"}

    def outside(text):
        return said(sys.executable, "-B", "-c", code, text, cwd=ROOT / "packaging/site", env=environment)

    _, text = outside("[a](../README.md#x) `[b](../no)` [c](../clients/) [d](b.md)\n```\n[e](../no)\n```")
    there = f"https://github.com/leasehold/leasehold/%s/v{VERSION}/%s"
    wanted = f"[a]({there % ('blob', 'README.md#x')}) `[b](../no)` [c]({there % ('tree', 'clients')}) [d](b.md)\n```\n[e](../no)\n```"
    claim(text == wanted, f"they lead to files and folders of the version, and code stays as it is: {text}")
    code_of, text = outside("[a](../no.md)")
    claim(code_of != 0 and "docs/a.md: ../no.md is not there" in text, "a link that leads nowhere ends the build")
    pages = folder / "site"
    pages.mkdir()
    names = [f"{number}.html" for number in range(20)]
    for name in names:
        (pages / name).write_text('<h1 id="top"></h1><a href="1.html#top"></a><a href="https://x.example"></a>')
    index = json.dumps({"doc_urls": [f"{name}#top" for name in names]})
    (pages / "searchindex-1.js").write_text(f"window.search = Object.assign(window.search, JSON.parse('{index}'));")
    code, output = said(ROOT / "packaging/site/check", pages)
    claim(code == 0, f"a site whose links lead somewhere passes {output}")
    (pages / "2.html").write_text('<a href="none.html"></a><img src="none.png"><a href="1.html#none"></a>')
    (pages / "new.html").write_text("")
    code, output = said(ROOT / "packaging/site/check", pages)
    words = ("none.html is not there", "none.png is not there", "1.html#none has no such heading", "new.html is not found by the search")
    claim(code == 1 and all(one in output for one in words), f"each mistake is found: {output}")


def cross(folder):
    """For another architecture a cross compiler is used, and what is missing of it is said."""
    step("Another architecture, with stand-ins for the compilers.")
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    target = f"{other}-unknown-linux-gnu"
    tools = folder / "tools"
    tools.mkdir()

    def tool(name, script):
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)

    environment = {**os.environ, "PATH": f"{tools}:/usr/bin:/bin", "LEASEHOLD_MACHINE": other, "CARGO_TARGET_DIR": str(folder / "target")}
    tool("rustc", f"echo {folder}/none")
    # A name that no machine has, where this one has such a compiler.
    tool(f"{other}-linux-gnu-gcc", f"echo {folder}/none/libc.a")
    code, output = said(ROOT / "packaging/program", env=environment)
    claim(code == 1 and f"rustup target add {target}" in output and "libc.a" in output, f"what is missing is said: {output}")
    library = folder / "library"
    library.mkdir()
    (library / "libstd-1.rlib").touch()
    (library / "libc.a").touch()
    tool("rustc", f"echo {library}")
    tool(f"{other}-linux-gnu-gcc", f"echo {library}/libc.a")
    tool("cargo", f"mkdir -p {folder}/target/{target}/release && env >{folder}/environment && echo $* >{folder}/target/{target}/release/leasehold")
    code, output = said(ROOT / "packaging/program", env=environment)
    claim(code == 0 and output == f"{folder}/target/{target}/release/leasehold", f"the program is compiled: {output}")
    claim(f"--target {target}" in pathlib.Path(output).read_text(), "for that architecture")
    chosen = (folder / "environment").read_text()
    wanted = [f"CC_{target.replace('-', '_')}", f"CARGO_TARGET_{target.replace('-', '_').upper()}_LINKER"]
    claim(all(f"{name}={other}-linux-gnu-gcc\n" in chosen for name in wanted), f"by its compiler: {wanted}")
    code, output = said(ROOT / "packaging/dist", "--to", folder / "new", "--machine", other, "--program", "/bin/sh", "image")
    claim(code == 2 and "is for this machine" in output, "a program that is built already cannot be for another")


def service():
    """What docs/install.md promises of the package and its service stands in what they are made of."""
    step("The package and its service.")
    folder = ROOT / "packaging/linux"
    listed = re.findall(r'src: "?([^",]+)"?, dst: ([^,]+),(.*)\}', (folder / "nfpm.yaml").read_text())
    placed = {to: (of, how) for of, to, how in listed}
    unit, settings = "/usr/lib/systemd/system/leasehold.service", "/etc/leasehold/leasehold.toml"
    claim("0755" in placed.get("/usr/bin/leasehold", ("", ""))[1], "the program can be run")
    claim(placed.get(unit, ("",))[0] == "packaging/linux/leasehold.service", "systemd finds the service")
    claim("config|noreplace" in placed.get(settings, ("", ""))[1], "an upgrade keeps the settings")
    said_of = (folder / "leasehold.service").read_text()
    lines = dict(line.split("=", 1) for line in said_of.splitlines() if "=" in line and not line.startswith("#"))
    claim(lines["ExecStart"] == f"/usr/bin/leasehold serve --config {settings}", "the service runs the program with its settings")
    claim((lines["StateDirectory"], lines["RuntimeDirectory"]) == ("leasehold", "leasehold"), "locks and sockets are where the page says")
    claim(lines["DynamicUser"] == "yes" and lines["UMask"] == "0077", "as a user of its own, whose files nobody else reads")
    drain = re.search(r"`drain\.period`.*\| `(\d+)s` \|", (ROOT / "docs/configuration.md").read_text())
    claim(int(lines["TimeoutStopSec"].removesuffix("s")) > int(drain[1]), "a stop waits for holders")
    claim(lines["RestartPreventExitStatus"].split() == ["64", "78"], "a mistake in the settings is not tried again")
    scripts = {name: (folder / f"{name}.sh").read_text() for name in ("installed", "removing", "removed")}
    claim("disable --now leasehold.service" in scripts["removing"], "removing it stops and disables the service")
    claim(not re.search(r"^\s*rm\b", "\n".join(scripts.values()), re.MULTILINE), "no script deletes locks")


def main():
    with tempfile.TemporaryDirectory(prefix="dist-") as name:
        native()
        refusals(pathlib.Path(name))
        parts(pathlib.Path(name))
        cross(pathlib.Path(name))
        central()
        service()
        site(pathlib.Path(name))
    end()


main()
