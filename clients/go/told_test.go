package leasehold

import (
	"fmt"
	"math"
	"reflect"
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
		one := func(value protoreflect.Value) protoreflect.Value {
			switch field.Kind() {
			case protoreflect.MessageKind:
				fill(value.Message(), number)
				return value
			case protoreflect.EnumKind:
				return protoreflect.ValueOfEnum(1)
			case protoreflect.BoolKind:
				return protoreflect.ValueOfBool(true)
			case protoreflect.BytesKind:
				return protoreflect.ValueOfBytes([]byte{byte(*number)})
			case protoreflect.StringKind:
				return protoreflect.ValueOfString(fmt.Sprint(*number))
			case protoreflect.Int64Kind:
				return protoreflect.ValueOfInt64(int64(*number))
			case protoreflect.Int32Kind:
				return protoreflect.ValueOfInt32(0)
			case protoreflect.Uint64Kind:
				return protoreflect.ValueOfUint64(uint64(*number))
			default:
				return protoreflect.ValueOfUint32(uint32(*number))
			}
		}
		switch value := message.NewField(field); {
		case field.IsMap():
			value.Map().Set(protoreflect.ValueOfString("k").MapKey(), protoreflect.ValueOfString(fmt.Sprint(*number)))
			message.Set(field, value)
		case field.IsList():
			element := value.List().NewElement()
			value.List().Append(one(element))
			message.Set(field, value)
		default:
			message.Set(field, one(value))
		}
	}
}

// wantSame is that each field of ours says what the message's field of that name does, and none is empty. Fields without
// such a name are only not empty, and so is a schedule's spec, which is one of several.
func wantSame(t testing.TB, where string, ours any, message proto.Message) {
	t.Helper()
	fields := map[string]protoreflect.FieldDescriptor{}
	descriptors := message.ProtoReflect().Descriptor().Fields()
	for i := range descriptors.Len() {
		fields[strings.ReplaceAll(string(descriptors.Get(i).Name()), "_", "")] = descriptors.Get(i)
	}
	of := reflect.Indirect(reflect.ValueOf(ours))
	for i := range of.NumField() {
		name := of.Type().Field(i).Name
		if !of.Type().Field(i).IsExported() || strings.HasPrefix(name, "On") {
			continue
		}
		want(t, !of.Field(i).IsZero(), where, name, "is empty")
		field := fields[strings.ToLower(name)]
		if field == nil || field.IsMap() || field.IsList() || field.Enum() != nil {
			continue
		}
		said := fmt.Sprint(message.ProtoReflect().Get(field).Interface())
		if field.Message() != nil {
			value := message.ProtoReflect().Get(field).Message().Interface()
			switch told := value.(type) {
			case *durationpb.Duration:
				said = told.AsDuration().String()
			case *timestamppb.Timestamp:
				said = told.AsTime().String()
			default:
				if name != "Spec" && reflect.Indirect(of.Field(i)).Kind() == reflect.Struct {
					wantSame(t, where+"."+name, of.Field(i).Interface(), value)
				}
				continue
			}
		}
		if is := fmt.Sprint(reflect.Indirect(of.Field(i)).Interface()); is != said {
			t.Errorf("%s.%s is %s, not %s", where, name, is, said)
		}
	}
}

