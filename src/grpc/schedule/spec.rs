//! From a ScheduleSpec to a definition. All wrong fields are named at once (S19).

use std::time::Duration;

use crate::grpc::proto::{self, schedule_spec};
use crate::grpc::violations::{self, NO_DURATION, Violations};
use crate::schedule::{CatchUp, Definition, DefinitionError, Overlap, RunTimeout, Spec};
use crate::timetable::{Timetable, TimetableError};

/// Any expression: for the check of a zone whose expression is wrong.
const ANY: &str = "@daily";

/// A spec's definition; none if something is wrong, which `wrong` says then. What is unset stays so (T16).
pub(super) fn definition(
    wrong: &mut Violations,
    spec: Option<proto::ScheduleSpec>,
) -> Option<Definition> {
    let Some(spec) = spec else {
        wrong.add("spec", "is required");
        return None;
    };
    let timetable = timetable(wrong, spec.timetable.as_ref(), &spec.time_zone);
    let catch_up = catch_up(wrong, spec.catch_up, spec.catch_up_max);
    let overlap = overlap(wrong, spec.overlap);
    let run_timeout = run_timeout(wrong, spec.timeout.as_ref());
    let mut span = |field, given: Option<prost_types::Duration>| span(wrong, field, given);
    let checked = Spec {
        revision: spec.revision,
        catch_up,
        catch_up_window: span("catch_up_window", spec.catch_up_window),
        grace: span("grace", spec.grace),
        overlap,
        max_attempts: (spec.max_attempts > 0).then_some(spec.max_attempts),
        backoff: span("backoff", spec.backoff),
        run_timeout,
        spread: span("spread", spec.spread).unwrap_or_default(),
        takeover_check: span("takeover_check", spec.takeover_check),
        stop_grace: span("stop_grace", spec.stop_grace),
        progress_timeout: span("progress_timeout", spec.progress_timeout),
        lease_duration: span("lease_duration", spec.lease_duration),
        // The policies are checked also where the timetable is wrong.
        ..Spec::new(timetable.clone().or_else(any)?)
    };
    policies(wrong, checked).filter(|_| timetable.is_some())
}

fn any() -> Option<Timetable> {
    Timetable::parse(ANY, "").ok()
}

fn timetable(
    wrong: &mut Violations,
    given: Option<&schedule_spec::Timetable>,
    zone: &str,
) -> Option<Timetable> {
    let (field, read) = match given {
        Some(schedule_spec::Timetable::Cron(cron)) => ("spec.cron", Timetable::parse(cron, zone)),
        Some(schedule_spec::Timetable::Every(every)) => match violations::span(*every) {
            Some(every) => ("spec.every", Timetable::every(every, zone)),
            None => {
                wrong.add("spec.every", NO_DURATION);
                check_zone(wrong, zone);
                return None;
            }
        },
        None => {
            wrong.add("spec.cron", "is required: set cron or every");
            check_zone(wrong, zone);
            return None;
        }
    };
    match read {
        Ok(timetable) => Some(timetable),
        Err(error @ TimetableError::Zone { .. }) => {
            wrong.add("spec.time_zone", error.to_string());
            None
        }
        Err(error) => {
            wrong.add(field, error.to_string());
            check_zone(wrong, zone);
            None
        }
    }
}

fn check_zone(wrong: &mut Violations, zone: &str) {
    wrong.take("spec.time_zone", Timetable::parse(ANY, zone));
}

fn catch_up(wrong: &mut Violations, given: i32, most: u32) -> CatchUp {
    let policy = match proto::CatchUp::try_from(given) {
        Ok(proto::CatchUp::Unspecified | proto::CatchUp::Latest) => CatchUp::Latest,
        Ok(proto::CatchUp::None) => CatchUp::None,
        Ok(proto::CatchUp::All) if most == 0 => {
            wrong.add("spec.catch_up_max", "is required with catch_up ALL: 1 to 100");
            return CatchUp::Latest;
        }
        Ok(proto::CatchUp::All) => return CatchUp::All(most),
        Err(_) => {
            let problem = format!("{given} is not a policy; use LATEST, NONE or ALL");
            wrong.add("spec.catch_up", problem);
            return CatchUp::Latest;
        }
    };
    if most > 0 {
        wrong.add("spec.catch_up_max", "is allowed only with catch_up ALL: omit it, or set ALL");
    }
    policy
}

fn overlap(wrong: &mut Violations, given: i32) -> Overlap {
    match proto::Overlap::try_from(given) {
        Ok(proto::Overlap::Unspecified | proto::Overlap::Follow) => Overlap::Follow,
        Ok(proto::Overlap::Skip) => Overlap::Skip,
        Err(_) => {
            wrong.add("spec.overlap", format!("{given} is not a policy; use FOLLOW or SKIP"));
            Overlap::Follow
        }
    }
}

fn run_timeout(wrong: &mut Violations, given: Option<&schedule_spec::Timeout>) -> RunTimeout {
    match given {
        None => RunTimeout::NextDue,
        Some(schedule_spec::Timeout::NoRunTimeout(true)) => RunTimeout::None,
        Some(schedule_spec::Timeout::NoRunTimeout(false)) => {
            let problem = "must be true if it is set; leave it out for the default";
            wrong.add("spec.no_run_timeout", problem);
            RunTimeout::NextDue
        }
        Some(schedule_spec::Timeout::RunTimeout(timeout)) => {
            span(wrong, "run_timeout", Some(*timeout))
                .map_or(RunTimeout::NextDue, RunTimeout::Duration)
        }
    }
}

/// A duration of any length; none if it was not given, or is none.
fn span(
    wrong: &mut Violations,
    field: &str,
    given: Option<prost_types::Duration>,
) -> Option<Duration> {
    let read = violations::span(given?).ok_or(NO_DURATION);
    wrong.take(&format!("spec.{field}"), read)
}

/// The definition, or what is wrong with each policy: one that is wrong is left to its default, and the rest
/// asked again.
fn policies(wrong: &mut Violations, mut spec: Spec) -> Option<Definition> {
    let mut is_wrong = false;
    loop {
        let (field, problem) = match Definition::new(spec.clone()) {
            Ok(definition) => return (!is_wrong).then_some(definition),
            Err(DefinitionError::Range { field, given, allowed }) => {
                (field, format!("is {given}; {allowed} is allowed"))
            }
            Err(error @ (DefinitionError::Timetable(_) | DefinitionError::Key { .. })) => {
                wrong.add("spec", error.to_string());
                return None;
            }
        };
        is_wrong = true;
        wrong.add(&format!("spec.{field}"), problem);
        match field {
            // The least grace is computed from it: what that is, is not known then.
            "lease_duration" => (spec.lease_duration, spec.grace) = (None, None),
            "catch_up_max" => spec.catch_up = CatchUp::Latest,
            "catch_up_window" => spec.catch_up_window = None,
            "grace" => spec.grace = None,
            "max_attempts" => spec.max_attempts = None,
            "backoff" => spec.backoff = None,
            "stop_grace" => spec.stop_grace = None,
            "progress_timeout" => spec.progress_timeout = None,
            "run_timeout" => spec.run_timeout = RunTimeout::NextDue,
            "spread" => spec.spread = Duration::ZERO,
            "takeover_check" => spec.takeover_check = None,
            _ => return None,
        }
    }
}
