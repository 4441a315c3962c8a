//! A sidecar's way to the service: what the Azure adapter sends goes through here, and some of it is lost,
//! late, repeated, refused or answered by something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use leasehold::testing::{Asked, Carried, Wire};

use crate::world::hand_over;
use crate::world::lease::State as LeaseState;
use crate::world::schedules;
use crate::world::service::{Answer, blob_name};
use crate::world::shared::{State, World};
use crate::world::weather::Course;

/// The longest that a request or an answer may be under way.
pub(crate) const LATEST: Duration = Duration::from_secs(45);

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) world: World,
    pub(crate) sidecar: usize,
    life: u32,
    /// The sidecar runs: what a dead one sends goes nowhere.
    alive: Arc<AtomicBool>,
    /// Requests before this sidecar's first.
    first: u64,
    sent: AtomicU64,
}

impl Link {
    pub(crate) fn new(world: &World, sidecar: usize, life: u32, alive: Arc<AtomicBool>) -> Self {
        let first = u64::from(life) * 100_000;
        Self { world: world.clone(), sidecar, life, alive, first, sent: AtomicU64::new(0) }
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
        let _waited_for = is_acquire(&asked).then(|| WaitedFor::new(self, &asked));
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
        Self {
            world,
            sidecar: self.sidecar,
            life: self.life,
            alive,
            first: 0,
            sent: AtomicU64::new(0),
        }
    }

    fn counted(&self, asked: &Asked) {
        let now = self.world.now();
        let name = &blob_name(asked);
        let mut state = self.world.state();
        let state = &mut *state;
        state.story.count("requests");
        if asked.target.contains("oauth2") {
            state.signing_in[self.sidecar] = Some(now);
        }
        let mut wrong = None;
        let is_release = asked.header("x-ms-lease-action") == Some("release");
        if is_release && let Some(id) = asked.header("x-ms-lease-id") {
            let condition = asked.header("if-match");
            wrong = hand_over::releases(state, self.sidecar, (name, id), condition, now);
            state.service.release_asked(name, id);
        }
        let place = (self.sidecar, &**name);
        if is_release {
            state.checks.costs.gives_up(self.life, place);
        }
        let costly = state.checks.costs.sends(place, now);
        wrong = wrong.or(costly);
        if is_acquire(asked) {
            wrong = wrong.or_else(|| state.checks.costs.begins(self.life, place));
        }
        if asked.target.contains("comp=metadata")
            && let Some(id) = lease_id(asked)
        {
            state.first_writes.entry((name.clone(), id.to_owned())).or_insert(now);
        }
        if let Some(id) = lease_id(asked).filter(|_| !is_release) {
            let asked = state.asked.entry((self.sidecar, name.clone())).or_default();
            asked.insert(id.to_owned(), now);
        }
        if let Some(what) = wrong {
            state.fail(what, now);
        }
    }

