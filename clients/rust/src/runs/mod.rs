//! Taking part in a schedule: a stream of the runs that fall to this caller.
//!
//! Rules: T2 (a run may be repeated until its outcome is recorded), T8 (completion), T16 (a reconnected
//! subscriber replaces no definition), S13, S14, S16 (a run is a hold, on a stream that outlives it), S37.
//!
//! [`Runs`] subscribes, `run.rs` is one run, `line.rs` its hold's life line on the stream, `every.rs` runs a
//! closure on each.

mod every;
#[cfg(test)]
mod every_tests;
mod line;
mod run;
mod schedules;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::Status;

use crate::boot_clock::BootInstant;
use crate::client::Client;
use crate::constants::{FIRST_PAUSE, LONGEST_PAUSE, LONGEST_RUN_PAUSE};
use crate::errors::Error;
use crate::hold::lead::passes;
use crate::hold::{Message, Stream, silent};
use crate::messages::{DefinitionInForce, Standby, Subscription, UnderstoodSchedule, duration};
use crate::proto::subscribe_schedule_response::Event;
use crate::proto::{self, SubscribeScheduleRequest, SubscribeScheduleResponse};
use crate::revisions::Needs as _;

pub use run::Run;

impl Client {
    /// Takes part in a schedule, beginning with the first [`next`](Runs::next): a stream of the runs that
    /// fall to this caller. [`every`](Self::every) runs a closure on each.
    ///
    /// ```no_run
    /// # use leasehold_client::{Client, Error, ScheduleSpec, Subscription};
    /// # async fn report(_of: std::time::SystemTime) {}
    /// # async fn sample(client: Client) -> Result<(), Error> {
    /// let spec = ScheduleSpec::cron("30 2 * * *").in_zone("Europe/Copenhagen");
    /// let mut runs = client.runs(Subscription::new("nightly", spec));
    /// loop {
    ///     let run = runs.next().await?;
    ///     tokio::select! {
    ///         () = report(run.scheduled_at()) => drop(run.succeeded().await?),
    ///         loss = run.lost() => println!("{loss}: somebody else may run it now"),
    ///     }
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn runs(&self, subscription: Subscription) -> Runs {
        Runs {
            client: self.clone(),
            subscription: Arc::new(subscription),
            tells: Tells { schedule: None, holds: false },
            place: Place::Away,
            granted: None,
            understood: None,
            standby: None,
            pause: FIRST_PAUSE,
        }
    }
}

/// What happens to a subscription between runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ScheduleEvent {
    /// The sidecar has understood the schedule, at the beginning and after each time that it was away.
    Subscribed(UnderstoodSchedule),
    /// The caller waits for an occurrence. Repeated when something of it changes, and at least every 30 s.
    Standby(Standby),
    /// Another definition is in force than this caller's.
    DefinitionInForce(DefinitionInForce),
    /// The sidecar is shutting down: nothing new starts there.
    Draining {
        /// How long it still waits for runs that go on.
        time_left: Duration,
    },
    /// The stream to the sidecar broke, and is asked for anew.
    Interrupted {
        /// What happened, for people.
        detail: String,
    },
}

/// The runs of a schedule that fall to this caller. Dropped, it takes no part any more; a run that goes on
/// may finish.
///
/// Ask for the next run soon after one has ended: a run that was granted and that nobody asks for goes on
/// until its deadline.
#[derive(Debug)]
pub struct Runs {
    client: Client,
    subscription: Arc<Subscription>,
    tells: Tells,
    place: Place,
    /// A run that has come, and was not yet given out.
    granted: Option<Box<proto::Run>>,
    understood: Option<UnderstoodSchedule>,
    standby: Option<Standby>,
    pause: Duration,
}

/// Who is told what.
#[derive(Clone, Debug)]
struct Tells {
    schedule: Option<UnboundedSender<ScheduleEvent>>,
    /// Whether each run has the events of its hold.
    holds: bool,
}

/// Where the stream is.
#[derive(Debug)]
enum Place {
    /// There is none.
    Away,
    /// There is none, and the next try is at that moment, whoever asks for it meanwhile.
    Pausing(Pin<Box<tokio::time::Sleep>>),
    Here(Box<Subscribed>),
    /// With a run, which sends it back when it is over if it can go on.
    Running(UnboundedReceiver<Subscribed>),
}

/// A SubscribeSchedule call that was answered.
#[derive(Debug)]
struct Subscribed {
    stream: Stream<SubscribeScheduleResponse>,
    /// When it was sent.
    sent: BootInstant,
}

impl Message for SubscribeScheduleResponse {
    type Event = Event;

    fn event(self) -> Option<Event> {
        self.event
    }
}

impl Subscribed {
    async fn start(client: &Client, mut request: SubscribeScheduleRequest) -> Result<Self, Status> {
        request.needs = request.needs();
        let sent = client.clock.now();
        let mut lane = client.lane();
        let asking = lane.calls.schedules.subscribe_schedule(request);
        let asked = tokio::time::timeout(client.settings.silence, asking).await;
        let answer = asked.unwrap_or_else(|_elapsed| Err(silent()));
        let stream = lane.look_at(answer)?.into_inner();
        Ok(Self { stream: Stream::new(stream, lane), sent })
    }
}

/// When the sidecar says that asking again is worth while, if it does: not long.
fn retry_after(error: &Error) -> Option<Duration> {
    let Error::Refused(refusal) = error else { return None };
    refusal.retry_after.map(|after| after.min(LONGEST_PAUSE))
}

impl Tells {
    fn tell(&self, event: ScheduleEvent) {
        if let Some(events) = &self.schedule {
            // Nobody listens any more: nothing is lost by that.
            let _gone = events.send(event);
        }
    }
}

