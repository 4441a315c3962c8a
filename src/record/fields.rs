//! What is stored with a lock, and how it is written: string fields of header-safe ASCII.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::labels::Labels;
use super::sharing::{Priority, Reserved, ShareName, Sharing};
use crate::lock::encoding::{cut, decode, encode};
use crate::lock::{FencingToken, LeaseFingerprint, LockKey, Permits};
use crate::time::UnixMillis;

/// The fields that a store keeps with a lock: names are identifiers, values header-safe ASCII. Fields of
/// others (WebJobs' `FunctionInstance`) are in it too, and are kept.
pub type Fields = BTreeMap<String, String>;

/// The version of a lock's record in its store: changes with every write, compares for equality only. Shared:
/// it is kept in several places.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ETag(pub Arc<str>);

/// What a grant writes with its lock, in the domain's words (S5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The token of the latest grant that was stored.
    pub token: Option<FencingToken>,
    /// A token is stored that cannot be read: it must never be taken for none (S5).
    pub token_is_unreadable: bool,
    /// Who acquired it, for people.
    pub holder: String,
    /// The host type of who acquired it: a different one shows an accidental host-id collision.
    pub host_type: String,
    /// The function of the key.
    pub function: String,
    /// The scope of the key.
    pub scope: String,
    /// `FUNCTION` or `LISTENER`.
    pub mode: String,
    /// When the grant was stored, by the store's clock.
    pub acquired_at: Option<UnixMillis>,
    /// Until when nobody is granted the lock, because of `min_hold`, by the store's clock (S11).
    pub resting_until: Option<UnixMillis>,
    /// How long that rest was to last: a wall clock that was wrong must not make more of it (S11).
    pub resting_for: Option<Duration>,
    /// Callers were waiting at the sidecar that wrote this: it will hand the lock on (S10).
    pub handed_on: bool,
    /// Whose lease it was written under: tells a sidecar a write of its own.
    pub lease: Option<LeaseFingerprint>,
    /// How often the hold under that lease was resumed, from 1; 0 where nothing says so (S16).
    pub generation: u64,
    /// Which try to resume wrote the generation: the same one may be repeated (S16). Empty for none.
    pub attempt: String,
    /// How many permits the lock has in the holder's eyes (S29); none where nothing says so: a plain lock.
    pub permits: Option<Permits>,
    /// Which sidecar acquired it (S34). Empty where nothing says so.
    pub sidecar: Arc<str>,
    /// The holder's place among others; none where nothing says so: it neither yields nor has a share (S33,
    /// S34).
    pub sharing: Option<Box<Sharing>>,
    /// For whom the lock is kept after a break (S33).
    pub reserved: Option<Box<Reserved>>,
    /// The holder's labels.
    pub labels: Labels,
    /// A random name of the write that stored this: tells its writer whether a write of unknown outcome was
    /// done (S27).
    pub write: String,
}

const TOKEN: &str = "leasehold_token";
/// The field that names the holder, encoded.
pub const HOLDER_FIELD: &str = "leasehold_holder";
/// The field in which WebJobs and Azure Functions hosts look for who holds a lock.
pub(crate) const FUNCTION_INSTANCE: &str = "FunctionInstance";
const HOST_TYPE: &str = "leasehold_host_type";
const FUNCTION: &str = "leasehold_function";
const SCOPE: &str = "leasehold_scope";
const MODE: &str = "leasehold_mode";
const ACQUIRED: &str = "leasehold_acquired";
const RESTING: &str = "leasehold_resting_until";
const RESTING_FOR: &str = "leasehold_resting_for";
const HANDED_ON: &str = "leasehold_handed_on";
const LEASE: &str = "leasehold_lease";
const GENERATION: &str = "leasehold_generation";
const ATTEMPT: &str = "leasehold_attempt";
const PERMITS: &str = "leasehold_permits";
const SIDECAR: &str = "leasehold_sidecar";
const PRIORITY: &str = "leasehold_priority";
const YIELDS: &str = "leasehold_yields";
const SHARE: &str = "leasehold_share";
const RESERVED: &str = "leasehold_reserved";
const LABELS: &str = "leasehold_labels";
const WRITE: &str = "leasehold_write";

