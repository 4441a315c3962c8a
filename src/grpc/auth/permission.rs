//! What a caller may do: each call, asked against the rules of `access`.

use std::collections::HashMap;

use tonic::Status;

use super::caller::Caller;
use crate::access::{self, Functions, Host, Locks, Refusal, Right};
use crate::coordinator::{KeyRequest, LockRecord, LockSelector, ResumeRequest, Target, Under};
use crate::grpc::service::{Service, answered};
use crate::grpc::status;
use crate::lock::{HostId, Layout, LockPath};
use crate::text::Quoted;

impl Service {
    /// Whether the caller may do this with the lock of a key.
    pub(in crate::grpc) fn permit_key(
        &self,
        caller: &Caller,
        right: Right,
        key: &KeyRequest,
    ) -> Result<(), Status> {
        if caller.limits().is_none() {
            return Ok(());
        }
        self.of_key(key, |locks| self.permit(caller, right, locks))?
    }

    /// Whether the caller may do this with the selected lock.
    pub(in crate::grpc) fn permit_selected(
        &self,
        caller: &Caller,
        right: Right,
        selector: &LockSelector,
    ) -> Result<(), Status> {
        match selector {
            LockSelector::Key(key, _) => self.permit_key(caller, right, key),
            LockSelector::Path(path) => {
                self.of_path(path, None, |locks| self.permit(caller, right, locks))
            }
        }
    }

