//! What this sidecar says of itself.

use super::to_proto::duration;
use crate::grpc::proto::{GetServerInfoResponse, ServerLimits};
use crate::grpc::service::Service;
use crate::lock::{Layout, Permits};
use crate::record::MAX_CHECKPOINT_BYTES;

impl Service {
    /// The answer to GetServerInfo.
    pub(in crate::grpc) fn about(&self) -> GetServerInfoResponse {
        let host = self.coordinator.host();
        let clock = self.coordinator.clock();
        let features = [
            ("checkpoints", self.keeps_checkpoints()),
            ("notice", true),
            ("permits", self.namespace().layout.has_permits()),
            ("wait-without-end", true),
            ("sharing", true),
            ("break", self.coordinator.settings().allow_break),
            ("host-id-override", host.allow_override),
            ("hand-over", self.limits.hand_over),
            ("schedules", self.has_schedules()),
            (
                "schedule-changes",
                self.has_schedules() && self.coordinator.settings().allow_schedule_changes,
            ),
        ];
        let features = features.into_iter().filter(|(_, can)| *can);
        GetServerInfoResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: clock.boot_reading(clock.now()).boot_id,
            limits: Some(self.server_limits()),
            features: features.map(|(name, _)| name.to_owned()).collect(),
            host_id: host.host_id.to_string(),
            host_type: host.host_type.to_string(),
            layout: host.namespace.layout.as_str().to_owned(),
            store: self.limits.store.to_owned(),
            revision: self.coordinator.settings().revision,
        }
    }

    /// Whether ScheduleService is served: where the locks are WebJobs' too, only if their hosts can share the
    /// store (T22).
    pub(in crate::grpc) fn has_schedules(&self) -> bool {
        match self.namespace().layout {
            Layout::Readable | Layout::Hashed => true,
            Layout::WebJobs => self.scheduler.has_timers(),
        }
    }

    fn keeps_checkpoints(&self) -> bool {
        self.coordinator.host().namespace.layout.keeps_checkpoints()
    }

    fn server_limits(&self) -> ServerLimits {
        let settings = self.coordinator.settings();
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        ServerLimits {
            wait: Some(duration(self.limits.wait_ceiling)),
            max_hold: Some(duration(self.limits.max_hold_ceiling)),
            default_max_hold: Some(duration(self.limits.max_hold_default)),
            default_lease_duration: Some(duration(settings.lease_duration)),
            holds: count(settings.max_holds),
            waiters: count(settings.max_waiters),
            streams_per_connection: self.streams_per_connection,
            permits: match self.namespace().layout.has_permits() {
                true => Permits::MAX.get().into(),
                false => 1,
            },
            checkpoint_bytes: if self.keeps_checkpoints() {
                count(MAX_CHECKPOINT_BYTES)
            } else {
                0
            },
        }
    }
}
