"""Runs the version before beside this one on one store: `tests/dist/upgrade`.

Sidecars of both versions and callers of both are used crosswise: what the one has written, the other has to read.
"""

import contextlib
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

from trial import BUSY, PATIENCE, ROOT, claim, clean_environment, end, failures, must, said, step

sys.path.append(str(ROOT / "tests/chart"))
from account import Account  # noqa: E402


class Sidecar:
    """A sidecar of one version at a socket of its own."""

    def __init__(self, name, program, folder, store):
        self.name, self.program, self.store = name, program, store
        self.socket, self.log = folder / f"{name}.sock", folder / f"{name}.log"
        self.environment = clean_environment(LEASEHOLD_ENDPOINT=f"unix://{self.socket}")
        self.start(program)

    def start(self, program):
        """Starts it, or at its socket one of another version."""
        self.program = program
        settings = [f"listen.unix={self.socket}", "listen.tcp=", "admin.listen=", "host_id.host_type=upgrade", "drain.hand_over=true", *self.store]
        command = [str(program), "serve", *(word for setting in settings for word in ("--set", setting))]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, env=self.environment)
        self.ask(program, "probe", "--wait", "1m")

    def replace(self, program):
        """Ends it, and starts another one in its place."""
        self.process.send_signal(signal.SIGTERM)
        claim(self.process.wait(PATIENCE) == 0, f"the sidecar {self.name} ends, and leaves its holds to its replacement")
        self.start(program)

    def ask(self, caller, *command):
        """What a caller of some version learns here."""
        return must(caller, *command, env=self.environment)

    def lock(self, caller, name):
        """A lock as a caller sees it."""
        return json.loads(self.ask(caller, "show", "--function", name, "--output", "json"))

    def stop(self):
        """Ends it at once."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def held(sidecar, caller, name):
    """A lock that is held by `leasehold run`; its fencing token."""
    command = [str(caller), "run", name, "--", "sh", "-c", 'echo "$LEASEHOLD_FENCING_TOKEN"; read -r line']
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=sidecar.environment)
    try:
        yield int(holder.stdout.readline() or 0)
        holder.communicate("end\n", timeout=PATIENCE)
        claim(holder.returncode == 0, f"the holder ends with 0, not having lost it: {holder.returncode}")
    finally:
        if holder.poll() is None:
            holder.kill()
            holder.wait()


def exclusion(one, other):
    """A lock that is held at the one is refused at the other, and grows its token there."""
    name = f"exclusion-{one.name}"
    with held(one, one.program, name) as token:
        code, _ = said(other.program, "run", name, "--", "true", env=other.environment)
        claim(code == BUSY, f"held at {one.name}, it is refused at {other.name}: {code}")
        seen = other.lock(other.program, name)
        claim((seen["state"], seen["fencing_token"]) == ("held", token), f"which sees who has it: {seen['state']}, token {token}")
    with held(other, other.program, name) as next_token:
        claim(next_token > token, f"released there, it is acquired here with a greater token: {next_token}")


def resuming(sidecar, caller, program, whose):
    """A hold goes on at a sidecar of another version in the same place, by its resume token."""
    name = f"resuming-{whose}"
    with held(sidecar, caller, name) as token:
        sidecar.replace(program)
        seen = sidecar.lock(program, name)
        while not (resumed := seen["held_here"]) and seen["state"] == "held":
            seen = sidecar.lock(program, name)
        claim(resumed and seen["fencing_token"] == token, f"the caller ({whose}) resumes its hold with the token {seen['fencing_token']}")


def checkpoints(one, other, folder):
    """What a holder saves at the one is what the next one finds at the other, and back."""
    file, name = folder / "cursor", f"checkpoint-{one.name}"
    for number, (writer, reader) in enumerate([(one, other), (other, one)], 1):
        writer.ask(writer.program, "run", name, "--checkpoint", file, "--", "sh", "-c", f"echo position {number} >{file}")
        read = reader.ask(reader.program, "checkpoint", "get", "--function", name)
        claim(read == f"position {number}", f"saved at {writer.name}, read at {reader.name}: {read}")


def schedules(one, other, caller):
    """A schedule that began at the one is known at the other, and goes on there."""
    name = f"schedule-{one.name}"
    every = [caller, "every", "10s", "--function", name, "--once", "--", "sh", "-c", 'echo "$LEASEHOLD_SCHEDULED_AT"']
    ran = []
    for sidecar, reader in ((one, other), (other, one)):
        ran.append(must(*every, env=sidecar.environment))
        seen = reader.ask(caller, "schedule", "show", "--function", name, "--output", "json")
        known = json.loads(seen)["state"]
        claim(ran[-1] in json.dumps(known), f"run at {sidecar.name}, recorded at {reader.name}: {ran[-1]}")
    claim(ran[0] < ran[1], f"each occurrence once: {ran}")


def story(before, now, folder, store):
    """All of it on one store."""
    folder.mkdir()
    old, new = Sidecar("before", before, folder, store), Sidecar("now", now, folder, store)
    try:
        versions = [json.loads(one.ask(now, "info", "--output", "json"))["version"] for one in (old, new)]
        claim(True, f"sidecars of both versions are ready: {versions}")
        exclusion(old, new)
        exclusion(new, old)
        checkpoints(old, new, folder)
        checkpoints(new, old, folder)
        schedules(old, new, now)
        step("An upgrade, a return, and another upgrade, while locks are held.")
        resuming(old, before, now, "of the version before")
        resuming(old, now, before, "of this version")
        resuming(old, before, now, "of the version before, again")
    finally:
        old.stop()
        new.stop()
        if failures:
            print("\n".join(f"{one.name}\n{one.log.read_text()[-4000:]}" for one in (old, new)))


def main():
    """Both stores that survive an upgrade."""
    before, now = map(pathlib.Path, sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="upgrade-") as name:
        folder = pathlib.Path(name)
        step("The embedded store: one file.")
        story(before, now, folder / "embedded", [f"store.embedded.path={folder}/locks.db"])
        step("Azure Blob Storage: one account of the emulator.")
        account = Account(folder / "azurite.log")
        try:
            secret = folder / "connection-string"
            secret.write_text(account.connection_string())
            settings = ["store.kind=azure", f"store.azure.connection_string_file={secret}", "store.azure.create_container=true"]
            story(before, now, folder / "azure", settings)
        finally:
            account.close()
    end()


main()
