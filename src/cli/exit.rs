//! Exit codes: what a script can tell a command's end by, and which error ends in which code.

use std::io;
use std::process::ExitCode;

use leasehold_client::{Code, Error as ClientError, Reason, Refusal};

use crate::config::ConfigError;
use crate::coordinator::{CallError, StoreFailureKind};
use crate::host_id::ProviderError;
use crate::scheduler::ImportError;
use crate::store::StoreError;
use crate::store::azure::AzureSettingsError;

/// How a command ended. The numbers follow sysexits.h where it has one that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: it did what was asked.
    Success,
    /// 1: the fencing token is stale (`check-token`).
    StaleToken,
    /// 2: the fencing token is newer than any that is known (`check-token`).
    UnknownToken,
    /// 64: the command line, or a value in it, is invalid.
    Usage,
    /// 66: the lock has no checkpoint (`checkpoint get`).
    NoCheckpoint,
    /// 69: the sidecar or the store cannot be reached, or is not ready.
    Unavailable,
    /// 70: something is broken that trying again does not mend.
    Internal,
    /// 74: a checkpoint or an outcome was not saved, or it is not known whether it was.
    NotSaved,
    /// 75: the lock is busy.
    Busy,
    /// 76: the lock was lost.
    Lost,
    /// 77: the sidecar or the store does not allow it.
    Denied,
    /// 78: the configuration has to be corrected.
    Misconfigured,
    /// What the command of `run` ended with, or what the user chose, or 128 and a signal's number.
    Code(u8),
}

/// Which commands end with a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// All of them.
    Every,
    /// Those that ask a sidecar or a store.
    Asking,
    /// Those that say what it means for them.
    Some,
}

/// Every code with what it means: help, manual pages and docs/cli.md are made from this, or compared with it.
pub(super) const TABLE: &[(&str, Of, &str)] = &[
    ("0", Of::Every, "done"),
    ("1", Of::Some, "check-token: the token is stale"),
    ("2", Of::Some, "check-token: the token is newer than any that is known"),
    ("64", Of::Every, "the command line, or a value on it, is invalid"),
    ("66", Of::Some, "checkpoint get: the lock has no checkpoint"),
    ("69", Of::Asking, "the sidecar or the store cannot be reached, or is not ready"),
    ("70", Of::Every, "an internal error that trying again does not fix"),
    (
        "74",
        Of::Some,
        "run --checkpoint, checkpoint set: the checkpoint was not saved, or it is not known whether it was; with run --occurrence, \
         the same for the outcome",
    ),
    ("75", Of::Some, "the lock was not acquired within --wait (run: or --busy-exit-code)"),
    ("76", Of::Some, "the lock was lost, or had been lost before (run: or --lost-exit-code)"),
    ("77", Of::Asking, "the sidecar or the store does not allow it"),
    ("78", Of::Asking, "the configuration, or something that it refers to, has to be corrected"),
    ("126", Of::Some, "run: the command cannot be executed"),
    ("127", Of::Some, "run: the command was not found"),
    ("128 + n", Of::Some, "ended by signal n, such as 130 for SIGINT and 143 for SIGTERM"),
];

impl Exit {
    /// The end by a signal, as shells number it.
    pub(crate) fn by_signal(number: i32) -> Self {
        Self::Code(u8::try_from(number).map_or(u8::MAX, |number| number.saturating_add(128)))
    }

