"""Shows the locks of a storage account as the storage SDK sees them: one blob each, with its lease and its record.

AZURE_STORAGE_CONNECTION_STRING names the account.
"""

import os

from azure.storage.blob import BlobServiceClient

CONTAINERS = ("leasehold", "azure-webjobs-hosts")


def main() -> None:
    """Print a line for each lock."""
    account = BlobServiceClient.from_connection_string(os.environ["AZURE_STORAGE_CONNECTION_STRING"])
    for name in CONTAINERS:
        container = account.get_container_client(name)
        if not container.exists():
            continue
        for blob in container.list_blobs(name_starts_with="locks/", include=["metadata"]):
            record = blob.metadata or {}
            print(f"{name}/{blob.name}")
            print(
                f"    lease {blob.lease.state}, host type {record.get('leasehold_host_type')!r}, "
                f"holder {record.get('leasehold_holder')!r}, fencing token {record.get('leasehold_token')}"
            )


if __name__ == "__main__":
    main()
