package leasehold

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// bases are what the clocks of the sidecar's kernels read when a vector begins. Two of them have our boot id, and are
// not ours.
var bases = map[string]time.Duration{
	"ours": 1_000 * time.Second, "elsewhere": 5_000 * time.Second, "ahead": 3_000 * time.Second, "behind": 500 * time.Second,
}

// said is what the sidecar says, with all that it may say.
type said struct {
	Until, For, Left int64
	Generation       uint64
	Token            string
	FencingToken     uint64   `json:"fencing_token"`
	MaxHold          *instant `json:"max_hold"`
	Deadline         *instant
	Position         uint32
	Attempt          uint32
	Reason, Cause    string
	Outcome, Result  string
	Loss, State, By  string
	Version          uint64
	// Of a schedule.
	Understood, Conflict bool
}

// instant is when, and after how long.
type instant struct{ At, After int64 }

// refusing is how the sidecar refuses a call, or ends a stream: without a word if there is no code.
type refusing struct {
	Code, Reason, Loss string
	Needs, Revision    uint32
}

func (r refusing) err() error {
	if r.Code == "" {
		return nil
	}
	var code codes.Code
	if err := code.UnmarshalJSON([]byte(`"` + r.Code + `"`)); err != nil {
		panic(err)
	}
	st := status.New(code, "so it is")
	if r.Reason != "" {
		info := &errdetails.ErrorInfo{Domain: reasonDomain, Reason: r.Reason}
		if r.Loss != "" {
			info.Metadata = map[string]string{"loss_reason": r.Loss}
		}
		if r.Needs > 0 {
			info.Metadata = map[string]string{"needs": fmt.Sprint(r.Needs), "revision": fmt.Sprint(r.Revision)}
		}
		st, _ = st.WithDetails(info)
	}
	return st.Err()
}

func span(milliseconds int64) *durationpb.Duration {
	return durationpb.New(time.Duration(milliseconds) * time.Millisecond)
}

// reading is a moment on the clock of a kernel.
func reading(kernel string, at int64) *leaseholdv1.BootTime {
	bootID := ours
	if kernel == "elsewhere" {
		bootID = elsewhere
	}
	return &leaseholdv1.BootTime{BootId: bootID, SinceBoot: durationpb.New(bases[kernel] + span(at).AsDuration())}
}

func (s said) validity(kernel string) *leaseholdv1.Validity {
	if s.For == 0 {
		return nil
	}
	return &leaseholdv1.Validity{ValidUntil: reading(kernel, s.Until), ValidFor: span(s.For)}
}

func (m *instant) wire(kernel string) *leaseholdv1.Deadline {
	if m == nil {
		return nil
	}
	return &leaseholdv1.Deadline{At: reading(kernel, m.At), After: span(m.After)}
}

func (s said) result() *leaseholdv1.ReleaseResult { return fillIn(&leaseholdv1.ReleaseResult{}, "", s) }

// fillIn sets the fields of a message for which there is a value in what is said.
func fillIn[M proto.Message](message M, kernel string, of said) M {
	into := message.ProtoReflect()
	for i := range into.Descriptor().Fields().Len() {
		field := into.Descriptor().Fields().Get(i)
		value := map[protoreflect.Name]any{
			"validity": of.validity(kernel), "max_hold_ends": of.MaxHold.wire(kernel), "resume_token": of.Token,
			"fencing_token": of.FencingToken, "generation": of.Generation, "version": of.Version, "position": of.Position,
			"reason": of.Reason, "loss_reason": of.Loss, "outcome": of.Outcome, "cause": of.Cause, "state": of.State,
			"broken_by": of.By, "attempt": of.Attempt, "deadline": of.Deadline.wire(kernel), "conflict": of.Conflict,
			"time_left": span(of.Left), "result": of.Result,
		}[field.Name()]
		switch {
		case field.Name() == "break_note":
			value = fillIn(&leaseholdv1.BreakNote{}, kernel, said{By: of.By})
		case field.Name() == "result" && field.Message() != nil:
			value = of.result()
		case field.Name() == "grant":
			value = granting(kernel, of)
		case field.Name() == "understood" && of.Understood:
			value = &leaseholdv1.UnderstoodSchedule{Expression: "30 2 * * *"}
		}
		if value == nil || reflect.ValueOf(value).IsZero() {
			continue
		}
		switch enum := field.Enum(); {
		case enum != nil:
			number := enum.Values().ByName(protoreflect.Name(prefixOf(enum) + value.(string))).Number()
			into.Set(field, protoreflect.ValueOfEnum(number))
		case field.Message() != nil:
			into.Set(field, protoreflect.ValueOfMessage(value.(proto.Message).ProtoReflect()))
		default:
			into.Set(field, protoreflect.ValueOf(value))
		}
	}
	return message
}

func prefixOf(enum protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(enum.Values().Get(0).Name()), "UNSPECIFIED")
}

// says is a word of a stream: one of those that its messages may be.
func says[M proto.Message](message M, kernel, name string, of said) M {
	into := message.ProtoReflect()
	field := into.Descriptor().Fields().ByName(protoreflect.Name(name))
	word := into.NewField(field).Message().Interface()
	switch word := word.(type) {
	case *leaseholdv1.Grant:
		proto.Merge(word, granting(kernel, of))
	case *leaseholdv1.Run:
		word.RunId, word.ScheduledAt = "run-1", &timestamppb.Timestamp{Seconds: 1_800}
	case *leaseholdv1.Recorded:
		word.RunId = "run-1"
	}
	into.Set(field, protoreflect.ValueOfMessage(fillIn(word, kernel, of).ProtoReflect()))
	return message
}

func granting(kernel string, of said) *leaseholdv1.Grant {
	return fillIn(&leaseholdv1.Grant{
		LeaseId: "lease-1", LockPath: "locks/p/h/f/s/FUNCTION", ResumeToken: "resume-1", FencingToken: 65_536, Generation: 1,
	}, kernel, of)
}

// answerOf is an answer to a call.
func answerOf(kernel, name string, of said) proto.Message {
	if name == "get_hold" {
		of.State = cmp.Or(of.State, "HELD")
	}
	return fillIn(map[string]proto.Message{
		"release": &leaseholdv1.ReleaseLeaseResponse{}, "get_hold": &leaseholdv1.GetHoldResponse{},
		"report_progress": &leaseholdv1.ReportProgressResponse{}, "extend_lease": &leaseholdv1.ExtendLeaseResponse{},
		"save_checkpoint": &leaseholdv1.SaveCheckpointResponse{}, "complete_run": &leaseholdv1.CompleteRunResponse{},
	}[name], kernel, of)
}
