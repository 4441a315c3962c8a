//! What a caller may do: each call, asked against the rules of `access`.

use std::collections::HashMap;
use std::sync::Arc;

use tonic::{Request, Status};

use super::seldom::Seldom;
use super::service::Service;
use super::status;
use crate::access::{self, Functions, Locks, Refusal, Right, Rule};
use crate::coordinator::{KeyRequest, LockRecord, LockSelector, ResumeRequest, Under};
use crate::lock::{HostId, Layout, LockPath};

/// Who sent a request, as far as the rules know. Each request that a guard let through carries one.
#[derive(Clone, Debug)]
pub(super) struct Caller(Option<Arc<Limited>>);

/// A caller who may do what its rules allow.
#[derive(Debug)]
struct Limited {
    shown: String,
    rules: Vec<Arc<Rule>>,
    refusals: Arc<Seldom>,
}

impl Caller {
    /// A caller to whom no rules apply.
    pub(super) const fn unlimited() -> Self {
        Self(None)
    }

    /// A caller who may do what `rules` allow.
    pub(super) fn limited(mut shown: String, rules: Vec<Arc<Rule>>, refusals: Arc<Seldom>) -> Self {
        for rule in rules.iter().filter(|rule| !rule.name.is_empty()) {
            shown.push_str(&format!(" ({:?} in access)", rule.name));
        }
        Self(Some(Arc::new(Limited { shown, rules, refusals })))
    }

    /// Who sent `request`.
    ///
    /// # Errors
    /// When no guard has seen it, which is a mistake in this program: then it is not served.
    pub(super) fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        let found = request.extensions().get::<Self>().cloned();
        found.ok_or_else(|| Status::internal("nobody asked who sent this request"))
    }
}

impl Limited {
    fn rules(&self) -> impl Iterator<Item = &Rule> + Clone {
        self.rules.iter().map(AsRef::as_ref)
    }
}

impl Service {
    /// Whether the caller may do this with the lock of a key.
    pub(super) fn permit_key(
        &self,
        caller: &Caller,
        right: Right,
        key: &KeyRequest,
    ) -> Result<(), Status> {
        let Some(limited) = &caller.0 else { return Ok(()) };
        let target = self.coordinator.resolve(key).map_err(|error| status::of_call(&error))?;
        // In this layout several keys have one lock: the name that they share is what counts.
        let shared = match self.namespace().layout {
            Layout::WebJobs => self.namespace().function_of(&target.path),
            Layout::Readable | Layout::Hashed => None,
        };
        let function = shared.as_deref().unwrap_or_else(|| key.key.function());
        let locks = Locks { host_id: Some(&target.host_id), function: Functions::One(function) };
        self.permit(limited, right, locks)
    }

    /// Whether the caller may do this with the selected lock.
    pub(super) fn permit_selected(
        &self,
        caller: &Caller,
        right: Right,
        selector: &LockSelector,
    ) -> Result<(), Status> {
        match (selector, &caller.0) {
            (_, None) => Ok(()),
            (LockSelector::Key(key), Some(_)) => self.permit_key(caller, right, key),
            (LockSelector::Path(path), Some(limited)) => {
                self.of_path(path, None, |locks| self.permit(limited, right, locks))
            }
        }
    }

    /// Whether the caller may do this with the lock that it holds: only its holder was told the lease id or the resume
    /// token that the call carries, so a right for any lock will do. A resume is checked further by [`Self::permit_resume`].
    pub(super) fn permit_holder(&self, caller: &Caller, right: Right) -> Result<(), Status> {
        let Some(limited) = &caller.0 else { return Ok(()) };
        let locks = Locks { host_id: None, function: Functions::Some };
        access::check_somewhere(limited.rules(), right)
            .map_err(|refusal| self.refused(limited, right, (refusal, locks)))
    }

    /// Whether the caller may acquire the lock that a resume token names: the token is not signed, so anybody can make one.
    /// Where the path hides the function, the host id alone counts.
    pub(super) fn permit_resume(
        &self,
        caller: &Caller,
        request: &ResumeRequest,
    ) -> Result<(), Status> {
        let Some(limited) = &caller.0 else { return Ok(()) };
        let path = self.coordinator.resumed_path(request);
        let path = path.map_err(|error| status::of_call(&error))?;
        self.of_path(&path, None, |locks| {
            let function = match locks.function {
                Functions::Hidden => Functions::Some,
                shown @ (Functions::One(_) | Functions::Some) => shown,
            };
            self.permit(limited, Right::Acquire, Locks { function, ..locks })
        })
    }

    /// Whether the caller may see some of these locks.
    pub(super) fn permit_list(&self, caller: &Caller, under: &Under) -> Result<(), Status> {
        let Some(limited) = &caller.0 else { return Ok(()) };
        let host_id = match under {
            Under::Prefix(_) => return self.permit_holder(caller, Right::Read),
            Under::HostId(host_id) => Some(host_id),
            Under::OwnHostId => Some(self.own()),
        };
        self.permit(limited, Right::Read, Locks { host_id, function: Functions::Some })
    }

    /// Whether the caller may see this lock of a listing.
    pub(super) fn may_see(&self, caller: &Caller, record: &LockRecord) -> bool {
        let Some(limited) = &caller.0 else { return true };
        let function = Some(record.record.function.as_str());
        self.of_path(&record.path, function, |locks| {
            access::check(limited.rules(), Right::Read, locks, self.own()).is_ok()
        })
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
        ask(Locks { host_id: host_id.as_ref(), function })
    }

    fn own(&self) -> &HostId {
        &self.coordinator.host().host_id
    }

    fn permit(&self, limited: &Limited, right: Right, locks: Locks<'_>) -> Result<(), Status> {
        access::check(limited.rules(), right, locks, self.own())
            .map_err(|refusal| self.refused(limited, right, (refusal, locks)))
    }

    fn refused(
        &self,
        limited: &Limited,
        right: Right,
        (refusal, locks): (Refusal, Locks<'_>),
    ) -> Status {
        let caller = limited.shown.as_str();
        let host_id = locks.host_id.map(HostId::as_str).unwrap_or_default();
        let function = match locks.function {
            Functions::One(function) => function,
            Functions::Hidden | Functions::Some => "",
        };
        if let Some(more) = limited.refusals.line(self.coordinator.clock().now()) {
            let right = right.as_str();
            tracing::warn!(caller, right, host_id, function, more, "a call was refused by access");
        }
        let details = [
            ("caller", caller),
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
            "{caller} does not have the right {:?} for {what}: {}",
            right.as_str(),
            why(refusal, locks.function)
        );
        status::access_denied(&message, details)
    }
}

/// The locks that a call is about, for people.
fn what(locks: Locks<'_>) -> String {
    let host = locks.host_id.map_or_else(String::new, |host_id| format!(" of host id {host_id}"));
    match locks.function {
        Functions::One(function) => format!("function {function:?}{host}"),
        Functions::Hidden => format!("a lock{host} that is named by its path"),
        Functions::Some => format!("any lock{host}"),
    }
}

fn why(refusal: Refusal, function: Functions<'_>) -> &'static str {
    match (refusal, function) {
        (Refusal::NoRule, _) => {
            "no rule of access in the sidecar's configuration is for this caller; add one"
        }
        (Refusal::Right, _) => {
            "none of the caller's rules gives it; add it to the rights of a rule of access"
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
