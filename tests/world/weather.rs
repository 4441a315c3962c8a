//! What the network and the service's front ends do to a request and to its answer.

use std::time::Duration;

use azure_core::time::{OffsetDateTime, to_rfc7231};
use leasehold::testing::{Asked, Carried, SeededRandom};
use leasehold::time::UnixMillis;

use crate::kit::{millis, one_of};
use crate::world::chance::About;
use crate::world::link::Link;
use crate::world::service::Answer;

/// What becomes of a request.
#[derive(Debug, Default)]
pub(crate) struct Course {
    pub(crate) there: Duration,
    pub(crate) back: Duration,
    pub(crate) again: Option<Duration>,
    pub(crate) lost: bool,
    pub(crate) answer_lost: bool,
    /// The connection breaks after this time.
    pub(crate) reset: Option<Duration>,
    pub(crate) refused: Option<Answer>,
    /// What is refused was done all the same (S8).
    pub(crate) done: bool,
    pub(crate) odd: Option<u64>,
    pub(crate) front_end: usize,
}

impl Link {
    pub(crate) fn course(&self, number: u64, asked: &Asked) -> Course {
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
        // The identity endpoint is well.
        if state.calm || asked.target.contains("oauth2") {
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
        if course.refused.is_some() {
            let done = state.chance.fault(About::DoneRefused, (self.sidecar, number), 200);
            course.done = done.is_some();
        }
        course
    }

    /// The answer as it travels: dated by a front end, or what became of it on its way.
    pub(crate) fn dressed(&self, answer: Answer, course: &Course) -> Carried {
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