/// Every field that is about a grant: replaced as a whole at each grant. The checkpoint, the schedule's
/// fields and those of others stay.
const RECORD_FIELDS: [&str; 21] = [
    TOKEN,
    HOLDER_FIELD,
    HOST_TYPE,
    FUNCTION,
    SCOPE,
    MODE,
    ACQUIRED,
    RESTING,
    RESTING_FOR,
    HANDED_ON,
    LEASE,
    GENERATION,
    ATTEMPT,
    PERMITS,
    LABELS,
    WRITE,
    SIDECAR,
    PRIORITY,
    YIELDS,
    SHARE,
    RESERVED,
];

/// What the fields say of who has the lock, where that is somebody who stores nothing: `holder` in words for
/// people.
pub(crate) fn held_by_stranger(fields: &mut Fields, holder: &str) {
    const OF_LAST_HOLDER: [&str; 7] =
        [HOST_TYPE, ACQUIRED, LABELS, SIDECAR, PRIORITY, YIELDS, SHARE];
    fields.retain(|name, _| !OF_LAST_HOLDER.contains(&name.as_str()));
    fields.insert(HOLDER_FIELD.to_owned(), encode(holder));
}

/// Encoded bytes of a sidecar's name that are stored.
const MAX_SIDECAR: usize = 96;
/// Encoded bytes of function and scope that are stored: Azure allows 8 KiB for all fields together.
const MAX_STORED_NAME: usize = 1_200;
/// What else is cut where a record is too long otherwise, in this order, and to how many encoded bytes.
const CUTS: [(&str, usize); 7] = [
    (SCOPE, 300),
    (FUNCTION, 300),
    (HOLDER_FIELD, 96),
    (FUNCTION_INSTANCE, 96),
    (SCOPE, 96),
    (FUNCTION, 96),
    (HOST_TYPE, 96),
];
/// The same for the lock of a schedule, which people look up by its function and scope (T3).
const CUTS_OF_SCHEDULE: [(&str, usize); 7] = [
    (HOLDER_FIELD, 96),
    (FUNCTION_INSTANCE, 96),
    (SCOPE, 300),
    (FUNCTION, 300),
    (SCOPE, 96),
    (FUNCTION, 96),
    (HOST_TYPE, 96),
];
/// What the fields of a schedule begin with: they are kept as they are (T3, T19).
const SCHEDULE: &str = "leasehold_schedule_";

/// Marks what was cut.
const CUT: char = '~';

/// Bytes that the names and values of all fields may have together: Azure allows 8,192, and some of its front
/// ends count more than these.
const MAX_FIELDS: usize = 8_000;

impl Record {
    /// Sets the parts that come from the key.
    #[must_use]
    pub fn for_key(key: &LockKey) -> Self {
        Self {
            function: key.function().to_owned(),
            scope: key.scope().to_owned(),
            mode: key.mode().as_str().to_owned(),
            ..Self::default()
        }
    }

    /// The share that the lock belongs to (S34).
    #[must_use]
    pub fn share(&self) -> Option<&ShareName> {
        self.sharing.as_ref()?.share.as_ref()
    }

    /// Reads the fields that are ours; those that are missing or unreadable are empty.
    #[must_use]
    pub fn from_fields(fields: &Fields) -> Self {
        Self::from_lookup(|name| fields.get(name).map(String::as_str))
    }

    /// Whether this host type stored it; one that was cut counts by its beginning.
    #[must_use]
    pub fn is_of_host_type(&self, host_type: &str) -> bool {
        // It may have been cut inside a character.
        let begins = |beginning: &str| {
            host_type.starts_with(beginning.trim_end_matches(char::REPLACEMENT_CHARACTER))
        };
        self.host_type == host_type || self.host_type.strip_suffix(CUT).is_some_and(begins)
    }

