//! Why credentials are refused, and what to do: by the service's name of the error and what is known here.

use std::time::{Duration, UNIX_EPOCH};

use super::client::SignedIn;
use super::error::{Account, Refusal, Request};

/// A request that was refused for its credentials.
pub(super) struct Denial<'a> {
    pub(super) refusal: &'a Refusal,
    pub(super) account: &'a Account<'a>,
}

/// The role that lets in all that a store does.
pub(super) const ROLE: &str = "Storage Blob Data Contributor";

/// The service refuses shared keys for clocks that differ by 15 minutes; a difference from here on is worth a
/// word.
const SKEW_MINUTES: u64 = 10;

impl Denial<'_> {
    /// What the operator can do.
    pub(super) fn advice(&self, request: Request) -> String {
        match self.refusal.code.as_str() {
            "KeyBasedAuthenticationNotPermitted" => {
                "the account forbids shared keys; sign in by workload or managed identity".to_owned()
            }
            "AuthorizationFailure" | "PublicAccessNotPermitted" => {
                "the account's network rules may block this machine, or the identity has no permission; check the account's \
                 networking and roles"
                    .to_owned()
            }
            "AccountIsDisabled" => "enable the storage account".to_owned(),
            _ => match self.account.sign_in {
                SignedIn::Key { account } => self.of_key(account),
                SignedIn::Sas(sas) => self.of_sas(sas, request),
                SignedIn::Token => self.of_token(),
            },
        }
    }

    fn of_key(&self, account: &str) -> String {
        if let Some(minutes) = self.skew_minutes() {
            return format!(
                "this machine's clock differs from the store's by {minutes} minutes; correct it \
                 (until then requests are signed with the store's time)"
            );
        }
        format!("the key is not a current key of the account {account:?}; copy it again")
    }

    fn of_sas(&self, sas: &super::sas::Sas, request: Request) -> String {
        let now = self.refusal.date.unwrap_or(self.account.wall);
        if sas.has_expired(now) {
            return format!(
                "the shared access signature expired at {}; create a new one",
                sas.expires_text
            );
        }
        if let Some(begins) = sas.begins_after(now) {
            let now = UNIX_EPOCH + Duration::from_secs(now.seconds());
            return format!(
                "the shared access signature begins at {begins}, and it is {} in the store: create one that is valid now",
                humantime::format_rfc3339_seconds(now)
            );
        }
        match self.refusal.code.as_str() {
            "AuthorizationPermissionMismatch" if request == Request::CreateContainer => {
                "the shared access signature does not permit creating containers; create the container".to_owned()
            }
            "AuthorizationPermissionMismatch" => sas_permissions(request).to_owned(),
            "AuthorizationProtocolMismatch" => {
                "the shared access signature is for https only; use an https endpoint".to_owned()
            }
            "AuthorizationSourceIPMismatch" => {
                "the shared access signature does not permit this machine's address".to_owned()
            }
            "AuthorizationServiceMismatch" | "AuthorizationResourceTypeMismatch" => {
                "the shared access signature is not for blobs; it needs service b and resource types c and o"
                    .to_owned()
            }
            _ => {
                "the shared access signature is not valid: its key was regenerated, it is incomplete, or it is for \
                 another container"
                    .to_owned()
            }
        }
    }

    fn of_token(&self) -> String {
        if self.refusal.status == 401 {
            return "the service does not accept the token of this identity; the next request fetches another one, so if this \
                    continues, check that the identity is in the tenant that the account belongs to"
                .to_owned();
        }
        format!(
            "give the identity the role {ROLE:?} on the container or the account; a new role takes some minutes to work"
        )
    }

    /// By how much the clocks differ, if by too much.
    fn skew_minutes(&self) -> Option<u64> {
        let date = self.refusal.date?;
        let minutes = date.0.abs_diff(self.account.wall.0) / 60_000;
        (minutes >= SKEW_MINUTES).then_some(minutes)
    }
}

/// The permissions that a shared access signature needs: the sidecar's own, and what only some requests take.
const fn sas_permissions(request: Request) -> &'static str {
    if matches!(request, Request::Delete | Request::DeletePlan) {
        "the shared access signature lacks the permission delete (d), which leasehold gc needs; the sidecar works \
         without it"
    } else if matches!(request, Request::Break) {
        "the shared access signature does not permit breaking a lease; create one with the permission delete (d) \
         besides read, write and list (sp=rwld)"
    } else {
        "the shared access signature lacks a permission; the sidecar needs read, write and list (rwl)"
    }
}
