"""Archives of which the bytes depend on their contents alone: entries in order, of one date, of user and group 0."""

import dataclasses
import gzip
import io
import tarfile
import time
import zipfile

from project import epoch

# The first date that a zip archive can have.
ZIP_BEGINS = 315532800


@dataclasses.dataclass(frozen=True)
class Entry:
    """A file of an archive."""

    name: str
    data: bytes
    mode: int = 0o644


def file(name, path, mode=0o644):
    """The entry of a file that is there."""
    return Entry(name, path.read_bytes(), mode)


def text(name, content, mode=0o644):
    """The entry of a text."""
    return Entry(name, content.encode(), mode)


def _add(archive, name, mode, data=None):
    member = tarfile.TarInfo(name)
    member.mtime, member.mode = epoch(), mode
    if data is None:
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
    else:
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))


def tar(entries, folders=True):
    """A tar archive, with an entry for each folder unless it is for a tool that wants files alone."""
    buffer, made = io.BytesIO(), set()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for entry in entries:
            parts = entry.name.split("/")[:-1]
            for depth in range(1, len(parts) + 1 if folders else 1):
                folder = "/".join(parts[:depth])
                if folder not in made:
                    made.add(folder)
                    _add(archive, folder, 0o755)
            _add(archive, entry.name, entry.mode, entry.data)
    return buffer.getvalue()


def compressed(data):
    """Gzipped, without a date and a name."""
    return gzip.compress(data, compresslevel=9, mtime=0)


def zipped(entries):
    """A zip archive."""
    date = time.gmtime(max(epoch(), ZIP_BEGINS))[:6]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for entry in entries:
            member = zipfile.ZipInfo(entry.name, date)
            member.create_system = 3  # Unix: modes count
            member.external_attr = (0o100000 | entry.mode) << 16
            archive.writestr(member, entry.data, zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()


def dated_alike(archive):
    """The same files of a .tgz that another tool has written with the time of day."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tarball:
        members = [member for member in tarball.getmembers() if member.isfile()]
        entries = [Entry(member.name, tarball.extractfile(member).read(), member.mode) for member in members]
    return compressed(tar(entries, folders=False))