    /// The number that the process ends with.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::StaleToken => 1,
            Self::UnknownToken => 2,
            Self::Usage => 64,
            Self::NoCheckpoint => 66,
            Self::Unavailable => 69,
            Self::Internal => 70,
            Self::NotSaved => 74,
            Self::Busy => 75,
            Self::Lost => 76,
            Self::Denied => 77,
            Self::Misconfigured => 78,
            Self::Code(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// A command line that can be parsed and is invalid all the same.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// Something that must be reached cannot be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnavailableError(pub(crate) String);

/// Something outside has to be put right before a start can succeed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct MisconfiguredError(pub(crate) String);

/// The code for an error: the first of its causes that has one decides.
pub(crate) fn of_error(error: &anyhow::Error) -> Exit {
    error.chain().find_map(of_cause).unwrap_or(Exit::Internal)
}

/// Whether whoever read our output has gone, so that nothing is left to say.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if let Some(error) = cause.downcast_ref::<ClientError>() {
        return Some(of_client(error));
    }
    if let Some(error) = cause.downcast_ref::<StoreError>() {
        return Some(of_store(error));
    }
    if let Some(error) = cause.downcast_ref::<ImportError>() {
        return Some(of_import(error));
    }
    if cause.is::<UsageError>() {
        return Some(Exit::Usage);
    }
    if cause.is::<UnavailableError>() {
        return Some(Exit::Unavailable);
    }
    let misconfigured = cause.is::<MisconfiguredError>()
        || cause.is::<ConfigError>()
        || cause.is::<ProviderError>()
        || cause.is::<AzureSettingsError>()
        || cause.is::<crate::grpc::ListenError>()
        || cause.is::<crate::admin::AdminError>();
    misconfigured.then_some(Exit::Misconfigured)
}

fn of_client(error: &ClientError) -> Exit {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the client's errors may grow")]
    match error {
        ClientError::Endpoint { .. } => Exit::Usage,
        ClientError::Unreachable { .. } | ClientError::ReleaseUnconfirmed { .. } => {
            Exit::Unavailable
        }
        ClientError::CertificateRefused { .. } => Exit::Denied,
        ClientError::Refused(refusal) => of_refusal(refusal),
        ClientError::Lost(_) => Exit::Lost,
        ClientError::CheckpointNotSaved(_) | ClientError::CheckpointUnknown(_) => Exit::NotSaved,
        _ => Exit::Internal,
    }
}

fn of_refusal(refusal: &Refusal) -> Exit {
    let Some(reason) = &refusal.reason else { return of_code(refusal.code) };
    #[expect(clippy::wildcard_enum_match_arm, reason = "the API's reasons may grow")]
    match reason {
        // What is not there was named wrongly; so was an occurrence that is still to come, or that a schedule
        // grants.
        Reason::InvalidField
        | Reason::UnknownLock
        | Reason::UnknownSchedule
        | Reason::OccurrenceInFuture
        | Reason::LockHasSchedule => Exit::Usage,
        // S17: another has it now.
        Reason::OtherHolder => Exit::Busy,
        // A lease that is not known any more is not held any more.
        Reason::UnknownLease | Reason::HoldLost | Reason::HoldReleased => Exit::Lost,
        Reason::BreakNotEnabled
        | Reason::OverrideForbidden
        | Reason::ScheduleChangesNotEnabled
        // Of a removal that was not forced, and of a caller that knows of none yet.
        | Reason::ScheduleHasSubscribers
        | Reason::ScheduleRemoved
        | Reason::StoreDenied
        | Reason::Unauthenticated
        | Reason::UserNotAllowed => Exit::Denied,
        Reason::ContainerMissing => Exit::Misconfigured,
        Reason::StoreUnavailable
        | Reason::StoreThrottled
        | Reason::ShuttingDown
        | Reason::StoreFull
        | Reason::TooManyHolds
        | Reason::TooManyWaiters
        | Reason::TooManyTriggers
        | Reason::LimitReached
        | Reason::StreamBehind => Exit::Unavailable,
        Reason::StoreFailed
        | Reason::TokenNotGrowing
        | Reason::TokenUnreadable
        | Reason::ScheduleUnreadable
        | Reason::Superseded => Exit::Internal,
        _ => of_code(refusal.code),
    }
}

/// Without a reason of ours it was the connection, a proxy, or a newer sidecar.
fn of_code(code: Code) -> Exit {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the client's codes may grow")]
    match code {
        Code::InvalidArgument | Code::OutOfRange => Exit::Usage,
        Code::PermissionDenied | Code::Unauthenticated => Exit::Denied,
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Unknown
        | Code::ResourceExhausted => Exit::Unavailable,
        _ => Exit::Internal,
    }
}

