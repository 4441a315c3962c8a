//! Time namespaces: processes of one kernel whose boot clocks differ, and whose boot id is the same.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use leasehold_client::{Client, Outcome};
use rustix::process::Signal;

use crate::faults::process::{patient, program, send, spec, stop, until};

/// Writes down in which namespace this is, then becomes the program.
const SCRIPT: &str = "readlink /proc/self/ns/time >\"$1\" && shift && exec \"$@\"";

/// Seconds that a namespace's boot clock is ahead of the kernel's, or behind.
const SHIFTS: [&str; 2] = ["1000", "-5"];

/// A program in the kernel's own namespace, or in one of its own that shifts the boot clock.
fn run(folder: &Path, name: &str, shift: Option<&str>, words: &[String]) -> Child {
    let log = File::create(folder.join(format!("{name}.log"))).unwrap();
    let namespace = folder.join(format!("{name}.namespace"));
    let mut command = match shift {
        None => Command::new("sh"),
        Some(shift) => {
            let mut command = Command::new("unshare");
            command.args(["--time", "--boottime", shift, "--fork", "--kill-child", "--", "sh"]);
            command
        }
    };
    command.args(["-c", SCRIPT, "sh"]).arg(&namespace).arg(program()).args(words);
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

/// A sidecar on the file of the folder.
struct Sidecar<'a> {
    folder: &'a Path,
    name: &'a str,
    child: Child,
}

impl<'a> Sidecar<'a> {
    async fn start(folder: &'a Path, name: &'a str, shift: Option<&str>) -> Self {
        let settings = [
            "listen.tcp=".to_owned(),
            "admin.listen=".to_owned(),
            format!("store.embedded.path={}/locks.db", folder.display()),
            format!("listen.unix={}/{name}.sock", folder.display()),
            "host_id.host_type=Namespaces".to_owned(),
        ];
        let settings = settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]);
        let words: Vec<String> = ["serve".to_owned()].into_iter().chain(settings).collect();
        let sidecar = Self { folder, name, child: run(folder, name, shift, &words) };
        let endpoint = sidecar.endpoint();
        let probe = || {
            let mut probe = Command::new(program());
            probe.args(["probe", "--endpoint", &endpoint]).stderr(Stdio::null());
            probe.stdout(Stdio::null()).status().unwrap().success().then_some(())
        };
        until("the sidecar is up", || sidecar.log(), probe).await;
        sidecar
    }

    fn endpoint(&self) -> String {
        format!("unix://{}/{}.sock", self.folder.display(), self.name)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join(format!("{}.log", self.name))).unwrap()
    }

    async fn client(&self) -> Client {
        Client::connect(self.endpoint()).await.unwrap()
    }
}

impl Drop for Sidecar<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// That it was put into another namespace than this process is in.
fn assert_elsewhere(folder: &Path, name: &str) {
    let there = std::fs::read_to_string(folder.join(format!("{name}.namespace"))).unwrap();
    let here = std::fs::read_link("/proc/self/ns/time").unwrap();
    assert_ne!(Path::new(there.trim()), here, "{name} is where this is");
}

#[tokio::test]
async fn s1_sidecars_in_different_time_namespaces_share_a_file_as_one_machine() {
    let folder = tempfile::tempdir().unwrap();
    let plain = Sidecar::start(folder.path(), "plain", None).await;
    for (name, shift) in ["ahead", "behind"].into_iter().zip(SHIFTS) {
        let shifted = Sidecar::start(folder.path(), name, Some(shift)).await;
        assert_elsewhere(folder.path(), name);
        for [first, second] in [[&plain, &shifted], [&shifted, &plain]] {
            let held = first.client().await.acquire(patient(name)).await.unwrap();
            let Outcome::Granted(held) = held else { panic!("{held:?}") };
            // Whoever looks may not shorten what it finds either.
            for _ in 0..2 {
                for sidecar in [second, first] {
                    let refused = sidecar.client().await.acquire(spec(name)).await.unwrap();
                    assert!(matches!(refused, Outcome::Busy(_)), "{name}: {refused:?}");
                }
            }
            first.client().await.release(held.lease_id.clone()).await.unwrap();
            let next = second.client().await.acquire(spec(name)).await.unwrap();
            let Outcome::Granted(next) = next else { panic!("{name}: {next:?}") };
            assert!(next.fencing_token > held.fencing_token);
            second.client().await.release(next.lease_id.clone()).await.unwrap();
        }
    }
}

/// The sidecar falls silent, and the command of a client in another namespace is gone when the lock is
/// granted again.
#[tokio::test]
async fn s21_a_client_in_another_time_namespace_gives_up_in_time() {
    for shift in SHIFTS {
        let folder = tempfile::tempdir().unwrap();
        let silent = Sidecar::start(folder.path(), "silent", None).await;
        let other = Sidecar::start(folder.path(), "other", None).await;
        let pid = folder.path().join("pid");
        let command = format!("echo $$ >{} && exec sleep 1000", pid.display());
        let endpoint = silent.endpoint();
        let words = [
            "run",
            "--endpoint",
            &endpoint,
            "-f",
            "job",
            "--lease-duration",
            "15s",
            "--",
            "sh",
            "-c",
        ];
        let words: Vec<String> = words.into_iter().map(str::to_owned).chain([command]).collect();
        let mut run = run(folder.path(), "run", Some(shift), &words);
        let runs = || {
            let text = std::fs::read_to_string(&pid).ok()?;
            text.trim().parse::<u32>().ok()
        };
        let log = || std::fs::read_to_string(folder.path().join("run.log")).unwrap();
        let job = until("the command runs", log, runs).await;
        assert_elsewhere(folder.path(), "run");
        stop(&silent.child).await;
        let granted = other.client().await.acquire(patient("job")).await.unwrap();
        assert!(matches!(granted, Outcome::Granted(_)), "{granted:?}");
        let is_gone = std::fs::read_to_string(format!("/proc/{job}/stat"))
            .map_or(true, |stat| stat.contains(") Z "));
        assert!(is_gone, "{shift}: it runs beside another holder: {}", log());
        send(&silent.child, Signal::CONT);
        run.wait().unwrap();
    }
}
