"""`python -m leasehold_sidecar serve`: the program takes the interpreter's place."""

import os
import sys

from leasehold_sidecar import find_program

program = find_program()
os.execv(program, [program, *sys.argv[1:]])
