//! Why credentials are refused, and what to do: by the service's name of the error and what is known here.

use super::client::SignedIn;
use super::error::{Account, Refusal, Request};

/// A request that was refused for its credentials.
pub(super) struct Denial<'a> {
    pub(super) refusal: &'a Refusal,
    pub(super) account: &'a Account<'a>,
}

/// The role that lets in all that a store does.
pub(super) const ROLE: &str = "Storage Blob Data Contributor";

/// The service refuses shared keys for clocks that differ by 15 minutes; a difference from here on is worth a word.
const SKEW_MINUTES: u64 = 10;

impl Denial<'_> {
    /// What the operator can do.
    pub(super) fn advice(&self, request: Request) -> String {
        match self.refusal.code.as_str() {
            "KeyBasedAuthenticationNotPermitted" => {
                "the account forbids shared keys; sign in by workload or managed identity".to_owned()
            }
            "AuthorizationFailure" | "PublicAccessNotPermitted" => {
                "the account's network rules may keep this machine out, or the identity has no right here; \
                 look at the account's networking and roles"
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
                "this machine's clock is {minutes} minutes off the store's; set it \
                 (until then requests are signed by the store's clock)"
            );
        }
        format!("the key is none of the account {account:?}'s, or no longer; copy it again")
    }

    fn of_sas(&self, sas: &super::sas::Sas, request: Request) -> String {
        let now = self.refusal.date.unwrap_or(self.account.wall);
        if sas.has_expired(now) {
            return format!(
                "the shared access signature ended at {}; make a new one",
                sas.expires_text
            );
        }
        match self.refusal.code.as_str() {
            "AuthorizationPermissionMismatch" if request == Request::CreateContainer => {
                "the shared access signature may not make containers; make the container".to_owned()
            }
            "AuthorizationPermissionMismatch" => {
                "the shared access signature lacks a permission; it needs read, write and list (rwl), and delete (d) \
                 for leasehold break and leasehold gc"
                    .to_owned()
            }
            "AuthorizationProtocolMismatch" => {
                "the shared access signature is for https only; use an https endpoint".to_owned()
            }
            "AuthorizationSourceIPMismatch" => {
                "the shared access signature is for other addresses than this machine's".to_owned()
            }
            "AuthorizationServiceMismatch" | "AuthorizationResourceTypeMismatch" => {
                "the shared access signature is not for blobs; it needs service b and resource types c and o"
                    .to_owned()
            }
            _ => {
                "the shared access signature is not valid here: its key was renewed, its text was cut, \
                 or it is for another container"
                    .to_owned()
            }
        }
    }

    fn of_token(&self) -> String {
        if self.refusal.status == 401 {
            return "the service does not take the token of this identity; the next request fetches another, so if this \
                    goes on, check that the identity is of the directory (tenant) that the account belongs to"
                .to_owned();
        }
        format!(
            "give the identity the role {ROLE:?} on the container or the account; it takes some minutes to count"
        )
    }

    /// By how much the clocks differ, if by too much.
    fn skew_minutes(&self) -> Option<u64> {
        let date = self.refusal.date?;
        let minutes = date.0.abs_diff(self.account.wall.0) / 60_000;
        (minutes >= SKEW_MINUTES).then_some(minutes)
    }
}
