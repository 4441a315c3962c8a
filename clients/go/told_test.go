package leasehold

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// filled is a message with a value of its own in each field, also in those of the messages in it.
func filled[M proto.Message](message M) M {
	number := 0
	fill(message.ProtoReflect(), &number)
	return message
}

func fill(message protoreflect.Message, number *int) {
	for i := range message.Descriptor().Fields().Len() {
		field := message.Descriptor().Fields().Get(i)
		*number++
		text := protoreflect.ValueOfString(fmt.Sprint(*number))
		scalars := map[protoreflect.Kind]protoreflect.Value{
			protoreflect.EnumKind: protoreflect.ValueOfEnum(1), protoreflect.BoolKind: protoreflect.ValueOfBool(true),
			protoreflect.BytesKind: protoreflect.ValueOfBytes([]byte{byte(*number)}), protoreflect.StringKind: text,
			protoreflect.Int64Kind: protoreflect.ValueOfInt64(int64(*number)), protoreflect.Int32Kind: protoreflect.ValueOfInt32(0),
			protoreflect.Uint64Kind: protoreflect.ValueOfUint64(uint64(*number)),
			protoreflect.Uint32Kind: protoreflect.ValueOfUint32(uint32(*number)),
		}
		switch {
		case field.IsMap():
			message.Mutable(field).Map().Set(protoreflect.ValueOfString("k").MapKey(), text)
		case field.IsList() && field.Message() != nil:
			fill(message.Mutable(field).List().AppendMutable().Message(), number)
		case field.IsList():
			message.Mutable(field).List().Append(scalars[field.Kind()])
		case field.Message() != nil:
			fill(message.Mutable(field).Message(), number)
		default:
			message.Set(field, scalars[field.Kind()])
		}
	}
}

// wantSame is that each field of ours says what the message's field of that name does, and none is empty. Fields without
// such a name are only not empty, and so is a schedule's spec, which is one of several.
func wantSame(t testing.TB, where string, ours any, message proto.Message) {
	t.Helper()
	into := message.ProtoReflect()
	fields := map[string]protoreflect.FieldDescriptor{}
	for i := range into.Descriptor().Fields().Len() {
		field := into.Descriptor().Fields().Get(i)
		fields[strings.ReplaceAll(string(field.Name()), "_", "")] = field
	}
	of := reflect.Indirect(reflect.ValueOf(ours))
	for member, value := range of.Fields() {
		if !member.IsExported() || strings.HasPrefix(member.Name, "On") {
			continue
		}
		want(t, !value.IsZero(), where, member.Name, "is empty")
		field := fields[strings.ToLower(member.Name)]
		if field == nil || field.IsMap() || field.IsList() || field.Enum() != nil {
			continue
		}
		said := into.Get(field).Interface()
		if field.Message() != nil {
			said = into.Get(field).Message().Interface()
		}
		switch told := said.(type) {
		case *durationpb.Duration:
			said = told.AsDuration()
		case *timestamppb.Timestamp:
			said = told.AsTime()
		case proto.Message:
			if member.Name != "Spec" && reflect.Indirect(value).Kind() == reflect.Struct {
				wantSame(t, where+"."+member.Name, value.Interface(), told)
			}
			continue
		}
		is := fmt.Sprint(reflect.Indirect(value).Interface())
		want(t, is == fmt.Sprint(said), where, member.Name, "is", is, "not", said)
	}
}

func (stories) AllThatIsToldIsTakenOver(s *stage) {
	ctx, c := s.Context(), s.client
	info, schedule := filled(&leaseholdv1.GetServerInfoResponse{}), filled(&leaseholdv1.Schedule{})
	previewed := filled(&leaseholdv1.PreviewScheduleResponse{})
	s.always("GetServerInfo", info)
	s.always("GetSchedule", &leaseholdv1.GetScheduleResponse{Schedule: schedule})
	s.always("PreviewSchedule", previewed)
	wantSame(s, "server", must(c.GetServerInfo(ctx)), info)
	wantSame(s, "schedule", must(c.GetSchedule(ctx, LockPath("l"))), schedule)
	preview := must(c.PreviewSchedule(ctx, nightly(), time.Time{}, 1))
	wantSame(s, "preview", preview, previewed)
	wantSame(s, "occurrence", preview.Occurrences[0], previewed.Occurrences[0])
	record, grant, hold := filled(&leaseholdv1.LockRecord{}), filled(&leaseholdv1.Grant{}), filled(&leaseholdv1.GetHoldResponse{})
	wantSame(s, "record", recordFrom(record), record)
	wantSame(s, "grant", grantFrom(grant), grant)
	wantSame(s, "hold", holdInfoFrom(hold), hold)
	busy, standby, definition := filled(&leaseholdv1.Busy{}), filled(&leaseholdv1.Standby{}), filled(&leaseholdv1.DefinitionInForce{})
	wantSame(s, "busy", busyFrom(busy), busy)
	wantSame(s, "standby", standbyFrom(standby), standby)
	wantSame(s, "definition", definitionFrom(definition), definition)
	wire := filled(&leaseholdv1.Run{})
	run := &Run{wire: wire}
	wantSame(s, "previous", run.Previous(), wire.Previous)
	same(s, "run", []any{
		run.ScheduledAt(), run.NextAt(), run.DeadlineAt(), run.LocalTime(), run.Attempt(), run.RequestID(), run.ID(), run.MaxAttempts(),
		run.Lateness(), run.MissedCount(), run.Kind(),
	}, []any{
		wire.ScheduledAt.AsTime(), wire.NextAt.AsTime(), wire.DeadlineAt.AsTime(), wire.LocalTime, wire.Attempt, wire.RequestId, wire.RunId,
		wire.MaxAttempts, wire.Lateness.AsDuration(), wire.MissedCount, RunKindScheduled,
	})
}

