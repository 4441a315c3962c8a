//! What is said where something else than a sidecar is at the endpoint, or the sidecar may not be reached.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use crate::cli::rig::{Ended, Home, Sidecar};

/// A server that answers every connection with these bytes, once it has read something.
pub(crate) fn answering(bytes: &'static [u8]) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The thread ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1_024]);
            let _ = stream.write_all(bytes);
        }
    });
    address
}

#[tokio::test]
async fn another_http_server_and_the_admin_port_are_named_as_that() {
    let home = Home::new();
    let nginx =
        answering(b"HTTP/1.1 400 Bad Request\r\nServer: nginx/1.27\r\nContent-Length: 0\r\n\r\n");
    let endpoint = format!("http://{nginx}");
    for words in [&["ls"][..], &["run", "-f", "job", "--", "true"], &["probe"]] {
        let words = [words.split_at(1).0, &["--endpoint", &endpoint], words.split_at(1).1].concat();
        let ended = home.leasehold(&words).await;
        assert_eq!(ended.code, 69, "{ended:?}");
        assert!(
            ended.stderr.contains("an HTTP server (nginx/1.27) answers at http://127.0.0.1:"),
            "{ended:?}"
        );
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let sidecar = Sidecar::start(&[&format!("admin.listen={free}")]).await;
    let ended = sidecar.leasehold(&["ls", "--endpoint", &format!("http://{free}")]).await;
    assert_eq!(ended.code, 69, "{ended:?}");
    assert!(ended.stderr.contains("is the admin port of a sidecar (admin.listen)"), "{ended:?}");
}

#[tokio::test]
async fn a_port_that_speaks_tls_is_named_as_that() {
    let home = Home::new();
    let alert = answering(&[0x15, 0x03, 0x03, 0, 2, 2, 40]);
    let ended = home.leasehold(&["ls", "--endpoint", &format!("http://{alert}")]).await;
    assert_eq!(ended.code, 69, "{ended:?}");
    assert!(ended.stderr.contains("speaks TLS: write https://127.0.0.1:"), "{ended:?}");
}

#[tokio::test]
async fn a_socket_that_may_not_be_opened_says_whose_it_is() {
    let sidecar = Sidecar::start(&[]).await;
    let socket = sidecar.home.path("sidecar.sock");
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(&socket, 0);
    // The administrator may open everything.
    let nobody = rustix::process::geteuid().is_root().then_some(65_534);
    let ls = async || {
        let mut command = sidecar.home.command(&["ls"]);
        command.current_dir("/");
        if let Some(nobody) = nobody {
            command.uid(nobody);
        }
        Ended::of(command).await
    };
    if nobody.is_some() {
        open(&sidecar.home.path(""), 0o700);
        let ended = ls().await;
        assert_eq!(ended.code, 69, "{ended:?}");
        assert!(
            ended.stderr.contains("the folder ") && ended.stderr.contains("may not be entered"),
            "{ended:?}"
        );
        open(&sidecar.home.path(""), 0o755);
    }
    let ended = ls().await;
    assert_eq!(ended.code, 69, "{ended:?}");
    for part in
        ["may not be opened: it belongs to user ", " and group ", "mode 0000", "runs as user "]
    {
        assert!(ended.stderr.contains(part), "{ended:?}");
    }
    open(&socket, 0o660);
}

#[tokio::test]
async fn a_file_at_the_place_of_the_socket_is_no_sidecar() {
    let home = Home::new();
    std::fs::write(home.path("sidecar.sock"), "").unwrap();
    let ended = home.leasehold(&["ls"]).await;
    assert_eq!(ended.code, 69, "{ended:?}");
    assert!(ended.stderr.contains("is there, and is not a socket"), "{ended:?}");
}
