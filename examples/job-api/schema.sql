CREATE TABLE job (
    id UUID PRIMARY KEY,
    pages INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'queued',
    pages_done INTEGER NOT NULL DEFAULT 0,
    -- The greatest token that has written: who comes with a smaller one is late.
    fencing_token BIGINT NOT NULL DEFAULT 0,
    -- When a message was last sent for it.
    sent_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- What a job has made. A real one would have UNIQUE (job_id); here a second result is to be seen, not prevented.
CREATE TABLE result (
    job_id UUID NOT NULL REFERENCES job,
    fencing_token BIGINT NOT NULL,
    body TEXT NOT NULL
);
