//! A sidecar's way to the service: what the Azure adapter sends goes through here, and some of it is lost, late,
//! repeated, refused or answered by something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use azure_core::time::{OffsetDateTime, to_rfc7231};
use leasehold::testing::{Asked, Carried, SeededRandom, Wire};
use leasehold::time::UnixMillis;

use crate::chance::{About, millis, one_of};
use crate::checks::MINUTE;
use crate::lease::State as LeaseState;
use crate::service::{Answer, blob_name};
use crate::world::World;

/// The longest that a request or an answer may be under way.
pub(crate) const LATEST: Duration = Duration::from_secs(45);

#[derive(Debug)]
pub(crate) struct Link {
    world: World,
    sidecar: usize,
    /// The sidecar runs: what a dead one sends goes nowhere.
    alive: Arc<AtomicBool>,
    /// Requests before this sidecar's first.
    first: u64,
    sent: AtomicU64,
}

/// What becomes of a request.
#[derive(Debug, Default)]
struct Course {
    there: Duration,
    back: Duration,
    again: Option<Duration>,
    lost: bool,
    answer_lost: bool,
    /// The connection breaks after this time.
    reset: Option<Duration>,
    refused: Option<Answer>,
    odd: Option<u64>,
    front_end: usize,
}

impl Link {
    pub(crate) fn new(world: &World, sidecar: usize, life: u32, alive: Arc<AtomicBool>) -> Self {
        let first = u64::from(life) * 100_000;
        Self { world: world.clone(), sidecar, alive, first, sent: AtomicU64::new(0) }
    }

    fn course(&self, number: u64, asked: &Asked) -> Course {
        let weather = self.world.plan().weather;
        let now = self.world.now();
        let mut state = self.world.state();
        let mut random = state.chance.of(About::Delay, self.sidecar, number);
        let distance = self.world.plan().distance;
        let mut course = Course {
            there: millis(&mut random, distance, distance * 2),
            back: millis(&mut random, distance, distance * 2),
            front_end: usize::try_from(random.below(3)).unwrap(),
            ..Course::default()
        };
        // The identity endpoint and the operator's notes are well.
        if state.calm || asked.target.contains("oauth2") || asked.target.contains("breaks/") {
            return course;
        }
        let mut happens = |about, permille| {
            let fault = state.chance.fault(about, (self.sidecar, number), permille);
            if fault.is_some() {
                state.disturb(self.sidecar, now);
            }
            fault
        };
        course.lost = happens(About::LoseRequest, weather.lose_request).is_some();
        course.answer_lost = happens(About::LoseAnswer, weather.lose_answer).is_some();
        if let Some(mut random) = happens(About::RepeatRequest, weather.repeat) {
            course.again = Some(millis(&mut random, 1, 20_000));
        }
        if let Some(mut random) = happens(About::DelayRequest, weather.delay_request) {
            course.there += late(&mut random);
        }
        if let Some(mut random) = happens(About::DelayAnswer, weather.delay_answer) {
            course.back += late(&mut random);
        }
        if let Some(mut random) = happens(About::Reset, weather.reset) {
            course.reset = Some(millis(&mut random, 0, distance * 3));
        }
        if let Some(mut random) = happens(About::Refuse, weather.refuse) {
            course.refused = Some(refusal(&mut random));
        }
        if let Some(mut random) = happens(About::OddAnswer, weather.odd) {
            course.odd = Some(random.below(6));
        }
        if now < state.throttled.0 {
            let after = state.throttled.1.to_string();
            let mut answer = Answer::refused(503, "ServerBusy");
            answer.headers.push(("retry-after".to_owned(), after));
            course.refused = Some(answer);
            state.disturb(self.sidecar, now);
        }
        course
    }

    /// The answer as it travels: dated by a front end, or what became of it on its way.
    fn dressed(&self, answer: Answer, course: &Course) -> Carried {
        let ahead = self.world.plan().front_ends[course.front_end];
        let date = |at: UnixMillis| {
            let seconds = i64::try_from(at.seconds()).unwrap();
            to_rfc7231(&OffsetDateTime::from_unix_timestamp(seconds).unwrap())
        };
        let Answer { status, code, headers, body } = answer;
        let mut dressed = vec![
            ("x-ms-request-id".to_owned(), "world".to_owned()),
            ("x-ms-version".to_owned(), "2025-11-05".to_owned()),
            ("date".to_owned(), date(self.world.wall(ahead))),
        ];
        if !code.is_empty() {
            dressed.push(("x-ms-error-code".to_owned(), code.to_owned()));
        }
        for (name, value) in headers {
            let value = match name.as_str() {
                "last-modified" => {
                    let since = Duration::from_millis(value.parse().unwrap());
                    let now = self.world.wall(ahead).0;
                    let ago = self.world.now().saturating_sub(since);
                    let ago = u64::try_from(ago.as_millis()).unwrap();
                    date(UnixMillis(now.saturating_sub(ago)))
                }
                _ => value,
            };
            dressed.push((name, value));
        }
        let mut answer = (status, dressed);
        if let Some(how) = course.odd {
            mangle(how, &mut answer);
        }
        Carried::Answer { status: answer.0, headers: answer.1, body }
    }
}

