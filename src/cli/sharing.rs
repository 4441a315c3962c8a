//! Priorities and shares: their flags, and how they are told (S33 to S36).

use clap::ArgAction;
use leasehold_client::{BreakNote, Busy, LeaseSpec, LockRecord, PriorityStatus};

use super::exit::UsageError;
use super::record::printable;
use super::times::moment;

/// The place of a caller among others.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SharingArgs {
    /// How important this caller is, 0 to 2147483647. One that has waited for a lease duration takes the lock
    /// over from a holder of smaller priority that --yields: with a build number the newest version has the
    /// lock. Default: the variable LEASEHOLD_PRIORITY, else 0.
    #[arg(long, value_name = "NUMBER", value_parser = priority, allow_hyphen_values = true)]
    priority: Option<u32>,
    /// Let a caller of greater priority take the lock over: the holder is told, and has until its lease
    /// expires to finish. Default: the variable LEASEHOLD_YIELDS, else false.
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        action = ArgAction::Set
    )]
    yields: Option<bool>,
    /// The group of locks that are spread over the sidecars that compete for them; empty for none. Default:
    /// the variable LEASEHOLD_SHARE, else none.
    #[arg(long, value_name = "NAME")]
    share: Option<String>,
    /// While this caller waits, its sidecar may take a lock of the share from one that holds at least two
    /// more. Needs --share and --yields. Default: the variable LEASEHOLD_REBALANCE, else false.
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        action = ArgAction::Set
    )]
    rebalance: Option<bool>,
}

const PRIORITY_VARIABLE: &str = "LEASEHOLD_PRIORITY";
const YIELDS_VARIABLE: &str = "LEASEHOLD_YIELDS";
const SHARE_VARIABLE: &str = "LEASEHOLD_SHARE";
const REBALANCE_VARIABLE: &str = "LEASEHOLD_REBALANCE";

impl SharingArgs {
    /// The request with this place.
    ///
    /// # Errors
    /// When a variable has no such value, or does not go with the permits.
    pub(crate) fn apply(self, spec: LeaseSpec) -> Result<LeaseSpec, UsageError> {
        let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        self.apply_with(spec, variable)
    }

    fn apply_with(
        self,
        mut spec: LeaseSpec,
        variable: impl Fn(&'static str) -> Option<String>,
    ) -> Result<LeaseSpec, UsageError> {
        let mut read = Vec::new();
        let mut variable = |name| variable(name).inspect(|_| read.push(name));
        spec.priority = given(self.priority, PRIORITY_VARIABLE, &mut variable, priority)?;
        spec.yields = given(self.yields, YIELDS_VARIABLE, &mut variable, bool)?;
        spec.share = given(self.share, SHARE_VARIABLE, &mut variable, |text| Ok(text.to_owned()))?;
        spec.rebalance = given(self.rebalance, REBALANCE_VARIABLE, &mut variable, bool)?;
        // The sidecar would name fields that nobody has given.
        if spec.permits > 1 && !read.is_empty() {
            return Err(UsageError(format!(
                "--permits cannot be combined with a priority or a share, and the environment has {}: unset the \
                 variables that are not meant for this command",
                read.join(", ")
            )));
        }
        Ok(spec)
    }
}

/// What the flag says, or else the variable.
fn given<T: Default>(
    flag: Option<T>,
    name: &'static str,
    variable: impl FnOnce(&'static str) -> Option<String>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, UsageError> {
    if let Some(flag) = flag {
        return Ok(flag);
    }
    let Some(text) = variable(name) else { return Ok(T::default()) };
    parse(&text).map_err(|problem| UsageError(format!("{name} is {text:?}: {problem}")))
}

fn priority(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number <= i32::MAX.unsigned_abs());
    number.ok_or_else(|| "not a whole number from 0 to 2147483647".to_owned())
}

fn bool(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "neither true nor false".to_owned())
}

/// Why a priority did not free a busy lock, and what to do.
pub(super) fn status_text(busy: &Busy) -> Option<String> {
    let record = busy.record.as_ref();
    Some(match busy.priority_status? {
        PriorityStatus::HolderDoesNotYield => {
            "its holder does not yield to a greater priority: wait until it releases the lock, and start holders \
             with --yields"
                .to_owned()
        }
        PriorityStatus::NotGreater => {
            let held = record.map(|record| format!(" of {}", record.priority)).unwrap_or_default();
            format!("the holder's priority{held} is not smaller: wait, or give a greater --priority")
        }
        PriorityStatus::WaitedTooShort => {
            "a greater priority takes over after a wait of one lease duration: give a longer --wait".to_owned()
        }
        PriorityStatus::BrokenRecently => {
            "it was broken less than two lease durations ago, and is not broken again so soon: give a longer --wait"
                .to_owned()
        }
        PriorityStatus::Revoked => {
            "its holder has been told to finish, and has until its lease expires: give a longer --wait".to_owned()
        }
        PriorityStatus::CannotBreak => {
            "the store does not let the sidecar break leases, so the caller waits for the holder: allow it (a SAS \
             needs the permission d)"
                .to_owned()
        }
        PriorityStatus::Reserved => {
            let kept = record.and_then(reserved_text).map(|kept| format!(" ({kept})"));
            format!(
                "it is kept for a caller of greater priority that waits for it{}: wait, or give a greater --priority",
                kept.unwrap_or_default()
            )
        }
        // One of a later version of the client.
        _ => return None,
    })
}

/// For whom a lock is kept.
pub(super) fn reserved_text(record: &LockRecord) -> Option<String> {
    let reserved = record.reserved.as_ref()?;
    let until = moment(reserved.until).map(|until| format!(", until {until}")).unwrap_or_default();
    Some(format!("priority {} or greater{until}", reserved.priority))
}