    /// As [`Record::from_fields`], from whatever finds a field by its name.
    pub fn from_lookup<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Self {
        let text = |name: &str| field(name).map(decode).unwrap_or_default();
        let number = |name: &str| field(name).and_then(|value| value.parse::<u64>().ok());
        let token = token_of(&field);
        let of_grant = |name: &str| of_grant(&field, name);
        Self {
            token,
            token_is_unreadable: token.is_none() && field(TOKEN).is_some(),
            holder: text(HOLDER_FIELD),
            host_type: text(HOST_TYPE),
            function: text(FUNCTION),
            scope: text(SCOPE),
            mode: text(MODE),
            acquired_at: number(ACQUIRED).map(UnixMillis),
            resting_until: number(RESTING).map(UnixMillis),
            resting_for: number(RESTING_FOR).map(Duration::from_millis),
            handed_on: is_handed_on(&field),
            lease: field(LEASE).map(str::to_owned),
            generation: generation_of(&field),
            attempt: of_grant(ATTEMPT).map(decode).unwrap_or_default(),
            permits: of_grant(PERMITS).and_then(|value| Permits::new(value.parse().ok()?).ok()),
            sidecar: of_grant(SIDECAR).map(|name| decode(name).into()).unwrap_or_default(),
            sharing: sharing_of(&field),
            reserved: of_grant(RESERVED).and_then(reserved_from_stored).map(Box::new),
            labels: field(LABELS).map(Labels::from_stored).unwrap_or_default(),
            write: field(WRITE).unwrap_or_default().to_owned(),
        }
    }

    /// Writes this record over `fields`, keeping the checkpoint, the schedule's fields (T19) and those of
    /// others. Where they do not fit together, the labels go first, and then long names are cut: a grant
    /// never fails for its size (T3). So whoever changes a checkpoint or a schedule too does that to `fields`
    /// before.
    #[must_use]
    pub fn into_fields(self, mut fields: Fields) -> Fields {
        fields.retain(|name, _| !RECORD_FIELDS.contains(&name.as_str()));
        let mut put = |name: &str, value: String| {
            if !value.is_empty() {
                fields.insert(name.to_owned(), value);
            }
        };
        put(TOKEN, self.token.map(|token| token.to_string()).unwrap_or_default());
        put(HOLDER_FIELD, encode(&self.holder));
        put(HOST_TYPE, encode(&self.host_type));
        put(FUNCTION, stored_name(&self.function));
        put(SCOPE, stored_name(&self.scope));
        put(MODE, encode(&self.mode));
        put(ACQUIRED, self.acquired_at.map(|at| at.0.to_string()).unwrap_or_default());
        put(RESTING, self.resting_until.map(|at| at.0.to_string()).unwrap_or_default());
        let rest = self.resting_for.map(|span| span.as_millis().to_string());
        put(RESTING_FOR, rest.unwrap_or_default());
        put(HANDED_ON, if self.handed_on { "1".to_owned() } else { String::new() });
        if let Some(lease) = self.lease {
            if self.generation > 0 {
                put(GENERATION, format!("{lease}.{}", self.generation));
            }
            if !self.attempt.is_empty() {
                put(ATTEMPT, format!("{lease}.{}", encode(&self.attempt)));
            }
            if let Some(permits) = self.permits {
                put(PERMITS, format!("{lease}.{permits}"));
            }
            if !self.sidecar.is_empty() {
                put(SIDECAR, format!("{lease}.{}", cut(&encode(&self.sidecar), MAX_SIDECAR)));
            }
            if let Some(Sharing { priority, yields, share }) = self.sharing.map(|it| *it) {
                if priority > Priority::NONE {
                    put(PRIORITY, format!("{lease}.{priority}"));
                }
                if yields {
                    put(YIELDS, format!("{lease}.1"));
                }
                if let Some(share) = share {
                    put(SHARE, format!("{lease}.{}", encode(share.as_str())));
                }
            }
            if let Some(Reserved { priority, until, for_millis }) = self.reserved.as_deref() {
                put(RESERVED, format!("{lease}.{priority}.{}.{for_millis}", until.0));
            }
            put(LEASE, lease);
        }
        put(LABELS, self.labels.to_stored());
        put(WRITE, self.write);
        fit(&mut fields, false);
        fields
    }
}

