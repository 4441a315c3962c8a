//! Flags that say which lock, and on which terms.

use std::time::Duration;

use clap::ValueEnum;
use leasehold_client::{LeaseSpec, LockKey, LockSelector, LocksUnder};

use super::exit::UsageError;
use super::retry::Wait;
use super::sharing::SharingArgs;
use crate::lock::HostId;
use crate::timetable::{Timetable, TimetableError};

/// A duration as people write it.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if text.starts_with('-') {
        return Err("a duration is never negative; write it such as 30s, 5m or 1h".to_owned());
    }
    humantime::parse_duration(text)
        .map_err(|_| "not a duration; write it with its unit, such as 30s, 5m or 1h".to_owned())
}

/// A host id, as the flags name one.
pub(crate) fn host_id(text: &str) -> Result<HostId, String> {
    HostId::parse(text).map_err(|error| error.to_string())
}

/// Where the locks are that a list is of.
pub(crate) fn under(host_id: Option<String>, prefix: Option<String>) -> LocksUnder {
    match (host_id, prefix) {
        (Some(host_id), _) => LocksUnder::HostId(host_id),
        (None, Some(prefix)) => LocksUnder::Prefix(prefix),
        (None, None) => LocksUnder::OwnHostId,
    }
}

/// What a lock is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Held while a function runs.
    #[default]
    Function,
    /// Held while a listener listens.
    Listener,
}

/// A lock's name.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct KeyArgs {
    /// What the lock is for: a job, a function, a resource.
    #[arg(long, short = 'f', value_name = "NAME")]
    function: Option<String>,
    /// The part that splits a function's lock: a tenant, an order, a shard.
    #[arg(long, short = 's', value_name = "NAME")]
    scope: Option<String>,
    /// Whether the lock is held while a function runs or while a listener listens.
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    mode: Mode,
    /// Instead of the sidecar's host id.
    #[arg(long, value_name = "ID")]
    host_id: Option<String>,
    /// Instead of the sidecar's host type.
    #[arg(long, value_name = "NAME")]
    host_type: Option<String>,
}

impl KeyArgs {
    /// The same with the function that was given without its flag, if one was.
    pub(crate) fn named(self, function: Option<String>) -> Self {
        Self { function: function.or(self.function), ..self }
    }

    /// A flag that was given.
    fn given(&self) -> Option<&'static str> {
        let flags = [
            (self.scope.is_some(), "--scope"),
            (self.mode != Mode::default(), "--mode"),
            (self.host_id.is_some(), "--host-id"),
            (self.host_type.is_some(), "--host-type"),
        ];
        flags.into_iter().find_map(|(is_given, flag)| is_given.then_some(flag))
    }

    /// Whether a lock is named.
    pub(crate) const fn is_given(&self) -> bool {
        self.function.is_some() || self.scope.is_some()
    }

    /// The key.
    ///
    /// # Errors
    /// When nothing was named.
    pub(crate) fn key(self) -> Result<LockKey, UsageError> {
        if self.function.is_none() && self.scope.is_none() {
            let problem = "no lock is named: give a function (--function), --scope or both";
            return Err(UsageError(problem.to_owned()));
        }
        let (function, scope) = (self.function, self.scope);
        let mut key = LockKey::new(function.unwrap_or_default(), scope.unwrap_or_default());
        (key.host_id, key.host_type) = (self.host_id, self.host_type);
        Ok(match self.mode {
            Mode::Function => key,
            Mode::Listener => key.listener(),
        })
    }
}

/// One lock: by its path, or by its name.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SelectorArgs {
    /// What the lock is for, the same as --function; or, with a slash in it, its path as `leasehold ls` shows
    /// it.
    #[arg(value_name = "FUNCTION|LOCK_PATH", conflicts_with = "function")]
    lock: Option<String>,
    #[command(flatten)]
    key: KeyArgs,
}

impl SelectorArgs {
    /// The selector.
    ///
    /// # Errors
    /// When nothing was named, or a path and what it says already.
    pub(crate) fn selector(self) -> Result<LockSelector, UsageError> {
        match self.lock {
            Some(path) if path.contains('/') => match self.key.given() {
                None => Ok(LockSelector::path(path)),
                Some(flag) => Err(UsageError(format!(
                    "{path} has a slash, so it is a lock's path, which leaves nothing for {flag} to say: remove one of them; a \
                     function with a slash in its name goes with --function"
                ))),
            },
            lock => Ok(self.key.named(lock).key()?.into()),
        }
    }
}

