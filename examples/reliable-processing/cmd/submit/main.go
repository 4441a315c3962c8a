// Submit stores jobs, and prints their ids.
//
// Usage: submit PAGES... (of each job), with JOBS_URL in the environment.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/examples/reliable-processing/jobs"
)

func main() {
	if err := submit(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "submit:", err)
		os.Exit(1)
	}
}

func submit(ctx context.Context, pages []string) error {
	pool, err := pgxpool.New(ctx, os.Getenv("JOBS_URL"))
	if err != nil {
		return fmt.Errorf("JOBS_URL: %w", err)
	}
	defer pool.Close()
	store := jobs.Jobs{Pool: pool}
	for _, each := range pages {
		number, err := strconv.Atoi(each)
		if err != nil {
			return fmt.Errorf("how many pages: %w", err)
		}
		job := jobs.Job{ID: uuid.New(), Pages: number}
		if err := store.Submit(ctx, job); err != nil {
			return err
		}
		fmt.Println(job.ID)
	}
	return nil
}
