//! Who asks, where the caller does not say it.

use crate::constants::HOLDER_BYTES;

/// The name that is sent: the one that was given, else that of this pod or host with the process id, such as
/// `importer-7f9c/17`. It is made anew for each request, because a fork has an id of its own.
pub(super) fn holder_or_this(given: &str) -> String {
    match given {
        "" => named(host().as_deref(), std::process::id()),
        given => given.to_owned(),
    }
}

/// In a pod this is the pod's name, unless the pod shares its host's network.
#[cfg(unix)]
fn host() -> Option<String> {
    rustix::system::uname().nodename().to_str().ok().map(str::to_owned)
}

#[cfg(not(unix))]
fn host() -> Option<String> {
    None
}

/// A name that is not printable ASCII is none: the sidecar would refuse it (S19).
fn named(host: Option<&str>, process: u32) -> String {
    let is_printable = |host: &&str| host.bytes().all(|byte| byte.is_ascii_graphic());
    let process = process.to_string();
    match host.filter(|host| !host.is_empty()).filter(is_printable) {
        None => process,
        Some(host) => {
            let room = HOLDER_BYTES - process.len() - 1;
            format!("{host:.room$}/{process}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LeaseSpec, ScheduleSpec, Subscription};

    #[test]
    fn a_caller_without_a_name_is_its_pod_or_host_and_process() {
        assert_eq!(named(Some("importer-7f9c"), 17), "importer-7f9c/17");
        assert_eq!(named(None, 17), "17");
        assert_eq!(named(Some(""), 17), "17");
        assert_eq!(named(Some("bj\u{f6}rn"), 17), "17", "what is not printable ASCII is not sent");
        let long = named(Some(&"h".repeat(300)), 4_194_304);
        assert_eq!((long.len(), long.ends_with("h/4194304")), (HOLDER_BYTES, true));
    }

    #[test]
    fn each_request_that_names_no_holder_names_this_process() {
        let ours = format!("/{}", std::process::id());
        let spec = LeaseSpec::new("f");
        let subscription = Subscription::new("f", ScheduleSpec::cron("@daily"));
        for sent in [spec.clone().into_wire().holder, subscription.to_wire().holder] {
            assert!(sent.ends_with(&ours) && sent.len() > ours.len(), "{sent}");
        }
        assert_eq!(spec.with_holder("me").into_wire().holder, "me");
        assert_eq!(subscription.with_holder("me").to_wire().holder, "me");
    }
}
