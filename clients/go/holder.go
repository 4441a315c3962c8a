package leasehold

import (
	"os"
	"strconv"
	"strings"
)

// holderOrThis is the name that is sent: the one that was given, else that of this pod or host with the process id, such as
// importer-7f9c/17.
func holderOrThis(given string) string {
	if given != "" {
		return given
	}
	// In a pod this is the pod's name, unless the pod shares its host's network.
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return holderNamed(host, os.Getpid())
}

// holderNamed leaves a host's name out that is not printable ASCII: the sidecar would refuse it (S19).
func holderNamed(host string, process int) string {
	id := strconv.Itoa(process)
	isOdd := func(char rune) bool { return char <= ' ' || char > '~' }
	if host == "" || strings.ContainsFunc(host, isOdd) {
		return id
	}
	return host[:min(len(host), holderBytes-len(id)-1)] + "/" + id
}