/// The priority of a record's holder; empty if it named none and does not yield.
pub(super) fn priority_text(record: &LockRecord) -> String {
    match (record.priority, record.yields) {
        (0, false) => String::new(),
        (priority, false) => priority.to_string(),
        (priority, true) => format!("{priority}, yields"),
    }
}

/// The place of a record's holder, each part after a semicolon.
pub(super) fn place_text(record: &LockRecord) -> String {
    let parts = [
        ("sidecar ", printable(&record.sidecar)),
        ("share ", printable(&record.share)),
        ("priority ", priority_text(record)),
        ("kept for ", reserved_text(record).unwrap_or_default()),
    ];
    let parts = parts.iter().filter(|(_, value)| !value.is_empty());
    parts.map(|(name, value)| format!("; {name}{value}")).collect()
}

/// Who takes a lock over from a holder of this priority; `None` if an operator broke it.
pub(super) fn takeover_text(note: &BreakNote, of: u32) -> Option<String> {
    let priority = note.for_priority?;
    let who = if priority > of {
        format!("a caller of greater priority ({priority}) takes over")
    } else {
        "the lock is moved to a sidecar that holds fewer of its share".to_owned()
    };
    let by = printable(&note.broken_by);
    Some(if by.is_empty() { who } else { format!("{who} (for {by})") })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use clap::Parser as _;
    use leasehold_client::{LockKey, Reservation};

    use super::*;
    use crate::cli::grant::BusyView;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        sharing: SharingArgs,
    }

    fn asked(
        flags: &[&str],
        variables: &[(&str, &str)],
        permits: u32,
    ) -> Result<LeaseSpec, String> {
        let words = ["leasehold"].into_iter().chain(flags.iter().copied());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        let spec = LeaseSpec::from(LockKey::new("f", "")).with_permits(permits);
        let variable = |name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        line.sharing.apply_with(spec, variable).map_err(|error| error.to_string())
    }

    const VARIABLES: [(&str, &str); 4] = [
        (PRIORITY_VARIABLE, "7"),
        (YIELDS_VARIABLE, "true"),
        (SHARE_VARIABLE, "queues"),
        (REBALANCE_VARIABLE, "true"),
    ];

    #[test]
    fn s33_to_s35_flags_go_before_variables() {
        let plain = asked(&[], &[], 3).unwrap();
        assert_eq!(plain, LeaseSpec::new("f").with_permits(3));
        let spec = LeaseSpec::new("f").with_priority(7).yielding();
        let spec = spec.with_share("queues").rebalancing();
        let flags = ["--priority", "7", "--yields", "--share", "queues", "--rebalance"];
        assert_eq!(asked(&flags, &[], 1), Ok(spec.clone()));
        assert_eq!(asked(&[], &VARIABLES, 1), Ok(spec));
        let unset = ["--priority", "0", "--yields=false", "--share", "", "--rebalance=false"];
        assert_eq!(asked(&unset, &VARIABLES, 2), Ok(LeaseSpec::new("f").with_permits(2)));
    }

    #[test]
    fn s19_a_variable_that_is_wrong_is_named() {
        for (name, value) in
            [(PRIORITY_VARIABLE, "2147483648"), (YIELDS_VARIABLE, "yes"), (REBALANCE_VARIABLE, "1")]
        {
            let error = asked(&[], &[(name, value)], 1).unwrap_err();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
        for wrong in ["2147483648", "-1", "x"] {
            let error = asked(&["--priority", wrong], &[], 1).unwrap_err();
            assert!(error.contains("0 to 2147483647"), "{error}");
        }
        let error = asked(&[], &VARIABLES, 2).unwrap_err();
        assert!(error.contains("--permits") && error.contains(SHARE_VARIABLE), "{error}");
    }

    #[test]
    fn s33_busy_says_why_a_priority_waits_and_what_to_do() {
        let mut record = LockRecord::default();
        record.priority = 411;
        let mut reserved = Reservation::default();
        reserved.priority = 413;
        reserved.until = UNIX_EPOCH.checked_add(Duration::from_secs(1_700_000_000));
        record.reserved = Some(reserved);
        let mut busy = Busy::default();
        assert_eq!(status_text(&busy), None);
        busy.record = Some(record);
        for (status, word, hints) in [
            (PriorityStatus::HolderDoesNotYield, "holder_does_not_yield", ["yield", "--yields"]),
            (PriorityStatus::NotGreater, "not_greater", ["411", "--priority"]),
            (PriorityStatus::WaitedTooShort, "waited_too_short", ["lease duration", "--wait"]),
            (PriorityStatus::BrokenRecently, "broken_recently", ["two lease", "--wait"]),
            (PriorityStatus::Revoked, "revoked", ["told", "--wait"]),
            (PriorityStatus::CannotBreak, "cannot_break", ["break", "SAS"]),
            (PriorityStatus::Reserved, "reserved", ["413", "2023-11-14T22:13:20Z"]),
        ] {
            busy.priority_status = Some(status);
            let text = status_text(&busy).unwrap();
            assert!(hints.iter().all(|hint| text.contains(hint)), "{word}: {text}");
            assert_eq!(BusyView::from(&busy).priority_status.as_deref(), Some(word));
        }
    }

    #[test]
    fn s33_s35_a_holder_is_told_who_takes_over() {
        let mut note = BreakNote::default();
        assert_eq!(takeover_text(&note, 5), None, "an operator");
        note.broken_by = "pod-2".to_owned();
        note.for_priority = Some(6);
        let text = takeover_text(&note, 5).unwrap();
        assert_eq!(text, "a caller of greater priority (6) takes over (for pod-2)");
        let text = takeover_text(&note, 6).unwrap();
        assert!(text.contains("moved") && text.contains("fewer"), "S35: {text}");
    }
}
