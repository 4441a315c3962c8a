module github.com/leasehold/leasehold/examples/spread-listeners

go 1.26.0

replace github.com/leasehold/leasehold/clients/go => ../../clients/go

require (
	github.com/leasehold/leasehold/clients/go v0.0.0-00010101000000-000000000000
	golang.org/x/sys v0.49.0
)

require (
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b // indirect
	google.golang.org/grpc v1.85.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
