//! Runners whose function does not return when their run is lost: their streams stay, and they say nothing
//! (T24).

use std::time::Duration;

use leasehold::schedule::RunId;
use leasehold::scheduler::ScheduleEvent;
use leasehold::testing::SeededRandom;

use super::ending::{By, report};
use super::runner::{FOR_EVER, Runner};
use super::stream::Stream;
use crate::kit::millis;
use crate::world::sidecar::{End, Sidecar};

/// How long a function may hang that returns at some time, in milliseconds.
const LONG: u64 = 400_000;

/// What has ended its silence.
enum Woken {
    Returned,
    Told,
    Over,
}

impl Runner {
    /// Hangs, and then says how its run ended, here or elsewhere, or goes; where it waits for the next run,
    /// if it does.
    pub(super) async fn hangs(
        &self,
        (sidecar, mut stream): (Sidecar, Stream),
        id: &RunId,
        random: &mut SeededRandom,
    ) -> Option<(Sidecar, Stream)> {
        let world = &self.client.world;
        world.state().schedules.count("hung");
        self.client.note(|| format!("hangs after {} of {}", id.occasion, id.token));
        // Some never return: one of each schedule does.
        let never = self.client.index >= world.plan().locks && random.chance(500);
        let span = if never { FOR_EVER } else { millis(random, 1_000, LONG) };
        match self.is_silent(&mut stream, id, span).await {
            Woken::Returned => {}
            Woken::Told => {
                stream.end(self.how_seen(&sidecar));
                return None;
            }
            Woken::Over => {
                world.state().schedules.count("hung to the end");
                stream.end(End::Closed);
                return None;
            }
        }
        world.state().schedules.count("hung, and spoke");
        match random.below(4) {
            0 => {
                stream.end(self.how_seen(&sidecar));
                return None;
            }
            1 => {
                let other = self.client.pick(random);
                self.complete(&other, By::late(id), report(random)).await;
            }
            _ => {
                self.complete(&sidecar, By::late(id), report(random)).await;
            }
        }
        Some((sidecar, stream))
    }

    /// Reads what it is told for this long: no run is among it.
    async fn is_silent(&self, stream: &mut Stream, id: &RunId, span: Duration) -> Woken {
        let mut over = self.over.clone();
        let returns = tokio::time::sleep(span);
        tokio::pin!(returns);
        loop {
            let event = tokio::select! {
                biased;
                event = stream.next() => event,
                _ = over.wait_for(|over| *over) => return Woken::Over,
                () = &mut returns => return Woken::Returned,
            };
            match event {
                Some(ScheduleEvent::Run(run)) => {
                    let next = &run.told.run_id;
                    let what = format!("T24: {next:?} is given to who has not spoken of {id:?}");
                    self.client.world.fail(what);
                    return Woken::Told;
                }
                Some(ScheduleEvent::Failed(_)) | None => return Woken::Told,
                Some(_) => {}
            }
        }
    }
}