fn late(random: &mut SeededRandom) -> Duration {
    let most = one_of(random, &[500, 4_000, 45_000]);
    millis(random, 1, most)
}

fn refusal(random: &mut SeededRandom) -> Answer {
    let (status, code) = one_of(
        random,
        &[
            (503, "ServerBusy"),
            (429, "TooManyRequests"),
            (500, "InternalError"),
            (500, "OperationTimedOut"),
            (408, ""),
        ],
    );
    Answer::refused(status, code)
}

/// Makes an answer one that does not count (S7): it says nothing of what was done.
fn mangle(how: u64, (status, headers): &mut (u16, Vec<(String, String)>)) {
    let mut without = |name: &str| headers.retain(|(other, _)| other != name);
    match how {
        0 => without("x-ms-lease-id"),
        1 => {
            without("x-ms-lease-id");
            let other = "00000000-0000-4000-8000-000000000000";
            headers.push(("x-ms-lease-id".to_owned(), other.to_owned()));
        }
        // A proxy's page.
        2 => {
            *status = 200;
            headers.clear();
        }
        3 => without("date"),
        4 => {
            without("x-ms-error-code");
            *status = 502;
        }
        _ => *status = 206,
    }
}

#[async_trait]
impl Wire for Link {
    async fn carry(&self, asked: Asked) -> Carried {
        let number = self.first + self.sent.fetch_add(1, Ordering::Relaxed);
        if !self.alive.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        let course = self.course(number, &asked);
        let what = describe(&asked);
        self.world.note(|| format!("{}→  #{number} {what}", self.sidecar));
        self.counted(&asked);
        {
            let now = self.world.now();
            let mut state = self.world.state();
            if now < state.cut_off[self.sidecar] {
                state.disturb(self.sidecar, now);
                return Carried::NotSent;
            }
        }
        let (send, answered) = tokio::sync::oneshot::channel();
        let reset = course.reset;
        let link = Arc::new(self.shallow());
        tokio::spawn(async move { link.travel(number, asked, course, send).await });
        let answered = async {
            match answered.await {
                Ok(carried) => carried,
                Err(_lost) => std::future::pending().await,
            }
        };
        match reset {
            None => answered.await,
            Some(after) => {
                let cut = tokio::time::timeout(after, answered).await;
                cut.unwrap_or(Carried::Broken)
            }
        }
    }
}

impl Link {
    fn shallow(&self) -> Self {
        let (world, alive) = (self.world.clone(), Arc::clone(&self.alive));
        Self { world, sidecar: self.sidecar, alive, first: 0, sent: AtomicU64::new(0) }
    }

    fn counted(&self, asked: &Asked) {
        let now = self.world.now();
        let name = &blob_name(asked);
        let mut state = self.world.state();
        let state = &mut *state;
        state.story.count("requests");
        let is_release = asked.header("x-ms-lease-action") == Some("release");
        if is_release && let Some(id) = asked.header("x-ms-lease-id") {
            state.service.release_asked(name, id);
        }
        let is_acquire = asked.header("x-ms-lease-action") == Some("acquire");
        let written = state.service.blob(name).map_or(now, |blob| blob.written);
        // It counts from when this sidecar learned of the write: nothing may have kept that from it.
        let calm = state.disturbed[self.sidecar].is_none_or(|at| at + MINUTE < now);
        let looked =
            state.checks.looked((self.sidecar, name), asked.method == "HEAD", (written, now));
        let quiet_from = looked + Duration::from_secs(self.world.plan().lease);
        let wrong = state.checks.requested(self.sidecar, name, now);
        let polled = match is_acquire && calm {
            true => state.checks.polled((self.sidecar, name), quiet_from, now),
            false => None,
        };
        let wrong = wrong.or(polled);
        if let Some(what) = wrong {
            state.story.note(now, || format!("VIOLATION   {what}"));
            state.checks.fail(what, now);
        }
    }