func TestWhatIsNotToldIsNothing(t *testing.T) {
	record := recordFrom(&leaseholdv1.LockRecord{})
	want(t, record.Reserved == nil && record.BreakNote == nil && record.AcquiredAt.IsZero() && record.State == LockStateHeld, record)
	want(t, scheduleFrom(nil) == nil && stateFrom(nil) == nil && endedFrom(nil) == nil, "nothing was told")
	want(t, noteFrom(nil) == nil && specFrom(LockKey{}, nil) == nil, "nothing was told")
	same(t, "reasons", []Reason{
		reasonFrom(leaseholdv1.ErrorReason_ERROR_REASON_STORE_DENIED), reasonFrom(leaseholdv1.ErrorReason_ERROR_REASON_UNSPECIFIED),
		reasonFrom(999),
	}, []Reason{ReasonStoreDenied, "", "999"})
}

// at is a moment so long after boot.
func at(seconds int) BootInstant { return BootInstant(seconds) * BootInstant(time.Second) }

func TestS21WhatIsOfNoKnownKernelIsCountedFromItsRequestAndWithinAllBounds(t *testing.T) {
	known, sent := &knownValidity{}, at(99)
	known.takeIn(validity("elsewhere", 158_000, 58_000), &sent, at(100), "")
	_, mustAsk := known.nextQuestion()
	want(t, mustAsk, "nobody's clock was taken for ours")
	limit, sent := &knownDeadline{}, at(1_000)
	limit.takeIn(deadline("elsewhere", 300_000, 300_000), &sent, at(1_001), ours)
	// What is older changes nothing.
	earlier := at(900)
	limit.takeIn(deadline("elsewhere", 0, 300_000), &earlier, at(1_002), ours)
	want(t, limit.at == at(1_300), limit.at)
	for wanted, validity := range map[BootInstant]*leaseholdv1.Validity{
		at(100):       {ValidFor: durationpb.New(-5 * time.Second)},
		math.MaxInt64: {ValidFor: &durationpb.Duration{Seconds: 315_576_000_000}},
	} {
		known, sent := &knownValidity{}, at(100)
		known.takeIn(validity, &sent, at(101), ours)
		want(t, known.until == wanted, known.until, wanted)
	}
}

func TestS3TheBootClockNeverGoesBack(t *testing.T) {
	clock := must(newBootClock())
	first, second := clock.now(), clock.now()
	want(t, first > 0 && second >= first && clock.bootID() != "", first, second, clock.bootID())
}

func TestAnErrorHasWhatTheSidecarSaidAsData(t *testing.T) {
	refused := func(code codes.Code, message string, details ...protoadapt.MessageV1) *RefusedError {
		st, _ := status.New(code, message).WithDetails(details...)
		return refusal(st.Err())
	}
	err := refused(codes.InvalidArgument, "one field is wrong",
		&errdetails.ErrorInfo{Domain: reasonDomain, Reason: "INVALID_FIELD"},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "spec.wait", Description: "is 25 h; 0 to 24 h are allowed"},
		}})
	want(t, err.Reason == ReasonInvalidField && err.Violations[0].Field == "spec.wait" &&
		err.Error() == "one field is wrong; spec.wait: is 25 h; 0 to 24 h are allowed", "S19:", err)
	err = refused(codes.Unavailable, "", &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	want(t, err.RetryAfter == time.Second && err.Error() == "UNAVAILABLE" && status.Code(err) == codes.Unavailable, err, err.RetryAfter)
	err = refused(codes.FailedPrecondition, "no", &errdetails.ErrorInfo{Domain: "example.com", Reason: "HOLD_LOST"})
	want(t, err.Reason == "" && toldLost(err) == nil, "it is of another domain:", err.Reason)
	unknown := refusing{Code: "FAILED_PRECONDITION", Reason: "HOLD_LOST", Loss: "NEW_ONE"}
	loss := toldLost(refusal(unknown.err()))
	want(t, loss != nil && loss.Reason == LossReasonUnspecified && loss.Detail == "so it is", loss)
}

