//! Schedules (T1 to T21): one task a schedule with subscribers, which runs the pure machine of `schedule` over the holds.

mod request;
mod stream;

pub use request::{
    CompleteRequest, Completed, Completion, ResumeRun, RunGrant, ScheduleChange, ScheduleEvent,
    ScheduleInfo, SchedulePage, Standby, SubscribeRequest,
};
pub use stream::ScheduleStream;

use super::Coordinator;
use super::error::CallError;
use super::records::Under;
use super::request::LockSelector;

impl Coordinator {
    /// Takes part in a schedule while the stream lives.
    ///
    /// # Errors
    /// When the request cannot be taken.
    pub fn subscribe(&self, request: SubscribeRequest) -> Result<ScheduleStream, CallError> {
        drop(request);
        Err(CallError::shutting_down())
    }

    /// Says how a run ended (T8). May be repeated, at any sidecar.
    ///
    /// # Errors
    /// When the store could not be asked, or the path is not one of this sidecar's.
    pub async fn complete_run(&self, request: CompleteRequest) -> Result<Completed, CallError> {
        drop(request);
        Err(CallError::shutting_down())
    }

    /// What is known of a schedule.
    ///
    /// # Errors
    /// When there is none, or the store cannot be asked.
    pub async fn schedule(&self, selector: &LockSelector) -> Result<ScheduleInfo, CallError> {
        let _ = selector;
        Err(CallError::shutting_down())
    }

    /// A page of those schedules that are `visible`; `page_size` is 1 to 200.
    ///
    /// # Errors
    /// When the store cannot be asked, or the page token is not of this listing of this process.
    pub async fn list_schedules(
        &self,
        (under, page_size, page_token): (Under, usize, Option<String>),
        visible: impl Fn(&ScheduleInfo) -> bool + Send + Sync,
    ) -> Result<SchedulePage, CallError> {
        let _ = (under, page_size, page_token, &visible);
        Err(CallError::shutting_down())
    }

    /// Pauses or resumes a schedule, or asks for a run by hand (T18). The schedule as it is then. `caller` is for the log.
    ///
    /// # Errors
    /// When the operator does not allow it, there is no such schedule, or the store cannot be asked.
    pub async fn change_schedule(
        &self,
        selector: &LockSelector,
        change: ScheduleChange,
        caller: &str,
    ) -> Result<ScheduleInfo, CallError> {
        let _ = (selector, change, caller);
        Err(CallError::shutting_down())
    }
}
