"""What every way to install Leasehold has to lead to: a lock that is held, and refused to somebody else."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
# Generous: it only bounds how long a failure takes.
PATIENCE = 120
BUSY = 75
BEGAN = time.monotonic()
failures = []


def step(text):
    """A heading of the story."""
    print(f"\n{text}", flush=True)


def claim(holds, text):
    """A line that is right or wrong."""
    print(f"{time.monotonic() - BEGAN:7.2f} s  {'ok    ' if holds else 'FAILED'} {text}", flush=True)
    if not holds:
        failures.append(text)


def end():
    """Ends this program as the claims were."""
    print()
    sys.exit(f"{len(failures)} failed" if failures else 0)


def clean_environment(**more):
    """The environment without what this machine sets for Leasehold, Python and npm."""
    theirs = ("LEASEHOLD_", "PYTHON", "VIRTUAL_ENV", "npm_config_local")
    return {name: value for name, value in os.environ.items() if not name.startswith(theirs)} | more


def _done(command, options):
    options = {"env": clean_environment(), "timeout": PATIENCE, "stdin": subprocess.DEVNULL} | options
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)


def said(*command, **options):
    """The exit code of a command, and all that it says."""
    done = _done(command, options)
    return done.returncode, (done.stdout + done.stderr).strip()


def must(*command, **options):
    """What a command prints, which has to succeed."""
    done = _done(command, options)
    if done.returncode != 0:
        words = " ".join(str(word) for word in command)
        sys.exit(f"`{words}` failed with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def holds_a_lock(command, folder, inside=None, terminate=subprocess.Popen.terminate, **options):
    """Claims that a sidecar started by this command grants a lock once, and ends well when it is told to.

    `inside` is the folder as the command sees it, if that is another path; `terminate` tells the sidecar to end, by SIGTERM.
    """
    inside = inside or str(folder)
    environment = clean_environment(LEASEHOLD_ENDPOINT=f"unix://{inside}/leasehold.sock")
    run = [*map(str, command), "run", "nightly", "--wait", "0s", "--"]
    settings = [f"listen.unix={inside}/leasehold.sock", "listen.tcp=", "admin.listen=", f"store.embedded.path={inside}/locks.db"]
    serve = [*map(str, command), "serve", *(word for setting in settings for word in ("--set", setting))]
    with (folder / "log").open("wb") as log:
        sidecar = subprocess.Popen(serve, stderr=log, env=environment, start_new_session=True, **options)
    holder = None
    try:
        ready, output = said(*command, "probe", "--wait", "1m", env=environment, **options)
        claim(ready == 0, f"the sidecar is ready {output}")
        script = 'echo "$LEASEHOLD_FENCING_TOKEN"; read -r line'
        holder = subprocess.Popen(
            [*run, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, **options
        )
        token = holder.stdout.readline().strip()
        claim(token.isdigit() and int(token) > 0, f"a lock is held, with the fencing token {token}")
        code, output = said(*run, "true", env=environment, **options)
        claim(code == BUSY, f"and refused to a second caller: exit code {code}, {output.splitlines()[-1:]}")
        holder.communicate("end\n", timeout=PATIENCE)
        claim(holder.returncode == 0, f"the holder ends with {holder.returncode}")
        code, output = said(*run, "sh", "-c", "exit 7", env=environment, **options)
        claim(code == 7, f"the command's exit code comes through: {code}")
        terminate(sidecar)
        claim(sidecar.wait(PATIENCE) == 0, f"SIGTERM ends the sidecar with {sidecar.returncode}")
    finally:
        for process in (holder, sidecar):
            if process and process.poll() is None:
                process.kill()
                process.wait()
        with contextlib.suppress(ProcessLookupError):
            # What a launcher has left behind.
            os.killpg(sidecar.pid, signal.SIGKILL)
        if failures:
            print((folder / "log").read_text(errors="replace")[-2000:])