    /// Whether the caller may be shown the selected lock, which it asked something else about.
    pub(in crate::grpc) fn may_read(&self, caller: &Caller, selector: &LockSelector) -> bool {
        let Some(limited) = caller.limits() else { return true };
        let ask = |locks: Locks<'_>| {
            access::check(limited.rules(), Right::Read, locks, self.own()).is_ok()
        };
        match selector {
            LockSelector::Key(key, _) => self.of_key(key, ask).unwrap_or(false),
            LockSelector::Path(path) => self.of_path(path, None, ask),
        }
    }

    /// Whether the caller may go on with the lock that it holds: only its holder was told the lease id or
    /// the resume token that the call carries, so a right for any lock will do. A resume is checked further
    /// by [`Self::permit_resume`].
    pub(in crate::grpc) fn permit_holder(&self, caller: &Caller) -> Result<(), Status> {
        let Some(limited) = caller.limits() else { return Ok(()) };
        let right = Right::Acquire;
        let locks = Locks { host: Host::Hidden, function: Functions::Some };
        access::check_somewhere(limited.rules(), right)
            .map_err(|refusal| self.refused(caller, right, refusal, locks))
    }

    /// Whether the caller may acquire the lock that a resume token names. The token is not signed, so anybody
    /// can make one; but its path is made again from the key in it (S16).
    pub(in crate::grpc) fn permit_resume(
        &self,
        caller: &Caller,
        request: &ResumeRequest,
    ) -> Result<(), Status> {
        if caller.limits().is_none() {
            return Ok(());
        }
        let target = answered(self.coordinator.resumed(request))?;
        self.of_target(&target, |locks| self.permit(caller, Right::Acquire, locks))
    }

    /// Whether the caller may acquire the lock of this path, with the key that a run id names beside it:
    /// without one, where the path hides the function, only who may acquire every function of the host id.
    pub(in crate::grpc) fn permit_run(
        &self,
        caller: &Caller,
        path: &LockPath,
        target: Option<&Target>,
    ) -> Result<(), Status> {
        let ask = |locks: Locks<'_>| self.permit(caller, Right::Acquire, locks);
        match target {
            Some(target) => self.of_target(target, ask),
            None => self.of_path(path, None, ask),
        }
    }

    /// Whether the caller may see some of these locks.
    pub(in crate::grpc) fn permit_list(
        &self,
        caller: &Caller,
        under: &Under,
    ) -> Result<(), Status> {
        if caller.limits().is_none() {
            return Ok(());
        }
        let read =
            |host| self.permit(caller, Right::Read, Locks { host, function: Functions::Some });
        let prefix = match under {
            Under::OwnHostId => return read(Host::Id(self.own())),
            Under::HostId(host_id) => return read(Host::Id(host_id)),
            Under::Prefix(prefix) => prefix,
        };
        let inside = answered(self.coordinator.host().inside(prefix))?;
        match inside.split_once('/') {
            None => read(Host::Beginning(inside)),
            Some((host_id, _)) => {
                read(HostId::parse(host_id).as_ref().map_or(Host::Hidden, Host::Id))
            }
        }
    }

    /// Whether the caller may see this lock of a listing.
    pub(in crate::grpc) fn may_see(&self, caller: &Caller, record: &LockRecord) -> bool {
        let Some(limited) = caller.limits() else { return true };
        let function = Some(record.record.function.as_str());
        self.of_path(&record.path, function, |locks| {
            access::check(limited.rules(), Right::Read, locks, self.own()).is_ok()
        })
    }

    /// Asks about the lock of a key.
    fn of_key<T>(&self, key: &KeyRequest, ask: impl FnOnce(Locks<'_>) -> T) -> Result<T, Status> {
        let target = answered(self.coordinator.host().resolve(key))?;
        Ok(self.of_target(&target, ask))
    }

    /// The same, once it is known where that lock is.
    fn of_target<T>(&self, target: &Target, ask: impl FnOnce(Locks<'_>) -> T) -> T {
        // In this layout several keys have one lock: the name that they share is what counts.
        let shared = match self.namespace().layout {
            Layout::WebJobs => self.namespace().function_of(&target.path),
            Layout::Readable | Layout::Hashed => None,
        };
        let function = shared.as_deref().unwrap_or_else(|| target.key.function());
        let host = if target.host_type == self.coordinator.host().host_type {
            Host::Id(&target.host_id)
        } else {
            Host::OfAnotherType(&target.host_id)
        };
        ask(Locks { host, function: Functions::One(function) })
    }

    /// Asks about the lock of a path, whose function may be known from elsewhere.
    fn of_path<T>(
        &self,
        path: &LockPath,
        known: Option<&str>,
        ask: impl FnOnce(Locks<'_>) -> T,
    ) -> T {
        let host_id = self.namespace().host_id_of(path);
        let function = self.namespace().function_of(path);
        let function = function.as_deref().or(known).map_or(Functions::Hidden, Functions::One);
        ask(Locks { host: host_id.as_ref().map_or(Host::Hidden, Host::Id), function })
    }

    fn own(&self) -> &HostId {
        &self.coordinator.host().host_id
    }

    fn permit(&self, caller: &Caller, right: Right, locks: Locks<'_>) -> Result<(), Status> {
        let Some(limited) = caller.limits() else { return Ok(()) };
        access::check(limited.rules(), right, locks, self.own())
            .map_err(|refusal| self.refused(caller, right, refusal, locks))
    }

    fn refused(&self, caller: &Caller, right: Right, refusal: Refusal, locks: Locks<'_>) -> Status {
        let (shown, host_id) = (caller.to_string(), locks.host.as_str());
        let function = match locks.function {
            Functions::One(function) => function,
            Functions::Hidden | Functions::Some => "",
        };
        let now = self.coordinator.clock().now();
        if let Some(more) = caller.limits().and_then(|limits| limits.refusals.line(now)) {
            let (right, caller) = (right.as_str(), caller.with_address());
            tracing::warn!(caller, right, host_id, function, more, "a call was refused by access");
        }
        let details = [
            ("caller", shown.as_str()),
            ("right", right.as_str()),
            ("host_id", host_id),
            ("function", function),
            ("setting", refusal.setting()),
        ];
        let details = details.into_iter().filter(|(_, value)| !value.is_empty());
        let details: HashMap<String, String> =
            details.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let what = what(locks);
        let message = format!(
            "{shown} does not have the right {:?} for {what}: {}",
            right.as_str(),
            why(refusal, locks)
        );
        status::access_denied(&message, details)
    }
}

/// The locks that a call is about, for people.
fn what(locks: Locks<'_>) -> String {
    let host = match locks.host {
        Host::Id(host_id) => format!(" of host id {host_id}"),
        Host::OfAnotherType(host_id) => format!(" of host id {host_id} and another host type"),
        Host::Beginning("") | Host::Hidden => String::new(),
        Host::Beginning(text) => format!(" of a host id that begins with {}", Quoted(text)),
    };
    match locks.function {
        Functions::One(function) => format!("function {}{host}", Quoted(function)),
        Functions::Hidden => format!("a lock{host} that is named by its path"),
        Functions::Some => format!("any lock{host}"),
    }
}

fn why(refusal: Refusal, locks: Locks<'_>) -> &'static str {
    match (refusal, locks.function) {
        (Refusal::NoRule, _) => {
            "no rule of access in the sidecar's configuration is for this caller; add one"
        }
        (Refusal::Right, _) => {
            "none of the caller's rules gives it; add it to the rights of a rule of access"
        }
        (Refusal::HostId, _) if matches!(locks.host, Host::OfAnotherType(_)) => {
            "the request names another host type than the sidecar's, which needs a rule that lists the host id: leave \
             host_type out, or add this host id to host_ids of a rule of access"
        }
        (Refusal::HostId, _) => {
            "the caller's rules with this right are for other host ids; add this one to host_ids of a rule of access"
        }
        (Refusal::Function, Functions::Hidden) => {
            "the path does not show the function, and the caller's rules with this right are for some functions only; \
             name the lock by its key, or take functions out of a rule of access"
        }
        (Refusal::Function, Functions::One(_) | Functions::Some) => {
            "the caller's rules with this right are for other functions; add this one to functions of a rule of access"
        }
    }
}
