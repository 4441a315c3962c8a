//! What is special about a storage account.

use std::time::{Duration, UNIX_EPOCH};

use super::report::{Finding, Report};
use crate::cli::record::printable;
use crate::cli::signature;
use crate::cli::times::moment;
use crate::lock::Container;
use crate::store::StoreError;
use crate::store::azure::{AzureStore, BlobHistory, Proxy, Route, Signature};
use crate::time::UnixMillis;

/// Looks at which kind of account it is, and at what it keeps that locks do not need.
pub(super) async fn examine(account: &AzureStore, container: &Container, report: &mut Report) {
    report.add(of_namespace(account.is_hierarchical(container).await));
    match account.blob_history(container).await {
        Ok(history) => {
            report.add(of_versions(history));
            if let Some(finding) = of_deleted(history) {
                report.add(finding);
            }
        }
        Err(error) => {
            let advice = "no lock depends on it; old versions and deleted blobs cost money";
            report.add(Finding::warning("blob versions", error.chain(), advice));
        }
    }
}

/// Looks at when the shared access signature ends, if there is one: whether or not the service takes it.
pub(super) fn examine_signature(account: &AzureStore, now: UnixMillis, report: &mut Report) {
    if let Some(signed) = account.signature() {
        report.add(of_signature(&signed, now));
    }
}

/// Names the account and what is on the way to it: a message about a host that does not answer may be about
/// its proxy.
pub(super) fn of_route(route: &Route) -> Finding {
    let Route { account, host, port, proxy } = route;
    let way = match proxy {
        None => "without a proxy".to_owned(),
        Some(Proxy { url, variable }) => format!("through the proxy {url} (from {variable})"),
    };
    Finding::good("account", format!("{account} at {host}, port {port}, {way}"))
}

fn of_signature(signed: &Signature, now: UnixMillis) -> Finding {
    let check = "signature";
    let place = match &signed.container {
        Some(container) => format!("for the container {}", printable(container)),
        None => "for no one container in particular".to_owned(),
    };
    let begins = signed.begins.and_then(|begins| {
        let at = UNIX_EPOCH.checked_add(Duration::from_secs(begins.seconds()));
        moment(at).map(|at| format!("begins at {at}, and "))
    });
    let begins = begins.unwrap_or_default();
    let Some(end) = signed.ends else {
        let detail = format!(
            "the shared access signature, {place}, {begins}ends when its stored access policy says"
        );
        return Finding::good(check, detail);
    };
    let detail =
        format!("the shared access signature, {place}, {begins}{}", signature::text(end, now));
    match signature::notice(end, now) {
        None => Finding::good(check, detail),
        Some(_) => {
            let advice = "when it ends, every hold is lost: create another one (docs/azure.md); a sidecar that reads it from a \
                          file uses the new one without a restart";
            Finding::warning(check, detail, advice)
        }
    }
}

fn of_namespace(is_hierarchical: Result<Option<bool>, StoreError>) -> Finding {
    let check = "namespace";
    let unknown = |why: &str| {
        let detail =
            format!("unknown: {why}; az storage account show --query isHnsEnabled shows it");
        Finding::good(check, detail)
    };
    match is_hierarchical {
        Ok(Some(false)) => Finding::good(check, "flat: an account for blobs"),
        Ok(Some(true)) => Finding::good(
            check,
            "hierarchical (Data Lake Storage): locks work; the folders of their names are directories, which are not \
             listed as locks, and which gc leaves: docs/azure.md",
        ),
        Ok(None) => unknown("the service does not tell"),
        // No lock depends on it.
        Err(error) => unknown(&error.chain()),
    }
}

fn of_versions(history: BlobHistory) -> Finding {
    let check = "blob versions";
    if !history.versions {
        return Finding::good(check, "off");
    }
    Finding::warning(
        check,
        "on: the account keeps every version of a blob, each grant of a lock adds one, and each costs money",
        "turn blob versioning off (a setting of the whole account), or keep locks in an account without it, or delete \
         this container's old versions after a day with a lifecycle rule: docs/azure.md has the commands",
    )
}

