package leasehold

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheCodeOfTheReadmeIsThatOfTheSamples finds each block of Go in README.md, line by line, in a sample.
func TestTheCodeOfTheReadmeIsThatOfTheSamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob("samples/*/*.go")
	if err != nil || len(paths) != 12 {
		t.Fatal(paths, err)
	}
	var samples []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, unindented(string(text)))
	}
	blocks := strings.Split(string(readme), "```go\n")[1:]
	if len(blocks) < 4 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		found := false
		for _, sample := range samples {
			found = found || strings.Contains(sample, "\n"+unindented(code))
		}
		if !found {
			t.Errorf("no sample has\n%s", code)
		}
	}
	if first, _, _ := strings.Cut(blocks[0], "```"); !strings.HasPrefix(first, "package main\n") || strings.Count(first, "\n") > 30 {
		t.Error("the first block is a whole program, and a short one")
	}
}

func unindented(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		lines.WriteString(strings.TrimLeft(line, "\t"))
	}
	return lines.String()
}
