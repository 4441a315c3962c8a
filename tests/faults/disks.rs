//! The embedded store on a disk that fills up.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use leasehold_client::{Client, Error, HoldEvent, Outcome, Reason};
use rustix::process::{Pid, Signal, kill_process};

use crate::faults::process::{SHORT, patient, program, spec, until};

/// A sidecar in a mount namespace of its own, with its database on a disk of eight megabytes.
struct OnSmallDisk {
    folder: tempfile::TempDir,
    child: Child,
}

/// Mounts the disk, then runs the sidecar, and once more when it has ended.
const SCRIPT: &str = "mount -t tmpfs -o size=8m tmpfs \"$1\" && shift && { \"$@\"; exec \"$@\"; }";

impl OnSmallDisk {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        std::fs::create_dir(&disk).unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "--", "sh", "-c", SCRIPT, "sh"]).arg(&disk);
        command.args([program(), "serve", "--set", "listen.tcp=", "--set", "admin.listen="]);
        command.args(["--set", &format!("store.embedded.path={}/locks.db", disk.display())]);
        let socket = folder.path().join("leasehold.sock");
        command.args(["--set", &format!("listen.unix={}", socket.display())]);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.process_group(0).spawn().unwrap();
        let sidecar = Self { folder, child };
        sidecar.wait_until_up().await;
        sidecar
    }

    async fn wait_until_up(&self) {
        let endpoint = self.endpoint();
        let probe = || {
            let mut probe = Command::new(program());
            probe.args(["probe", "--endpoint", &endpoint]).stderr(Stdio::null());
            probe.stdout(Stdio::null()).status().unwrap().success().then_some(())
        };
        until("the sidecar is up", || self.log(), probe).await;
    }

    /// Ends the sidecar, and waits for the one after it.
    async fn restart(&self) {
        let shell = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        let sidecar: i32 = children.unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(sidecar).unwrap(), Signal::TERM).unwrap();
        let is_gone = || (!Path::new(&format!("/proc/{sidecar}")).exists()).then_some(());
        until("the sidecar has ended", || self.log(), is_gone).await;
        self.wait_until_up().await;
    }

    fn endpoint(&self) -> String {
        format!("unix://{}", self.folder.path().join("leasehold.sock").display())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// A file on the disk, as the sidecar's namespace has it.
    fn file(&self, name: &str) -> PathBuf {
        let inside = self.folder.path().join("disk").join(name);
        let root = PathBuf::from(format!("/proc/{}/root", self.child.id()));
        root.join(inside.strip_prefix("/").unwrap())
    }

    /// Writes until nothing fits, as somebody else does.
    fn fill(&self) {
        let mut file = File::create(self.file("rubbish")).unwrap();
        for size in [65_536, 4_096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        let full = std::fs::write(self.file("one-more"), "x").unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }
}

impl Drop for OnSmallDisk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const LOCKS: usize = 50;

/// Acquires and releases each lock that is there, with a checkpoint that is larger than the last.
async fn use_each(client: &Client, round: usize) {
    for number in 0..LOCKS {
        let granted = client.acquire(spec(&format!("old-{number}"))).await.unwrap();
        let Outcome::Granted(grant) = granted else { panic!("{granted:?}") };
        let checkpoint = vec![7; (round * 200).min(2_048)];
        client.release_with_checkpoint(grant.lease_id, checkpoint).await.unwrap();
    }
}

#[tokio::test]
async fn s18_a_disk_that_somebody_else_fills_ends_no_hold_and_refuses_new_locks_only() {
    let sidecar = OnSmallDisk::start().await;
    let client = Client::connect(sidecar.endpoint()).await.unwrap();
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    let held = client.hold(patient("held")).events(sender).await.unwrap();
    let held = held.granted().expect("nobody else is there");
    use_each(&client, 0).await;
    sidecar.fill();
    let filled_at = held.valid_until();

    // New locks need room: refused when what was taken beforehand is used up, with what to do.
    let mut refused = None;
    for number in 0..10_000 {
        match client.acquire(spec(&format!("new-{number}"))).await {
            Ok(Outcome::Granted(_)) => {}
            Ok(other @ (Outcome::Busy(_) | Outcome::AlreadyDone(_) | Outcome::Skipped { .. })) => {
                panic!("{other:?}")
            }
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let Some(Error::Refused(refusal)) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal.reason, Some(Reason::StoreFailed), "{refusal:?}");
    assert!(refusal.message.contains("free space"), "{}", refusal.message);

    // Whatever is there goes on: renewals for longer than a lease, and acquires, saves and releases.
    let longer = std::time::Duration::from_secs(2 * SHORT);
    let mut round = 0;
    while held.valid_until().saturating_since(filled_at) < longer {
        round += 1;
        use_each(&client, round).await;
    }
    while let Ok(event) = events.try_recv() {
        assert!(!matches!(event, HoldEvent::Lost(_) | HoldEvent::AtRisk { .. }), "{event:?}");
    }
    assert!(held.is_valid());
    held.release().await.unwrap();

    // And after a restart.
    sidecar.restart().await;
    let client = Client::connect(sidecar.endpoint()).await.unwrap();
    use_each(&client, round).await;
    let refused = client.acquire(spec("new-and-late")).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");

    std::fs::remove_file(sidecar.file("rubbish")).unwrap();
    let again = client.acquire(spec("new-and-late")).await.unwrap();
    assert!(matches!(again, Outcome::Granted(_)), "there is room again: {again:?}");
}
