use std::os::unix::fs::PermissionsExt as _;

use crate::cli::rig::{Ended, Home};

#[tokio::test]
async fn the_copy_runs_and_is_everybody_s_to_execute() {
    let home = Home::new();
    let installed = home.leasehold(&["install", "."]).await;
    assert_eq!((installed.code, installed.stdout.as_str()), (0, "./leasehold\n"), "{installed:?}");
    let copy = home.path("leasehold");
    let mode = std::fs::metadata(&copy).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o555, "the application may be another user");
    let mut command = tokio::process::Command::new(&copy);
    command.arg("--version").stdout(std::process::Stdio::piped());
    let version = Ended::of(command).await;
    assert!(version.code == 0 && version.stdout.starts_with("leasehold "), "{version:?}");
}

#[tokio::test]
async fn a_copy_that_runs_is_replaced() {
    let home = Home::new();
    assert_eq!(home.leasehold(&["install", "."]).await.code, 0);
    let mut running = tokio::process::Command::new(home.path("leasehold"))
        .args(["probe", "--wait", "10m", "--endpoint", &home.endpoint()])
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let again = home.leasehold(&["install", "."]).await;
    assert_eq!(again.code, 0, "{again:?}");
    let left: Vec<_> = std::fs::read_dir(home.path("")).unwrap().map(Result::unwrap).collect();
    assert_eq!(left.len(), 1, "no half of a copy is left: {left:?}");
    running.kill().await.unwrap();
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_78_and_is_named() {
    let home = Home::new();
    let refused = home.leasehold(&["install", "missing"]).await;
    assert_eq!(refused.code, 78, "{refused:?}");
    assert!(refused.stderr.contains("missing/leasehold"), "{refused:?}");
}
