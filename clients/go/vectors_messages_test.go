package leasehold

import (
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
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

func (s said) note() *leaseholdv1.BreakNote { return &leaseholdv1.BreakNote{BrokenBy: s.By} }

func (s said) loss() leaseholdv1.LossReason {
	return leaseholdv1.LossReason(leaseholdv1.LossReason_value["LOSS_REASON_"+s.Loss])
}

func (s said) result() *leaseholdv1.ReleaseResult {
	outcome := leaseholdv1.ReleaseOutcome_value["RELEASE_OUTCOME_"+s.Outcome]
	return &leaseholdv1.ReleaseResult{Outcome: leaseholdv1.ReleaseOutcome(outcome), LossReason: s.loss()}
}

// eventOf is an event of a stream, which answers spec.
func eventOf(kernel, name string, of said, spec *leaseholdv1.LeaseSpec) *leaseholdv1.HoldLeaseResponse {
	switch name {
	case "granted":
		grant := &leaseholdv1.Grant{
			LeaseId: "lease-1", ResumeToken: "resume-1", LockPath: "locks/p/h/f/s/FUNCTION", FencingToken: 65_536,
			Generation: max(1, of.Generation), Validity: of.validity(kernel), MaxHoldEnds: of.limit(kernel),
		}
		if of.Token != "" {
			grant.ResumeToken = of.Token
		}
		if of.FencingToken != 0 {
			grant.FencingToken = of.FencingToken
		}
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Granted{Granted: grant}}
	case "waiting":
		waiting := &leaseholdv1.Waiting{Position: of.Position}
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Waiting{Waiting: waiting}}
	case "busy":
		reason := leaseholdv1.BusyReason(leaseholdv1.BusyReason_value["BUSY_REASON_"+of.Reason])
		busy := &leaseholdv1.Busy{Reason: reason}
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Busy{Busy: busy}}
	case "renewed":
		renewed := &leaseholdv1.Renewed{
			Validity: of.validity(kernel), ResumeToken: of.Token, MaxHoldEnds: of.limit(kernel),
		}
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Renewed{Renewed: renewed}}
	case "at_risk":
		cause := leaseholdv1.ErrorReason(leaseholdv1.ErrorReason_value["ERROR_REASON_"+of.Cause])
		risk := &leaseholdv1.AtRisk{Validity: of.validity(kernel), Cause: cause}
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_AtRisk{AtRisk: risk}}
	case "recovered":
		recovered := &leaseholdv1.Recovered{Validity: of.validity(kernel)}
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Recovered{Recovered: recovered}}
	case "draining":
		draining := &leaseholdv1.Draining{TimeLeft: span(of.Left)}
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Draining{Draining: draining}}
	case "revoked":
		revoked := &leaseholdv1.Revoked{Validity: of.validity(kernel), BreakNote: of.note()}
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Revoked{Revoked: revoked}}
	case "lost":
		reason := leaseholdv1.LossReason(leaseholdv1.LossReason_value["LOSS_REASON_"+of.Reason])
		lost := &leaseholdv1.Lost{Reason: reason}
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Lost{Lost: lost}}
	case "released":
		released := &leaseholdv1.Released{Result: of.result()}
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Released{Released: released}}
	}
	panic("no event " + name)
}

// answerOf is an answer to a call.
func answerOf(kernel, name string, of said) proto.Message {
	switch name {
	case "release":
		return &leaseholdv1.ReleaseLeaseResponse{Result: of.result()}
	case "get_hold":
		answer := &leaseholdv1.GetHoldResponse{Validity: of.validity(kernel), MaxHoldEnds: of.limit(kernel)}
		answer.State = leaseholdv1.HoldState_HOLD_STATE_HELD
		if of.State != "" {
			answer.State = leaseholdv1.HoldState(leaseholdv1.HoldState_value["HOLD_STATE_"+of.State])
			answer.BreakNote = of.note()
		}
		return answer
	case "report_progress":
		return &leaseholdv1.ReportProgressResponse{Validity: of.validity(kernel)}
	case "extend_lease":
		return &leaseholdv1.ExtendLeaseResponse{
			Validity: of.validity(kernel), ResumeToken: of.Token, MaxHoldEnds: of.limit(kernel),
		}
	case "save_checkpoint":
		return &leaseholdv1.SaveCheckpointResponse{Version: of.Version, Validity: of.validity(kernel)}
	}
	panic("no answer " + name)
}
