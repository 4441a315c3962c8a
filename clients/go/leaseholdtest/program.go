package leaseholdtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ProgramVariable is the environment variable that names the program to start. It is no setting of the sidecar.
const ProgramVariable = "LEASEHOLD_PROGRAM"

// FindProgram gives the path of the program leasehold: the one that LEASEHOLD_PROGRAM names, or else the one in PATH. The error
// says where it was looked for, and how to install it.
func FindProgram() (string, error) {
	if named := os.Getenv(ProgramVariable); named != "" {
		path, err := filepath.Abs(named)
		if err == nil {
			path, err = exec.LookPath(path)
		}
		if err != nil {
			return "", fmt.Errorf("%s names %s, which is not an executable file: correct it, or unset it to use PATH: %w",
				ProgramVariable, named, err)
		}
		return path, nil
	}
	path, err := exec.LookPath("leasehold")
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("there is no program leasehold to start a sidecar with. Looked at: %s (not set), PATH (not in %s). "+
			"To go on, install it (docs/install.md; `pip install leasehold-sidecar` brings it too), put it into a folder of PATH, "+
			"or set %s to its path", ProgramVariable, os.Getenv("PATH"), ProgramVariable)
	}
	if err != nil {
		return "", fmt.Errorf("the program leasehold in PATH cannot be used: %w", err)
	}
	return filepath.Abs(path)
}
