"""Runs the rendered pods of two releases for real, and says step by step what happened: `tests/chart/demonstrate`.

Prints `ok` or `FAILED` for each claim, and fails if one failed.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from account import KEY, Account
from pods import Engine, Pod, moment
from rendering import ROOT, cases, containers, documents, pod_specification, render

IMAGE = "localhost/leasehold:demonstration"
JOB = "localhost/leasehold-job:demonstration"
POLL_CAP = 2.0
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BEGAN = time.monotonic()
failures = []


def say(text):
    """One line of the story."""
    print(f"{time.monotonic() - BEGAN:7.2f} s  {text}", flush=True)


def step(text):
    """A heading of the story."""
    print(f"\n{text}", flush=True)


def claim(holds, text):
    """A line that is right or wrong."""
    say(f"{'ok    ' if holds else 'FAILED'} {text}")
    if not holds:
        failures.append(text)


def until(condition, bound=60.0, pause=0.01):
    """What a condition said when it was first true, and when; None after the bound, which is generous."""
    end = time.monotonic() + bound
    while time.monotonic() < end:
        result = condition()
        if result:
            return result, time.time()
        time.sleep(pause)
    return None, time.time()


def seconds_of(event):
    """When a log line was written."""
    return moment(event["timestamp"])


def token(pod):
    """The token that the pod's job last worked with, or None when it does not work."""
    lines = [line for line in pod.log("app") if " with token " in line]
    return None if not lines or lines[-1].startswith("ends") else int(lines[-1].rsplit(" ", 1)[1])


def build(engine):
    """Builds the two images; the size of Leasehold's."""
    built = engine.run("sh", str(ROOT / "tests/tools/build-image.sh"), IMAGE, cwd=ROOT)
    size = int(engine.run("image", "inspect", IMAGE, "--format", "{{.Size}}")) / 2**20
    say(f"image {built}: {size:.2f} MiB")
    user = engine.run("image", "inspect", IMAGE, "--format", "{{.Config.User}}")
    claim(user == "65532:65532", f"its user is {user}")
    context = engine.folder / "job"
    shutil.copytree(ROOT / "tests/chart/job", context)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-trimpath"}
    subprocess.run(["go", "build", "-o", "job", "."], cwd=context, env=environment, check=True)
    engine.run("build", "--isolation=chroot", "--tag", JOB, str(context))


def certificate(folder):
    """A folder with a certificate that vouches for itself, and its key."""
    tls = folder / "tls"
    tls.mkdir()
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=leasehold", "-keyout", str(tls / "tls.key"), "-out", str(tls / "tls.crt")]
    subprocess.run(command, check=True, capture_output=True)
    shutil.copy(tls / "tls.crt", tls / "ca.crt")
    # Read when a server starts, which none does here.
    (tls / "ca.crl").write_text("a list", encoding="utf-8")
    (tls / "tls.key").chmod(0o444)
    return tls


