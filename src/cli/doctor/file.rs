//! What is special about a store in a file.

use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statfs, statvfs};

use super::report::{Finding, Report};
use crate::cli::exit::Exit;

/// Less than this is told with a warning: a thousand locks take about a megabyte.
const LITTLE_BYTES: u64 = 64 * 1_024 * 1_024;

/// File systems that several machines may mount, by the magic number of statfs(2).
const SHARED: [(u64, &str); 6] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x6573_5546, "FUSE"),
];

/// Looks at the file and its folder. That others may read it, the store says itself.
pub(super) fn examine(file: &Path, report: &mut Report) {
    let mount = file.ancestors().skip(1).find(|folder| folder.is_dir());
    if let Some(mount) = mount
        && let Ok(facts) = statvfs(mount)
        && facts.f_flag.contains(StatVfsMountFlags::RDONLY)
    {
        report.fail(of_read_only(mount), Exit::Misconfigured);
        return;
    }
    let Some(folder) = file.parent().filter(|folder| folder.is_dir()) else { return };
    report.add(of_access(file));
    if let Ok(facts) = statvfs(folder) {
        report.add(of_space(facts.f_bavail.saturating_mul(facts.f_frsize), folder));
    }
    if let Ok(facts) = statfs(folder) {
        let magic = u64::try_from(facts.f_type).unwrap_or_default() & 0xffff_ffff;
        report.add(of_sharing(magic, folder, in_a_pod()));
    }
}

/// What Kubernetes sets in each of its pods.
const POD_VARIABLE: &str = "KUBERNETES_SERVICE_HOST";

/// Whether this runs in a pod, whose replicas would each have a file of their own.
pub(in crate::cli) fn in_a_pod() -> bool {
    std::env::var_os(POD_VARIABLE).is_some()
}

/// What a file of this machine cannot do, for whoever starts a sidecar on it.
pub(in crate::cli) const fn excludes_only(in_a_pod: bool) -> &'static str {
    if in_a_pod {
        "the embedded store is a file in this pod: replicas in other pods have files of their own, and each of them would hold the lock. Set \
         store.kind = \"azure\" for several replicas"
    } else {
        "the embedded store is a file of this machine: replicas on other machines, or in other containers, have files of their own, and each of \
         them would hold the lock. Set store.kind = \"azure\" for those"
    }
}

fn of_access(file: &Path) -> Finding {
    let check = "file";
    match std::fs::metadata(file) {
        Ok(facts) => Finding::good(check, format!("{}, {} bytes", file.display(), facts.len())),
        Err(error) => Finding::warning(
            check,
            format!("{}: {error}", file.display()),
            "it is created on first use; the checks below say whether that is possible",
        ),
    }
}

fn of_read_only(folder: &Path) -> Finding {
    Finding::bad(
        "file system",
        format!("{} is on a file system that is mounted read-only", folder.display()),
        "mount a volume that can be written there, or set store.embedded.path to a file on one",
    )
}

fn of_space(free_bytes: u64, folder: &Path) -> Finding {
    let detail = format!("{} MiB free in {}", free_bytes / (1_024 * 1_024), folder.display());
    if free_bytes >= LITTLE_BYTES {
        Finding::good("disk", detail)
    } else {
        Finding::warning(
            "disk",
            detail,
            "locks cannot be acquired when the disk is full: free some space",
        )
    }
}

/// Leases in the file run on the kernel's boot clock (S3), so it is for one kernel.
fn of_sharing(magic: u64, folder: &Path, in_a_pod: bool) -> Finding {
    let check = "sharing";
    match SHARED.iter().find(|(known, _)| *known == magic) {
        Some((_, name)) => Finding::warning(
            check,
            format!("{} is on {name}, which other machines may mount", folder.display()),
            "locks in a file exclude the processes of one machine only: use store.kind = \"azure\" for several",
        ),
        None if in_a_pod => Finding::warning(
            check,
            "locks exclude the processes of this pod, and of no other",
            "set store.kind = \"azure\" for several replicas: each would have a file of its own, and hold the lock",
        ),
        None => Finding::good(
            check,
            "locks exclude all processes of this machine, and of no other: leases run on its kernel's clock",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(finding: Finding) -> serde_json::Value {
        serde_json::to_value(finding).unwrap()
    }

    #[test]
    fn a_file_that_is_not_there_is_warned_about() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("locks.db");
        assert_eq!(shown(of_access(&file))["status"], "warning");
        std::fs::write(&file, "").unwrap();
        assert_eq!(shown(of_access(&file))["status"], "good");
    }

    #[test]
    fn a_full_disk_and_a_shared_one_are_warned_about() {
        let folder = Path::new("/x");
        assert_eq!(shown(of_space(1_024, folder))["status"], "warning");
        assert_eq!(shown(of_space(u64::MAX, folder))["status"], "good");
        assert!(shown(of_sharing(0x6969, folder, false))["detail"].to_string().contains("NFS"));
        assert_eq!(shown(of_sharing(0xef53, folder, false))["status"], "good");
        assert_eq!(shown(of_sharing(0xef53, folder, true))["status"], "warning");
    }
}
