//! The locks of one transaction, row by row.

use std::cell::Cell;
use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, named_params};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::error::SqliteError;
use crate::lock::{FencingToken, LeaseId, LockPath};
use crate::record::{Fields, Priority};
use crate::store::lease::{Holder, Lease};
use crate::store::{
    Acquire, Acquired, BreakNote, BreakPeriod, ETag, LeaseBroken, List, Listing, Renewed,
    StoreAnswer, StoreError, StoreRequest, StoreTime, StoredLock, Write, Written,
};
use crate::time::{Clock, Instant, UnixMillis};

/// When a transaction takes place, as all processes of this kernel read it.
pub(super) struct Moment {
    boot_id: String,
    /// The raw boot clock.
    now: Instant,
    time: StoreTime,
}

impl Moment {
    pub(super) fn read(clock: &dyn Clock) -> Self {
        let reading = clock.boot_reading(clock.now());
        Self {
            boot_id: reading.boot_id,
            now: Instant::from_boot(reading.since_boot),
            time: clock.wall(),
        }
    }

    /// The raw boot clock.
    pub(super) const fn now(&self) -> Instant {
        self.now
    }
}

/// What the locks of a file are subject to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Nothing is granted before (S18).
    pub(super) grants_from: Instant,
    /// Locks and plans together, if there is a limit.
    pub(super) most: Option<u64>,
}

/// The locks as one transaction sees and changes them.
pub(super) struct Locks<'a> {
    pub(super) connection: &'a Connection,
    moment: Moment,
    pub(super) terms: Terms,
    /// A lease of another boot was met that nobody has written down yet.
    first_sight: Cell<bool>,
    /// The file was made longer, and has as many bytes at least.
    pub(super) grown: Cell<u64>,
}

/// The ETag of a record that was read.
pub(super) struct KnownVersion(ETag);

impl KnownVersion {
    fn check(&self, wanted: Option<&ETag>) -> Result<(), StoreError> {
        match wanted {
            Some(wanted) if *wanted != self.0 => Err(StoreError::Changed),
            Some(_) | None => Ok(()),
        }
    }
}

/// A break's note as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredNote {
    period: String,
    reason: String,
    by: String,
    token: Option<u64>,
    at: u64,
    #[serde(default)]
    for_priority: Option<u32>,
}

const LEASE: &str = "lease_id, lease_ms, lease_until, lease_boot, lease_broken";

/// Boot ids that are kept of those that were refused: each command of a machine whose kernel hides its own
/// brings one.
const MOST_REFUSED: i64 = 100;

/// Rows by the lock that they are about, and where the next page begins.
type Page<T> = (Vec<(LockPath, T)>, Option<String>);

