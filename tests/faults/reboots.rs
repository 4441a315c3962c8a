//! The embedded store over a restart of the machine: each start of the sidecar is given a boot id of its own.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use leasehold::time::{BootClock, Clock as _};
use leasehold_client::{Client, Outcome};
use rustix::process::Signal;

use crate::faults::process::{patient, program, send, until};

/// Lays the boot id of the folder over the kernel's, then becomes the sidecar.
const SCRIPT: &str = "mount --bind \"$1\" /proc/sys/kernel/random/boot_id && shift && exec \"$@\"";

/// A sidecar on the file of the folder, on a machine that has booted under this id.
struct Booted<'a> {
    folder: &'a Path,
    child: Child,
}

impl<'a> Booted<'a> {
    async fn start(folder: &'a Path, boot_id: &str) -> Self {
        let id = folder.join("boot_id");
        std::fs::write(&id, format!("{boot_id}\n")).unwrap();
        let log = File::create(folder.join("log")).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "--", "sh", "-c", SCRIPT, "sh"]).arg(&id);
        command.args([program(), "serve", "--set", "listen.tcp=", "--set", "admin.listen="]);
        for setting in [
            format!("store.embedded.path={}/locks.db", folder.display()),
            format!("listen.unix={}/leasehold.sock", folder.display()),
            "host_id.host_type=Rebooted".to_owned(),
        ] {
            command.args(["--set", &setting]);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let booted = Self { folder, child: command.spawn().unwrap() };
        let endpoint = booted.endpoint();
        let probe = || {
            let mut probe = Command::new(program());
            probe.args(["probe", "--endpoint", &endpoint]).stderr(Stdio::null());
            probe.stdout(Stdio::null()).status().unwrap().success().then_some(())
        };
        let log = || std::fs::read_to_string(folder.join("log")).unwrap();
        until("the sidecar is up", log, probe).await;
        booted
    }

    fn endpoint(&self) -> String {
        format!("unix://{}", self.folder.join("leasehold.sock").display())
    }

    async fn client(&self) -> Client {
        Client::connect(self.endpoint()).await.unwrap()
    }

    /// As a machine whose power fails ends it.
    fn kill(&mut self) {
        send(&self.child, Signal::KILL);
        self.child.wait().unwrap();
    }
}

impl Drop for Booted<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The caller believes by `valid_for`, as one on another machine does, and nobody tells it of the restart.
#[tokio::test]
async fn s1_a_restarted_machine_grants_no_lock_that_a_caller_elsewhere_may_believe_in() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Booted::start(folder.path(), "11111111-0000-4000-8000-000000000001").await;
    let clock = BootClock::new();
    let asked = clock.now();
    let outcome = first.client().await.acquire(patient("nightly")).await.unwrap();
    let Outcome::Granted(held) = outcome else { panic!("{outcome:?}") };
    let valid_for = held.validity.valid_for;
    first.kill();
    let second = Booted::start(folder.path(), "22222222-0000-4000-8000-000000000002").await;
    let outcome = second.client().await.acquire(patient("nightly")).await.unwrap();
    let Outcome::Granted(next) = outcome else { panic!("{outcome:?}") };
    let believed = valid_for.saturating_sub(clock.now() - asked);
    assert!(believed.is_zero(), "granted while a caller believes for another {believed:?}");
    assert!(next.fencing_token > held.fencing_token, "S5");
}
