//! `leasehold every`: run a command on each occurrence of a schedule, in one replica.
//!
//! Rules: T2 (a run is repeated until its outcome was recorded), T11 (outcomes), T12 (deadline), T20.
//! `spec.rs` has the flags of a schedule, `outcome.rs` what the end of a command means. The command is run as
//! that of `run` is (`run/job.rs`).

mod outcome;
mod spec;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use leasehold_client::{CompletedRun, Completion, CompletionResult, Run, Runs, ScheduleEvent};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::acquire_retry::link;
use super::connection::ConnectionArgs;
use super::exit::Exit;
use super::output;
use super::retry::{Patience, Wait};
use super::run::checkpoint::{CheckpointFile, check_kept};
use super::run::job::{Environment, Job, Terms};
use super::run::{PASSED_ON, RELEASE_TIMEOUT};
use super::signals::Signals;
use super::spec::duration;
use super::times::{moment, span};
use outcome::{Verdict, verdict};
use spec::ScheduleArgs;

/// Runs a command on each occurrence of a schedule, such as `leasehold every '30 2 * * *' --tz
/// Europe/Copenhagen --function nightly -- ./job`. Start it in every replica: each occurrence runs in one of
/// them. Goes on until SIGTERM or SIGINT, which are passed on to a command that runs.
///
/// Each occurrence is granted until one run of it is recorded, never after, and never two at once: a run
/// whose process dies is repeated. The command ends with 0 when it has done its work, and with 75 when
/// another replica is to do it. All else has failed, and is tried again (--retry).
///
/// The command finds what `run` tells it in its environment, and LEASEHOLD_SCHEDULED_AT (RFC 3339),
/// LEASEHOLD_RUN_ID, LEASEHOLD_ATTEMPT, LEASEHOLD_MISSED, LEASEHOLD_LATENESS (in seconds), LEASEHOLD_DEADLINE
/// (RFC 3339, if there is one) and LEASEHOLD_REQUEST_ID (of a run by hand).
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    schedule: ScheduleArgs,
    /// Exit after the first run that ends here, with the command's exit code.
    #[arg(long)]
    once: bool,
    /// The exit code of a command that failed and is not to be tried again.
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u8).range(1..))]
    final_exit_code: Option<u8>,
    /// How long the command has between SIGTERM, which comes at its deadline, and SIGKILL. Default: 9s.
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    kill_after: Option<Duration>,
    /// A file for the lock's checkpoint, as with `run`. When the command ends with 0, what it has written
    /// there is saved with the outcome.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen(&PASSED_ON).context("cannot listen for signals")?;
    let subscription = args.schedule.clone().subscription(args.kill_after)?;
    let mut patience = Patience::new(Wait::Forever);
    let connecting = async {
        let link = link(&args.connection, &mut patience).await?;
        if args.checkpoint.is_some() {
            check_kept(&link.client, &mut patience).await?;
        }
        Ok::<_, anyhow::Error>(link)
    };
    let link = tokio::select! {
        biased;
        () = told_to_end(&mut signals) => return Ok(Exit::Success),
        link = connecting => link?,
    };
    let (sender, mut events) = unbounded_channel();
    let mut runs = link.client.runs(subscription).events(sender).with_hold_events();
    let exit = go_on(&mut runs, &mut events, &mut signals, &mut patience, &args).await;
    drop(runs);
    link.close().await;
    exit
}

/// Runs what falls to this process, until it is told to end.
async fn go_on(
    runs: &mut Runs,
    events: &mut UnboundedReceiver<ScheduleEvent>,
    signals: &mut Signals,
    patience: &mut Patience,
    args: &Args,
) -> anyhow::Result<Exit> {
    let mut notes = Notes::default();
    loop {
        let next = tokio::select! {
            biased;
            () = told_to_end(signals) => return Ok(Exit::Success),
            Some(event) = events.recv() => {
                notes.take_in(event);
                continue;
            }
            next = runs.next() => next,
        };
        let run = match next {
            Ok(run) => run,
            Err(error) => {
                tokio::select! {
                    biased;
                    () = told_to_end(signals) => return Ok(Exit::Success),
                    waited = patience.after(error.into()) => waited?,
                }
                continue;
            }
        };
        let exit = one(run, signals, args).await?;
        if args.once {
            return Ok(exit);
        }
        if signals.ending().is_some() {
            return Ok(Exit::Success);
        }
    }
}

/// Completes when a signal asks this process to end.
async fn told_to_end(signals: &mut Signals) {
    while signals.ending().is_none() {
        signals.next().await;
    }
}

