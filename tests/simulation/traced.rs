//! The holds of the simulator's clients, as a trace for the model's monitor.

use leasehold::testing::{TraceEvent, Traced};
use leasehold::time::Instant;

use crate::simulation::world::World;

impl World {
    /// A client learns until when it may believe.
    pub(crate) fn trace_belief(&mut self, index: usize, until: Instant) {
        let client = &self.clients[index];
        let Some(token) = client.grant.as_ref().map(|grant| grant.token.value()) else { return };
        let until = self.clocks[client.machine].when(until);
        let valid_until = u64::try_from(until.as_micros()).unwrap();
        let what = if self.is_traced(index, token) {
            Traced::Told { token, valid_until }
        } else {
            Traced::Granted { token, generation: None, lease: None, resumed: false, valid_until }
        };
        self.story.trace(self.now, index, what);
    }

    /// A client ends its belief of its own accord, or because it was told to.
    pub(crate) fn trace_end(&mut self, index: usize, lost: bool) {
        let grant = self.clients[index].grant.as_ref();
        if let Some(token) = grant.map(|grant| grant.token.value())
            && self.is_traced(index, token)
        {
            let what = if lost { Traced::Lost { token } } else { Traced::Ending { token } };
            self.story.trace(self.now, index, what);
        }
    }

    /// Whether this client has believed in this grant before.
    fn is_traced(&self, index: usize, token: u64) -> bool {
        let process = format!("client {index}");
        let is_known = |event: &TraceEvent| {
            let is_grant = matches!(event.what, Traced::Granted { token: of, .. } if of == token);
            event.process == process && is_grant
        };
        self.story.trace.iter().flatten().any(is_known)
    }
}
