//! Notes of breaks: blobs of their own beside the locks, since the metadata of a lock that is leased cannot
//! be written without its lease id, which who breaks it does not know (S17).

use std::collections::HashMap;

use azure_core::http::RequestContent;
use azure_storage_blob::models::{
    BlobClientBreakLeaseOptions, BlobClientDeleteOptions, BlockBlobClientUploadOptions,
};
use percent_encoding::percent_decode_str;

use super::error::{Failure, Request};
use super::{AzureStore, SERVICE_SECONDS, answer, blob_names, namespace};
use crate::lock::{FencingToken, LockPath, header_safe};
use crate::record::{ETag, Fields, Priority};
use crate::store::{BreakNote, BreakPeriod, LeaseBroken, LeaseState, StoreError};
use crate::time::UnixMillis;

/// Under this are the notes; no lock may be.
pub(super) const FOLDER: &str = "leasehold-breaks/";

const PERIOD: &str = "period";
const REASON: &str = "reason";
const BY: &str = "by";
const TOKEN: &str = "token";
const AT: &str = "at";
const FOR_PRIORITY: &str = "for_priority";
/// Encoded bytes that are kept of the reason and of who broke it; Azure allows 8 KiB for all metadata.
const MAX_REASON: usize = 5_000;
const MAX_BY: usize = 2_000;

/// Tries of a break that meets a record which its holder has just written: one that saves each second is to
/// be broken over a slow store too (S33).
const TRIES: usize = 4;

/// What a note may be written over.
#[derive(Clone, Copy, Debug)]
enum Over<'a> {
    /// There must be no note yet.
    None,
    /// This version of the note.
    Version(&'a ETag),
}

/// The note of a break that is under way.
struct Noted {
    note: BreakNote,
    /// What stood there before, and its version.
    former: Option<(BreakNote, ETag)>,
    /// The version of the note once it is written.
    ours: Option<ETag>,
}

impl Noted {
    /// Of two callers that break at once one is told that it came second: else it would undo the note of the
    /// other's break.
    fn over(&self) -> Over<'_> {
        let former = self.former.as_ref().map(|(_, version)| version);
        self.ours.as_ref().or(former).map_or(Over::None, Over::Version)
    }
}

/// The name of the note of the lock `name`.
pub(super) fn note_name(name: &str) -> String {
    blob_names::name_in(FOLDER, name)
}

/// The note as metadata.
fn to_metadata(note: &BreakNote) -> HashMap<String, String> {
    let mut metadata = HashMap::from([
        (PERIOD.to_owned(), note.period.as_str().to_owned()),
        (REASON.to_owned(), encoded(&note.reason, MAX_REASON)),
        (BY.to_owned(), encoded(&note.by, MAX_BY)),
        (AT.to_owned(), note.at.0.to_string()),
    ]);
    if let Some(token) = note.token {
        metadata.insert(TOKEN.to_owned(), token.to_string());
    }
    if let Some(priority) = note.for_priority {
        metadata.insert(FOR_PRIORITY.to_owned(), priority.to_string());
    }
    // Metadata without a value is not kept everywhere; without a name it is empty too.
    metadata.retain(|_, value| !value.is_empty());
    metadata
}

/// The note that was written so; what is missing or cannot be read is empty.
pub(super) fn from_metadata(fields: &Fields) -> BreakNote {
    let text = |name| {
        let value = fields.get(name).map(String::as_str).unwrap_or_default();
        percent_decode_str(value).decode_utf8_lossy().into_owned()
    };
    let number = |name| fields.get(name).and_then(|value| value.parse::<u64>().ok());
    BreakNote {
        period: BreakPeriod::from_stored(
            fields.get(PERIOD).map(String::as_str).unwrap_or_default(),
        ),
        reason: text(REASON),
        by: text(BY),
        token: number(TOKEN).and_then(FencingToken::from_u64),
        at: UnixMillis(number(AT).unwrap_or_default()),
        for_priority: number(FOR_PRIORITY)
            .and_then(|number| Priority::new(u32::try_from(number).ok()?).ok()),
    }
}

/// The whole characters of `text` that fit, encoded.
fn encoded(text: &str, limit: usize) -> String {
    let mut encoded = String::new();
    for character in text.chars() {
        let next = header_safe(character.encode_utf8(&mut [0; 4]));
        if encoded.len() + next.len() > limit {
            break;
        }
        encoded.push_str(&next);
    }
    encoded
}