/// One run: the command, and its outcome.
async fn one(run: Run, signals: &mut Signals, args: &Args) -> anyhow::Result<Exit> {
    output::note(&beginning(&run));
    let name = name(&run);
    let mut events = run.take_events().context("a run without the events of its hold")?;
    let file = args.checkpoint.as_deref().map(CheckpointFile::at).transpose()?;
    let terms = Terms { kill_after: args.kill_after, priority: 0, deadline: run.deadline() };
    let job = Job { command: &args.command, terms, file };
    let done = match job.run(run.hold(), environment(&run), &mut events, signals).await {
        Ok(done) => done,
        Err(error) => {
            // The command did not run, and would not here: another replica may be better off.
            let _told = told(run, Completion::returned(), signals).await;
            return Err(error);
        }
    };
    let Verdict { completion, exit } = verdict(&done, &run, signals.ending(), args.final_exit_code);
    if !run.is_valid() {
        let loss = run.lost().await;
        output::note(&format!("the run of {name} was lost: {loss}"));
    }
    // Also of a run that was lost: until then its sidecar gives this process no other one (T24).
    let outcome = completion.outcome().as_str();
    match told(run, completion, signals).await? {
        Some(completed) => {
            output::note(&format!("the run of {name} ended: {outcome}{}", result(&completed)));
        }
        None => output::note(&format!(
            "the run of {name} ended: {outcome}, and nobody has recorded it yet"
        )),
    }
    Ok(exit)
}

/// Says how a run ended. Nobody may answer: then it is given up once this process was told to end.
async fn told(
    run: Run,
    completion: Completion,
    signals: &mut Signals,
) -> anyhow::Result<Option<CompletedRun>> {
    let giving_up = async {
        told_to_end(signals).await;
        tokio::time::sleep(RELEASE_TIMEOUT).await;
    };
    tokio::select! {
        biased;
        completed = run.complete(completion) => Ok(Some(completed?)),
        () = giving_up => Ok(None),
    }
}

fn result(completed: &CompletedRun) -> String {
    let next = match (completed.retry_at, completed.next_at) {
        (Some(at), _) => moment(Some(at)).map(|at| format!("; retried at {at}")),
        (None, at) => moment(at).map(|at| format!("; next at {at}")),
    };
    let result = match completed.result {
        CompletionResult::Recorded => "",
        CompletionResult::RecordedLate => ", recorded late",
        // A later version may say more.
        CompletionResult::Superseded | _ => {
            ", which does not count: somebody else was or may be granted it"
        }
    };
    format!("{result}{}", next.unwrap_or_default())
}

/// What a run is of, for people.
fn name(run: &Run) -> String {
    match run.request_id() {
        Some(id) => format!("request {id}"),
        None => run.local_time().to_owned(),
    }
}

fn beginning(run: &Run) -> String {
    let mut text = format!("the run of {} starts: attempt {}", name(run), run.attempt());
    if run.max_attempts() > 0 {
        text = format!("{text} of {}", run.max_attempts());
    }
    if !run.lateness().is_zero() {
        text = format!("{text}, {} late", span(run.lateness()));
    }
    if run.missed_count() > 0 {
        text = format!("{text}, {} missed", run.missed_count());
    }
    format!("{text}, token {}", run.fencing_token())
}

fn environment(run: &Run) -> Environment {
    let always = [
        ("LEASEHOLD_SCHEDULED_AT", moment(Some(run.scheduled_at()))),
        ("LEASEHOLD_DEADLINE", moment(run.deadline_at())),
        ("LEASEHOLD_REQUEST_ID", run.request_id().map(str::to_owned)),
        ("LEASEHOLD_RUN_ID", Some(run.run_id().to_owned())),
        ("LEASEHOLD_ATTEMPT", Some(run.attempt().to_string())),
        ("LEASEHOLD_MISSED", Some(run.missed_count().to_string())),
        ("LEASEHOLD_LATENESS", Some(run.lateness().as_secs().to_string())),
    ];
    always.into_iter().filter_map(|(name, value)| Some((name, value?.into()))).collect()
}

/// What is said between runs: once, and not again while nothing changes.
#[derive(Default)]
struct Notes {
    understood: Option<String>,
    paused: bool,
    /// The trouble that was said last, until a sidecar is heard of again.
    trouble: Option<String>,
}

impl Notes {
    fn take_in(&mut self, event: ScheduleEvent) {
        match event {
            ScheduleEvent::Subscribed(understood) => {
                self.trouble = None;
                if self.understood.as_ref() != Some(&understood.description) {
                    output::note(&understood.description);
                    if !understood.warning.is_empty() {
                        output::note(&understood.warning);
                    }
                    self.understood = Some(understood.description);
                }
            }
            ScheduleEvent::Standby(standby) => {
                if standby.paused != std::mem::replace(&mut self.paused, standby.paused) {
                    let what = if standby.paused { "is paused" } else { "goes on" };
                    output::note(&format!("the schedule {what}"));
                }
            }
            ScheduleEvent::DefinitionInForce(other) => {
                let why = if other.conflict {
                    "with the same revision: two deployments differ; give the newer one a higher --revision"
                } else {
                    "of a higher revision"
                };
                output::note(&format!(
                    "another definition is in force, {why}: {}",
                    other.description
                ));
            }
            ScheduleEvent::Interrupted { detail } => {
                if self.trouble.as_ref() != Some(&detail) {
                    output::note(&format!("{detail}; trying again"));
                    self.trouble = Some(detail);
                }
            }
            // Another sidecar is asked when this one has gone. A later version may tell more.
            ScheduleEvent::Draining { .. } | _ => {}
        }
    }
}
