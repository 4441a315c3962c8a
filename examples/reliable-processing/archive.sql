-- The archive's database: another system, which keeps one document for each job.

CREATE TABLE document (
    job_id UUID PRIMARY KEY,
    body TEXT NOT NULL,
    -- The greatest token that has written: the archive refuses smaller ones.
    fencing_token BIGINT NOT NULL
);
