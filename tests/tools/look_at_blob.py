"""Prints what the storage API tells of one blob, as JSON: CONNECTION_STRING in the environment, container, name."""

import json
import os
import sys

from azure.storage.blob import BlobClient

container, name = sys.argv[1:]
blob = BlobClient.from_connection_string(os.environ["CONNECTION_STRING"], container, name)
properties = blob.get_blob_properties()
print(
    json.dumps(
        {
            "name": properties.name,
            "size": properties.size,
            "lease_state": properties.lease.state,
            "lease_status": properties.lease.status,
            "lease_duration": properties.lease.duration,
            "metadata": properties.metadata,
        }
    )
)