func TestAllThatIsToldIsTakenOver(t *testing.T) {
	staged(t, func(s *stage) {
		info := filled(&leaseholdv1.GetServerInfoResponse{})
		s.always("GetServerInfo", info)
		server, err := s.client.GetServerInfo(s.Context())
		wantSame(t, "server", server, info)
		schedule := filled(&leaseholdv1.Schedule{})
		s.always("GetSchedule", &leaseholdv1.GetScheduleResponse{Schedule: schedule})
		told, failed := s.client.GetSchedule(s.Context(), LockPath("l"))
		wantSame(t, "schedule", told, schedule)
		previewed := filled(&leaseholdv1.PreviewScheduleResponse{})
		s.always("PreviewSchedule", previewed)
		preview, wrong := s.client.PreviewSchedule(s.Context(), nightly(), time.Time{}, 1)
		if err != nil || failed != nil || wrong != nil || len(preview.Occurrences) != 1 {
			t.Fatal(err, failed, wrong)
		}
		wantSame(t, "preview", preview, previewed)
		wantSame(t, "occurrence", preview.Occurrences[0], previewed.Occurrences[0])
	})
	record := filled(&leaseholdv1.LockRecord{})
	wantSame(t, "record", recordFrom(record), record)
	grant := filled(&leaseholdv1.Grant{})
	wantSame(t, "grant", grantFrom(grant), grant)
	hold := filled(&leaseholdv1.GetHoldResponse{})
	wantSame(t, "hold", holdInfoFrom(hold), hold)
	busy := filled(&leaseholdv1.Busy{})
	wantSame(t, "busy", busyFrom(busy), busy)
	standby := filled(&leaseholdv1.Standby{})
	wantSame(t, "standby", standbyFrom(standby), standby)
	definition := filled(&leaseholdv1.DefinitionInForce{})
	wantSame(t, "definition", definitionFrom(definition), definition)
	run := &Run{wire: filled(&leaseholdv1.Run{})}
	wire := run.wire
	want(t, !(run.ScheduledAt() != wire.ScheduledAt.AsTime() || run.NextAt() != wire.NextAt.AsTime() ||
		run.DeadlineAt() != wire.DeadlineAt.AsTime() || run.LocalTime() != wire.LocalTime || run.Attempt() != wire.Attempt) && run.RequestID() == wire.RequestId &&
		run.ID() == wire.RunId &&
		run.MaxAttempts() == wire.MaxAttempts &&
		run.Lateness() == wire.Lateness.AsDuration() &&
		run.MissedCount() == wire.MissedCount &&
		run.Kind() == RunKindScheduled,

		wire)
	wantSame(t, "previous", run.Previous(), run.wire.Previous)
}

func TestWhatIsNotToldIsNothing(t *testing.T) {
	record := recordFrom(&leaseholdv1.LockRecord{})
	if record.Reserved != nil || record.BreakNote != nil || !record.AcquiredAt.IsZero() || record.State != LockStateHeld {
		t.Errorf("%+v", record)
	}
	want(t, scheduleFrom(nil) == nil && stateFrom(nil) == nil && endedFrom(nil) == nil && noteFrom(nil) == nil && specFrom(LockKey{}, nil) == nil, "nothing was told")
	for wire, wanted := range map[leaseholdv1.ErrorReason]Reason{
		leaseholdv1.ErrorReason_ERROR_REASON_STORE_DENIED: ReasonStoreDenied, leaseholdv1.ErrorReason_ERROR_REASON_UNSPECIFIED: "",
		999: "999",
	} {
		reason := reasonFrom(wire)
		want(t, reason == wanted, wire, reason)
	}
}

// at is a moment so long after boot.
func at(seconds int) BootInstant { return BootInstant(seconds) * BootInstant(time.Second) }

