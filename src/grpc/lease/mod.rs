//! LeaseService: its calls, and the messages of locks and holds, which ScheduleService speaks in, too.

pub(super) mod calls;
pub(super) mod from_proto;
pub(super) mod held;
pub(super) mod life_stream;
pub(super) mod occurrence;
pub(super) mod run_state;
pub(super) mod server_info;
pub(super) mod streams;
pub(super) mod to_proto;
