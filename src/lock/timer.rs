//! Where a timer of .NET's WebJobs SDK, or of Azure Functions, keeps its status (T22).

use super::path::{Container, Layout, LockPath, Namespace};
use super::{HostId, LockMode};

/// The greatest size of a timer's status that is read, in bytes: .NET's have less than 200.
pub const MAX_TIMER_STATUS_BYTES: usize = 16_384;

/// Where the status of a timer is: a blob beside the locks of the same host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerPath {
    /// The container of the SDK.
    pub container: Container,
    /// The host id of the .NET app.
    pub host_id: HostId,
    /// The timer's name: `{namespace}.{class}.{method}`, and `Host.Functions.{function}` in Azure Functions.
    pub timer: String,
}

impl TimerPath {
    /// The blob's name.
    #[must_use]
    pub fn name(&self) -> String {
        format!("timers/{}/{}/status", self.host_id, self.timer)
    }
}

impl std::fmt::Display for TimerPath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.container, self.name())
    }
}

impl Namespace {
    /// Where the .NET timer whose listener lock this is keeps its status; none for other locks and in other
    /// layouts.
    #[must_use]
    pub fn timer_of(&self, path: &LockPath) -> Option<TimerPath> {
        match self.layout {
            Layout::WebJobs => {}
            Layout::Readable | Layout::Hashed => return None,
        }
        let host_id = self.host_id_of(path)?;
        let (_, lock_name) = self.name_of(path)?.split_once('/')?;
        let timer = lock_name.strip_suffix(LISTENER).filter(|timer| !timer.is_empty())?;
        Some(TimerPath { container: self.container.clone(), host_id, timer: timer.to_owned() })
    }

    /// Whether a key of this mode can have a schedule: the locks of .NET's timers are listeners' (T22).
    #[must_use]
    pub const fn schedules(&self, mode: LockMode) -> bool {
        match (self.layout, mode) {
            (Layout::Readable | Layout::Hashed, _) | (Layout::WebJobs, LockMode::Listener) => true,
            (Layout::WebJobs, LockMode::Function) => false,
        }
    }
}

/// What the name of a listener's lock ends with in the layout `webjobs`.
const LISTENER: &str = ".Listener";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Prefix;

    fn namespace(layout: Layout) -> Namespace {
        let container = Container::parse("azure-webjobs-hosts").unwrap();
        Namespace { container, prefix: Prefix::parse("locks").unwrap(), layout }
    }

    fn timer_of(layout: Layout, name: &str) -> Option<String> {
        let namespace = namespace(layout);
        let path = LockPath::from_parts(&namespace.container, name);
        namespace.timer_of(&path).map(|timer| timer.to_string())
    }

    #[test]
    fn t22_the_status_of_a_timer_is_found_from_its_listener_lock() {
        let status = |timer: &str| Some(format!("azure-webjobs-hosts/timers/h/{timer}/status"));
        for (lock, timer) in [
            ("Keeper.Jobs.Nightly.Listener", "Keeper.Jobs.Nightly"),
            ("Host.Functions.Nightly.Listener", "Host.Functions.Nightly"),
            ("a/b.Listener", "a/b"),
        ] {
            assert_eq!(
                timer_of(Layout::WebJobs, &format!("locks/h/{lock}")),
                status(timer),
                "{lock}"
            );
        }
        for other in
            ["locks/h/Keeper.Jobs.Nightly", "locks/h/.Listener", "locks/h", "other/h/f.Listener"]
        {
            assert_eq!(timer_of(Layout::WebJobs, other), None, "{other}");
        }
        assert_eq!(timer_of(Layout::Readable, "locks/h/f.Listener"), None);
    }

    #[test]
    fn t22_beside_dotnet_hosts_only_listeners_have_schedules() {
        use LockMode::{Function, Listener};

        for layout in [Layout::Readable, Layout::Hashed] {
            assert!([Function, Listener].iter().all(|mode| namespace(layout).schedules(*mode)));
        }
        let dotnet = namespace(Layout::WebJobs);
        assert!(dotnet.schedules(Listener) && !dotnet.schedules(Function));
    }
}