func TestS21WhatIsOfNoKnownKernelIsCountedFromItsRequestAndWithinAllBounds(t *testing.T) {
	known, sent := &knownValidity{}, at(99)
	known.takeIn(said{Until: 158_000, For: 58_000}.validity("elsewhere"), &sent, at(100), "")
	_, mustAsk := known.nextQuestion()
	want(t, mustAsk, "nobody's clock was taken for ours")
	limit, sent := &knownDeadline{}, at(1_000)
	limit.takeIn((&instant{9_000_000, 300_000}).wire("elsewhere"), nil, at(1_001), ours)
	want(t, !limit.known, limit.at)
	limit.takeIn((&instant{300_000, 300_000}).wire("elsewhere"), &sent, at(1_001), ours)
	// What is older changes nothing.
	earlier := at(900)
	limit.takeIn((&instant{0, 300_000}).wire("elsewhere"), &earlier, at(1_002), ours)
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
	if first := clock.now(); first <= 0 || clock.now() < first || clock.bootID() == "" {
		t.Errorf("%v, then %v, boot id %q", first, clock.now(), clock.bootID())
	}
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
	want(t, err.Reason == ReasonInvalidField && err.Violations[0].Field == "spec.wait" && err.Error() == "one field is wrong; spec.wait: is 25 h; 0 to 24 h are allowed",
		"S19:", err)
	err = refused(codes.Unavailable, "", &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	want(t, err.RetryAfter == time.Second && err.Error() == "UNAVAILABLE" && status.Code(err) == codes.Unavailable, err, err.RetryAfter)
	err = refused(codes.FailedPrecondition, "no", &errdetails.ErrorInfo{Domain: "example.com", Reason: "HOLD_LOST"})
	want(t, err.Reason == "" && toldLost(err) == nil, "it is of another domain:", err.Reason)
	unknown := refusing{Code: "FAILED_PRECONDITION", Reason: "HOLD_LOST", Loss: "NEW_ONE"}
	loss := toldLost(refusal(unknown.err()))
	want(t, loss != nil && loss.Reason == LossReasonUnspecified && loss.Detail == "so it is", loss)
}

func TestS26T8AReleaseTellsWhatBecameOfItsCheckpointAndOfItsOutcome(t *testing.T) {
	failed := RunOutcomeFailed
	with := releasing{checkpoint: []byte{}, outcome: &failed}
	released := leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_RELEASED
	for _, told := range []struct {
		wire       *leaseholdv1.ReleaseResult
		checkpoint CheckpointOutcome
		detail     string
		recorded   OutcomeResult
	}{
		{&leaseholdv1.ReleaseResult{Outcome: released, CheckpointOutcome: 1, CheckpointVersion: 7, OutcomeResult: 1},
			CheckpointOutcomeSaved, "", OutcomeResultRecorded},
		{&leaseholdv1.ReleaseResult{Outcome: released, CheckpointOutcome: 2, CheckpointDetail: "why", OutcomeResult: 2},
			CheckpointOutcomeNotSaved, "why", OutcomeResultNotRecorded},
		{&leaseholdv1.ReleaseResult{Outcome: released, CheckpointOutcome: 3, CheckpointDetail: "why", OutcomeResult: 3},
			CheckpointOutcomeUnknown, "why", OutcomeResultUnknown},
		// Of a newer sidecar.
		{&leaseholdv1.ReleaseResult{Outcome: released, CheckpointOutcome: 99, CheckpointDetail: "why", OutcomeResult: 99},
			CheckpointOutcomeUnknown, "why", OutcomeResultUnknown},
		// S37: of an older one, or without an effect.
		{&leaseholdv1.ReleaseResult{Outcome: released}, CheckpointOutcomeNotSaved, "older", OutcomeResultNotRecorded},
		{&leaseholdv1.ReleaseResult{Outcome: leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_LOST},
			CheckpointOutcomeNotSaved, "lost before", OutcomeResultNotRecorded},
		{&leaseholdv1.ReleaseResult{Outcome: leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_RELEASED},
			CheckpointOutcomeUnknown, "released before", OutcomeResultUnknown},
	} {
		result := resultFrom(told.wire, with)
		if result.CheckpointOutcome != told.checkpoint || !strings.Contains(result.CheckpointDetail, told.detail) ||
			result.OutcomeResult != told.recorded || result.CheckpointVersion != told.wire.CheckpointVersion {
			t.Errorf("%+v", result)
		}
		err, detail := result.incomplete(), ""
		switch told.checkpoint {
		case CheckpointOutcomeSaved:
			want(t, err == nil, err)
			continue
		case CheckpointOutcomeUnknown:
			detail = as[*CheckpointUnknownError](t, err).Detail
		default:
			detail = as[*CheckpointNotSavedError](t, err).Detail
		}
		unrecorded := as[*OutcomeNotRecordedError](t, err)
		want(t, unrecorded.Result == told.recorded && detail == result.CheckpointDetail, unrecorded, detail)
	}
	wire := &leaseholdv1.ReleaseResult{CheckpointOutcome: 1, OutcomeResult: 1}
	result := resultFrom(wire, releasing{})
	want(t, result.CheckpointOutcome == CheckpointOutcomeNone && result.OutcomeResult == "", "nothing was asked for:", result)
}
