//! The command line: one file a command, each with `Args` and `run`.
//!
//! Rules: S13 (the validity ends before the release is sent), S15 (signals), S19 (bad input), S20 (no secret
//! in the process list), S21. May import: everything. To add a command: a file here with `Args` and `run`, a
//! line in `Command`, in its match and in `ABOUT`, `tests/cli/<command>.rs`, a section in docs/cli.md. Only
//! `output.rs` prints, and only `exit.rs` knows exit codes.

mod acquire;
mod acquire_retry;
mod bench;
mod break_lock;
mod check_token;
mod checkpoint;
mod completions;
mod connection;
mod doctor;
mod engine;
mod every;
mod exit;
mod extend;
mod flags;
mod gc;
mod grant;
mod info;
mod install;
mod lock_names;
mod locks_table;
mod ls;
mod man;
mod manual;
mod narrow;
mod output;
mod path;
mod probe;
mod reach;
mod record;
mod release;
mod reload;
mod retry;
mod run;
mod schedule;
mod screen;
mod serve;
mod sharing;
mod shell;
mod show;
mod sidecars;
mod signals;
mod signature;
mod spec;
mod times;
mod usage;
mod watch;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::telemetry;
use exit::Exit;
use manual::{About, about};
use output::Format;

/// Singleton locks for replicated jobs, backed by leases in Azure Blob Storage or in a file.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, max_term_width = 100)]
pub struct CommandLine {
    #[command(subcommand)]
    command: Command,
    /// How the result looks, and what failed.
    #[arg(skip)]
    format: Format,
}

/// What is to be done: a command with its arguments.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run the sidecar.
    Serve(serve::Args),
    /// Acquire a lock, run a command while it is held, release it.
    Run(run::Args),
    /// Run a command on each occurrence of a schedule, in one replica.
    Every(every::Args),
    /// Acquire a lock, for scripts: the sidecar renews it until it is released.
    Acquire(acquire::Args),
    /// Release a lock that `acquire` acquired.
    Release(release::Args),
    /// Set how long a lock that `acquire` acquired may still be held.
    Extend(extend::Args),
    /// List the locks under a host id or a prefix.
    Ls(ls::Args),
    /// Show one lock.
    Show(show::Args),
    /// Show one lock now and at each change.
    Watch(watch::Args),
    /// Break the lease of a lock that somebody else holds.
    Break(break_lock::Args),
    /// Show the lock path of a name and how it is built.
    Path(path::Args),
    /// Show what a sidecar is: its version, limits and features.
    Info(info::Args),
    /// Read or replace the value from which the next holder of a lock continues.
    Checkpoint(checkpoint::Args),
    /// Show schedules, pause them, run them by hand; print when an expression is due.
    Schedule(schedule::Args),
    /// Compare a fencing token with the newest of its lock.
    CheckToken(check_token::Args),
    /// Ask a sidecar whether it is ready: for container probes.
    Probe(probe::Args),
    /// Check configuration, store, permissions and clocks, and say what to do.
    Doctor(doctor::Args),
    /// Delete locks in the store that have not been used for a long time.
    Gc(gc::Args),
    /// Put load on a sidecar of its own, and report the result.
    Bench(bench::Args),
    /// Copy this program into a folder: for containers of other images.
    Install(install::Args),
    /// Print a script that completes this command line in a shell.
    Completions(completions::Args),
    /// Write manual pages.
    Man(man::Args),
    /// Print the names of locks, for completions.
    #[command(hide = true)]
    LockNames(lock_names::Args),
    /// Become the command of `run`, and die with it.
    #[command(name = run::EXEC, hide = true)]
    RunExec(run::exec::Args),
    /// Kill the command of `run` when `run` has died.
    #[command(name = run::SENTINEL, hide = true)]
    RunSentinel(run::sentinel::Args),
}

/// Reads a command line; prints help and usage mistakes itself.
///
/// # Errors
/// The exit code, when there is nothing to run.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<CommandLine, ExitCode> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let mut line = command_line();
    let parsed = line.try_get_matches_from_mut(&arguments).and_then(|matches| {
        let parsed = CommandLine::from_arg_matches(&matches)?;
        Ok(CommandLine { format: output::format(&matches), ..parsed })
    });
    parsed.map_err(|error| {
        let error = error.format(&mut line);
        usage::tell(error, &line, &arguments).into()
    })
}

/// Runs a command; says what failed, if something did.
pub async fn run(line: CommandLine) -> ExitCode {
    let exit = match line.command.run().await {
        Ok(exit) => exit,
        Err(error) => {
            let error = reach::explained(error).await;
            output::error(line.format, &error);
            exit::of_error(&error)
        }
    };
    telemetry::flush();
    exit.into()
}

