"""What is in the program: its bill of materials (CycloneDX), and the licences of the crates that are linked into it."""

import json
import pathlib
import re
import tempfile
import uuid

from project import REPOSITORY, ROOT, PackagingError, architecture, is_cross, run

NOTICE = """Leasehold is linked with the libraries below. Their licences follow, as their authors distribute them.
The static program also contains parts of the GNU C library ({glibc}; LGPL 2.1 or newer), whose source is that of the package
`glibc` of the distribution named there. Leasehold's own source, with which the program can be linked anew, is at the address in its README.
"""


def glibc():
    """The C library that is linked statically: that of this machine, or of the cross compiler, which says less of it."""
    if is_cross():
        compiler = f"{architecture().machine}-linux-gnu-gcc"
        macros = run(compiler, "-E", "-dM", "-include", "features.h", "-x", "c", "/dev/null")
        major, minor = (re.search(rf"#define {name} (\d+)", macros)[1] for name in ("__GLIBC__", "__GLIBC_MINOR__"))
        return f"({compiler}) {major}.{minor}"
    return run("ldd", "--version").splitlines()[0].split(" ", 1)[1]


def _sqlite(folder, _features):
    """SQLite's amalgamation."""
    version = re.search(r'#define SQLITE_VERSION +"([^"]+)"', (folder / "sqlite3/sqlite3.h").read_text())[1]
    return [("SQLite", version, "blessing", f"cpe:2.3:a:sqlite:sqlite:{version}:*:*:*:*:*:*:*")]


def _mimalloc(folder, features):
    """The allocator, of the major version that the crate's features choose."""
    header = folder / "c_src/mimalloc" / ("v2" if "v2" in features else "v3") / "include/mimalloc.h"
    number = int(re.search(r"#define MI_MALLOC_VERSION +([0-9]+)", header.read_text())[1])
    version = f"{number // 10_000}.{number // 100 % 100}.{number % 100}"
    return [("mimalloc", version, "MIT", f"cpe:2.3:a:microsoft:mimalloc:{version}:*:*:*:*:*:*:*")]


def _ring(folder, _features):
    """Parts of BoringSSL and of fiat-crypto, which have no releases: they are those of the crate's version."""
    if not (folder / "LICENSE-BoringSSL").exists() or not (folder / "third_party/fiat").is_dir():
        raise PackagingError(f"{folder.name} has other parts in C than it had: look at them, and correct packaging/bills.py")
    version = f"as in {folder.name}"
    return [("BoringSSL (parts)", version, "Apache-2.0 AND ISC AND OpenSSL", None), ("fiat-crypto (parts)", version, "MIT OR Apache-2.0", None)]


# What a crate has in C or assembly, which the bill of the crates does not name; and crates whose C is not linked.
NATIVE = {"libsqlite3-sys": _sqlite, "libmimalloc-sys": _mimalloc, "ring": _ring}
NOT_LINKED = {"nix": "a kernel module of its tests"}
SOURCES = {".c", ".cc", ".cpp", ".S", ".s", ".asm", ".o", ".a"}


def native(metadata):
    """The libraries in C and assembly that are linked; refuses a crate that brings others."""
    linked = _linked(metadata)
    features = {node["id"]: node["features"] for node in metadata["resolve"]["nodes"]}
    components = []
    for package in metadata["packages"]:
        folder = pathlib.Path(package["manifest_path"]).parent
        name = package["name"]
        if package["id"] not in linked or name in NOT_LINKED or not any(path.suffix in SOURCES for path in folder.rglob("*")):
            continue
        if name not in NATIVE:
            raise PackagingError(f"{name} is linked and has parts in C: name them in packaging/bills.py")
        for library, version, licence, cpe in NATIVE[name](folder, features[package["id"]]):
            component = {
                "type": "library",
                "bom-ref": f"{name}#{library}",
                "name": library,
                "version": version,
                "licenses": [{"expression": licence}],
                "properties": [{"name": "leasehold:crate", "value": f"{name} {package['version']}"}],
            }
            components.append(component | ({"cpe": cpe} if cpe else {}))
    return components


def crates():
    """The crates of the program, as cargo resolves them for its architecture."""
    target = f"{architecture().machine}-unknown-linux-gnu"
    return json.loads(run("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target, "--quiet"))


def bill():
    """One entry a crate that is linked, one for each library in C that a crate brings, and one for the C library."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "bill.json")
        run("sh", "tests/tools/build-sbom.sh", path)
        # cargo leaves the package's name out of its id where the folder is called like the package.
        content = json.loads(path.read_text().replace("file:///leasehold#leasehold@", "file:///leasehold#"))
    content["components"] += native(crates())
    content["components"].append({
        "type": "library",
        "bom-ref": "glibc",
        "name": "glibc",
        "version": glibc(),
        "licenses": [{"expression": "LGPL-2.1-or-later"}],
    })
    return _numbered(content)


def _numbered(content):
    """The text, with a serial number as it has to be, which is not by chance but of the contents: equal ones have the same."""
    content.pop("serialNumber", None)
    number = uuid.uuid5(uuid.NAMESPACE_URL, f"{REPOSITORY}#{json.dumps(content, sort_keys=True)}")
    return json.dumps(content | {"serialNumber": number.urn}, indent=2) + "\n"


def with_authorities(bill, certifi):
    """The bill of the image, which has the certificate authorities beside the program."""
    content = json.loads(bill)
    content["components"].append({
        "type": "data",
        "bom-ref": "certifi",
        "name": "certifi",
        "version": certifi,
        "purl": f"pkg:pypi/certifi@{certifi}",
        "licenses": [{"expression": "MPL-2.0"}],
    })
    return _numbered(content)


def _linked(metadata):
    """The ids of the packages that the program is linked with: no tests, no build scripts."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    found, left = set(), [root]
    while left:
        for dependency in nodes[left.pop()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_linked and dependency["pkg"] not in found:
                found.add(dependency["pkg"])
                left.append(dependency["pkg"])
    return found - {root}


def _texts(package):
    """The files of a crate that have its licences, and who wrote it."""
    folder = pathlib.Path(package["manifest_path"]).parent
    beginnings = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name.upper().startswith(beginnings))
    return [path.read_text(errors="replace").strip() for path in files]


def third_party():
    """The licences: first which crate has which, then each text once, with the crates that it is for."""
    metadata = crates()
    linked = _linked(metadata)
    packages = [package for package in metadata["packages"] if package["id"] in linked and package["source"]]
    overview, texts = [], {}
    for package in sorted(packages, key=lambda package: (package["name"], package["version"])):
        name = f"{package['name']} {package['version']}"
        authors = f", by {', '.join(package['authors'])}" if package["authors"] else ""
        overview.append(f"{name}: {package['license'] or 'see its text'}{authors}")
        for text in _texts(package):
            texts.setdefault(text, []).append(name)
    sections = [NOTICE.format(glibc=glibc()), "\n".join(overview)]
    sections += [f"{'=' * 80}\n{', '.join(names)}\n{'=' * 80}\n\n{text}" for text, names in texts.items()]
    return "\n\n".join(sections) + "\n"
