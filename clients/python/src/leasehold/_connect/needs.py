"""Which revision of a sidecar serves a request (S37)."""

from collections.abc import Mapping

from google.protobuf.message import Message

from leasehold._constants import NEWER_FIELDS


def needs(request: Message, newer: Mapping[str, int] = NEWER_FIELDS) -> int:
    """Give the least one: that of the newest field that is set."""
    least = 1
    for field, value in request.ListFields():
        least = max(least, newer.get(field.full_name, 1))
        if isinstance(value, Message):
            least = max(least, needs(value, newer))
    return least
