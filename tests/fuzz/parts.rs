//! What callers write beside their tokens (T6, T8).

use std::sync::Arc;
use std::time::Duration;

use leasehold::hold::{AtGrant, Brought, GrantPart, SavePart};
use leasehold::lock::{FencingToken, Fields};
use leasehold::time::UnixMillis;

/// What a caller brings: every outcome in turn, some of the time.
#[derive(Debug)]
pub(crate) struct Part(pub(crate) u64);

impl From<Part> for Brought {
    fn from(part: Part) -> Self {
        Self { part: Some(Arc::new(part)), seen: None }
    }
}

impl GrantPart for Part {
    fn at_grant(&self, fields: &Fields, token: FencingToken, _: UnixMillis) -> AtGrant {
        let mut fields = fields.clone();
        fields.insert("run".to_owned(), token.to_string());
        match self.0 % 3 {
            0 => AtGrant::Grant { fields, max_hold: Some(Duration::from_secs(self.0 + 1)) },
            1 => AtGrant::Settle { fields },
            _ => AtGrant::TurnAway,
        }
    }
}

impl SavePart for Part {
    fn at_save(&self, fields: &Fields, token: FencingToken, _: UnixMillis) -> Option<Fields> {
        let mut fields = fields.clone();
        fields.insert("outcome".to_owned(), format!("{token} {}", self.0 / 2));
        (!self.0.is_multiple_of(4)).then_some(fields)
    }
}