/// The stored token alone, from what finds a field by its name; none also for one that cannot be read.
pub(crate) fn token_of<'a>(field: &impl Fn(&str) -> Option<&'a str>) -> Option<FencingToken> {
    field(TOKEN)?.parse().ok().and_then(FencingToken::from_u64)
}

/// [`Record::generation`] alone, from what finds a field by its name.
pub(crate) fn generation_of<'a>(field: &impl Fn(&str) -> Option<&'a str>) -> u64 {
    of_grant(field, GENERATION).and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// The holder's place among others, from what finds a field by its name.
pub(crate) fn sharing_of<'a>(field: &impl Fn(&str) -> Option<&'a str>) -> Option<Box<Sharing>> {
    let priority =
        of_grant(field, PRIORITY).and_then(|value| Priority::new(value.parse().ok()?).ok());
    let share = of_grant(field, SHARE).and_then(|value| ShareName::new(&decode(value)).ok());
    let yields = of_grant(field, YIELDS).is_some();
    Sharing { priority: priority.unwrap_or_default(), yields, share }.boxed()
}

fn reserved_from_stored(value: &str) -> Option<Reserved> {
    let mut parts = value.split('.').map(str::parse::<u64>);
    let mut next = || parts.next()?.ok();
    let (priority, until, for_millis) = (next()?, next()?, next()?);
    let priority = Priority::new(u32::try_from(priority).ok()?).ok()?;
    Some(Reserved { priority, until: UnixMillis(until), for_millis })
}

/// S36: what is about one grant counts only with the lease that it was written under.
fn of_grant<'a>(field: &impl Fn(&str) -> Option<&'a str>, name: &str) -> Option<&'a str> {
    let (lease, value) = field(name)?.split_once('.')?;
    (field(LEASE) == Some(lease)).then_some(value)
}

/// [`Record::handed_on`] alone, from what finds a field by its name.
pub(crate) fn is_handed_on<'a>(field: &impl Fn(&str) -> Option<&'a str>) -> bool {
    field(HANDED_ON).is_some()
}

/// Shows hosts of .NET who holds the lock, beside fields that fit; they fit afterwards (T3).
pub(crate) fn show_holder(fields: &mut Fields) {
    if let Some(holder) = fields.get(HOLDER_FIELD).cloned() {
        fields.insert(FUNCTION_INSTANCE.to_owned(), holder);
        fit(fields, true);
    }
}

/// Makes the fields fit, if ours can be made so small: `shown` if the field of .NET's hosts is one of them.
fn fit(fields: &mut Fields, shown: bool) {
    let size = |fields: &Fields| -> usize {
        fields.iter().map(|(name, value)| name.len() + value.len()).sum()
    };
    if size(fields) > MAX_FIELDS {
        fields.remove(LABELS);
    }
    let of_schedule = fields.keys().any(|name| name.starts_with(SCHEDULE));
    for (name, limit) in if of_schedule { CUTS_OF_SCHEDULE } else { CUTS } {
        if size(fields) > MAX_FIELDS
            && (shown || name != FUNCTION_INSTANCE)
            && let Some(value) = fields.get_mut(name)
        {
            *value = shortened(std::mem::take(value), limit);
        }
    }
    // S34 is for speed and order, and the grant is not.
    for name in [SIDECAR, SHARE] {
        if size(fields) > MAX_FIELDS {
            fields.remove(name);
        }
    }
}

fn stored_name(name: &str) -> String {
    shortened(encode(name), MAX_STORED_NAME)
}

/// `encoded`, or its beginning and a mark that it was longer.
fn shortened(encoded: String, limit: usize) -> String {
    if encoded.len() <= limit {
        return encoded;
    }
    format!("{}{CUT}", cut(encoded.trim_end_matches(CUT), limit))
}

#[cfg(test)]
#[path = "fields_tests.rs"]
mod tests;
