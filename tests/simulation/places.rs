//! Who waits at each sidecar (S12): first come, first served; a call that is repeated keeps its place; each
//! is answered in time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use leasehold::hold::{Action, CallerId, Event, Holding, Notice};
use leasehold::record::Priority;
use leasehold::time::Instant;

#[derive(Debug)]
pub(crate) struct Places {
    /// In the order of arrival.
    waiting: Vec<VecDeque<CallerId>>,
    /// The request ids of calls that have one.
    ids: BTreeMap<CallerId, String>,
    /// The end of each wait, by the sidecar's clock. One try has none.
    deadlines: BTreeMap<CallerId, Instant>,
    /// Of those that have one (S33).
    priorities: BTreeMap<CallerId, Priority>,
    /// A call with an id that has come, and of which is not known yet whether it repeats another.
    arriving: Option<CallerId>,
}

impl Places {
    pub(crate) fn new(sidecars: usize) -> Self {
        Self {
            waiting: vec![VecDeque::new(); sidecars],
            ids: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            priorities: BTreeMap::new(),
            arriving: None,
        }
    }

    pub(crate) fn came_in(&mut self, sidecar: usize, event: &Event, local: Instant) {
        let Event::CallerArrived { caller, terms } = event else { return };
        if !terms.wait.is_zero() {
            self.deadlines.insert(*caller, local + terms.wait);
        }
        self.priorities.insert(*caller, terms.priority());
        if terms.request_id.is_empty() {
            self.waiting[sidecar].push_back(*caller);
        } else {
            self.ids.insert(*caller, terms.request_id.clone());
            self.arriving = Some(*caller);
        }
    }

    fn is_repeat(&self, caller: CallerId, of: CallerId) -> bool {
        self.ids.get(&caller).is_some_and(|id| self.ids.get(&of) == Some(id))
    }

    /// Something is told while a call comes in.
    pub(crate) fn told(&mut self, sidecar: usize, action: &Action) -> Result<(), String> {
        let Some(arriving) = self.arriving else { return Ok(()) };
        let is_right = match action {
            Action::Tell { caller: former, notice: Notice::Superseded { by } }
                if *by == arriving =>
            {
                let is_repeat = self.is_repeat(arriving, *former);
                let place = self.waiting[sidecar].iter_mut().find(|caller| *caller == former);
                place.filter(|_| is_repeat).map(|place| *place = arriving).is_some()
            }
            Action::Tell { caller, notice: Notice::SameGrant { holder } }
                if *caller == arriving =>
            {
                self.is_repeat(arriving, *holder)
            }
            Action::Tell {
                caller,
                notice:
                    Notice::Waiting { .. } | Notice::Granted(_) | Notice::Busy(_) | Notice::Failed(_),
            } if *caller == arriving => {
                return self.is_another(sidecar);
            }
            _ => return Ok(()),
        };
        self.arriving = None;
        if is_right {
            Ok(())
        } else {
            Err(format!("S12: {arriving:?} repeats no call: {action:?}"))
        }
    }

    /// It is served as one that came last, so nobody waits with its id.
    fn is_another(&mut self, sidecar: usize) -> Result<(), String> {
        let Some(caller) = self.arriving.take() else { return Ok(()) };
        let same = self.waiting[sidecar].iter().find(|of| self.is_repeat(caller, **of)).copied();
        self.waiting[sidecar].push_back(caller);
        match same {
            None => Ok(()),
            Some(of) => Err(format!("S12: {caller:?} repeats {of:?}, and is taken for another")),
        }
    }

    /// All is told that came of an event.
    pub(crate) fn settled(
        &mut self,
        sidecar: usize,
        (event, holding): (Option<CallerId>, Option<&Holding>),
        local: Instant,
    ) -> Result<(), String> {
        let unanswered = self.arriving;
        self.is_another(sidecar)?;
        // Whoever was told that it waits, or nothing, is not the holder's repeat.
        if let Some(caller) = event.filter(|caller| self.waiting[sidecar].contains(caller))
            && let Some(holding) = holding.filter(|holding| holding.active)
            && self.is_repeat(caller, holding.caller)
        {
            return Err(format!(
                "S12: {caller:?} repeats the call of the holder, and waits ({unanswered:?})"
            ));
        }
        let is_over = |caller: &&CallerId| {
            self.deadlines.get(caller).is_some_and(|deadline| *deadline <= local)
        };
        match self.waiting[sidecar].iter().find(is_over) {
            None => Ok(()),
            Some(caller) => Err(format!("S12: {caller:?} is left without an answer")),
        }
    }

    pub(crate) fn stops_waiting(&mut self, sidecar: usize, caller: CallerId) {
        self.waiting[sidecar].retain(|waiting| *waiting != caller);
        self.deadlines.remove(&caller);
    }

    pub(crate) fn restarted(&mut self, sidecar: usize) {
        self.waiting[sidecar].clear();
    }

    /// S12, S33: who came first is served first, of those of the greatest priority.
    pub(crate) fn served(&mut self, sidecar: usize, caller: CallerId) -> Result<(), String> {
        let after = |caller: &&CallerId| Reverse(self.priorities.get(caller).copied());
        let first = self.waiting[sidecar].iter().min_by_key(after).copied();
        self.stops_waiting(sidecar, caller);
        if first == Some(caller) {
            return Ok(());
        }
        Err(format!("S12: {caller:?} is served before {first:?}"))
    }
}
