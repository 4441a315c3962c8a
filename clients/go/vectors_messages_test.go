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
	FencingToken     uint64 `json:"fencing_token"`
	MaxHold          *struct {
		At, After int64
	} `json:"max_hold"`
	Position uint32
	Reason   string
	Loss     string
	Outcome  string
	Cause    string
	By       string
	State    string
	Version  uint64
}

// refusing is how the sidecar refuses a call, or ends a stream: without a word if there is no code.
type refusing struct {
	Code, Reason, Loss string
	Needs, Revision    uint32
}

func (r refusing) err() error {
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

func (s said) limit(kernel string) *leaseholdv1.Deadline {
	if s.MaxHold == nil {
		return nil
	}
	return &leaseholdv1.Deadline{At: reading(kernel, s.MaxHold.At), After: span(s.MaxHold.After)}
}

func (s said) result() *leaseholdv1.ReleaseResult { return fillIn(&leaseholdv1.ReleaseResult{}, "", s) }

// fillIn sets the fields of a message for which there is a value in what is said.
func fillIn[M proto.Message](message M, kernel string, of said) M {
	into := message.ProtoReflect()
	for i := range into.Descriptor().Fields().Len() {
		field := into.Descriptor().Fields().Get(i)
		value := map[protoreflect.Name]any{
			"validity": of.validity(kernel), "max_hold_ends": of.limit(kernel), "resume_token": of.Token,
			"fencing_token": of.FencingToken, "generation": of.Generation, "version": of.Version, "position": of.Position,
			"reason": of.Reason, "loss_reason": of.Loss, "outcome": of.Outcome, "cause": of.Cause, "state": of.State,
			"broken_by": of.By,
		}[field.Name()]
		switch field.Name() {
		case "break_note":
			value = fillIn(&leaseholdv1.BreakNote{}, kernel, said{By: of.By})
		case "result":
			value = of.result()
		case "time_left":
			value = span(of.Left)
		}
		if value == nil || reflect.ValueOf(value).IsZero() {
			continue
		}
		switch enum := field.Enum(); {
		case enum != nil:
			prefix := strings.TrimSuffix(string(enum.Values().Get(0).Name()), "UNSPECIFIED")
			number := enum.Values().ByName(protoreflect.Name(prefix + value.(string))).Number()
			into.Set(field, protoreflect.ValueOfEnum(number))
		case field.Message() != nil:
			into.Set(field, protoreflect.ValueOfMessage(value.(proto.Message).ProtoReflect()))
		default:
			into.Set(field, protoreflect.ValueOf(value))
		}
	}
	return message
}

// says is a word of a stream: one of those that its messages may be.
func says[M proto.Message](message M, kernel, name string, of said) M {
	into := message.ProtoReflect()
	field := into.Descriptor().Fields().ByName(protoreflect.Name(name))
	word := into.NewField(field).Message().Interface()
	if grant, isGrant := word.(*leaseholdv1.Grant); isGrant {
		grant.LeaseId, grant.LockPath, grant.ResumeToken = "lease-1", "locks/p/h/f/s/FUNCTION", "resume-1"
		grant.FencingToken, grant.Generation = 65_536, 1
	}
	into.Set(field, protoreflect.ValueOfMessage(fillIn(word, kernel, of).ProtoReflect()))
	return message
}

// answerOf is an answer to a call.
func answerOf(kernel, name string, of said) proto.Message {
	switch name {
	case "release":
		return &leaseholdv1.ReleaseLeaseResponse{Result: of.result()}
	case "get_hold":
		of.State = cmp.Or(of.State, "HELD")
		return fillIn(&leaseholdv1.GetHoldResponse{}, kernel, of)
	case "report_progress":
		return fillIn(&leaseholdv1.ReportProgressResponse{}, kernel, of)
	case "extend_lease":
		return fillIn(&leaseholdv1.ExtendLeaseResponse{}, kernel, of)
	case "save_checkpoint":
		return fillIn(&leaseholdv1.SaveCheckpointResponse{}, kernel, of)
	}
	panic("no answer " + name)
}
