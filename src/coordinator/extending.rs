//! Bounds of a hold that goes on (S11).

use std::time::Duration;

use super::Coordinator;
use super::error::CallError;
use super::request::{Extended, Validity};
use super::task::{Command, HoldCall};
use crate::lock::LeaseId;

impl Coordinator {
    /// Sets a new `max_hold`, counted from now (S11).
    ///
    /// # Errors
    /// When the hold is over, or never was.
    pub async fn extend(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
        max_hold: Duration,
    ) -> Result<Extended, CallError> {
        let call = HoldCall { lease_id, generation };
        self.ask(call, |reply| Command::Extend(call, max_hold, reply)).await
    }

    /// Resets the progress timeout (S11); answers with the validity (S21).
    ///
    /// # Errors
    /// When the hold is over, or never was.
    pub async fn report_progress(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
    ) -> Result<Validity, CallError> {
        let call = HoldCall { lease_id, generation };
        self.ask(call, |reply| Command::ReportProgress(call, reply)).await
    }
}
