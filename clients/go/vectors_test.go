package leasehold

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
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
	Tell              tell
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
	Wait                  int64
	MaxHold               int64 `json:"max_hold"`
	Permits, Priority     uint32
	Yields, Fails         bool
	Share, Value, Outcome string
}

// tell is an event, or a list of them.
type tell []map[string]said

func (t *tell) UnmarshalJSON(text []byte) error {
	if text[0] == '{' {
		text = []byte("[" + string(text) + "]")
	}
	return strict(text, (*[]map[string]said)(t))
}

func strict(text []byte, into any) error {
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	decoder.UseNumber()
	return decoder.Decode(into)
}

// linesOf are those of a file of proto/vectors.
func linesOf(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("../../proto/vectors/" + name)
	want(t, err == nil, err)
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return line == "" })
}

func readVectors(t *testing.T, name string) (vectors []vector) {
	t.Helper()
	for _, line := range linesOf(t, name) {
		var err error
		if strings.HasPrefix(line, `{"vector":`) {
			vectors = append(vectors, vector{Kernel: "ours"})
			err = strict([]byte(line), &vectors[len(vectors)-1])
		} else {
			last := &vectors[len(vectors)-1]
			last.steps = append(last.steps, step{})
			err = strict([]byte(line), &last.steps[len(last.steps)-1])
		}
		want(t, err == nil, line, err)
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
	s.locked(func() { s.slept += time.Duration(next.Sleep) * time.Millisecond })
	for name, answer := range next.Answer {
		s.wantWords(answer)
		s.give(name, answer)
	}
	for name, refusal := range next.Refuse {
		s.give(name, refusal.err())
	}
	for name, of := range next.Do {
		go s.do(name, of)
	}
	for _, event := range next.Tell {
		for name, of := range event {
			s.wantWords(of)
			s.tell(s.on(next.On), name, of)
		}
	}
	if next.Break != nil {
		s.end(next.On, next.Break.err())
	}
	synctest.Wait()
	s.pass(next.At + next.Sleep + next.Within)
	s.compare(next)
}

// wantWords is that all that is said has a meaning.
func (s *stage) wantWords(of said) {
	const all = " until for left generation token fencing_token max_hold deadline position attempt reason cause outcome result loss" +
		" state by version understood conflict "
	for word := range of {
		want(s, strings.Contains(all, " "+word+" "), word, "is no word")
	}
}

// reach lets the time go on to a step. The validity ends at its end, neither sooner nor later.
func (s *stage) reach(at int64) {
	s.Helper()
	if until, err := strconv.ParseInt(s.until, 10, 64); err == nil && s.clock() < until && until < at {
		s.pass(until - 1)
		want(s, s.hold().Valid(), "before", at, "the hold is over already")
		s.pass(until)
		want(s, !s.hold().Valid(), "before", at, "the hold is not over at", until)
	}
	s.pass(at)
}

func (s *stage) compare(next step) {
	s.Helper()
	sent, faults := s.takeSent()
	if next.Until != nil {
		s.until = string(next.Until)
	}
	until := "null"
	hold := s.hold()
	if hold != nil && hold.Valid() {
		until = fmt.Sprint(sinceBase(hold.ValidUntil()))
	}
	s.locked(func() {
		if _, closes := next.Do["close"]; closes {
			slices.Sort(s.ended)
			slices.Sort(next.Returned)
		}
		for what, lists := range map[string][2][]string{
			"sent": {sent, next.Sent}, "told": {s.told, next.Told}, "returned": {s.ended, next.Returned}, "wrong": {faults, nil},
			"until": {{until}, {s.until}},
		} {
			same(s, fmt.Sprint("at ", next.At, " ", what), lists[0], lists[1])
		}
		s.told, s.ended = nil, nil
	})
	if next.MaxHold != nil {
		ends, _ := hold.MaxHoldEnds()
		want(s, sinceBase(ends) == *next.MaxHold, "at", next.At, "max_hold", sinceBase(ends))
	}
	if next.Open != nil {
		same(s, fmt.Sprint("at ", next.At, " open"), s.alive(), next.Open)
	}
}

// goesOn is what a term or a run is for: it goes on until the holder finishes it, or it is to end.
func (s *stage) goesOn(ctx context.Context, begun string, hold *Hold, run *Run) error {
	s.has(hold, run)
	s.locked(func() { s.told = append(s.told, begun) })
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-s.finish:
		return err
	}
}

// do is what the holder does, and what comes of it.
func (s *stage) do(name string, of deed) {
	if name == "finish" {
		s.finish <- map[bool]error{true: errWork}[of.Fails]
		return
	}
	ctx := s.Context()
	done, err := map[string]func() (any, error){
		"hold": func() (any, error) {
			hold, err := s.client.Hold(ctx, LeaseSpec{
				Key: LockKey{Function: "f"}, Wait: time.Duration(of.Wait) * time.Millisecond, Permits: of.Permits,
				Priority: of.Priority, Yields: of.Yields, Share: of.Share, OnEvent: s.hear,
			})
			s.has(hold, nil)
			return "held", err
		},
		"lead": func() (any, error) {
			return "done", s.client.Lead(ctx, LeaseSpec{Key: LockKey{Function: "f"}, OnEvent: s.hear}, func(ctx context.Context, term *Hold) error {
				return s.goesOn(ctx, fmt.Sprint("term ", term.FencingToken()), term, nil)
			})
		},
		"every": func() (any, error) {
			return "done", s.client.Every(ctx, s.nightly(), func(ctx context.Context, run *Run) error {
				return s.goesOn(ctx, fmt.Sprint("run ", run.Attempt()), run.hold, run)
			})
		},
		"next_run": func() (any, error) {
			run, err := s.runs.Next(ctx)
			if err != nil {
				return nil, err
			}
			s.has(run.hold, run)
			return fmt.Sprint("run ", run.Attempt()), nil
		},
		"complete": func() (any, error) {
			done, err := s.run.Complete(ctx, Completion{Outcome: RunOutcome(of.Outcome)})
			return done.Result, err
		},
		"close":   func() (any, error) { s.runs.Close(); return "done", nil },
		"release": func() (any, error) { done, err := s.hold().Release(ctx); return done.Outcome, err },
		"report_progress": func() (any, error) {
			if s.run != nil {
				return "done", s.run.ReportProgress(ctx)
			}
			return "done", s.hold().ReportProgress(ctx)
		},
		"extend_lease":    func() (any, error) { return "done", s.hold().Extend(ctx, time.Duration(of.MaxHold)*time.Millisecond) },
		"save_checkpoint": func() (any, error) { return anyOf(s.hold().Save(ctx, []byte(of.Value))) },
	}[name]()
	if err != nil {
		done = nameOfError(err)
	}
	s.locked(func() { s.ended = append(s.ended, fmt.Sprint(name, " ", done)) })
}

func anyOf[T any](value T, err error) (any, error) { return value, err }

func nameOfError(err error) string {
	switch err := err.(type) {
	case *BusyError:
		return "busy " + string(err.Busy.Reason)
	case *LostError:
		return "lost " + string(err.Reason)
	case *ReleaseUnconfirmedError:
		return "unconfirmed"
	case *RefusedError:
		return "refused " + string(err.Reason)
	}
	return map[error]string{ErrClosed: "closed", errWork: "failed"}[err]
}