fn of_deleted(history: BlobHistory) -> Option<Finding> {
    let check = "blob soft delete";
    if !history.deleted? {
        return Some(Finding::good(check, "off"));
    }
    let span = history
        .deleted_days
        .map_or_else(|| "for a while".to_owned(), |days| format!("for {days} days"));
    let with_versions =
        if history.versions { ", and versions that a lifecycle rule deletes" } else { "" };
    Some(Finding::warning(
        check,
        format!(
            "on: the account keeps deleted blobs {span}: locks that gc deletes, notes of breaks{with_versions}"
        ),
        "locks do not need it: turn it off (a setting of the whole account), or keep locks in an account without it: \
         docs/azure.md has the commands",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(finding: &Finding) -> serde_json::Value {
        serde_json::to_value(finding).unwrap()
    }

    const NONE: BlobHistory = BlobHistory { versions: false, deleted: None, deleted_days: None };

    fn until(end: UnixMillis) -> Signature {
        Signature {
            begins: Some(UnixMillis(end.0 - 86_400_000)),
            ends: Some(end),
            container: Some("locks".to_owned()),
        }
    }

    #[test]
    fn a_signature_is_told_by_its_start_its_end_and_its_container() {
        let now = UnixMillis(1_800_000_000_000);
        let found = shown(&of_signature(&until(UnixMillis(now.0 + 30 * 86_400_000)), now));
        assert_eq!(
            found["detail"],
            "the shared access signature, for the container locks, begins at 2027-02-13T08:00:00Z, and ends in 30d, at \
             2027-02-14T08:00:00Z"
        );
        let by_policy = Signature { begins: None, ends: None, container: None };
        let found = shown(&of_signature(&by_policy, now));
        assert!(found["detail"].as_str().unwrap().contains("stored access policy"), "{found}");
    }

    #[test]
    fn the_way_to_an_account_names_its_port_and_the_proxy() {
        let (account, host) = ("mine".to_owned(), "mine.blob.core.windows.net".to_owned());
        let proxy = Proxy { url: "http://proxy.example:3128".to_owned(), variable: "HTTPS_PROXY" };
        let route = Route { account, host, port: 443, proxy: Some(proxy) };
        let found = shown(&of_route(&route));
        assert_eq!(
            found["detail"],
            "mine at mine.blob.core.windows.net, port 443, through the proxy http://proxy.example:3128 (from HTTPS_PROXY)"
        );
    }

    #[test]
    fn the_end_of_a_signature_is_told_and_warned_about_when_it_is_near() {
        let now = UnixMillis(1_800_000_000_000);
        for (days, status, wanted) in [(30, "good", "ends in 30d"), (6, "warning", "6d")] {
            let found = shown(&of_signature(&until(UnixMillis(now.0 + days * 86_400_000)), now));
            assert_eq!(found["status"], status);
            assert!(found["detail"].as_str().unwrap().contains(wanted), "{found}");
        }
        let found = shown(&of_signature(&until(now), now));
        assert!(
            found["detail"].as_str().unwrap().contains("ended at 2027-01-15T08:00:00Z"),
            "{found}"
        );
    }

    #[test]
    fn the_kind_of_account_is_told_and_never_stands_in_the_way() {
        for (answer, wanted) in [
            (Ok(Some(false)), "flat"),
            (Ok(Some(true)), "hierarchical (Data Lake Storage)"),
            (Ok(None), "unknown: the service does not tell"),
            (Err(StoreError::NotFound), "az storage account show --query isHnsEnabled"),
        ] {
            let found = shown(&of_namespace(answer));
            assert_eq!(found["status"], "good");
            assert!(found["detail"].as_str().unwrap().contains(wanted), "{found}");
        }
    }

    #[test]
    fn versions_are_told_with_their_cost_and_what_to_do() {
        assert_eq!(shown(&of_versions(NONE))["status"], "good");
        let found = shown(&of_versions(BlobHistory { versions: true, ..NONE }));
        assert_eq!(found["status"], "warning");
        assert!(found["detail"].as_str().unwrap().contains("each grant"), "{found}");
        assert!(found["advice"].as_str().unwrap().contains("lifecycle rule"), "{found}");
    }

    #[test]
    fn soft_delete_is_told_as_far_as_it_is_known() {
        assert_eq!(of_deleted(NONE), None);
        let off = of_deleted(BlobHistory { deleted: Some(false), ..NONE }).unwrap();
        assert_eq!(shown(&off)["status"], "good");
        let on = BlobHistory { versions: true, deleted: Some(true), deleted_days: Some(7) };
        let found = shown(&of_deleted(on).unwrap());
        assert_eq!(found["status"], "warning");
        let detail = found["detail"].as_str().unwrap();
        assert!(detail.contains("for 7 days") && detail.contains("versions"), "{detail}");
    }
}