impl AzureStore {
    pub(super) async fn break_noting(
        &self,
        path: &LockPath,
        note: BreakNote,
        if_match: ETag,
    ) -> Result<LeaseBroken, StoreError> {
        let former = self.read_note(path).await?;
        let mut noted = Noted { note, former, ours: None };
        let (broken, sent) = self.break_grant(path, &mut noted, if_match).await;
        // A note of a break that was not done would speak for a later one by somebody else. That of an
        // earlier break stays.
        let Noted { note, former, ours } = noted;
        let former = former.map(|(former, _)| former);
        match (&broken, ours, former) {
            (Err(StoreError::NotFound), ..) => self.delete_note(path, None).await,
            // What refuses a break refuses a deletion too: a SAS without the permission for it.
            (Err(StoreError::Denied { .. } | StoreError::Fatal { .. }), Some(ours), former) => {
                let before = former.unwrap_or(BreakNote { token: None, ..note });
                self.write_back(path, &before, &ours).await;
            }
            (Err(error), Some(ours), Some(former)) if !sent || error.is_surely_not_done() => {
                self.write_back(path, &former, &ours).await;
            }
            (Err(error), Some(ours), None) if !sent || error.is_surely_not_done() => {
                self.delete_note(path, Some(&ours)).await;
            }
            (Ok(_) | Err(_), ..) => {}
        }
        broken
    }

    /// The note, then one read and the break at once, while the grant of the note stands; and whether the
    /// break was sent. What its holder writes meanwhile, a save or a resume, has it read and tried again
    /// (S17, S33).
    async fn break_grant(
        &self,
        path: &LockPath,
        noted: &mut Noted,
        if_match: ETag,
    ) -> (Result<LeaseBroken, StoreError>, bool) {
        let period = noted.note.period;
        let mut tries = TRIES;
        while tries > 0 {
            let seen = match self.get_record(path).await {
                Ok(seen) => seen,
                Err(error) => return (Err(error), false),
            };
            if seen.lease == LeaseState::Available {
                return (Err(StoreError::NotHeld), false);
            }
            if seen.etag != if_match && !noted.note.is_of(&seen.fields) {
                break;
            }
            // The note comes first, so that a holder that learns of the break finds it (S22). It says of the
            // grant that it names only. Another tool may break the lease while it is written: then it is
            // written once more.
            let former = noted.former.as_ref().map(|(former, _)| former);
            let note = noted.note.clone().after(former, seen.lease);
            if noted.ours.is_none() || note.period != noted.note.period {
                match self.write_note(path, &note, noted.over()).await {
                    Ok(ours) => (noted.note, noted.ours) = (note, Some(ours)),
                    Err(error) => return (Err(error), false),
                }
                continue;
            }
            match self.break_version(path, period, &seen.etag).await {
                Err(StoreError::Changed) => tries -= 1,
                broken => return (broken, true),
            }
        }
        (Err(StoreError::Changed), false)
    }

    async fn break_version(
        &self,
        path: &LockPath,
        period: BreakPeriod,
        version: &ETag,
    ) -> Result<LeaseBroken, StoreError> {
        let options = BlobClientBreakLeaseOptions {
            // Without a period the lease runs out as it would have.
            break_period: match period {
                BreakPeriod::RunOut => None,
                BreakPeriod::Now => Some(0),
            },
            if_match: Some(answer::condition(version)),
            timeout: Some(SERVICE_SECONDS),
            ..BlobClientBreakLeaseOptions::default()
        };
        let broken = async {
            let answer = self.blob(path).break_lease(Some(options)).await?;
            Ok(LeaseBroken { remaining: answer::remaining(answer.headers())? })
        };
        let watch = self.containers.watch(path.container());
        self.answer(watch, Request::Break, broken.await)
    }

