//! `leasehold schedule`: schedules and their runs (T14, T15, T18, T22). `src/view/` has their JSON, `text.rs`
//! what people see.

mod act;
mod import;
mod ls;
mod next;
mod show;
mod text;

use clap::Subcommand;

pub(super) use text::ended;

use super::exit::Exit;
use super::manual::{About, about};

/// Looks at schedules, pauses, resets and removes them, runs them by hand, and tells when they are due.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: ScheduleCommand,
}

#[derive(Debug, Subcommand)]
enum ScheduleCommand {
    /// List the schedules under a host id or a prefix.
    Ls(ls::Args),
    /// Show one schedule: its definition, its run in progress, and its last runs.
    Show(show::Args),
    /// Print the next occurrences of an expression, with their local times.
    Next(next::Args),
    /// Pause a schedule: a run in progress may finish, and occurrences that fall due are skipped.
    Pause(act::Args),
    /// End a pause.
    Resume(act::Args),
    /// Run a schedule by hand, once.
    Trigger(act::TriggerArgs),
    /// Remove a schedule: its subscribers are told, and a new subscription begins it anew.
    Rm(act::RemoveArgs),
    /// Let a schedule begin anew: after a wrong clock, a restored store, or a rollback.
    Reset(act::ResetArgs),
    /// Let a schedule continue where a timer of WebJobs or Azure Functions stopped.
    Import(Box<import::Args>),
}

/// What each command of the group is for, in full, where its module says more.
pub(super) const ABOUT: &[About] = &[
    ("schedule ls", about::<ls::Args>),
    ("schedule show", about::<show::Args>),
    ("schedule next", about::<next::Args>),
    ("schedule trigger", about::<act::TriggerArgs>),
    ("schedule rm", about::<act::RemoveArgs>),
    ("schedule reset", about::<act::ResetArgs>),
    ("schedule import", about::<import::Args>),
];

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    match args.what {
        ScheduleCommand::Ls(args) => ls::run(args).await,
        ScheduleCommand::Show(args) => show::run(args).await,
        ScheduleCommand::Next(args) => next::run(args),
        ScheduleCommand::Pause(args) => act::pause(args).await,
        ScheduleCommand::Resume(args) => act::resume(args).await,
        ScheduleCommand::Trigger(args) => act::trigger(args).await,
        ScheduleCommand::Rm(args) => act::remove(args).await,
        ScheduleCommand::Reset(args) => act::reset(args).await,
        ScheduleCommand::Import(args) => import::run(*args).await,
    }
}