def example_settings(engine, account):
    """Has the program read what each example gives it: it refuses settings that it does not know or cannot use."""
    step("The settings of the examples, read by the program in the image")
    files = {"connection_string": account.connection_string(), "sas_url": account.sas_url(), "account_key": KEY}
    tls = certificate(engine.folder)
    variables = {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_FEDERATED_TOKEN_FILE": "/token"}
    for name, file in cases():
        found = (pod_specification(document) for document in documents(render(file)))
        pod = next(pod for pod in found if pod and "leasehold" in containers(pod))
        environment = {entry["name"]: entry.get("value", "of=pod") for entry in containers(pod)["leasehold"]["env"]}
        sign_in = environment.get("LEASEHOLD_STORE_AZURE_SIGN_IN", "")
        if sign_in == "workload_identity":
            # What the cluster's webhook puts into the pod.
            environment = {**variables, **environment}
        secret = engine.folder / f"{name}-secret"
        secret.write_text(files.get(sign_in, ""), encoding="utf-8")
        secret.chmod(0o444)
        flags = [f"--env={key}={value}" for key, value in environment.items()]
        flags += [f"--volume={secret}:/etc/leasehold/credentials/secret:ro", f"--volume={tls}:/etc/leasehold/tls:ro"]
        done = engine.run("run", "--rm", "--network=none", *flags, IMAGE, "serve", "--print-config", check=False)
        claim(done.returncode == 0 and "host_id" in done.stdout, f"example {name}: {done.stderr.strip() or 'taken'}")


def values(host_type, admin_port, **others):
    """The values of a release, as JSON by their paths."""
    return {
        **others,
        "hostType": f'"{host_type}"',
        "image.repository": '"localhost/leasehold"',
        "image.tag": '"demonstration"',
        "image.pullPolicy": '"Never"',
        "store.kind": '"azure"',
        "store.azure.signIn": '"connection_string"',
        "store.azure.existingSecret": '{"name": "storage", "key": "connection-string"}',
        "locks.pollCap": f'"{POLL_CAP:.0f}s"',
        # Both pods share this machine's loopback.
        "admin.port": str(admin_port),
        "app.image": f'"{JOB}"',
        "app.imagePullPolicy": '"Never"',
        # The job's image has nothing but the job: an init container brings the program.
        "app.installProgram.enabled": "true",
        "app.command": '["/opt/leasehold/leasehold", "run", "--function", "Keeper.Run", "--wait", "forever", "--", "/job"]',
    }


def free_ports(count):
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def start(engine, account, release, host_type, port, **others):
    """Installs a release, as podman understands it."""
    pod = Pod(engine, release, values(host_type, port, **others), account.connection_string())
    by_engine, by_process = (1000 * seconds for seconds in pod.start())
    say(f"{release}: pod {pod.name} runs, host type {host_type}")
    say(f"       start to ready: {by_process:.0f} ms from the start of the process, {by_engine:.0f} ms from `podman start`")
    probes = {name: pod.probe(name) for name in pod.probes}
    claim(set(probes.values()) == {0} and len(probes) == 3, f"its probes are content: {', '.join(probes)}")
    return pod


def helm_test(engine, account, port):
    """The pod of `helm test`."""
    step("The pod of `helm test`")
    pod = Pod(engine, "keeper-a", values("Keeper-A", port), account.connection_string(), "Pod")
    pod.start()
    until(lambda: pod.inspect(pod.main)["State"]["Status"] == "exited")
    code = pod.inspect(pod.main)["State"]["ExitCode"]
    report = [line for line in pod.log(pod.main) if "exclusion" in line]
    claim(code == 0 and report and report[0].startswith("✓"), f"exit code {code}; {' '.join(report) or pod.log(pod.main)}")
    claim(pod.events("lock granted") and pod.events("lock released"), "its sidecar granted the lock that the store refused to others")
    claim(not account.locks(), "nothing is left in the account")
    pod.stop()


def leased(account):
    """The locks that are held, by the account."""
    return [name for name, is_leased in account.locks().items() if is_leased]


def different_host_types(engine, account, ports):
    """Two releases that have nothing to do with each other."""
    step("1. Two releases with different host types do not exclude each other")
    a = start(engine, account, "keeper-a", "Keeper-A", ports[0])
    b = start(engine, account, "keeper-b", "Keeper-B", ports[1], **{"sidecar.native": "false"})
    claim(b.post_start, "keeper-b's sidecar is a plain container; its postStart ended well before its application started")
    both, _ = until(lambda: token(a) and token(b))
    claim(both, f"both jobs work at once, with the tokens {token(a)} and {token(b)}")
    for name in leased(account):
        say(f"       leased in the account: leasehold/{name}")
    claim(len(leased(account)) == 2, "the account has two leased locks")
    claim(a.probe("readinessProbe") == 0, f"the sidecar of keeper-a has {a.resident():.1f} MiB resident, with one lock held")
    b.stop()
    claim(until(lambda: len(leased(account)) == 1, 5)[0], "keeper-b is stopped; one lock is left")
    return a


def equal_host_types(engine, account, a, port):
    """Two releases of which one waits."""
    step("2. Two releases with equal host types exclude each other")
    c = start(engine, account, "keeper-c", "Keeper-A", port)
    say(f"for {3 * POLL_CAP:.0f} s, in which keeper-c tries at least twice:")
    time.sleep(3 * POLL_CAP)
    claim(token(a) and not token(c), "the job of keeper-a works, that of keeper-c does not")
    claim(len(leased(account)) == 1, "the account has one leased lock")
    return c


def application_killed(account, a, c):
    """The lock of a dead application is free at once."""
    step("3. The application's container of keeper-a is killed")
    before = token(a)
    held = leased(account)
    killed = time.time()
    a.kill_container("app")
    free, when = until(lambda: not leased(account) or c.events("lock granted"))
    claim(free and when - killed < 1, f"its lock is free in the account after {when - killed:.2f} s")
    granted, _ = until(lambda: c.events("lock granted"))
    taken = seconds_of(granted[0]) - killed
    # The cap counts from when the lock was free; a second for the release itself and the request that takes it.
    claim(taken < POLL_CAP + 1, f"keeper-c has it after {taken:.2f} s; its polling cap is {POLL_CAP:.0f} s")
    claim(until(lambda: token(c))[0] and token(c) > before, f"its job works with token {token(c)}, greater than {before}")
    claim(held == leased(account), "it is the same lock")


def sidecar_killed(a, c):
    """A hold outlives its sidecar."""
    step("4. The sidecar's container of keeper-c is killed and started again")
    say("keeper-a's application is started again, and waits")
    a.start_container("app")
    before, since = token(c), c.inspect("app")["State"]["StartedAt"]
    killed = time.time()
    c.kill_container("leasehold")
    claim(not c.inspect("leasehold")["State"]["Running"], "the sidecar is dead; its lease runs on in the account")
    time.sleep(3)
    c.start_container("leasehold")
    say(f"the sidecar is started again, {time.time() - killed:.1f} s later")
    resumed, _ = until(lambda: [event for event in c.events("lock granted") if event["resumed"]])
    claim(resumed and resumed[0]["token"] == before, f"the hold was resumed with its token {before}")
    ticks = len(c.log("app"))
    until(lambda: len(c.log("app")) > ticks + 2)
    claim(token(c) == before and len(c.log("app")) > ticks, "the job works on with it")
    begun = [line for line in c.log("app") if line.startswith("begins")]
    claim(c.inspect("app")["State"]["StartedAt"] == since and len(begun) == 1, "it was never started anew, nor stopped")
    claim(len(a.events("lock granted")) == 1, "keeper-a did not get the lock meanwhile")


def sidecar_stopped(a, c):
    """A job outlives its sidecar's end by itself, without being stopped."""
    step("5. The sidecar's container of keeper-c alone is stopped and started again, as by `kubectl exec … kill 1`")
    before, since, resumes = token(c), c.inspect("app")["State"]["StartedAt"], len(c.events("lock granted"))
    c.stop_container("leasehold")
    claim(c.inspect("leasehold")["State"]["ExitCode"] == 0, "the sidecar ended in order")
    claim(not c.events("lock lost"), "and told no holder that it lost its lock")
    c.start_container("leasehold")
    resumed, _ = until(lambda: [event for event in c.events("lock granted")[resumes:] if event["resumed"]])
    claim(resumed and resumed[0]["token"] == before, f"the hold was resumed with its token {before}")
    claim(c.inspect("app")["State"]["StartedAt"] == since and token(c) == before, "the job works on, and was not stopped")
    claim(len(a.events("lock granted")) == 1, "keeper-a did not get the lock meanwhile")


def pod_stopped(account, a, c):
    """A pod gives back its locks before it ends."""
    step("6. The pod of keeper-c is stopped")
    grants = len(a.events("lock granted"))
    began = time.time()
    c.stop()
    ended = time.time()
    released = c.events("lock released")
    claim(bool(released) and seconds_of(released[-1]) <= ended, "its lock was released before it ended")
    if released:
        say(f"       released after {seconds_of(released[-1]) - began:.2f} s, the pod ended after {ended - began:.2f} s")
    claim(not c.events("lock lost"), "nothing was lost")
    codes = {name: c.inspect(name)["State"]["ExitCode"] for name in ("app", "leasehold")}
    # The job's own: the sidecar is told last.
    claim(codes == {"app": 0, "leasehold": 0}, f"both ended in order; exit codes: {codes}")
    granted, _ = until(lambda: a.events("lock granted")[grants:])
    claim(bool(granted), "keeper-a has the lock again")
    claim(until(lambda: token(a))[0], f"its job works with token {token(a)}")
    claim(len(leased(account)) == 1, "one lock is leased")


def account_gone(account, a):
    """Liveness is not about the store."""
    step("7. The account goes away")
    account.close()
    unready, _ = until(lambda: a.probe("readinessProbe") == 69, 90, 1)
    claim(unready, "the readiness probe says no, once a renewal has failed")
    claim(a.probe("livenessProbe") == 0 and a.probe("startupProbe") == 0, "the liveness and startup probes are content")
    claim(not a.events("lock lost") and token(a), "the job works on: its hold is valid for now")


def end_early(number, _):
    """Ends with all that was started; a second signal must not keep that from being done."""
    for stop in STOPS:
        signal.signal(stop, signal.SIG_IGN)
    sys.exit(128 + number)


def main():
    """The story."""
    for stop in STOPS:
        signal.signal(stop, end_early)
    folder = tempfile.mkdtemp(prefix="leasehold-demonstration-")
    engine, account = Engine(folder), None
    try:
        step("0. The image, and an account")
        build(engine)
        account = Account(pathlib.Path(folder) / "azurite.log")
        account.make_container()
        say(f"the storage emulator runs at {account.endpoint}; the container leasehold is made, as an operator would")
        say("podman knows no native sidecars: here the sidecar is a plain container that is started first and stopped last")
        say("tests/chart/pods.py says what else is changed about the pods")
        example_settings(engine, account)
        ports = free_ports(4)
        helm_test(engine, account, ports[3])
        a = different_host_types(engine, account, ports)
        c = equal_host_types(engine, account, a, ports[2])
        application_killed(account, a, c)
        sidecar_killed(a, c)
        sidecar_stopped(a, c)
        pod_stopped(account, a, c)
        account_gone(account, a)
    except RuntimeError as error:
        claim(False, f"the demonstration goes on: {error}")
    finally:
        if failures:
            print(f"\nWhat the containers wrote:\n{engine.logs()}", flush=True)
        engine.close()
        if account:
            account.close()
        shutil.rmtree(folder, ignore_errors=True)
    step(f"{len(failures)} claims failed" if failures else "Everything held.")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
