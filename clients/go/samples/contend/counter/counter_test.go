package counter

import (
	"os"
	"path/filepath"
	"testing"
)

func TestATokenThatIsNotGreaterIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "number")
	for i, token := range []uint64{7, 8, 8, 3} {
		err := File(path).Add(token)
		if refused := i >= 2; refused != (err != nil) {
			t.Fatalf("token %d: %v", token, err)
		}
	}
	number, err := os.ReadFile(path)
	if err != nil || string(number) != "2\n" {
		t.Fatalf("%q, %v", number, err)
	}
}

func TestWhatIsNoNumberIsNotOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "number")
	if err := os.WriteFile(path, []byte("many"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := File(path).Add(1); err == nil {
		t.Fatal("it was taken for a number")
	}
}
