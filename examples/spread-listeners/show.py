"""Shows listeners that spread over replicas, step by step; `run` starts it beside Azurite."""

import subprocess

from chaos import Folder, until

from stage import Deployment


def step(text: str) -> None:
    """Print a heading."""
    print(f"\n\033[1m{text}\033[0m", flush=True)


def look(deployment: Deployment) -> None:
    """Show who has what, as an operator sees it."""
    sidecar = deployment.replicas[-1].sidecar
    command = [sidecar.program, "ls", "--by-sidecar", "--share", "listeners", "--endpoint", sidecar.endpoint]
    subprocess.run(command, check=True)


def main() -> None:
    """Show it."""
    with Folder("spread-listeners") as folder:
        deployment = Deployment(folder, "python")
        step("1. Three replicas are started at once; each would listen to all of twelve queues.")
        deployment.start(3)
        until("the queues are spread evenly", 60, deployment.is_even)
        look(deployment)

        step("2. A rolling update: each replica is replaced by a new one, which goes on where the old one stopped.")
        deployment.roll()
        until("the queues are spread evenly", 60, deployment.is_even)
        look(deployment)
        faults = deployment.faults()
        if faults:
            raise AssertionError("\n".join(faults))
        print(f"    No queue was without a listener for longer than {max(deployment.gaps()):.1f} s.")
        for replica in deployment.replicas:
            replica.end()
    print("\nEverything is ended, and nothing is left.")


if __name__ == "__main__":
    main()