    /// The note, and its version.
    pub(super) async fn read_note(
        &self,
        path: &LockPath,
    ) -> Result<Option<(BreakNote, ETag)>, StoreError> {
        let name = note_name(path.name());
        let blob = self.clients().lease.blob_client(path.container(), &name);
        let watch = self.containers.watch(path.container());
        let read = async {
            let answer = blob.get_properties(None).await?;
            let headers = answer.headers();
            if namespace::is_directory(headers) {
                return Ok(None);
            }
            Ok(Some((from_metadata(&answer::fields(headers)), answer::etag(headers)?)))
        };
        let read = read.await;
        self.note(watch, &read);
        match read.map_err(|failure| self.error(Request::ReadNote, failure)) {
            Ok(read) => Ok(read),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write_note(
        &self,
        path: &LockPath,
        note: &BreakNote,
        over: Over<'_>,
    ) -> Result<ETag, StoreError> {
        let (if_match, if_none_match) = match over {
            Over::None => (None, Some("*".into())),
            Over::Version(version) => (Some(answer::condition(version)), None),
        };
        let options = BlockBlobClientUploadOptions {
            metadata: Some(to_metadata(note)),
            if_match,
            if_none_match,
            ..BlockBlobClientUploadOptions::default()
        };
        let name = note_name(path.name());
        let blob = self.clients().lease.blob_client(path.container(), &name).block_blob_client();
        let written = async {
            let written = blob.upload(RequestContent::from(Vec::new()), Some(options)).await?;
            answer::etag(written.raw_response.headers())
        };
        written.await.map_err(|failure| self.error(Request::WriteNote, failure))
    }

    /// Undoes the note of a break that failed, if it is still there: writes what stood there before, or the
    /// note without its token, which is about nobody's grant. Best effort, like [`Self::delete_note`].
    async fn write_back(&self, path: &LockPath, before: &BreakNote, ours: &ETag) {
        match self.write_note(path, before, Over::Version(ours)).await {
            Ok(_) | Err(StoreError::Changed) => {}
            Err(error) => {
                tracing::warn!(%path, error = %error.chain(), "could not undo the note of a break that failed");
            }
        }
    }

    /// Best effort: a note without its lock, or of a break that came to nothing, names a token that nobody
    /// has.
    pub(super) async fn delete_note(&self, path: &LockPath, version: Option<&ETag>) {
        let name = note_name(path.name());
        let options = BlobClientDeleteOptions {
            if_match: version.map(answer::condition),
            ..BlobClientDeleteOptions::default()
        };
        let blob = self.clients().lease.blob_client(path.container(), &name);
        let deleted = blob.delete(Some(options)).await;
        if let Err(failure) = deleted.map_err(Failure::from)
            && !matches!(failure.code(), "BlobNotFound" | "ContainerNotFound" | "ConditionNotMet")
        {
            tracing::warn!(%path, %failure, "could not delete the note of a break");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{service, store_on};
    use super::*;
    use crate::lock::Container;
    use crate::store::LeaseStoreExt as _;
    use crate::testing::{Asked, Reply};

    fn note(reason: &str) -> BreakNote {
        BreakNote {
            period: BreakPeriod::RunOut,
            reason: reason.to_owned(),
            by: "Ünal <u@example.com>".to_owned(),
            token: FencingToken::from_u64(65_537),
            at: UnixMillis(1_800_000_000_123),
            for_priority: Priority::new(412).ok(),
        }
    }

    fn written(note: &BreakNote) -> Fields {
        to_metadata(note).into_iter().collect()
    }

    #[test]
    fn s17_a_note_reads_back_as_it_was_written() {
        for reason in ["", "hangs", "Zürich 日本: \"100%\" + & more\n\t"] {
            let fields = written(&note(reason));
            let safe = |value: &String| value.bytes().all(|byte| byte.is_ascii_graphic());
            assert!(fields.values().all(safe), "{fields:?}");
            assert_eq!(from_metadata(&fields), note(reason));
        }
    }

    #[test]
    fn s17_a_long_reason_is_cut_and_does_not_stop_the_break() {
        let fields = written(&note(&"日".repeat(10_000)));
        let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(bytes < 8_192, "{bytes}");
        let read = from_metadata(&fields);
        assert!(read.reason.chars().all(|character| character == '日'), "cut inside a character");
        assert!(read.reason.len() > 1_000);
    }

    #[test]
    fn a_note_that_cannot_be_read_is_empty() {
        let fields = Fields::from([(AT.to_owned(), "soon".to_owned())]);
        let empty = BreakNote {
            period: BreakPeriod::Now,
            by: String::new(),
            token: None,
            at: UnixMillis(0),
            for_priority: None,
            ..note("")
        };
        assert_eq!(from_metadata(&fields), empty);
    }

    /// The requests of a break for a waiting caller that is answered so, with the conditions of each.
    async fn conditions(
        replies: Vec<Reply>,
    ) -> (Result<LeaseBroken, StoreError>, Vec<(String, Option<String>, Option<String>)>) {
        let (store, fake, _) = store_on(replies).await;
        let path =
            LockPath::from_parts(&Container::parse("leasehold").unwrap(), "locks/h/a/~/FUNCTION");
        let broken = store.break_lease(&path, note(""), ETag("\"0x9\"".into())).await;
        let header = |asked: &Asked, name| asked.header(name).map(str::to_owned);
        let asked = fake.asked().into_iter().map(|asked| {
            let conditions = (header(&asked, "if-match"), header(&asked, "if-none-match"));
            (asked.method.clone(), conditions.0, conditions.1)
        });
        (broken, asked.collect())
    }

    fn refusal(status: u16, code: &str) -> Reply {
        service(status, &[("x-ms-error-code", code)])
    }

    fn is(
        method: &str,
        if_match: Option<&str>,
        if_none_match: Option<&str>,
    ) -> (String, Option<String>, Option<String>) {
        (method.to_owned(), if_match.map(str::to_owned), if_none_match.map(str::to_owned))
    }

    fn not_found() -> Reply {
        refusal(404, "BlobNotFound")
    }

    fn changed() -> Reply {
        refusal(412, "ConditionNotMet")
    }

    /// The lock with this version of its record, which names this token.
    fn lock(etag: &str, token: &str) -> Reply {
        lock_that_is("leased", etag, token)
    }

    fn lock_that_is(lease: &str, etag: &str, token: &str) -> Reply {
        Reply::new(
            200,
            &[
                ("x-ms-request-id", "r"),
                ("date", "Fri, 15 Jan 2027 08:00:00 GMT"),
                ("last-modified", "Fri, 15 Jan 2027 07:00:00 GMT"),
                ("x-ms-lease-state", lease),
                ("etag", etag),
                ("x-ms-meta-leasehold_token", token),
            ],
        )
    }

    fn note_written() -> Reply {
        note_written_as("\"0x2\"")
    }

    fn note_written_as(etag: &str) -> Reply {
        let date = ("date", "Fri, 15 Jan 2027 08:00:00 GMT");
        Reply::new(201, &[("x-ms-request-id", "r"), date, ("etag", etag)])
    }

    #[tokio::test]
    async fn s22_of_two_that_break_at_once_none_undoes_the_note_of_the_other() {
        let ours = lock("\"0x9\"", "65537");
        // Another has written its note in between: nothing is broken.
        for (former, condition) in [
            (not_found(), is("PUT", None, Some("*"))),
            (service(200, &[]), is("PUT", Some("\"0x1\""), None)),
        ] {
            let (broken, asked) = conditions(vec![former, ours.clone(), changed()]).await;
            assert!(matches!(broken, Err(StoreError::Changed)), "{broken:?}");
            assert_eq!(asked[2..], [condition]);
        }
        let replies = vec![not_found(), ours.clone(), refusal(409, "BlobAlreadyExists")];
        let (broken, asked) = conditions(replies).await;
        assert!(matches!(broken, Err(StoreError::Changed)) && asked.len() == 3, "{broken:?}");
        // Or after it: what is undone is this one's own.
        let other = lock("\"0xb\"", "69632");
        let replies = vec![not_found(), ours, note_written(), other, changed()];
        let (broken, asked) = conditions(replies).await;
        assert!(matches!(broken, Err(StoreError::Changed)), "{broken:?}");
        assert_eq!(asked[4..], [is("DELETE", Some("\"0x2\""), None)]);
    }

    #[tokio::test]
    async fn s17_a_break_meets_another_grant_and_breaks_nothing() {
        let (ours, other) = (lock("\"0x9\"", "65537"), lock("\"0xb\"", "69632"));
        // The lock has changed hands while the note was written, or while the break was under way.
        let soon = vec![other.clone(), service(202, &[])];
        let late = vec![ours.clone(), changed(), other, service(202, &[])];
        for (replies, breaks) in [(soon, vec![]), (late, vec![is("PUT", Some("\"0x9\""), None)])] {
            let replies = [vec![not_found(), ours.clone(), note_written()], replies].concat();
            let (broken, asked) = conditions(replies).await;
            assert!(matches!(broken, Err(StoreError::Changed)), "{broken:?}");
            let writes: Vec<_> = asked[3..].iter().filter(|asked| asked.0 != "HEAD").collect();
            let undone = is("DELETE", Some("\"0x2\""), None);
            assert_eq!(writes, breaks.iter().chain([&undone]).collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn s33_a_holder_that_has_just_saved_is_broken_by_its_new_version() {
        let broken = service(202, &[("x-ms-lease-time", "30")]);
        let replies = vec![
            not_found(),
            lock("\"0x9\"", "65537"),
            note_written(),
            lock("\"0x9\"", "65537"),
            changed(),
            lock("\"0xa\"", "65537"),
            broken,
        ];
        let (broken, asked) = conditions(replies).await;
        assert_eq!(broken.unwrap().remaining.as_secs(), 30);
        let breaks = [is("PUT", Some("\"0x9\""), None), is("PUT", Some("\"0xa\""), None)];
        assert_eq!([&asked[4], &asked[6]], breaks.each_ref());
        assert_eq!(asked.len(), 7, "the note stays: {asked:?}");
        // Not without end.
        let changes = (0..TRIES).flat_map(|_| [lock("\"0x9\"", "65537"), changed()]);
        let replies: Vec<_> = [not_found(), lock("\"0x9\"", "65537"), note_written()]
            .into_iter()
            .chain(changes)
            .chain([service(202, &[])])
            .collect();
        let (broken, asked) = conditions(replies).await;
        assert!(matches!(broken, Err(StoreError::Changed)), "{broken:?}");
        assert_eq!(asked.last(), Some(&is("DELETE", Some("\"0x2\""), None)));
    }

    /// The periods that are written in notes by a break that lets the lease run out.
    async fn periods(replies: Vec<Reply>) -> Vec<Option<String>> {
        let (store, fake, _) = store_on(replies).await;
        let path =
            LockPath::from_parts(&Container::parse("leasehold").unwrap(), "locks/h/a/~/FUNCTION");
        store.break_lease(&path, note(""), ETag("\"0x9\"".into())).await.unwrap();
        let is_write = |asked: &Asked| asked.method == "PUT" && !asked.target.contains("comp=");
        let written = fake.asked().into_iter().filter(is_write);
        written.map(|asked| asked.header("x-ms-meta-period").map(str::to_owned)).collect()
    }

    #[tokio::test]
    async fn s22_a_break_of_what_another_tool_has_broken_says_that_it_does_not_run_out() {
        let (leased, breaking) =
            (lock("\"0x9\"", "65537"), lock_that_is("breaking", "\"0x9\"", "65537"));
        let broken = service(202, &[("x-ms-lease-time", "4")]);
        let now = Some("now".to_owned());
        let before =
            vec![not_found(), breaking.clone(), note_written(), breaking.clone(), broken.clone()];
        assert_eq!(periods(before).await, std::slice::from_ref(&now));
        let meanwhile = vec![
            not_found(),
            leased,
            note_written(),
            breaking.clone(),
            note_written_as("\"0x3\""),
            breaking.clone(),
            broken.clone(),
        ];
        let runs_out = Some("run-out".to_owned());
        assert_eq!(periods(meanwhile).await, [runs_out.clone(), now]);
        // What Leasehold has broken before runs out.
        let former = service(200, &[("x-ms-meta-period", "run-out"), ("x-ms-meta-token", "65537")]);
        let ours = vec![former, breaking.clone(), note_written(), breaking, broken];
        assert_eq!(periods(ours).await, [runs_out]);
    }

    /// A repeated write would meet its own note (S7).
    #[tokio::test]
    async fn s22_a_note_is_written_in_one_try() {
        let replies = vec![
            not_found(),
            lock("\"0x9\"", "65537"),
            Reply::Close,
            refusal(409, "BlobAlreadyExists"),
        ];
        let (broken, asked) = conditions(replies).await;
        assert!(matches!(broken, Err(StoreError::Unavailable { sent: true, .. })), "{broken:?}");
        assert_eq!(asked.len(), 3);
    }
}