    async fn travel(
        &self,
        number: u64,
        asked: Asked,
        course: Course,
        send: tokio::sync::oneshot::Sender<Carried>,
    ) {
        let seen = self.world.state().seen[self.sidecar];
        tokio::time::sleep(course.there).await;
        if course.lost {
            return;
        }
        let answer = match &course.refused {
            Some(refused) if course.done => {
                self.arrive(number, &asked);
                refused.clone()
            }
            Some(refused) => {
                self.turned_away(number, &asked);
                refused.clone()
            }
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
                let counts = course.odd.is_none();
                if send.send(carried.clone()).is_ok() {
                    self.learned(&asked, &carried, (counts, seen));
                }
            }
        };
        tokio::join!(back, again);
    }

    /// A front end refuses a request, which is as good as having had it: a copy that comes later is a
    /// repetition (S27).
    fn turned_away(&self, number: u64, asked: &Asked) {
        if asked.target.contains("comp=metadata") {
            self.world.state().service.saves.turned_away(&blob_name(asked), (asked, number));
        }
    }

    fn arrive(&self, number: u64, asked: &Asked) -> Answer {
        let now = self.world.now();
        let mut state = self.world.state();
        let state = &mut *state;
        let mistaken = schedules::without_condition(self.world.scene(), state, asked, now);
        let answer = state.service.handle(now, mistaken.as_ref().unwrap_or(asked));
        if asked.header("x-ms-lease-action") == Some("renew")
            && answer.status == 200
            && let Some(id) = lease_id(asked)
        {
            state.hand_overs.renewed(id, now);
        }
        if asked.target.contains("oauth2") {
            state.signed_in[self.sidecar] = now;
        }
        if answer.status == 401 && now < state.signed_in[self.sidecar] + FETCHED_AGAIN {
            state.signed_in_vain[self.sidecar] = Some(now);
        }
        if asked.target.contains("comp=metadata")
            && let Err(what) = state.service.saves.arrived(
                &blob_name(asked),
                (asked, number),
                answer.status == 200,
            )
        {
            state.fail(what, now);
        }
        if let Some(what) = state.service.wrong_break.take() {
            state.fail(what, now);
        }
        let made = asked.target.contains("restype=container") && answer.status == 201;
        // S18: it grants nothing for a minute after it has learned that the container went, whoever made it
        // again.
        if state.deleted && (made || answer.code.starts_with("Container")) {
            state.gone[self.sidecar] = Some(now);
        }
        let name = blob_name(asked);
        schedules::arrived(&self.world, state, (asked, &name), &answer);
        state.checks.costs.answered(
            (self.sidecar, &name),
            (asked, &answer),
            (self.world.lease(), now),
        );
        self.races(state, (asked, &name), &answer);
        if answer.code == "LeaseAlreadyPresent"
            && let Some(what) =
                state.checks.costs.polls((self.sidecar, &name), self.world.lease(), now)
        {
            state.fail(what, now);
        }
        // S17: two are possible until the old holder cannot believe any more.
        if asked.header("x-ms-lease-break-period").is_some() && answer.status == 202 {
            let lease = state.lease + state.lease / 100;
            state.checks.excuse(&name, now + lease);
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

impl Link {
    /// Counts how making a lock and leasing it crosses with others who do the same (S5, S18).
    fn races(&self, state: &mut State, (asked, name): (&Asked, &str), answer: &Answer) {
        let place = (self.sidecar, name.to_owned());
        match (answer.status, answer.code) {
            (201, _) if asked.header("if-none-match").is_some() => {
                state.made.insert(place);
            }
            (_, "BlobAlreadyExists" | "LeaseIdMissing") => {
                state.story.count("raced: made by another");
            }
            (_, "LeaseAlreadyPresent") if state.made.remove(&place) => {
                state.story.count("raced: leased by another");
            }
            _ if is_acquire(asked) => {
                state.made.remove(&place);
            }
            _ => {}
        }
    }
}

/// How soon after a token another is fetched, by any clock and with its way.
const FETCHED_AGAIN: Duration = Duration::from_millis(1_200);
/// A request whose course was not disturbed within this is known to its sidecar (S7).
const SETTLED: Duration = Duration::from_secs(6);
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

    /// What the sidecar was told while it waited for it. An odd answer may count or not; and whether it had
    /// `seen` the container when it asked.
    fn learned(&self, asked: &Asked, carried: &Carried, (counts, seen_before): (bool, bool)) {
        let Carried::Answer { status, headers, .. } = carried else { return };
        if !self.alive.load(Ordering::Relaxed) {
            return;
        }
        let (now, name) = (self.world.now(), blob_name(asked));
        let mut state = self.world.state();
        let state = &mut *state;
        if asked.target.contains("oauth2") && *status == 200 {
            state.signing_in[self.sidecar] = None;
        }
        // S18: a container that it had seen, and makes again.
        let made = asked.target.contains("restype=container") && *status == 201;
        if made && counts && seen_before {
            state.made_again[self.sidecar] = Some(now);
        }
        let seen = matches!(status, 200..=202) && headers.iter().any(|(name, _)| name == "etag");
        state.seen[self.sidecar] |= seen && counts;
        let place = (self.sidecar, &*name);
        match status {
            200 if asked.method == "HEAD" => {
                let etag = headers.iter().find(|(name, _)| name == "etag");
                if let Some((_, etag)) = etag {
                    let calm = state.disturbed[self.sidecar].is_none_or(|at| at + SETTLED < now);
                    state.checks.costs.saw(place, etag, calm && counts, now);
                }
            }
            404 | 409 if !is_acquire(asked) => {
                state.checks.costs.forgets(place);
                let is_release = asked.header("x-ms-lease-action") == Some("release");
                let named = headers.iter().any(|(name, _)| name == "x-ms-error-code");
                if is_release
                    && counts
                    && named
                    && let Some(given) =
                        lease_id(asked).and_then(|id| state.service.given_mut(&name, id))
                    && given.releases == 1
                {
                    given.release_refused = true;
                }
            }
            _ => {}
        }
    }
}

/// An acquire that is waited for.
struct WaitedFor {
    world: World,
    life: u32,
    sidecar: usize,
    path: String,
}

impl WaitedFor {
    fn new(link: &Link, asked: &Asked) -> Self {
        let (world, path) = (link.world.clone(), blob_name(asked));
        Self { world, life: link.life, sidecar: link.sidecar, path }
    }
}

impl Drop for WaitedFor {
    fn drop(&mut self) {
        self.world.state().checks.costs.ends(self.life, (self.sidecar, &self.path));
    }
}

fn is_acquire(asked: &Asked) -> bool {
    asked.header("x-ms-lease-action") == Some("acquire")
}

fn lease_id(asked: &Asked) -> Option<&str> {
    asked.header("x-ms-proposed-lease-id").or_else(|| asked.header("x-ms-lease-id"))
}

fn describe(asked: &Asked) -> String {
    let action = asked.header("x-ms-lease-action").unwrap_or_default();
    let id = lease_id(asked).map(|id| id.chars().take(8).collect::<String>()).unwrap_or_default();
    let name = blob_name(asked);
    let name = name.split('/').nth(3).unwrap_or(&name);
    let query = asked.target.split_once('?').map_or("", |(_, query)| query);
    format!("{} {name} {action} {id} {query}", asked.method)
}
