package leasehold

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// needs is the least revision of a sidecar that serves a request: that of the newest field that is set in it (S37).
func needs(request proto.Message) uint32 { return neededBy(request.ProtoReflect(), newerFields) }

func neededBy(message protoreflect.Message, newer map[protoreflect.FullName]uint32) uint32 {
	least := uint32(1)
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		least = max(least, newer[field.FullName()])
		if field.Message() != nil && !field.IsMap() && !field.IsList() {
			least = max(least, neededBy(value.Message(), newer))
		}
		return true
	})
	return least
}

// isBelowNeeds is whether another sidecar may serve what this one has refused, because it is older than the request (S37).
func isBelowNeeds(err error) bool {
	var refused *RefusedError
	if err != nil && !errors.As(err, &refused) {
		refused = refusal(err)
	}
	return refused != nil && refused.isBelowNeeds
}

// unknownCalls says that the sidecar does not have these calls.
func unknownCalls(what string) error {
	return tooOld("the sidecar does not know " + what + ", because it is older than they are: update the sidecar")
}

// tooOld says that the sidecar does not know what was asked for.
func tooOld(message string) error {
	return &RefusedError{
		Code: CodeUnimplemented, Reason: ReasonUnsupported, Message: message,
		err: status.Error(codes.Unimplemented, message),
	}
}

// knowing says it plainly where an error is that of a sidecar without the call, which says only that (S37). One that has
// it, and may not use it, says why.
func knowing(what string, err error) error {
	var refused *RefusedError
	if errors.As(err, &refused) && refused.Code == CodeUnimplemented && refused.Reason == "" {
		return unknownCalls(what)
	}
	return err
}
