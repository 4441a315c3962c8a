-- The database of the jobs. The queue stands beside them here; the worker treats it as if it were elsewhere.

CREATE TABLE job (
    id UUID PRIMARY KEY,
    pages INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'done')),
    -- How often a worker has claimed it: a job that kills its workers is found by this number.
    claims INTEGER NOT NULL DEFAULT 0,
    -- The token of the last claim: who comes with a smaller one is late.
    fencing_token BIGINT NOT NULL DEFAULT 0,
    result TEXT
);

CREATE TABLE message (
    id BIGSERIAL PRIMARY KEY,
    job_id UUID NOT NULL REFERENCES job,
    visible_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX ON message (visible_at);