    async fn travel(
        &self,
        number: u64,
        asked: Asked,
        course: Course,
        send: tokio::sync::oneshot::Sender<Carried>,
    ) {
        tokio::time::sleep(course.there).await;
        if course.lost {
            return;
        }
        let answer = match &course.refused {
            Some(refused) => refused.clone(),
            None => self.arrive(number, &asked),
        };
        let mut send = Some(send);
        let carried = self.dressed(answer, &course);
        let again = async {
            if let Some(later) = course.again {
                tokio::time::sleep(later).await;
                self.arrive(number, &asked);
            }
        };
        let back = async {
            tokio::time::sleep(course.back).await;
            if let Some(send) = send.take()
                && !course.answer_lost
            {
                self.heard(&carried);
                let _ = send.send(carried);
            }
        };
        tokio::join!(back, again);
    }

    fn arrive(&self, number: u64, asked: &Asked) -> Answer {
        let now = self.world.now();
        let mut state = self.world.state();
        let state = &mut *state;
        let answer = state.service.handle(now, asked);
        if asked.target.contains("oauth2") {
            state.signed_in[self.sidecar] = now;
        }
        if asked.target.contains("restype=container")
            && answer.status == 201
            && state.seen[self.sidecar]
        {
            state.made_again[self.sidecar] = Some(now);
        }
        // S18: it grants nothing for a minute after it has learned that the container went, whoever made it again.
        if state.deleted && answer.code.starts_with("Container") {
            state.disturb(self.sidecar, now);
        }
        if let Some(blob) = refused_by_policy(&answer, asked) {
            self.watch_refused(blob, asked);
        }
        state.story.note(now, || {
            format!("  {}   #{number} answered {} {}", self.sidecar, answer.status, answer.code)
        });
        if !answer.code.is_empty() {
            state.story.count(format!("service: {}", answer.code));
        }
        answer
    }
}

/// How long after a write was refused by policy the lease must be on its way back.
const GIVEN_BACK: Duration = Duration::from_secs(6);

fn refused_by_policy(answer: &Answer, asked: &Asked) -> Option<String> {
    let refused = ["BlobArchived", "BlobImmutableDueToPolicy"].contains(&answer.code);
    refused.then(|| blob_name(asked))
}

impl Link {
    /// S8: a grant that cannot write its token gives its lease back.
    fn watch_refused(&self, blob: String, asked: &Asked) {
        let id = asked.header("x-ms-lease-id").unwrap_or_default().to_owned();
        let (world, alive, sidecar) = (self.world.clone(), Arc::clone(&self.alive), self.sidecar);
        let from = world.now();
        tokio::spawn(async move {
            tokio::time::sleep(GIVEN_BACK).await;
            let state = world.state();
            let given = state.service.given(&blob, &id);
            let abandoned = given.is_some_and(|given| {
                given.token.is_none() && !given.release_asked && given.ended.is_none()
            });
            let now = world.now();
            let stands = state.service.blob(&blob).is_some_and(|blob| {
                blob.lease.id() == Some(&*id) && blob.lease.state(now) == LeaseState::Leased
            });
            let disturbed = state.disturbed[sidecar].is_some_and(|at| at + GIVEN_BACK > from);
            drop(state);
            if abandoned && stands && !disturbed && alive.load(Ordering::Relaxed) {
                world.fail(format!(
                    "S8: {sidecar} left the lease {id} to run out: its write was refused by policy"
                ));
            }
        });
    }

    /// What the sidecar knows from now on.
    fn heard(&self, carried: &Carried) {
        if let Carried::Answer { status: 200..=202, headers, .. } = carried
            && headers.iter().any(|(name, _)| name == "etag")
            && self.alive.load(Ordering::Relaxed)
        {
            self.world.state().seen[self.sidecar] = true;
        }
    }
}

fn describe(asked: &Asked) -> String {
    let action = asked.header("x-ms-lease-action").unwrap_or_default();
    let id = asked.header("x-ms-proposed-lease-id").or_else(|| asked.header("x-ms-lease-id"));
    let id = id.map(|id| id.chars().take(8).collect::<String>()).unwrap_or_default();
    let name = blob_name(asked);
    let name = name.split('/').nth(3).unwrap_or(&name);
    let query = asked.target.split_once('?').map_or("", |(_, query)| query);
    format!("{} {name} {action} {id} {query}", asked.method)
}