func TestS26T8AReleaseTellsWhatBecameOfItsCheckpointAndOfItsOutcome(t *testing.T) {
	with := releasing{checkpoint: []byte{}, outcome: new(RunOutcome)}
	for _, told := range []struct {
		// With the numbers of the outcomes.
		release, saved int32
		why            string
		checkpoint     CheckpointOutcome
		detail         string
		recorded       OutcomeResult
	}{
		{1, 1, "", CheckpointOutcomeSaved, "", OutcomeResultRecorded},
		{1, 2, "why", CheckpointOutcomeNotSaved, "why", OutcomeResultNotRecorded},
		{1, 3, "why", CheckpointOutcomeUnknown, "why", OutcomeResultUnknown},
		// Of a newer sidecar.
		{1, 99, "why", CheckpointOutcomeUnknown, "why", OutcomeResultUnknown},
		// S37: of an older one, or without an effect.
		{1, 0, "", CheckpointOutcomeNotSaved, "older", OutcomeResultNotRecorded},
		{2, 0, "", CheckpointOutcomeNotSaved, "lost before", OutcomeResultNotRecorded},
		{3, 0, "", CheckpointOutcomeUnknown, "released before", OutcomeResultUnknown},
	} {
		result := resultFrom(&leaseholdv1.ReleaseResult{
			Outcome: leaseholdv1.ReleaseOutcome(told.release), CheckpointOutcome: leaseholdv1.CheckpointOutcome(told.saved),
			CheckpointVersion: 7, CheckpointDetail: told.why, OutcomeResult: leaseholdv1.OutcomeResult(told.saved),
		}, with)
		want(t, result.CheckpointOutcome == told.checkpoint && strings.Contains(result.CheckpointDetail, told.detail) &&
			result.OutcomeResult == told.recorded && result.CheckpointVersion == 7, result)
		err, detail := result.incomplete(), ""
		switch told.checkpoint {
		case CheckpointOutcomeSaved:
			ok(t, err)
			continue
		case CheckpointOutcomeUnknown:
			detail = as[*CheckpointUnknownError](t, err).Detail
		default:
			detail = as[*CheckpointNotSavedError](t, err).Detail
		}
		unrecorded := as[*OutcomeNotRecordedError](t, err)
		want(t, unrecorded.Result == told.recorded && detail == result.CheckpointDetail, unrecorded, detail)
	}
	result := resultFrom(&leaseholdv1.ReleaseResult{CheckpointOutcome: 1, OutcomeResult: 1}, releasing{})
	want(t, result.CheckpointOutcome == CheckpointOutcomeNone && result.OutcomeResult == "", "nothing was asked for:", result)
}

func TestAllThatIsAskedForIsSent(t *testing.T) {
	spec := LeaseSpec{
		Key:           LockKey{Function: "f", Scope: "s", Mode: LockModeListener, HostID: "id", HostType: "type"},
		LeaseDuration: 15 * time.Second, Wait: 2 * time.Second, MaxHold: 3 * time.Second, MinHold: 4 * time.Second,
		ProgressTimeout: 5 * time.Second, NoRenewal: true, RequestID: "r", Holder: "me", Labels: map[string]string{"k": "v"},
		Permits: 3, Priority: 7, Yields: true, Share: "listeners", Rebalance: true, Occurrence: time.Unix(1_800, 0).UTC(),
		OccurrenceMaxAttempts: 6,
	}
	wire := spec.wire(spec.Wait)
	wantSame(t, "spec", spec, wire)
	want(t, !wire.GetAutoRenew() && wire.AutoRenew != nil && wire.GetKey().GetMode() == leaseholdv1.LockMode_LOCK_MODE_LISTENER &&
		wire.GetOccurrenceAt().AsTime().Equal(spec.Occurrence) && wire.GetLabels()["k"] == "v", wire)
	// Defaults are the sidecar's.
	plain := &leaseholdv1.LeaseSpec{Key: &leaseholdv1.LockKey{Function: "f"}, Holder: "me", WaitWithoutEnd: true}
	wire = (LeaseSpec{Key: LockKey{Function: "f"}, Holder: "me"}).wire(Forever)
	want(t, proto.Equal(wire, plain), wire)
	selector := (LockPermit{Key: spec.Key, Permit: 2}).selector()
	want(t, selector.GetPermit() == 2 && keyFrom(selector.GetKey()) == spec.Key, selector)
}

