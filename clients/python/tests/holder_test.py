"""What a holder is called that gives itself no name."""

import os
import socket

from leasehold._hold.holder import named

THIS = f"{socket.gethostname()}/{os.getpid()}"


def a_caller_without_a_name_is_its_pod_or_host_and_process() -> None:
    assert named("importer-7f9c", 17) == "importer-7f9c/17"
    assert named("", 17) == "17"
    assert named("bj\u00f6rn", 17) == named("a\nb", 17) == "17"
    assert named("h" * 300, 17) == "h" * 253 + "/17"


def a_fork_names_itself() -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        from leasehold._hold.spec import wanted  # noqa: PLC0415 - in the child

        os.write(write, wanted("f", "", {}).spec.holder.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        assert told.read() == f"{socket.gethostname()}/{child}"
    os.waitpid(child, 0)
