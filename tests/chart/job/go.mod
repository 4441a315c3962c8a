module leasehold.dev/tests/chart/job

go 1.21
