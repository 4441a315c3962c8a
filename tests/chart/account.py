"""The storage account of the demonstration: Azurite, and a look into it that does not go through Leasehold."""

import base64
import hashlib
import hmac
import pathlib
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

NAME = "devstoreaccount1"
# The emulator's key, which everybody knows.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2025-11-05"
END = "2100-01-01T00:00:00Z"
# Runs the script that is named next, and ends with the pipe to it: the emulator never outlives who started it.
UNTIL_ORPHANED = "process.stdin.resume().on('close', () => process.exit(0)); require(process.argv[1])"
SCRIPT = ROOT / ".tools/node_modules/azurite/dist/src/blob/main.js"
READY = "successfully listens on "


class Account:
    """An account with nothing in it, on a free port of the loopback."""

    def __init__(self, log):
        flags = ["--blobHost", "127.0.0.1", "--blobPort", "0"]
        flags += ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
        with open(log, "wb") as output:
            command = ["node", "-e", UNTIL_ORPHANED, str(SCRIPT), *flags]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)
        self.endpoint = f"{self._url(log)}/{NAME}"

    def _url(self, log):
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            for line in log.read_text(encoding="utf-8").splitlines():
                if READY in line:
                    return line.split(READY)[1].strip()
            time.sleep(0.05)
        raise RuntimeError(f"the storage emulator did not start:\n{log.read_text(encoding='utf-8')}")

    def close(self):
        """Ends it."""
        self.process.kill()
        self.process.wait()

    def connection_string(self):
        """How to sign in to it."""
        return f"AccountName={NAME};AccountKey={KEY};BlobEndpoint={self.endpoint}"

    def sas_url(self):
        """Its URL, with a shared access signature."""
        return f"{self.endpoint}?{self._signature()}"

    def _signature(self):
        text = f"{NAME}\nrwdlac\nb\nsco\n\n{END}\n\n\n{VERSION}\n\n"
        digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
        fields = {"sv": VERSION, "ss": "b", "srt": "sco", "sp": "rwdlac", "se": END, "sig": base64.b64encode(digest)}
        return urllib.parse.urlencode(fields)

    def make_container(self):
        """Makes the container of the locks, as an operator does beforehand."""
        url = f"{self.endpoint}/leasehold?restype=container&{self._signature()}"
        urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=10).close()

    def locks(self):
        """The blobs: a map from their names to whether they are leased."""
        url = f"{self.endpoint}/leasehold?restype=container&comp=list&{self._signature()}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            blobs = ElementTree.fromstring(answer.read()).iter("Blob")
            return {blob.findtext("Name"): blob.findtext("Properties/LeaseState") == "leased" for blob in blobs}
