package leasehold

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// vector is one story of proto/vectors; its README says what it means.
type vector struct {
	Vector string
	Rules  []string
	Kernel string
	steps  []step
}

// step is one line of a vector.
type step struct {
	At, Sleep, Within int64
	Do                map[string]deed
	Tell              json.RawMessage
	On                int
	Break             *refusing
	Answer            map[string]said
	Refuse            map[string]refusing
	Sent, Told        []string
	Returned          []string
	Until             json.RawMessage
	MaxHold           *int64 `json:"max_hold"`
	Open              []int
}

// deed is what the holder does, with all that it may say.
type deed struct {
	Wait         int64
	MaxHold      int64 `json:"max_hold"`
	Permits      uint32
	Priority     uint32
	Yields       bool
	Share, Value string
	Outcome      string
}

func strict(text []byte, into any) error {
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func readVectors(t *testing.T, name string) []vector {
	t.Helper()
	file, err := os.Open("../../proto/vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var vectors []vector
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		var err error
		switch {
		case line == "":
		case strings.HasPrefix(line, `{"vector":`):
			vectors = append(vectors, vector{Kernel: "ours"})
			err = strict([]byte(line), &vectors[len(vectors)-1])
		default:
			var next step
			err = strict([]byte(line), &next)
			last := &vectors[len(vectors)-1]
			last.steps = append(last.steps, next)
		}
		if err != nil {
			t.Fatal(line, err)
		}
	}
	return vectors
}

func TestTheClientDoesWhatTheVectorsSay(t *testing.T) {
	vectors := append(readVectors(t, "client.jsonl"), readVectors(t, "runs.jsonl")...)
	want(t, len(vectors) >= 90, "vectors are missing:", len(vectors))
	for _, v := range vectors {
		t.Run(v.Vector, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, v.Kernel)
				defer s.leave()
				for _, next := range v.steps {
					s.play(next)
				}
			})
		})
	}
}

// play does what a step says, and compares what came of it.
func (s *stage) play(next step) {
	s.Helper()
	s.reach(next.At)
	if next.Sleep > 0 {
		s.own.Lock()
		s.slept += time.Duration(next.Sleep) * time.Millisecond
		s.own.Unlock()
	}
	for name, answer := range next.Answer {
		s.give(name, answer)
	}
	for name, refusal := range next.Refuse {
		s.give(name, refusal.err())
	}
	for name, of := range next.Do {
		go s.do(name, of)
	}
	if next.Tell != nil {
		err := s.tell(next.On, next.Tell)
		want(s, err == nil, err)
	}
	if next.Break != nil {
		s.end(next.On, next.Break.err())
	}
	synctest.Wait()
	s.pass(next.At + next.Sleep + next.Within)
	s.compare(next)
}

// reach lets the time go on to a step. The validity ends at its end, neither sooner nor later.
func (s *stage) reach(at int64) {
	s.Helper()
	var until int64
	if string(s.until) != "null" && json.Unmarshal(s.until, &until) == nil && s.clock() < until && until < at {
		s.pass(until - 1)
		if !s.hold().Valid() {
			s.Errorf("before %d: the hold is over at %d already", at, until-1)
		}
		s.pass(until)
		if s.hold().Valid() {
			s.Errorf("before %d: the hold is not over at %d", at, until)
		}
	}
	s.pass(at)
}

func (s *stage) compare(next step) {
	s.Helper()
	sent, faults := s.takeSent()
	s.own.Lock()
	told, returned := s.told, s.ended
	s.told, s.ended = nil, nil
	s.own.Unlock()
	if _, closes := next.Do["close"]; closes {
		slices.Sort(returned)
		slices.Sort(next.Returned)
	}
	for what, lists := range map[string][2][]string{
		"sent": {sent, next.Sent}, "told": {told, next.Told}, "returned": {returned, next.Returned}, "wrong": {faults, nil},
	} {
		if !slices.Equal(lists[0], lists[1]) {
			s.Errorf("at %d %s: %q, not %q", next.At, what, lists[0], lists[1])
		}
	}
	if next.Until != nil {
		s.until = next.Until
	}
	until := "null"
	if hold := s.hold(); hold != nil && hold.Valid() {
		until = fmt.Sprint(sinceBase(hold.ValidUntil()))
	}
	if until != string(s.until) {
		s.Errorf("at %d until: %s, not %s", next.At, until, s.until)
	}
	if next.MaxHold != nil {
		if ends, _ := s.hold().MaxHoldEnds(); sinceBase(ends) != *next.MaxHold {
			s.Errorf("at %d max_hold: %d, not %d", next.At, sinceBase(ends), *next.MaxHold)
		}
	}
	if open := s.alive(); next.Open != nil && !slices.Equal(open, next.Open) {
		s.Errorf("at %d open: %v, not %v", next.At, open, next.Open)
	}
}

// do is what the holder does, and what comes of it.
func (s *stage) do(name string, of deed) {
	ctx := s.Context()
	var done string
	var err error
	switch name {
	case "hold":
		var hold *Hold
		spec := LeaseSpec{
			Key: LockKey{Function: "f"}, Wait: time.Duration(of.Wait) * time.Millisecond, Permits: of.Permits,
			Priority: of.Priority, Yields: of.Yields, Share: of.Share, OnEvent: s.hear,
		}
		if hold, err = s.client.Hold(ctx, spec); err == nil {
			done = "held"
			s.has(hold, nil)
		}
	case "next_run":
		var run *Run
		if run, err = s.runs.Next(ctx); err == nil {
			done = fmt.Sprint("run ", run.Attempt())
			s.has(run.hold, run)
		}
	case "complete":
		var completed CompletedRun
		completed, err = s.run.Complete(ctx, Completion{Outcome: RunOutcome(of.Outcome)})
		done = string(completed.Result)
	case "close":
		s.runs.Close()
		done = "done"
	case "release":
		var result ReleaseResult
		result, err = s.hold().Release(ctx)
		done = string(result.Outcome)
	case "report_progress":
		done, err = "done", s.hold().ReportProgress(ctx)
	case "extend_lease":
		done, err = "done", s.hold().Extend(ctx, time.Duration(of.MaxHold)*time.Millisecond)
	case "save_checkpoint":
		var version uint64
		version, err = s.hold().Save(ctx, []byte(of.Value))
		done = fmt.Sprint(version)
	default:
		done = "is unknown"
	}
	if err != nil {
		done = nameOfError(err)
	}
	s.own.Lock()
	defer s.own.Unlock()
	s.ended = append(s.ended, name+" "+done)
}

func nameOfError(err error) string {
	var busy *BusyError
	var lost *LostError
	var release *ReleaseUnconfirmedError
	var refused *RefusedError
	switch {
	case errors.Is(err, ErrClosed):
		return "closed"
	case errors.As(err, &busy):
		return "busy " + string(busy.Busy.Reason)
	case errors.As(err, &lost):
		return "lost " + string(lost.Reason)
	case errors.As(err, &release):
		return "unconfirmed"
	case errors.As(err, &refused):
		return "refused " + string(refused.Reason)
	}
	return err.Error()
}