/// The values of these columns.
type LeaseColumns<'a> =
    (Option<[u8; 16]>, Option<i64>, Option<i64>, Option<&'a String>, Option<bool>);

impl<'a> Locks<'a> {
    pub(super) const fn new(connection: &'a Connection, moment: Moment, terms: Terms) -> Self {
        Self { connection, moment, terms, first_sight: Cell::new(false), grown: Cell::new(0) }
    }

    /// Whether a lease of another boot was met that has to be written down as seen: see
    /// [`Locks::see_leases`].
    pub(super) const fn met_another_boot(&self) -> bool {
        self.first_sight.get()
    }

    /// Writes down that every lease of another boot was seen now: it counts as running for its whole duration
    /// from now on, whoever looks at it later (S1).
    ///
    /// `used_under`: the boot id under which this process has used the file before. Leases of another than
    /// that are of a process that uses it now, and not of before a reboot; were both to go on, each would see
    /// the other's leases anew for ever (S17). So the first to find the other refuses it.
    pub(super) fn see_leases(&self, used_under: Option<&str>) -> Result<(), SqliteError> {
        if self.is_refused()? {
            return Err(SqliteError::AnotherBoot);
        }
        if used_under == Some(&self.moment.boot_id) {
            self.refuse_others()?;
        }
        let sql = "UPDATE locks SET lease_until = :now + lease_ms * 1000000, lease_boot = :boot \
                   WHERE lease_id IS NOT NULL \
                   AND (lease_boot <> :boot OR lease_until > :now + lease_ms * 1000000)";
        self.prepare(sql)?.execute(named_params! {
            ":now": whole(self.now().since_boot().as_nanos()),
            ":boot": self.moment.boot_id,
        })?;
        Ok(())
    }

    /// Whether a process of another boot id has refused this one's. Where the kernel tells none, that is the
    /// same after a reboot; but then the clock is behind the refusal.
    fn is_refused(&self) -> Result<bool, SqliteError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM refused_boots WHERE boot = ? AND (boot <> '' OR at <= ?))";
        let now = whole(self.now().since_boot().as_nanos());
        Ok(self.prepare(sql)?.query_row((&self.moment.boot_id, now), |row| row.get(0))?)
    }

    /// Refuses whoever has leases under another boot id. Ids that were refused long ago do not come back.
    fn refuse_others(&self) -> Result<(), SqliteError> {
        let now = whole(self.now().since_boot().as_nanos());
        self.prepare(
            "INSERT OR REPLACE INTO refused_boots (boot, at) \
             SELECT DISTINCT lease_boot, :now FROM locks WHERE lease_id IS NOT NULL AND lease_boot <> :boot",
        )?
        .execute(named_params! { ":now": now, ":boot": self.moment.boot_id })?;
        self.prepare(
            "DELETE FROM refused_boots WHERE number <= (SELECT max(number) FROM refused_boots) - ?",
        )?
        .execute([MOST_REFUSED])?;
        Ok(())
    }

    pub(super) fn into_boot_id(self) -> String {
        self.moment.boot_id
    }

    /// S18: what was granted in a file that is gone may be believed for as long as a lease lasts.
    fn check_granting(&self) -> Result<(), SqliteError> {
        match self.terms.grants_from - self.now() {
            Duration::ZERO => Ok(()),
            remaining => Err(SqliteError::Recreated { remaining }),
        }
    }

    pub(super) const fn now(&self) -> Instant {
        self.moment.now
    }

    pub(super) const fn time(&self) -> StoreTime {
        self.moment.time
    }

    pub(super) fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>, SqliteError> {
        Ok(self.connection.prepare_cached(sql)?)
    }

    /// The lock's lease and its record's ETag; `NotFound` if there is no such lock.
    pub(super) fn lease(&self, path: &LockPath) -> Result<(KnownVersion, Lease), SqliteError> {
        let sql = format!("SELECT etag, {LEASE} FROM locks WHERE container = ? AND name = ?");
        let found = self
            .prepare(&sql)?
            .query_row([path.container(), path.name()], |row| {
                Ok((KnownVersion(ETag(row.get("etag")?)), self.lease_of(row)?))
            })
            .optional()?;
        found.ok_or_else(|| StoreError::NotFound.into())
    }

    fn lease_of(&self, row: &Row<'_>) -> rusqlite::Result<Lease> {
        let Some(lease_id) = row.get::<_, Option<[u8; 16]>>("lease_id")? else {
            return Ok(Lease::AVAILABLE);
        };
        let until = Instant::from_boot(Duration::from_nanos(row.get("lease_until")?));
        let duration = Duration::from_millis(row.get("lease_ms")?);
        let latest = self.now() + duration;
        // A kernel that hides its boot id leaves only this sign of a reboot: a lease that ends later than any
        // can. One of before the reboot that could end so early has ended: more has passed since than the
        // clock shows.
        let of_this_boot =
            row.get::<_, String>("lease_boot")? == self.moment.boot_id && until <= latest;
        if !of_this_boot {
            self.first_sight.set(true);
        }
        let holder = Holder {
            lease_id: LeaseId::from_uuid(Uuid::from_bytes(lease_id)),
            duration,
            until: if of_this_boot { until } else { latest },
            broken: row.get("lease_broken")?,
        };
        Ok(Lease { holder: Some(holder) })
    }

    fn put_lease(&self, path: &LockPath, lease: Lease) -> Result<(), SqliteError> {
        let sql = "UPDATE locks SET (lease_id, lease_ms, lease_until, lease_boot, lease_broken) = (?, ?, ?, ?, ?) \
                   WHERE container = ? AND name = ?";
        let (id, ms, until, boot, broken) = self.columns(lease);
        self.prepare(sql)?.execute((id, ms, until, boot, broken, path.container(), path.name()))?;
        Ok(())
    }

    /// What stands for a lease in [`LEASE`]'s columns.
    fn columns(&self, lease: Lease) -> LeaseColumns<'_> {
        match lease.holder {
            None => (None, None, None, None, None),
            Some(holder) => (
                Some(holder.lease_id.as_uuid().into_bytes()),
                Some(whole(holder.duration.as_millis())),
                Some(whole(holder.until.since_boot().as_nanos())),
                Some(&self.moment.boot_id),
                Some(holder.broken),
            ),
        }
    }

    /// Rows that this connection has ever changed.
    pub(super) fn changes(&self) -> u64 {
        self.connection.total_changes()
    }

    /// Does what is asked of the store.
    pub(super) fn call(&self, request: &StoreRequest) -> Result<StoreAnswer, SqliteError> {
        Ok(match request {
            StoreRequest::Acquire(path, request) => self.acquire(path, request)?.into(),
            StoreRequest::Renew { path, lease_id, if_match } => {
                let renew = |lease: Lease| lease.renew(*lease_id, self.now());
                self.change_lease(path, if_match.as_ref(), renew)?;
                Renewed { time: self.time() }.into()
            }
            StoreRequest::Release { path, lease_id, if_match } => {
                let release = |lease: Lease| lease.release(*lease_id, self.now());
                self.change_lease(path, if_match.as_ref(), release)?.into()
            }
            StoreRequest::BreakLease { path, note, if_match } => {
                self.break_lease(path, note, if_match)?.into()
            }
            StoreRequest::WriteRecord(path, write) => self.write_record(path, write)?.into(),
            StoreRequest::ReadRecord(path) => self.stored(path)?.into(),
            StoreRequest::ReadBreakNote(path) => self.note(path)?.into(),
            StoreRequest::ReadDocument(document) => self.read_document(document)?.into(),
            StoreRequest::WriteDocument { document, text, if_match } => {
                self.write_document(document, text, if_match.as_ref())?.into()
            }
            StoreRequest::DeletePlan { path, if_match } => self.delete_plan(path, if_match)?.into(),
            StoreRequest::ListPlans(request) => self.list_plans(request)?.into(),
            StoreRequest::List(request) => self.list(request)?.into(),
            StoreRequest::Delete { path, if_match } => self.delete(path, if_match)?.into(),
            // Containers need no making here: they are a part of the name.
            StoreRequest::Check(_) => self.check()?.into(),
        })
    }

    /// Leases the lock, making it if it is not there.
    fn acquire(&self, path: &LockPath, request: &Acquire) -> Result<Acquired, SqliteError> {
        self.check_granting()?;
        if request.if_match.is_some() {
            let (etag, lease) = match self.lease(path) {
                Err(SqliteError::Answer(StoreError::NotFound)) => return self.make(path, request),
                found => found?,
            };
            let lease = lease.acquire(request.lease_id, request.duration, self.now())?;
            etag.check(request.if_match.as_ref())?;
            self.put_lease(path, lease)?;
            return Ok(Acquired { etag: etag.0, time: self.time(), created: false, found: None });
        }
        let Some((found, lease)) = self.find(path)? else { return self.make(path, request) };
        let lease = lease.acquire(request.lease_id, request.duration, self.now())?;
        self.put_lease(path, lease)?;
        let etag = found.etag.clone();
        Ok(Acquired { etag, time: self.time(), created: false, found: Some(found) })
    }

    fn make(&self, path: &LockPath, request: &Acquire) -> Result<Acquired, SqliteError> {
        let lease = Lease::AVAILABLE.acquire(request.lease_id, request.duration, self.now())?;
        if request.if_match.is_some() {
            return Err(StoreError::Changed.into());
        }
        self.check_room()?;
        let etag = self.new_etag()?;
        let sql = format!(
            "INSERT INTO locks (container, name, etag, written_at, fields, {LEASE}) VALUES (?, ?, ?, ?, '{{}}', ?, ?, ?, ?, ?)"
        );
        let (place, at) = ((path.container(), path.name()), self.time().0);
        let (id, ms, until, boot, broken) = self.columns(lease);
        self.prepare(&sql)?
            .execute((place.0, place.1, &etag.0, at, id, ms, until, boot, broken))?;
        let found = StoredLock {
            etag: etag.clone(),
            fields: Fields::new(),
            lease: lease.state(self.now()),
            written_at: self.time(),
            time: self.time(),
        };
        Ok(Acquired { etag, time: self.time(), created: true, found: Some(found) })
    }

    /// Changes the lease of the lock whose record has this ETag.
    fn change_lease(
        &self,
        path: &LockPath,
        if_match: Option<&ETag>,
        change: impl FnOnce(Lease) -> Result<Lease, StoreError>,
    ) -> Result<(), SqliteError> {
        let (etag, lease) = self.lease(path)?;
        let lease = change(lease)?;
        etag.check(if_match)?;
        self.put_lease(path, lease)
    }

    fn break_lease(
        &self,
        path: &LockPath,
        note: &BreakNote,
        if_match: &ETag,
    ) -> Result<LeaseBroken, SqliteError> {
        let (etag, lease) = self.lease(path)?;
        let found = lease.state(self.now());
        let (lease, remaining) = lease.break_lease(note.period, self.now())?;
        if etag.check(Some(if_match)).is_err() && !note.is_of(&self.stored(path)?.fields) {
            return Err(StoreError::Changed.into());
        }
        self.put_lease(path, lease)?;
        let former = self.note(path)?;
        self.put_note(path, &note.clone().after(former.as_ref(), found))?;
        Ok(LeaseBroken { remaining })
    }

    fn write_record(&self, path: &LockPath, write: &Write) -> Result<Written, SqliteError> {
        let (etag, lease) = self.lease(path)?;
        lease.check_write(write.lease_id, self.now())?;
        etag.check(write.if_match.as_ref())?;
        Ok(Written { etag: self.put_fields(path, &write.fields)? })
    }

    pub(super) fn put_fields(&self, path: &LockPath, fields: &Fields) -> Result<ETag, SqliteError> {
        let etag = self.new_etag()?;
        let sql = "UPDATE locks SET etag = ?, fields = ?, written_at = ? WHERE container = ? AND name = ?";
        let fields = serde_json::to_string(fields)?;
        self.prepare(sql)?.execute((
            &etag.0,
            fields,
            self.time().0,
            path.container(),
            path.name(),
        ))?;
        Ok(etag)
    }

    /// An ETag that never was before: a number of the latest one could go back with a power failure, since
    /// making a lock does not wait for the disk.
    pub(super) fn new_etag(&self) -> Result<ETag, SqliteError> {
        let sql = "SELECT lower(hex(randomblob(8)))";
        Ok(ETag(self.prepare(sql)?.query_row([], |row| row.get(0))?))
    }

    fn put_note(&self, path: &LockPath, note: &BreakNote) -> Result<(), SqliteError> {
        let stored = StoredNote {
            period: note.period.as_str().to_owned(),
            reason: note.reason.clone(),
            by: note.by.clone(),
            token: note.token.map(FencingToken::value),
            at: note.at.0,
            for_priority: note.for_priority.map(Priority::get),
        };
        self.prepare("UPDATE locks SET note = ? WHERE container = ? AND name = ?")?.execute((
            serde_json::to_string(&stored)?,
            path.container(),
            path.name(),
        ))?;
        Ok(())
    }

    fn note(&self, path: &LockPath) -> Result<Option<BreakNote>, SqliteError> {
        let found: Option<Option<String>> = self
            .prepare("SELECT note FROM locks WHERE container = ? AND name = ?")?
            .query_row([path.container(), path.name()], |row| row.get(0))
            .optional()?;
        let Some(text) = found.flatten() else {
            return Ok(None);
        };
        let stored: StoredNote = serde_json::from_str(&text)?;
        Ok(Some(BreakNote {
            period: BreakPeriod::from_stored(&stored.period),
            reason: stored.reason,
            by: stored.by,
            token: stored.token.and_then(FencingToken::from_u64),
            at: UnixMillis(stored.at),
            for_priority: stored.for_priority.and_then(|number| Priority::new(number).ok()),
        }))
    }

    fn stored(&self, path: &LockPath) -> Result<StoredLock, SqliteError> {
        let found = self.find(path)?.map(|(stored, _)| stored);
        found.ok_or_else(|| StoreError::NotFound.into())
    }

    /// The lock and its lease, if there is such a lock.
    fn find(&self, path: &LockPath) -> Result<Option<(StoredLock, Lease)>, SqliteError> {
        let sql = format!(
            "SELECT etag, fields, written_at, {LEASE} FROM locks WHERE container = ? AND name = ?"
        );
        let mut statement = self.prepare(&sql)?;
        let found = statement.query_row([path.container(), path.name()], |row| self.stored_of(row));
        Ok(found.optional()?)
    }

    fn stored_of(&self, row: &Row<'_>) -> rusqlite::Result<(StoredLock, Lease)> {
        let lease = self.lease_of(row)?;
        let fields: String = row.get("fields")?;
        let unreadable =
            |error| rusqlite::Error::FromSqlConversionFailure(1, Type::Text, Box::new(error));
        let stored = StoredLock {
            etag: ETag(row.get("etag")?),
            fields: serde_json::from_str(&fields).map_err(unreadable)?,
            lease: lease.state(self.moment.now),
            written_at: UnixMillis(row.get("written_at")?),
            time: self.moment.time,
        };
        Ok((stored, lease))
    }

    fn list(&self, request: &List) -> Result<Listing, SqliteError> {
        let rows = format!("name, etag, fields, written_at, {LEASE} FROM locks");
        let (locks, continuation) = self.page(&rows, request, |row| Ok(self.stored_of(row)?.0))?;
        Ok(Listing { locks, continuation })
    }

    /// A page of these rows of a table that has a container and a name in each, in the order of their names,
    /// and where the next page begins.
    pub(super) fn page<T>(
        &self,
        rows: &str,
        request: &List,
        value_of: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Page<T>, SqliteError> {
        // Names compare byte by byte, so those with the prefix stand together.
        let sql = format!(
            "SELECT {rows} WHERE container = ? AND name >= ? AND name > ? ORDER BY name LIMIT ?"
        );
        let after = request.continuation.as_deref().unwrap_or_default();
        let limit = i64::try_from(request.limit).unwrap_or(i64::MAX).saturating_add(1);
        let mut statement = self.prepare(&sql)?;
        let mut rows =
            statement.query((request.container.as_str(), &request.prefix, after, limit))?;
        let mut page: Vec<(LockPath, T)> = Vec::new();
        while let Some(row) = rows.next()? {
            let name: String = row.get("name")?;
            if !name.starts_with(&request.prefix) {
                break;
            }
            if page.len() == request.limit {
                let last = page.last().map(|(path, _)| path.name().to_owned());
                return Ok((page, last));
            }
            page.push((LockPath::from_parts(&request.container, &name), value_of(row)?));
        }
        Ok((page, None))
    }

    fn delete(&self, path: &LockPath, if_match: &ETag) -> Result<(), SqliteError> {
        let (etag, lease) = self.lease(path)?;
        if lease.state(self.now()).is_held() {
            return Err(StoreError::Contended.into());
        }
        etag.check(Some(if_match))?;
        self.prepare("DELETE FROM locks WHERE container = ? AND name = ?")?
            .execute([path.container(), path.name()])?;
        self.drop_plan(path)
    }

    /// The database's own id, which no other has.
    pub(super) fn database_id(&self) -> Result<String, SqliteError> {
        Ok(self.prepare("SELECT id FROM store")?.query_row([], |row| row.get(0))?)
    }

    /// That the tables can be read.
    fn check(&self) -> Result<StoreTime, SqliteError> {
        self.database_id()?;
        Ok(self.moment.time)
    }
}

/// A number as SQLite has them. The boot clock reaches their end in 292 years.
fn whole(number: u128) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
