//! How a client goes on with its hold at another sidecar, or at the replacement of its own (S15, S16).

use std::time::Duration;

use leasehold::coordinator::{CallError, ResumeRequest, StoreFailureKind};
use leasehold::lock::LockPath;
use leasehold::testing::SeededRandom;

use crate::kit::millis;
use crate::world::client::{Begun, Client, Holding, PATIENCE};
use crate::world::holding::close;
use crate::world::sidecar::Sidecar;
use crate::world::trouble;

/// What came of a try.
enum Tried {
    GoesOn(Box<Holding>),
    /// The sidecar is being replaced.
    ComeAgain,
    Over,
}

/// What stays the same in all tries.
struct Moving {
    path: LockPath,
    token: u64,
    request: ResumeRequest,
    /// Where it was.
    from: Sidecar,
    renews: bool,
    /// The saves that its checkpoint came of, as its client knows them.
    log: Vec<u32>,
}

/// Whether a sidecar says that it is being replaced (S15).
pub(crate) fn is_to_come_again(error: &CallError) -> bool {
    matches!(error, CallError::StoreFailure(failure) if failure.kind == StoreFailureKind::ShuttingDown)
}

impl Client {
    /// Goes on with its hold at the same or another sidecar (S16), as long as it believes.
    pub(crate) async fn resume(
        &self,
        holding: Holding,
        random: &mut SeededRandom,
    ) -> Option<Holding> {
        let mut to = self.pick(random);
        if trouble::is_left_out("Moves") {
            to = self.world.sidecar(holding.sidecar.index);
        }
        let Holding { sidecar: from, stream, path, token, resume_token, told, renews, log, .. } =
            holding;
        stream?.breaks(millis(random, 0, 15_000));
        let attempt_id = format!("{}-{}", self.index, random.below(1 << 40));
        let request =
            ResumeRequest { resume_token, attempt_id, told_valid_until: told, trace_context: None };
        let moving = Moving { path, token, request, from, renews, log };
        loop {
            match self.try_to_resume(&moving, &to, random).await {
                Tried::GoesOn(holding) => return Some(*holding),
                Tried::ComeAgain if self.believes_in(&moving.path) => {}
                Tried::ComeAgain | Tried::Over => return None,
            }
            tokio::time::sleep(millis(random, 100, 1_000)).await;
            to = self.pick(random);
        }
    }

    fn believes_in(&self, path: &LockPath) -> bool {
        let until = self.world.state().checks.believed_until(path, self.index);
        until.is_some_and(|until| self.world.now() < until)
    }

    async fn try_to_resume(
        &self,
        moving: &Moving,
        to: &Sidecar,
        random: &mut SeededRandom,
    ) -> Tried {
        let Moving { path, token, request, from, renews, log } = moving;
        let told_valid_until =
            request.told_valid_until.clone().filter(|_| self.home == Some(to.index));
        let request = ResumeRequest { told_valid_until, ..request.clone() };
        if to.index != from.index {
            *self.world.state().dated.entry((path.clone(), *token)).or_default() += 1;
        }
        let asked = self.world.now();
        self.note(|| format!("resumes {token} at {}", to.index));
        let begun = to.call_surely(self.index, async { to.resume(&request, path, *token) }).await;
        let mut stream = match begun {
            None => return Tried::Over,
            Some(Ok(stream)) => stream,
            Some(Err(error)) => return self.refused(*token, &error),
        };
        // Without an answer it neither releases nor cancels: the hold may go on there, or runs out.
        let patience = to.loses_reply(self.index).unwrap_or(PATIENCE);
        let begun = tokio::time::timeout(patience, self.begun(&mut stream)).await;
        let grant = match begun {
            Ok(Begun::Granted(grant)) => grant,
            Ok(Begun::Over) => {
                self.world.state().checks.believes_no_more(path, self.index);
                close(Some(stream));
                return Tried::Over;
            }
            Ok(Begun::ComeAgain) => {
                stream.breaks(Duration::ZERO);
                return Tried::ComeAgain;
            }
            Ok(Begun::Gone) | Err(_) => {
                stream.breaks(millis(random, 0, 5_000));
                return Tried::Over;
            }
        };
        let mut resumed = self.holding(to, Some(stream), &grant);
        resumed.renews = *renews;
        resumed.log.clone_from(log);
        let moves = to.index != from.index || to.life != from.life;
        resumed.left = Some(from.clone()).filter(|_| moves);
        self.believe(&mut resumed, &grant.validity, asked);
        Tried::GoesOn(Box::new(resumed))
    }

    fn refused(&self, token: u64, error: &CallError) -> Tried {
        if matches!(error, CallError::TooManyHolds { .. } | CallError::TooManyWaiters { .. }) {
            self.world.fail(format!("S16: a limit refuses to resume {token}: {error}"));
        }
        if is_to_come_again(error) { Tried::ComeAgain } else { Tried::Over }
    }
}
