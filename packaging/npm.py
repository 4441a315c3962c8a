"""The program as npm packages: `@leasehold/sidecar`, and beside it one package a platform, of which npm installs the right one."""

import json

from archives import compressed, file, tar, text
from project import ARCHITECTURES, LICENCES, REPOSITORY, ROOT, SUMMARY, architecture, version

HERE = ROOT / "packaging/npm"
# What npm calls the folder in its archives.
FOLDER = "package"


def platform_name(node):
    """The name of a platform's package."""
    return f"@leasehold/sidecar-linux-{node}"


def file_name(name):
    """The archive's name, as `npm pack` makes it."""
    return f"{name.removeprefix('@').replace('/', '-')}-{version()}.tgz"


def _manifest(name, **more):
    content = {
        "name": name,
        "version": version(),
        "description": SUMMARY,
        "license": "MIT OR Apache-2.0",
        "repository": {"type": "git", "url": f"git+{REPOSITORY}.git", "directory": "packaging/npm"},
        "publishConfig": {"access": "public"},
        **more,
    }
    return text(f"{FOLDER}/package.json", json.dumps(content, indent=2) + "\n")


def _archive(entries):
    licences = [file(f"{FOLDER}/{name}", ROOT / name) for name in LICENCES]
    return compressed(tar([*entries, *licences], folders=False))


def launcher():
    """The package that people name: it finds the program, and runs it."""
    platforms = {platform_name(one.node): version() for one in ARCHITECTURES.values()}
    manifest = _manifest(
        "@leasehold/sidecar",
        keywords=["lock", "lease", "singleton", "grpc", "sidecar"],
        engines={"node": ">=20.9"},
        bin={"leasehold": "bin/leasehold.js"},
        main="./index.js",
        types="./index.d.ts",
        optionalDependencies=platforms,
    )
    plain = [file(f"{FOLDER}/{name}", HERE / name) for name in ("index.d.ts", "index.js", "README.md")]
    return _archive([manifest, file(f"{FOLDER}/bin/leasehold.js", HERE / "bin/leasehold.js", 0o755), *plain])


def platform(program, third_party, bill):
    """The package of the program's platform: the program alone, with its licences and its bill of materials."""
    manifest = _manifest(
        platform_name(architecture().node),
        os=["linux"],
        cpu=[architecture().node],
        # Yarn keeps packages in archives, from which nothing can be executed.
        preferUnplugged=True,
    )
    readme = f"# {platform_name(architecture().node)}\n\nThe program of `@leasehold/sidecar` for this platform. Install that package instead.\n"
    return _archive([
        manifest,
        file(f"{FOLDER}/bin/leasehold", program, 0o755),
        text(f"{FOLDER}/README.md", readme),
        text(f"{FOLDER}/THIRD-PARTY-LICENSES.txt", third_party),
        text(f"{FOLDER}/leasehold.cdx.json", bill),
    ])
