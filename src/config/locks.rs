//! The section `locks`: how long leases, holds and waits are, and who holds.

use std::time::Duration;

use super::setting::{Key, settings};
use super::values::Values;
use crate::store::{MAX_LEASE_DURATION, MIN_LEASE_DURATION};

/// How long leases, holds and waits are, and who holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locks {
    /// D of callers that do not say: whole seconds, 15 s to 60 s. Default: 60 s.
    pub lease_duration: Duration,
    /// The longest time between two polls of a lock that others hold (S12), 250 ms to 60 s. Default: 5 s.
    pub poll_cap: Duration,
    /// How long a lock is handed on between callers of this sidecar (S10), at most half of `lease_duration`.
    /// Default: 5 s.
    pub hand_off: Duration,
    /// `max_hold` of unary calls that do not say (S14). Default: 10 min.
    pub max_hold_default: Duration,
    /// The longest `max_hold` that a caller may ask for (S14), at most 24 h, the default.
    pub max_hold_ceiling: Duration,
    /// The longest wait that a caller may ask for, at most 24 h, the default.
    pub wait_ceiling: Duration,
    /// Who holds, of callers that do not say: 1 to 256 bytes. Default: the pod's name, or the machine's.
    pub holder: String,
}

const DAY: Duration = Duration::from_secs(86_400);
const SECOND: Duration = Duration::from_secs(1);
/// Bytes that a holder's description has at the most.
const MAX_HOLDER: usize = 256;

settings! {
    LEASE_DURATION: Duration = Key::<Duration>::new(
        "locks.lease_duration",
        "60s",
        "The default duration of a lease in the store, in whole seconds. A longer lease survives longer outages and \
         pauses; a shorter one makes a dead holder's lock available sooner.",
    ).within(MIN_LEASE_DURATION, MAX_LEASE_DURATION);
    POLL_CAP: Duration = Key::<Duration>::new(
        "locks.poll_cap",
        "5s",
        "The longest time between two attempts to acquire a lock that others hold.",
    ).within(Duration::from_millis(250), Duration::from_secs(60));
    HAND_OFF: Duration = Key::<Duration>::new(
        "locks.hand_off",
        "5s",
        "How long a lock is handed on between callers of this sidecar before other sidecars get a turn: at most half of \
         the lease duration.",
    ).within(Duration::ZERO, Duration::from_secs(30));
    MAX_HOLD_DEFAULT: Duration = Key::<Duration>::new(
        "locks.max_hold_default",
        "10m",
        "The default `max_hold` of a lock that is acquired by a unary call.",
    ).within(SECOND, DAY);
    MAX_HOLD_CEILING: Duration = Key::<Duration>::new(
        "locks.max_hold_ceiling",
        "24h",
        "The longest `max_hold` that a caller may ask for.",
    ).within(SECOND, DAY);
    WAIT_CEILING: Duration = Key::<Duration>::new(
        "locks.wait_ceiling",
        "24h",
        "The longest wait that a caller may ask for.",
    ).within(Duration::ZERO, DAY);
    HOLDER: String = Key::found(
        "locks.holder",
        "the variable `POD_NAME`, else the machine's name",
        |context| {
            let host_name = || context.sources.host_name.clone().filter(|name| !name.is_empty());
            context.variable("POD_NAME").or_else(host_name).or_else(|| Some("unknown".to_owned()))
        },
        "The default name of the holder, shown to people: at most 256 bytes.",
    );
}

pub(super) fn read(values: &mut Values<'_>) -> Option<Locks> {
    let locks = Locks {
        lease_duration: values.get(&LEASE_DURATION)?,
        poll_cap: values.get(&POLL_CAP)?,
        hand_off: values.get(&HAND_OFF)?,
        max_hold_default: values.get(&MAX_HOLD_DEFAULT)?,
        max_hold_ceiling: values.get(&MAX_HOLD_CEILING)?,
        wait_ceiling: values.get(&WAIT_CEILING)?,
        holder: values.require(&HOLDER, "the name that was found does not have 1 to 256 bytes")?,
    };
    if values.is_mistaken("locks") {
        return Some(locks);
    }
    if locks.lease_duration.subsec_nanos() != 0 {
        let problem = "must be in whole seconds, because the store counts in them".to_owned();
        values.bad(LEASE_DURATION.setting.key, None, problem);
    }
    if locks.hand_off > locks.lease_duration / 2 {
        values.conflict(
            HAND_OFF.setting.key,
            "locks.hand_off is more than half of locks.lease_duration: lower it, or lengthen the lease"
                .to_owned(),
        );
    }
    if locks.max_hold_default > locks.max_hold_ceiling {
        values.conflict(
            MAX_HOLD_DEFAULT.setting.key,
            "locks.max_hold_default is greater than locks.max_hold_ceiling: lower it, or raise the ceiling"
                .to_owned(),
        );
    }
    if locks.holder.len() > MAX_HOLDER {
        values.bad(HOLDER.setting.key, None, "must have at most 256 bytes".to_owned());
    }
    Some(locks)
}