/// The terms of a hold.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SpecArgs {
    /// What the lock is for; the same as --function.
    #[arg(value_name = "FUNCTION", conflicts_with = "function")]
    name: Option<String>,
    #[command(flatten)]
    key: KeyArgs,
    /// How long to wait while the lock is busy, or `forever`; 0s is one try. The wait goes on while the
    /// sidecar restarts or is unreachable.
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_hyphen_values = true)]
    pub(crate) wait: Wait,
    /// The duration of the lease in the store, 15s to 60s in whole seconds, which renewals restart. Default:
    /// the sidecar's.
    #[arg(long, alias = "ttl", value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    lease_duration: Option<Duration>,
    /// How long the hold may last in total; then it is lost.
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    max_hold: Option<Duration>,
    /// How long, counted from the grant, nobody else is granted the lock, even if it is released earlier.
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    min_hold: Option<Duration>,
    /// The hold is lost if ReportProgress is not called for this long.
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    progress_timeout: Option<Duration>,
    /// Do not renew the lease: the hold lasts for one lease duration at most.
    #[arg(long)]
    no_renew: bool,
    /// How many callers may hold the lock at the same time, 1 to 32: the same number everywhere. Not in the
    /// layout `webjobs`.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=32),
        allow_hyphen_values = true
    )]
    permits: u32,
    #[command(flatten)]
    sharing: SharingArgs,
    /// The name of the holder, shown to people. Default: this pod or host, and the process id.
    #[arg(long, value_name = "TEXT")]
    holder: Option<String>,
    /// A pair that is stored and shown with the lock; may be repeated.
    #[arg(long = "label", value_parser = label, value_name = "KEY=VALUE")]
    labels: Vec<(String, String)>,
}

impl SpecArgs {
    /// The request.
    ///
    /// # Errors
    /// When no lock was named, or a variable has no value that is possible.
    pub(crate) fn spec(self) -> Result<LeaseSpec, UsageError> {
        let mut spec = LeaseSpec::from(self.key.named(self.name).key()?);
        if let Some(duration) = self.lease_duration {
            spec = spec.with_lease_duration(duration);
        }
        if let Some(max_hold) = self.max_hold {
            spec = spec.with_max_hold(max_hold);
        }
        if let Some(min_hold) = self.min_hold {
            spec = spec.with_min_hold(min_hold);
        }
        if let Some(timeout) = self.progress_timeout {
            spec = spec.with_progress_timeout(timeout);
        }
        spec.permits = self.permits;
        spec.auto_renew = !self.no_renew;
        spec.holder = self.holder.unwrap_or_default();
        spec.labels = self.labels.into_iter().collect();
        self.sharing.apply(spec)
    }
}

/// A timetable that was given as this argument, in the zone of `--tz`.
///
/// # Errors
/// When it is none, with the flag that is to be corrected.
pub(crate) fn checked(
    argument: &str,
    read: Result<Timetable, TimetableError>,
) -> Result<Timetable, UsageError> {
    read.map_err(|error| {
        let zone = matches!(error, TimetableError::Zone { .. });
        UsageError(format!("{}: {error}", if zone { "--tz" } else { argument }))
    })
}

/// A label as people write it.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| "not KEY=VALUE".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s19_durations_have_units_and_are_not_negative() {
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for (wrong, what) in [("-5s", "negative"), ("30", "30s"), ("soon", "30s"), ("", "30s")] {
            let problem = duration(wrong).unwrap_err();
            assert!(problem.contains(what), "{wrong:?}: {problem}");
        }
    }

    fn selected(lock: &str, scope: Option<&str>) -> Result<LockSelector, String> {
        let key = KeyArgs {
            function: None,
            scope: scope.map(str::to_owned),
            mode: Mode::default(),
            host_id: None,
            host_type: None,
        };
        let args = SelectorArgs { lock: Some(lock.to_owned()), key };
        args.selector().map_err(|error| error.to_string())
    }

    #[test]
    fn a_word_without_a_slash_is_a_name() {
        assert_eq!(selected("nightly", None), Ok(LockKey::new("nightly", "").into()));
        assert_eq!(selected("nightly", Some("eu")), Ok(LockKey::new("nightly", "eu").into()));
        let path = "leasehold/locks/app-0/nightly";
        assert_eq!(selected(path, None), Ok(LockSelector::path(path)));
        let both = selected(path, Some("eu")).unwrap_err();
        assert!(both.contains("--scope") && both.contains(path), "{both}");
    }

    #[test]
    fn a_label_is_a_pair() {
        assert_eq!(label("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(label("a").is_err());
    }
}
