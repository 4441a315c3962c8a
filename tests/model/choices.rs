//! What can happen next.

use crate::model::rules::{Mistake, Rules};
use crate::model::run::Action;
use crate::model::state::{BreakStage, MOVER, Phase, SIDECARS, Stage, World};

/// Whether this sidecar has the moving client's hold, though its stream is not here.
fn has_no_stream(world: &World, at: usize) -> bool {
    let sidecar = &world.sidecars[at];
    sidecar.phase == Phase::Held && sidecar.holder == MOVER && world.mover.stream != Some(at)
}

fn of_the_mover(world: &World, found: &mut Vec<Action>) {
    let (client, mover, budget) = (&world.clients[MOVER], &world.mover, &world.budget);
    if mover.awaiting.is_some() {
        found.push(Action::StopsWaiting);
    }
    if client.stage != Stage::Holding || client.until == 0 {
        return;
    }
    if mover.stream.is_some() {
        found.push(Action::Close);
        if budget.cuts > 0 {
            found.push(Action::Cut);
        }
    }
    for to in SIDECARS {
        let can_resume = mover.stream.is_none() && mover.awaiting.is_none();
        if can_resume && budget.resumes > 0 {
            found.push(Action::Resume(to));
        }
        // S16: who does not know the answer to a resume neither releases nor cancels.
        if !mover.unsure {
            found.push(Action::Release(to));
        }
    }
}

fn of_a_sidecar(world: &World, rules: &Rules, at: usize, found: &mut Vec<Action>) {
    let (sidecar, budget) = (&world.sidecars[at], &world.budget);
    match (&sidecar.exchange, sidecar.phase) {
        (Some(exchange), _) => {
            if exchange.reply.is_some() {
                found.push(Action::Answer(at));
            } else {
                found.push(Action::Apply(at, false));
                if budget.doubled > 0 {
                    found.push(Action::Apply(at, true));
                }
            }
            if budget.unknown > 0 {
                found.push(Action::GiveUp(at, false));
                if exchange.reply.is_none() {
                    found.push(Action::GiveUp(at, true));
                }
            }
        }
        (None, Phase::Idle) => {
            let waits = |client: usize| world.clients[client].stage == Stage::Waiting;
            let here = match world.clients[MOVER].stage {
                Stage::Waiting if at == 0 && !rules.any_order => vec![MOVER],
                Stage::Waiting if at == 0 => vec![MOVER, 1],
                Stage::Waiting | Stage::Holding | Stage::Ended => vec![at + 1],
            };
            if world.used[at] < budget.leases {
                found.extend(
                    here.into_iter()
                        .filter(|client| waits(*client))
                        .map(|client| Action::Acquire(at, client)),
                );
            }
        }
        (None, Phase::Silent | Phase::Revoked) => {}
        (None, Phase::Held) if sidecar.told == 0 && !sidecar.bounded => {}
        (None, Phase::Acquiring | Phase::Held) => found.push(Action::Send(at)),
        (None, Phase::Storing | Phase::Ending { .. } | Phase::Renewing | Phase::Resuming) => {}
    }
    let is_hold = matches!(sidecar.phase, Phase::Held | Phase::Silent) && sidecar.told > 0;
    if is_hold && sidecar.exchange.is_none() && sidecar.stored < sidecar.number {
        found.push(Action::Record(at));
    }
    ends_of_a_sidecar(world, rules, at, found);
}

/// How what a sidecar has may end, from the outside and by time.
fn ends_of_a_sidecar(world: &World, rules: &Rules, at: usize, found: &mut Vec<Action>) {
    let (sidecar, budget) = (&world.sidecars[at], &world.budget);
    if has_no_stream(world, at) {
        found.push(Action::Notice(at));
        if world.clients[MOVER].stage == Stage::Ended {
            found.push(Action::NoticeClosed(at));
        }
    }
    let waited = sidecar.told == 0 && sidecar.settling == 0;
    let may_end = match sidecar.phase {
        Phase::Held => sidecar.told == 0,
        Phase::Revoked => sidecar.told == 0,
        Phase::Silent => waited || rules.has(Mistake::SilenceIsLeaving),
        Phase::Ending { .. } => sidecar.valid == 0 && sidecar.repeats,
        Phase::Idle | Phase::Acquiring | Phase::Storing | Phase::Renewing | Phase::Resuming => {
            false
        }
    };
    if may_end {
        found.push(Action::Over(at));
    }
    if budget.bounds > 0 && sidecar.phase == Phase::Held && sidecar.holder == MOVER {
        found.push(Action::Bound(at));
    }
    let is_resume = matches!(sidecar.phase, Phase::Renewing | Phase::Resuming);
    if is_resume && world.mover.awaiting != Some(at) {
        found.push(Action::DropResume(at));
    }
    if budget.crashes > 0 && sidecar.phase != Phase::Idle {
        found.push(Action::Crash(at, false));
        if sidecar.exchange.is_some_and(|exchange| exchange.reply.is_none()) {
            found.push(Action::Crash(at, true));
        }
    }
    hand_overs(world, at, found);
    let client = at + 1;
    if world.clients[client].stage == Stage::Holding && world.clients[client].until > 0 {
        found.push(Action::WaiterReleases(client));
    }
}

/// How a sidecar ends that is replaced (S15).
fn hand_overs(world: &World, at: usize, found: &mut Vec<Action>) {
    let (sidecar, budget) = (&world.sidecars[at], &world.budget);
    let is_under_way = sidecar.exchange.is_some_and(|exchange| exchange.reply.is_none());
    if sidecar.ending {
        found.push(Action::LeftAtLast(at, false));
        if is_under_way {
            found.push(Action::LeftAtLast(at, true));
        }
    } else if budget.hand_overs > 0 && sidecar.phase != Phase::Idle {
        found.push(Action::HandOver(at, false));
        if is_under_way && matches!(sidecar.phase, Phase::Renewing | Phase::Resuming) {
            found.push(Action::HandOver(at, true));
        }
    }
}

/// Everything that can happen next.
pub(crate) fn actions(world: &World, rules: &Rules, found: &mut Vec<Action>) {
    found.push(Action::Tick);
    for at in SIDECARS {
        of_a_sidecar(world, rules, at, found);
    }
    of_the_mover(world, found);
    for index in 0..world.calls.len() {
        found.push(Action::Deliver(index, None));
        if world.budget.repeated > 0 {
            found.extend(SIDECARS.map(|at| Action::Deliver(index, Some(at))));
        }
    }
    found.extend((0..world.late.len()).map(Action::ApplyLate));
    of_the_operator(world, found);
}

/// One break at a time (S17).
fn of_the_operator(world: &World, found: &mut Vec<Action>) {
    let budget = &world.budget;
    let Some(breaking) = &world.breaking else {
        if budget.breaks > 0 {
            found.extend(SIDECARS.map(|through| Action::Break(false, through)));
        }
        if budget.breaks_now > 0 {
            found.extend(SIDECARS.map(|through| Action::Break(true, through)));
        }
        return;
    };
    match breaking.stage {
        BreakStage::Sent => {
            found.push(Action::BreakArrives(false));
            if budget.late_breaks > 0 {
                found.push(Action::BreakArrives(true));
            }
        }
        BreakStage::Late => found.push(Action::BreakArrives(false)),
        BreakStage::Done => found.push(Action::BreakAnswered),
    }
    if breaking.stage != BreakStage::Late && budget.late_breaks > 0 {
        found.push(Action::BreakGivenUp);
    }
}
