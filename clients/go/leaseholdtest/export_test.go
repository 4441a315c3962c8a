package leaseholdtest

import "testing"

// For is the same sidecar for another test.
func (s *Sidecar) For(t testing.TB) *Sidecar {
	return &Sidecar{t: t, process: s.process, timeout: s.timeout, client: s.client}
}

// Process is the id of its process.
func (s *Sidecar) Process() int { return s.process.running.Process.Pid }

// Hasty is the same sidecar for tests that do not wait.
func (s *Sidecar) Hasty() *Sidecar {
	return &Sidecar{t: s.t, process: s.process, timeout: 1, client: s.client}
}