impl Runs {
    /// Sends what happens between runs to `events`.
    #[must_use]
    pub fn events(mut self, events: UnboundedSender<ScheduleEvent>) -> Self {
        self.tells.schedule = Some(events);
        self
    }

    /// Gives each run the events of its hold: see [`Run::take_events`].
    #[must_use]
    pub const fn with_hold_events(mut self) -> Self {
        self.tells.holds = true;
        self
    }

    /// How the sidecar has understood the schedule. `None` before it has said so.
    #[must_use]
    pub const fn understood(&self) -> Option<&UnderstoodSchedule> {
        self.understood.as_ref()
    }

    /// What is waited for, as it was last told while no run went on here.
    #[must_use]
    pub const fn standby(&self) -> Option<&Standby> {
        self.standby.as_ref()
    }

    /// The next run, as long as that takes; waits for the end of the one before. Where the sidecar restarts
    /// or the connection breaks, this subscribes again. May be dropped and called again: nothing is missed by
    /// that.
    ///
    /// # Errors
    /// [`Error::Refused`], with [`Reason::Unsupported`](crate::Reason::Unsupported) if the sidecar is older
    /// than schedules, and [`Reason::InvalidField`](crate::Reason::InvalidField) for a spec that is not
    /// valid. One that cannot be reached is an error only before it was heard of. Calling this again
    /// subscribes again.
    pub async fn next(&mut self) -> Result<Run, Error> {
        loop {
            if let Some(run) = self.take_up().await? {
                return Ok(run);
            }
            let heard = match &mut self.place {
                Place::Running(back) => {
                    let back = back.recv().await;
                    self.place = back.map_or(Place::Away, |back| Place::Here(Box::new(back)));
                    continue;
                }
                Place::Pausing(pause) => {
                    pause.await;
                    self.place = Place::Away;
                    continue;
                }
                Place::Away => match self.subscribe().await {
                    Ok(()) => continue,
                    Err(status) => Err(status),
                },
                Place::Here(here) => here.stream.next(self.client.settings.silence).await,
            };
            match heard {
                Ok(event) => self.hear(event),
                Err(status) => self.interrupted(&status).await?,
            }
        }
    }

    async fn subscribe(&mut self) -> Result<(), Status> {
        // T16: who was understood before is no new subscriber.
        let reconnected = self.understood.is_some();
        let request = SubscribeScheduleRequest { reconnected, ..self.subscription.to_wire() };
        let subscribed = Subscribed::start(&self.client, request).await?;
        self.place = Place::Here(Box::new(subscribed));
        Ok(())
    }

    /// Takes in an event between runs.
    fn hear(&mut self, event: Event) {
        match event {
            Event::Standby(standby) => self.stand_by(standby),
            Event::Run(run) => self.granted = Some(Box::new(run)),
            Event::DefinitionInForce(definition) => {
                let definition = DefinitionInForce::from_wire(definition);
                self.tells.tell(ScheduleEvent::DefinitionInForce(definition));
            }
            Event::Draining(draining) => {
                let time_left = duration(draining.time_left.as_ref());
                self.tells.tell(ScheduleEvent::Draining { time_left });
            }
            // Of a run that is over.
            Event::Renewed(_)
            | Event::AtRisk(_)
            | Event::Recovered(_)
            | Event::Revoked(_)
            | Event::Lost(_)
            | Event::Recorded(_) => {}
        }
    }

    fn stand_by(&mut self, mut standby: proto::Standby) {
        if let Some(understood) = standby.understood.take() {
            let understood = UnderstoodSchedule::from_wire(understood);
            self.tells.tell(ScheduleEvent::Subscribed(understood.clone()));
            self.understood = Some(understood);
        }
        self.pause = FIRST_PAUSE;
        let standby = Standby::from_wire(standby);
        self.tells.tell(ScheduleEvent::Standby(standby.clone()));
        self.standby = Some(standby);
    }

    /// Puts the next try off for a little.
    async fn interrupted(&mut self, status: &Status) -> Result<(), Error> {
        self.place = Place::Away;
        let error = self.client.knowing("schedules", self.client.error(status)).await;
        let passes = self.understood.is_some() && passes(&error);
        if !passes && !error.is_below_needs() {
            return Err(error);
        }
        self.tells.tell(ScheduleEvent::Interrupted { detail: error.to_string() });
        let pause = retry_after(&error).unwrap_or(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_RUN_PAUSE);
        self.place = Place::Pausing(Box::pin(tokio::time::sleep(pause)));
        Ok(())
    }

    /// Gives out a run that has come, if it can still be run. One that is not has its place taken by another
    /// replica.
    async fn take_up(&mut self) -> Result<Option<Run>, Error> {
        let (Some(wire), Place::Here(here)) = (self.granted.as_deref(), &self.place) else {
            return Ok(None);
        };
        // Calls about the run go where its stream is.
        let client = self.client.of_hold(here.stream.calls());
        let believed = run::believe(&client, wire, here.sent).await;
        let (granted, place) =
            (self.granted.take(), std::mem::replace(&mut self.place, Place::Away));
        let (Some(wire), Place::Here(here)) = (granted, place) else { return Ok(None) };
        match believed {
            Ok(state) => {
                let (sender, back) = unbounded_channel();
                self.place = Place::Running(back);
                let tells = self.tells.clone();
                let line = line::RunLine::new(*here, &wire, &self.subscription, sender, tells);
                Ok(Some(Run::start(&client, *wire, state, line)?))
            }
            Err(Error::Protocol(problem)) => Err(Error::Protocol(problem)),
            // Its validity is over, or cannot be learned.
            Err(_) => {
                self.place = Place::Here(here);
                run::give_back(&client, &wire).await;
                Ok(None)
            }
        }
    }
}
