//! Asks for a lock, and waits for it through what happens to the connection.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tonic::Status;

use super::held::Hold;
use super::keeper::Keeper;
use super::line::{HoldStream, Line, start};
use super::state::HoldState;
use super::{HoldEvent, Loss};
use crate::boot_clock::BootInstant;
use crate::client::{Client, Outcome};
use crate::constants::{FIRST_PAUSE, LONGEST_PAUSE};
use crate::errors::Error;
use crate::messages::{Busy, Grant, LeaseSpec, LossReason, Waiting};
use crate::proto;
use crate::proto::hold_lease_request::Start;
use crate::proto::hold_lease_response::Event;

pub(crate) type Events = Option<UnboundedSender<HoldEvent>>;

/// Asks for the lock until the spec's wait is over, also where a sidecar is too old for what is asked (S37).
/// One that was never heard of is an error at once, unless `was_answered` says that it was before.
pub(super) async fn open(
    client: Client,
    mut spec: LeaseSpec,
    events: Events,
    mut was_answered: bool,
) -> Result<Outcome<Hold>, Error> {
    let end = (!spec.wait_without_end).then(|| client.clock.now() + spec.wait);
    let mut pause = FIRST_PAUSE;
    loop {
        let waiting = |waiting: Waiting| {
            tell(&events, HoldEvent::Waiting(Box::new(waiting)));
        };
        let mut heard = false;
        let error = match ask(&client, spec.clone(), &mut heard, waiting).await {
            Ok(outcome) => {
                return Ok(outcome
                    .map(|(grant, state, stream)| hold_of(&client, grant, state, stream, events)));
            }
            Err(error) => error,
        };
        was_answered |= heard;
        if heard {
            pause = FIRST_PAUSE;
        }
        if !(was_answered && error.is_break() || error.is_below_needs()) {
            return Err(error);
        }
        let now = client.clock.now();
        if end.is_some_and(|end| now + pause >= end) {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        if let Some(end) = end {
            spec.wait = end.saturating_since(client.clock.now());
        }
    }
}

type Granted = (proto::Grant, HoldState, HoldStream);

/// Asks once; `heard` says whether the sidecar put the caller into its queue.
async fn ask(
    client: &Client,
    spec: LeaseSpec,
    heard: &mut bool,
    waiting: impl Fn(Waiting),
) -> Result<Outcome<Granted>, Error> {
    let refused = |status: Status| client.error(&status);
    let was_named = spec.occurrence_at.is_some();
    let sent = client.clock.now();
    let mut stream = start(client, Start::Spec(spec.into_wire())).await.map_err(refused)?;
    let grant = loop {
        match stream.next(client.settings.silence).await.map_err(refused)? {
            Event::Granted(grant) => break grant,
            Event::Busy(busy) => {
                return Ok(Outcome::Busy(Box::new(Busy::from_wire(busy))));
            }
            Event::AlreadyDone(done) => return Outcome::already_done(done, was_named),
            Event::Skipped(skipped) => return Outcome::skipped(&skipped, was_named),
            Event::Lost(lost) => return Err(Error::Lost(Loss::from_wire(lost))),
            Event::Waiting(place) => {
                *heard = true;
                waiting(Waiting::from_wire(place));
            }
            Event::Renewed(_)
            | Event::AtRisk(_)
            | Event::Recovered(_)
            | Event::Draining(_)
            | Event::Revoked(_)
            | Event::Released(_) => {}
        }
    };
    let state = believe(&client.of_hold(stream.calls()), &grant, sent).await?;
    Ok(Outcome::Granted((grant, state, stream)))
}

/// What a grant that answers a request sent at `sent` is worth here.
///
/// # Errors
/// [`Error::Lost`] if its validity is over.
pub(crate) async fn believe(
    client: &Client,
    grant: &proto::Grant,
    sent: BootInstant,
) -> Result<HoldState, Error> {
    let (validity, max_hold_ends) = (grant.validity.as_ref(), grant.max_hold_ends.as_ref());
    let clock = Arc::clone(&client.clock);
    let state = HoldState::granted(clock, grant, validity, max_hold_ends, sent);
    let state = ask_first(client, grant, state).await?;
    if !state.is_valid() {
        let late = Loss::new(LossReason::Expired, "the grant came too late");
        return Err(Error::Lost(state.loss().unwrap_or(late)));
    }
    Ok(state)
}

/// Starts the task that keeps the hold.
pub(crate) fn hold_of(
    client: &Client,
    grant: proto::Grant,
    state: HoldState,
    line: impl Line,
    events: Events,
) -> Hold {
    let (stream_end, ended) = oneshot::channel();
    let (client, state) = (client.of_hold(line.calls()), Arc::new(state));
    let keeper = Keeper {
        client: client.clone(),
        state: Arc::clone(&state),
        line,
        lease_id: grant.lease_id.clone(),
        fencing_token: grant.fencing_token,
        events,
    };
    keeper.start(ended);
    Hold::new(client, Grant::from_wire(grant), state, stream_end)
}

/// S21: elsewhere than on the sidecar's kernel the grant's validity counts from before the request, and a
/// wait may have used it up. Then it is asked for anew.
async fn ask_first(
    client: &Client,
    grant: &proto::Grant,
    state: HoldState,
) -> Result<HoldState, Error> {
    let Some(due) = state.next_question() else {
        return Ok(state);
    };
    let asked = state.now();
    if asked < due {
        return Ok(state);
    }
    let held = client.ask_hold(grant.lease_id.clone(), grant.generation).await?;
    let (validity, max_hold_ends) = (held.validity.as_ref(), held.max_hold_ends.as_ref());
    let clock = Arc::clone(&client.clock);
    Ok(HoldState::granted(clock, grant, validity, max_hold_ends, asked))
}

pub(super) fn tell(events: &Events, event: HoldEvent) {
    if let Some(events) = events {
        // Nobody listens any more: nothing is lost by that.
        let _gone = events.send(event);
    }
}