/// Says that the process cannot even start.
#[must_use]
pub fn cannot_start(error: &io::Error) -> ExitCode {
    output::note(&format!("the runtime cannot be started: {error}"));
    telemetry::flush();
    Exit::Internal.into()
}

impl Command {
    async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Serve(args) => Box::pin(serve::run(args)).await,
            Self::Run(args) => run::run(args).await,
            Self::Every(args) => Box::pin(every::run(args)).await,
            Self::Acquire(args) => acquire::run(args).await,
            Self::Release(args) => release::run(args).await,
            Self::Extend(args) => extend::run(args).await,
            Self::Ls(args) => ls::run(args).await,
            Self::Show(args) => show::run(args).await,
            Self::Watch(args) => watch::run(args).await,
            Self::Break(args) => break_lock::run(args).await,
            Self::Path(args) => path::run(args).await,
            Self::Info(args) => info::run(args).await,
            Self::Checkpoint(args) => checkpoint::run(args).await,
            Self::Schedule(args) => schedule::run(args).await,
            Self::CheckToken(args) => check_token::run(args).await,
            Self::Probe(args) => probe::run(args).await,
            Self::Doctor(args) => doctor::run(args).await,
            Self::Gc(args) => gc::run(args).await,
            Self::Bench(args) => bench::run(args).await,
            Self::Install(args) => install::run(&args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
            Self::LockNames(args) => lock_names::run(args).await,
            Self::RunExec(args) => run::exec::run(args),
            Self::RunSentinel(args) => run::sentinel::run(&args),
        }
    }
}

/// What each command is for, in full: of a command, clap itself shows the line at its variant only.
const ABOUT: &[About] = &[
    ("serve", about::<serve::Args>),
    ("run", about::<run::Args>),
    ("every", about::<every::Args>),
    ("acquire", about::<acquire::Args>),
    ("release", about::<release::Args>),
    ("extend", about::<extend::Args>),
    ("ls", about::<ls::Args>),
    ("show", about::<show::Args>),
    ("watch", about::<watch::Args>),
    ("break", about::<break_lock::Args>),
    ("path", about::<path::Args>),
    ("info", about::<info::Args>),
    ("checkpoint", about::<checkpoint::Args>),
    ("schedule", about::<schedule::Args>),
    ("check-token", about::<check_token::Args>),
    ("probe", about::<probe::Args>),
    ("doctor", about::<doctor::Args>),
    ("gc", about::<gc::Args>),
    ("bench", about::<bench::Args>),
    ("install", about::<install::Args>),
    ("completions", about::<completions::Args>),
    ("man", about::<man::Args>),
];

/// The whole command line, with what help and manual pages say.
fn command_line() -> clap::Command {
    manual::complete(CommandLine::command(), &[ABOUT, checkpoint::ABOUT, schedule::ABOUT].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command_line().debug_assert();
    }

    /// Each command that people can give, with its name: those of groups, too.
    fn commands() -> Vec<(String, clap::Command)> {
        let mut all = Vec::new();
        for command in command_line().get_subcommands().filter(|command| !command.is_hide_set()) {
            let of_group = command
                .get_subcommands()
                .map(|one| (format!("{} {}", command.get_name(), one.get_name()), one.clone()));
            all.extend(of_group);
            all.push((command.get_name().to_owned(), command.clone()));
        }
        all
    }

    #[test]
    fn every_command_with_json_output_has_a_kept_shape() {
        let shapes = include_str!("../../tests/cli/json_shapes.json");
        let shapes: serde_json::Map<_, _> = serde_json::from_str(shapes).unwrap();
        let with_output = |command: &clap::Command| {
            command.get_arguments().any(|argument| argument.get_long() == Some("output"))
        };
        let missing: Vec<String> = commands()
            .into_iter()
            .filter(|(_, command)| with_output(command))
            .map(|(name, _)| name)
            .filter(|name| !shapes.contains_key(name))
            .collect();
        assert!(missing.is_empty(), "without a shape in tests/cli/json_shapes.json: {missing:?}");
        assert!(commands().iter().any(|(name, _)| name == "checkpoint get"));
    }

    #[test]
    fn every_command_and_flag_is_documented() {
        let page = include_str!("../../docs/cli.md");
        for (name, command) in commands() {
            assert!(page.contains(&format!("`leasehold {name}")), "{name} is not in docs/cli.md");
            for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(
                    page.contains(&format!("--{flag}")),
                    "{name} --{flag} is not in docs/cli.md"
                );
            }
        }
    }
}
