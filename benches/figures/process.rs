//! The program as a process, and what the kernel says of one.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The program that is measured: the one that `LEASEHOLD_PROGRAM` names, as `make bench` does with the static
/// program of the packages and the image, else the one that was built for this bench.
pub(crate) fn program() -> PathBuf {
    let named = std::env::var_os("LEASEHOLD_PROGRAM").filter(|named| !named.is_empty());
    named.map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_leasehold")), PathBuf::from)
}

/// `leasehold serve` with an embedded store in `folder`, and its socket, which is there.
pub(crate) async fn serve(folder: &Path) -> (Child, PathBuf) {
    let socket = folder.join("s");
    let child = Command::new(program())
        .arg("serve")
        .args(["--set", "listen.tcp=", "--set", "admin.listen="])
        .args(["--set", &format!("listen.unix={}", socket.display())])
        .args(["--set", &format!("store.embedded.path={}", folder.join("db").display())])
        .args(["--set", "store.embedded.max_locks=1000000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !socket.exists() {
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    (child, socket)
}

/// Resident memory in MiB.
pub(crate) fn resident_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1_024.0
}

/// Processor time that it has had.
pub(crate) fn processor_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the name in brackets: the state is field 3, utime and stime are 14 and 15, in hundredths of a
    // second.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}