/// The code for an import that was not done.
fn of_import(error: &ImportError) -> Exit {
    match error {
        ImportError::Call(CallError::StoreFailure(failure)) => match failure.kind {
            StoreFailureKind::Unavailable
            | StoreFailureKind::Throttled
            | StoreFailureKind::Full
            | StoreFailureKind::ShuttingDown => Exit::Unavailable,
            StoreFailureKind::Denied => Exit::Denied,
            StoreFailureKind::ContainerMissing | StoreFailureKind::StoreFailed => {
                Exit::Misconfigured
            }
            StoreFailureKind::TokenNotGrowing | StoreFailureKind::TokenUnreadable => Exit::Internal,
        },
        ImportError::Call(CallError::ScheduleUnreadable { .. }) => Exit::Internal,
        ImportError::Busy { .. } => Exit::Busy,
        // The other calls that are refused name the lock or a flag.
        ImportError::Call(_)
        | ImportError::Refused { .. }
        | ImportError::Ahead { .. }
        | ImportError::Layout => Exit::Usage,
    }
}

/// The code for a store that was asked without a sidecar.
pub(crate) const fn of_store(error: &StoreError) -> Exit {
    match error {
        StoreError::Unavailable { .. }
        | StoreError::NoDescriptors { .. }
        | StoreError::Throttled { .. }
        | StoreError::Full { .. }
        | StoreError::Recreated { .. } => Exit::Unavailable,
        StoreError::Denied { .. } => Exit::Denied,
        StoreError::ContainerMissing { .. } | StoreError::Fatal { .. } => Exit::Misconfigured,
        StoreError::Contended => Exit::Busy,
        StoreError::LeaseLost { .. } => Exit::Lost,
        StoreError::Changed | StoreError::NotFound | StoreError::NotHeld => Exit::Internal,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    /// What docs/cli.md marks as code is plain in help.
    #[test]
    fn the_codes_are_those_of_the_table_and_the_documentation_has_the_same() {
        let page = include_str!("../../docs/cli.md");
        let (_, section) = page.split_once("## Exit codes").unwrap();
        let (section, _) = section.split_once("\n## ").unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| ")).skip(2);
        let documented: Vec<(String, String)> = rows
            .map(|row| {
                let mut cells =
                    row.trim_matches('|').split(" | ").map(|cell| cell.replace('`', ""));
                let mut cell = || cells.next().unwrap().trim().to_owned();
                (cell(), cell())
            })
            .collect();
        let table: Vec<(String, String)> =
            TABLE.iter().map(|(code, _, what)| ((*code).to_owned(), (*what).to_owned())).collect();
        assert_eq!(documented, table);
        for exit in [
            Exit::Success,
            Exit::StaleToken,
            Exit::UnknownToken,
            Exit::Usage,
            Exit::NoCheckpoint,
            Exit::Unavailable,
            Exit::Internal,
            Exit::NotSaved,
            Exit::Busy,
            Exit::Lost,
            Exit::Denied,
            Exit::Misconfigured,
        ] {
            let code = exit.code().to_string();
            assert!(TABLE.iter().any(|row| row.0 == code), "{exit:?}");
        }
    }

    #[test]
    fn the_first_cause_that_has_a_code_decides() {
        let error = Err::<(), _>(StoreError::Contended).context("asking the store").unwrap_err();
        assert_eq!(of_error(&error), Exit::Busy);
        assert_eq!(of_error(&anyhow::anyhow!("anything else")), Exit::Internal);
        assert_eq!(of_error(&UsageError("no".to_owned()).into()), Exit::Usage);
    }

    #[test]
    fn a_signal_is_numbered_as_shells_do() {
        assert_eq!(Exit::by_signal(15).code(), 143);
        assert_eq!(Exit::by_signal(2).code(), 130);
    }

    #[test]
    fn a_reader_that_has_gone_is_known() {
        let gone: anyhow::Error = io::Error::from(io::ErrorKind::BrokenPipe).into();
        assert!(is_broken_pipe(&gone.context("printing")));
        assert!(!is_broken_pipe(&anyhow::anyhow!("something else")));
    }
}