func nightly() ScheduleSpec {
	return ScheduleSpec{Key: LockKey{Function: "nightly"}, Cron: "30 2 * * *", TimeZone: "Europe/Copenhagen", Holder: "me"}
}

func TestAScheduleIsSentAndReadAsItIs(t *testing.T) {
	spec := ScheduleSpec{
		Key: LockKey{Function: "f"}, Cron: "@daily", TimeZone: "UTC", Revision: 7, CatchUp: CatchUpAll, CatchUpMax: 5,
		CatchUpWindow: time.Hour, Grace: time.Minute, Overlap: OverlapSkip, MaxAttempts: 9, Backoff: time.Second,
		RunTimeout: 4 * time.Second, StopGrace: 5 * time.Second, ProgressTimeout: 6 * time.Second, Spread: 2 * time.Second,
		TakeoverCheck: 3 * time.Second, LeaseDuration: 15 * time.Second,
	}
	again := spec
	again.Cron, again.Every, again.RunTimeout = "", time.Hour, Forever
	for _, spec := range []ScheduleSpec{spec, again} {
		wire, err := spec.wire()
		read := specFrom(spec.Key, wire)
		want(t, err == nil && reflect.DeepEqual(*read, spec), read, err)
	}
	spec.FirstNow, spec.Holder, spec.Labels = true, "me", map[string]string{"k": "v"}
	request, err := spec.subscription()
	want(t, err == nil && request.GetFirst() == leaseholdv1.FirstRun_FIRST_RUN_NOW && request.GetHolder() == "me" &&
		request.GetLabels()["k"] == "v", request, err)
}

func TestS37ARequestNeedsTheRevisionOfItsNewestField(t *testing.T) {
	newer := map[protoreflect.FullName]uint32{"leasehold.v1.LeaseSpec.permits": 2, "leasehold.v1.LockKey.scope": 3}
	for least, spec := range map[uint32]*leaseholdv1.LeaseSpec{
		1: {Priority: 7, Key: &leaseholdv1.LockKey{Function: "f"}},
		2: {Permits: proto.Uint32(0), Key: &leaseholdv1.LockKey{Function: "f"}},
		3: {Permits: proto.Uint32(2), Key: &leaseholdv1.LockKey{Scope: "s"}},
	} {
		request := &leaseholdv1.HoldLeaseRequest{Start: &leaseholdv1.HoldLeaseRequest_Spec{Spec: spec}}
		needed := neededBy(request.ProtoReflect(), newer)
		want(t, needed == least, needed, least)
	}
}

func TestACallerWithoutANameIsItsPodOrHostAndProcess(t *testing.T) {
	for host, wanted := range map[string]string{
		"importer-7f9c": "importer-7f9c/17", "": "17", "björn": "17", "a\nb": "17",
		strings.Repeat("h", 300): strings.Repeat("h", holderBytes-3) + "/17",
	} {
		named := holderNamed(host, 17)
		want(t, named == wanted, host, named)
	}
	host, _ := os.Hostname()
	wanted := host + "/" + strconv.Itoa(os.Getpid())
	request, _ := ScheduleSpec{}.subscription()
	sent := (LeaseSpec{}).wire(0).GetHolder()
	want(t, sent == wanted && request.GetHolder() == wanted, sent, request)
}

func (stories) S19WhatNoSidecarTakesIsRefusedHereAndNothingIsDone(s *stage) {
	hold, c, ctx := s.holds(), s.client, s.Context()
	large := bytes.Repeat([]byte("x"), 2_049)
	both := ScheduleSpec{Cron: "@daily", Every: time.Hour}
	for field, failures := range map[string][]error{
		"value": {errOf(hold.Save(ctx, large)), errOf(c.SaveCheckpoint(ctx, "lease-1", large))},
		"checkpoint": {
			errOf(hold.Release(ctx, WithCheckpoint(large))), errOf(c.CompleteRun(ctx, "run-1", Completion{Checkpoint: large})),
		},
		"outcome": {
			errOf(hold.Release(ctx, WithOutcome(RunOutcomeTimedOut))), errOf(hold.Release(ctx, WithOutcome(RunOutcomeNone))),
		},
		"spec.timetable": {errOf(c.Runs(both)), errOf(c.PreviewSchedule(ctx, both, time.Time{}, 0))},
	} {
		for _, err := range failures {
			refused := as[*RefusedError](s, err)
			want(s, refused.Reason == ReasonInvalidField && refused.Violations[0].Field == field, field, refused)
		}
	}
	s.wantSent("hold")
	want(s, hold.Valid(), hold.Loss())
}

func TestALongDetailIsCutBetweenCharacters(t *testing.T) {
	long := strings.Repeat("ü", 400)
	want(t, len(cut(long)) == 512 && len(cut("x"+long)) == 511 && cut("a\xff") == "a\uFFFD", cut(long))
}
