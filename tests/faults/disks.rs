//! The embedded store on a disk that fills up.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use leasehold_client::{Client, Error, Outcome, Reason};
use rustix::process::Signal;

use crate::process::{BINARY, patient, send, spec, until};

/// A sidecar in a mount namespace of its own, with its database on a disk of half a megabyte.
struct OnSmallDisk {
    folder: tempfile::TempDir,
    child: Child,
}

/// Mounts the disk, then becomes the sidecar.
const SCRIPT: &str = "mount -t tmpfs -o size=512k tmpfs \"$1\" && shift && exec \"$@\"";

impl OnSmallDisk {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        std::fs::create_dir(&disk).unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "--", "sh", "-c", SCRIPT, "sh"]).arg(&disk);
        command.args([BINARY, "serve", "--set", "listen.tcp=", "--set", "admin.listen="]);
        command.args(["--set", &format!("store.embedded.path={}/locks.db", disk.display())]);
        let socket = folder.path().join("leasehold.sock");
        command.args(["--set", &format!("listen.unix={}", socket.display())]);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.process_group(0).spawn().unwrap();
        let sidecar = Self { folder, child };
        let endpoint = sidecar.endpoint();
        let probe = || {
            let mut probe = Command::new(BINARY);
            probe.args(["probe", "--endpoint", &endpoint]).stderr(Stdio::null());
            probe.stdout(Stdio::null()).status().unwrap().success().then_some(())
        };
        until("the sidecar is up", || sidecar.log(), probe).await;
        sidecar
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

    /// Writes until nothing fits.
    fn fill(&self) {
        let mut file = File::create(self.file("rubbish")).unwrap();
        for size in [65_536, 4_096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }
}

impl Drop for OnSmallDisk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn s18_a_full_disk_is_told_and_no_hold_is_claimed_that_is_not_held() {
    let sidecar = OnSmallDisk::start().await;
    let client = Client::connect(sidecar.endpoint()).await.unwrap();
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    let held = client.hold(patient("held")).events(sender).await.unwrap();
    let held = held.granted().expect("nobody else is there");
    sidecar.fill();

    // New records need room: refused, with what to do.
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

    // Who holds goes on being renewed, or is told in time: valid only as long as the store says so.
    std::fs::remove_file(sidecar.file("rubbish")).unwrap();
    let again = async {
        loop {
            if let Ok(Outcome::Granted(grant)) = client.acquire(spec("after")).await {
                return grant;
            }
        }
    };
    tokio::time::timeout(crate::process::PATIENCE, again).await.expect("there is room again");
    let mut kept = true;
    while let Ok(event) = events.try_recv() {
        kept &= !matches!(event, leasehold_client::HoldEvent::Lost(_));
    }
    assert_eq!(kept, held.is_valid(), "what it was told is what it believes");
    drop(held);
    send(&sidecar.child, Signal::TERM);
}
