"""The deployments that share a storage account, and their replicas: a sidecar and a job each."""

import dataclasses
import sys
from pathlib import Path

from chaos import Folder, Program, Sidecar

HERE = Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Deployment:
    """What the sidecars of a deployment are told; its locks are its own if its host id is."""

    name: str
    host_type: str | None = None
    settings: tuple[str, ...] = ()


KEEPER_A = Deployment("keeper-a", "Keeper-A")
KEEPER_B = Deployment("keeper-b", "Keeper-B")
# The locks of a WebJobs host called Keeper-A, in the blobs where such a host has them.
DOTNET_A = Deployment(
    "dotnet-a", None, ("host_id.provider=webjobs", "host_id.host_name=Keeper-A", "paths.layout=webjobs")
)
ALL = (KEEPER_A, KEEPER_B, DOTNET_A)


class Replica:
    """A sidecar and a job beside it."""

    def __init__(self, folder: Folder, deployment: Deployment, number: int, account: str, job: str = "job.py") -> None:
        self.deployment = deployment
        self.name = f"{deployment.name}-{number}"
        environment = {"AZURE_STORAGE_CONNECTION_STRING": account}
        settings = deployment.settings
        self.sidecar = Sidecar(folder.path, self.name, deployment.host_type, *settings, environment=environment)
        variables = {"LEASEHOLD_ENDPOINT": self.sidecar.endpoint, "EVENTS": str(folder.path / "events")}
        command = [sys.executable, str(HERE / job), self.name]
        self.job = Program(self.name, command, variables, folder.path / f"{self.name}.job.log")
        folder.add(self.sidecar)
        folder.add(self.job)

    def start(self) -> None:
        """Start the sidecar, and the job once it can be asked."""
        self.sidecar.start()
        self.job.start()
