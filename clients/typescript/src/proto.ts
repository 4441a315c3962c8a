// The messages and the service as they are on the wire, generated from proto/leasehold/v1.

export * from "../gen/leasehold/v1/errors.js";
export * from "../gen/leasehold/v1/hold.js";
export * from "../gen/leasehold/v1/lease_service.js";
export * from "../gen/leasehold/v1/lock.js";
export * from "../gen/leasehold/v1/schedule.js";
export * from "../gen/leasehold/v1/schedule_service.js";
