use super::*;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn the_socket_is_for_its_user_and_group_and_goes_with_its_server() {
    let folder = folder();
    let path = folder.path().join("leasehold.sock");
    let socket = SocketFile::claim(&path).unwrap();
    let _listener = socket.listen().unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o660);
    drop(socket);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let folder = folder();
    let path = folder.path().join("leasehold.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "a socket whose process is gone stays");
    let socket = SocketFile::claim(&path).unwrap();
    let _listener = socket.listen().unwrap();
    let second = SocketFile::claim(&path).unwrap_err();
    assert!(matches!(second, ListenError::SocketInUse { .. }), "{second}");
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok(), "the first one still listens");
}

#[tokio::test]
async fn the_socket_of_another_program_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("other.sock");
    let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let refused = SocketFile::claim(&path).unwrap_err();
    assert!(matches!(refused, ListenError::SocketInUse { .. }), "{refused}");
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Who can open the lock file can hold its lock, and so keep the sidecar from starting.
#[tokio::test]
async fn the_lock_file_is_its_users_alone() {
    let folder = folder();
    let path = folder.path().join("leasehold.sock");
    let lock = beside(&path, ".lock");
    drop(SocketFile::claim(&path).unwrap());
    assert_eq!(mode(&lock), 0o600);
    drop(SocketFile::claim(&path).unwrap());
    for others in [0o644, 0o660, 0o602] {
        fs::set_permissions(&lock, fs::Permissions::from_mode(others)).unwrap();
        let refused = SocketFile::claim(&path).unwrap_err().to_string();
        assert!(refused.contains(&lock.display().to_string()), "{refused}");
        assert!(refused.contains(&format!("{others:04o}")), "{refused}");
    }
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o600)).unwrap();
    // Needs to be root.
    std::os::unix::fs::chown(&lock, Some(12_345), None).unwrap();
    let refused = SocketFile::claim(&path).unwrap_err().to_string();
    assert!(refused.contains("belongs to user 12345"), "{refused}");
}

#[tokio::test]
async fn a_link_in_place_of_the_lock_file_makes_no_file_elsewhere() {
    let folder = folder();
    let path = folder.path().join("leasehold.sock");
    let elsewhere = folder.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, beside(&path, ".lock")).unwrap();
    for _ in 0..2 {
        let refused = SocketFile::claim(&path).unwrap_err();
        assert!(matches!(refused, ListenError::LockFile { .. }), "{refused}");
        assert!(refused.to_string().contains("no symbolic link"), "{refused}");
    }
    assert!(!elsewhere.exists());
    fs::write(&elsewhere, "precious").unwrap();
    SocketFile::claim(&path).unwrap_err();
    assert_eq!(
        (fs::read_to_string(&elsewhere).unwrap().as_str(), mode(&elsewhere) & 0o111),
        ("precious", 0)
    );
}

#[tokio::test]
async fn what_is_no_socket_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("notes.txt");
    fs::write(&path, "precious").unwrap();
    let refused = SocketFile::claim(&path).unwrap_err();
    assert!(matches!(refused, ListenError::NotASocket { .. }), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_named() {
    let path = folder().path().join("gone/leasehold.sock");
    let refused = SocketFile::claim(&path).unwrap_err().to_string();
    assert!(refused.contains(&path.display().to_string()), "{refused}");
}

#[tokio::test]
async fn an_address_in_use_is_named_with_its_setting() {
    let first = listen_on("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = first.local_addr().unwrap();
    let refused = listen_on(address).await.unwrap_err().to_string();
    assert!(refused.contains(&address.to_string()) && refused.contains("listen.tcp"), "{refused}");
}
