package leasehold

import (
	"os"
	"strconv"
	"strings"
	"testing"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func TestACallerWithoutANameIsItsPodOrHostAndProcess(t *testing.T) {
	for host, want := range map[string]string{
		"importer-7f9c": "importer-7f9c/17", "": "17", "björn": "17", "a\nb": "17",
		strings.Repeat("h", 300): strings.Repeat("h", holderBytes-3) + "/17",
	} {
		if named := holderNamed(host, 17); named != want {
			t.Errorf("%q: %q", host, named)
		}
	}
}

func TestEachRequestThatNamesNoHolderNamesThisProcess(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	want := host + "/" + strconv.Itoa(os.Getpid())
	b := newBench(t)
	answer := b.ask(t.Context(), LeaseSpec{Permits: 2})
	call := b.call()
	if sent := call.request.GetSpec().GetHolder(); sent != want {
		t.Error(sent)
	}
	call.tell(busyWith("a"))
	receive(t, "the answer", answer)
	var called string
	b.sidecar.acquire = func(spec *leaseholdv1.LeaseSpec) (*leaseholdv1.AcquireLeaseResponse, error) {
		called = spec.GetHolder()
		return acquired(), nil
	}
	if _, err := b.client.Acquire(t.Context(), LeaseSpec{}); err != nil || called != want {
		t.Error(called, err)
	}
	schedule := nightly()
	schedule.Holder = ""
	if sent, err := schedule.subscription(); err != nil || sent.GetHolder() != want {
		t.Error(sent, err)
	}
}
