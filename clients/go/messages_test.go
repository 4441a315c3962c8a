package leasehold

import (
	"cmp"
	"fmt"
	"strconv"
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

// said is what the sidecar says, by the names that the vectors have for it.
type said = map[string]any

// namesOf are those names of fields, where they are not the API's.
var namesOf = map[protoreflect.Name]string{
	"max_hold_ends": "max_hold", "resume_token": "token", "loss_reason": "loss", "broken_by": "by", "time_left": "left",
}

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

func span(milliseconds any) *durationpb.Duration {
	return durationpb.New(must(time.ParseDuration(fmt.Sprint(milliseconds, "ms"))))
}

// reading is a moment on the clock of a kernel.
func reading(kernel string, at any) *leaseholdv1.BootTime {
	bootID := map[bool]string{true: elsewhere, false: ours}[kernel == "elsewhere"]
	return &leaseholdv1.BootTime{BootId: bootID, SinceBoot: durationpb.New(bases[kernel] + span(at).AsDuration())}
}

func validity(kernel string, until, validFor any) *leaseholdv1.Validity {
	return &leaseholdv1.Validity{ValidUntil: reading(kernel, until), ValidFor: span(validFor)}
}

func deadline(kernel string, at, after any) *leaseholdv1.Deadline {
	return &leaseholdv1.Deadline{At: reading(kernel, at), After: span(after)}
}

// fillIn sets the fields of a message for which there is a value in what is said.
func fillIn[M proto.Message](message M, kernel string, of said) M {
	into := message.ProtoReflect()
	for i := range into.Descriptor().Fields().Len() {
		field := into.Descriptor().Fields().Get(i)
		value, isSaid := of[cmp.Or(namesOf[field.Name()], string(field.Name()))]
		if field.Name() == "state" && !isSaid {
			value, isSaid = "HELD", true
		}
		number, _ := strconv.ParseInt(fmt.Sprint(value), 10, 64)
		var inner proto.Message
		switch {
		case field.Name() == "validity" && of["for"] != nil:
			inner = validity(kernel, of["until"], of["for"])
		case field.Name() == "break_note":
			inner = fillIn(&leaseholdv1.BreakNote{}, kernel, said{"by": cmp.Or(of["by"], any(""))})
		case field.Name() == "result" && field.Message() != nil:
			inner = fillIn(&leaseholdv1.ReleaseResult{}, kernel, of)
		case field.Name() == "grant":
			inner = granting(kernel, of)
		case !isSaid:
		case field.Name() == "understood":
			inner = &leaseholdv1.UnderstoodSchedule{Expression: "30 2 * * *"}
		case field.Name() == "time_left":
			inner = span(value)
		case field.Message() != nil:
			moment := value.(said)
			inner = deadline(kernel, moment["at"], moment["after"])
		case field.Enum() != nil:
			name := protoreflect.Name(prefixOf(field.Enum()) + value.(string))
			into.Set(field, protoreflect.ValueOfEnum(field.Enum().Values().ByName(name).Number()))
		case field.Kind() == protoreflect.Uint64Kind:
			into.Set(field, protoreflect.ValueOfUint64(uint64(number)))
		case field.Kind() == protoreflect.Uint32Kind:
			into.Set(field, protoreflect.ValueOfUint32(uint32(number)))
		default:
			into.Set(field, protoreflect.ValueOf(value))
		}
		if inner != nil {
			into.Set(field, protoreflect.ValueOfMessage(inner.ProtoReflect()))
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
