// Package counter is a resource that a lock protects: a number in a file. It checks fencing tokens, because a lock
// alone does not keep a holder that was paused from acting late.
package counter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// File is the path of the number's file. The greatest fencing token seen is kept beside it, in a file with the
// ending ".token".
type File string

// Add adds one to the number. It refuses a token that is not greater than all before.
func (f File) Add(fencingToken uint64) error {
	greatest, err := read(string(f) + ".token")
	if err != nil {
		return err
	}
	if fencingToken <= greatest {
		return fmt.Errorf("the fencing token %d comes after %d", fencingToken, greatest)
	}
	number, err := read(string(f))
	if err != nil {
		return err
	}
	if err := write(string(f)+".token", fencingToken); err != nil {
		return err
	}
	return write(string(f), number+1)
}

// read reads the number in a file; zero if there is none yet.
func read(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	digits := strings.TrimSpace(string(text))
	if errors.Is(err, fs.ErrNotExist) || (err == nil && digits == "") {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(digits, 10, 64)
}

func write(path string, number uint64) error {
	return os.WriteFile(path, fmt.Appendf(nil, "%d\n", number), 0o666)
}
