//! The section `paths`: where locks are.

use super::setting::{Key, settings};
use super::values::Values;
use crate::lock::{Container, Layout, Namespace, Prefix};

settings! {
    CONTAINER: Container = Key::found(
        "paths.container",
        "`leasehold`; `azure-webjobs-hosts` in the layout `webjobs`",
        |context| {
            let webjobs = context.given("paths.layout") == Some(Layout::WebJobs.as_str());
            Some(if webjobs { "azure-webjobs-hosts" } else { "leasehold" }.to_owned())
        },
        "The container of the locks: the first part of every lock path.",
    );
    PREFIX: Prefix = Key::new(
        "paths.prefix",
        "locks",
        "The part of a lock path between the container and the host id.",
    );
    LAYOUT: Layout = Key::new(
        "paths.layout",
        "readable",
        "How a lock's name is derived from function, scope and mode; see paths.md.",
    );
}

/// Where locks are: everything of a lock path but host id and name.
pub(super) fn read(values: &Values<'_>) -> Option<Namespace> {
    Some(Namespace {
        container: values.get(&CONTAINER)?,
        prefix: values.get(&PREFIX)?,
        layout: values.get(&LAYOUT)?,
    })
}
