"""Shows deployments that share a storage account, step by step; `run` starts it beside Azurite."""

import os
import subprocess
import sys

from chaos import Events, Folder, until

from deployments import ALL, DOTNET_A, HERE, KEEPER_A, KEEPER_B, Deployment, Replica

FUNCTION = "Keeper.CloseAccounts"


def step(text: str) -> None:
    """Print a heading."""
    print(f"\n\033[1m{text}\033[0m", flush=True)


def tell(events: Events, number: int) -> int:
    """Print what jobs have done since the event `number`."""
    told = list(events)
    for event in told[number:]:
        token = f", fencing token {event['token']}" if "token" in event else ""
        print(f"    {event['replica']} {event['what']}{token}")
    return len(told)


def begun(events: Events, replicas: list[Replica]) -> set[str]:
    """The deployments of these replicas that have run the job."""
    names = {replica.name: replica.deployment.name for replica in replicas}
    return {names[event["replica"]] for event in events.of("begins") if event["replica"] in names}


def main() -> None:
    """Show it."""
    account = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
    with Folder("two-deployments") as folder:
        events = Events(folder.path / "events")
        replicas = [Replica(folder, deployment, number, account) for deployment in ALL for number in (1, 2)]
        of = {deployment: [each for each in replicas if each.deployment is deployment] for deployment in ALL}

        step("1. One storage account, and two deployments of the same job: Keeper-A and Keeper-B, two replicas each.")
        for replica in of[KEEPER_A] + of[KEEPER_B]:
            replica.start()
        until("a replica of each deployment runs the job", 20, lambda: len(begun(events, replicas)) == len(of) - 1)
        print("    In each, one replica runs the job and the other one waits:")
        seen = tell(events, 0)

        step("2. The storage account, seen through Azure's own SDK: a blob for each deployment, under its host id.")
        look()

        step("3. kill -9 of the replica that runs the job of Keeper-A: the other one of Keeper-A takes over.")
        holder = next(
            event["replica"] for event in reversed(events.of("begins")) if event["replica"].startswith("keeper-a")
        )
        victim = next(each for each in replicas if each.name == holder)
        victim.job.kill()
        other = next(each for each in of[KEEPER_A] if each is not victim)
        number = len(list(events))
        until(
            "the other replica runs the job",
            30,
            lambda: any(event["replica"] == other.name for event in list(events)[number:] if event["what"] == "begins"),
        )
        seen = tell(events, seen)
        print("    Keeper-B has not noticed.")

        step("4. A third one has the locks of a WebJobs host called Keeper-A, in the blobs where .NET has them.")
        replica = of[DOTNET_A][0]
        for each in of[DOTNET_A]:
            each.start()
        path = [replica.sidecar.program, "path", "--function", FUNCTION]
        subprocess.run(path, env={**os.environ, "LEASEHOLD_ENDPOINT": replica.sidecar.endpoint}, check=True)
        until("it runs the job too", 20, lambda: DOTNET_A.name in begun(events, replicas))
        look()
        tell(events, seen)
        for each in replicas:
            each.job.end()

        step("5. By accident a deployment is given another's host id: they share the lock, and its sidecar says so.")
        by_accident(folder, account)
    print("\nEverything is ended, and nothing is left.")


def by_accident(folder: Folder, account: str) -> None:
    """Show a deployment with a host id of somebody else, and what tells of it."""
    copied = Deployment(
        "copied", "Copied", ("host_id.provider=static", "host_id.host_id=739df1faf6c08e78a883736d006f2964")
    )
    replica = Replica(folder, copied, 1, account)
    replica.start()
    events = Events(folder.path / "events")
    until("it has had the lock of Keeper-A", 20, lambda: "copied" in begun(events, [replica]))
    log = folder.path / "copied-1.log"
    until("the sidecar warns", 20, lambda: "Keeper-A" in log.read_text())
    print(next(line for line in log.read_text().splitlines() if "Keeper-A" in line))


def look() -> None:
    """Show the account."""
    subprocess.run([sys.executable, str(HERE / "look.py")], check=True)


if __name__ == "__main__":
    main()
