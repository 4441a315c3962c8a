use rcgen::{CertificateParams, CertifiedKey, KeyPair};

use super::*;

/// The files of a server with a certificate of its own making.
struct Folder {
    folder: tempfile::TempDir,
    settings: Tls,
}

impl Folder {
    fn new(client_ca: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let settings = Tls {
            certificate: path("tls.crt"),
            key: path("tls.key"),
            client_ca: client_ca.then(|| path("ca.crt")),
            crl: None,
            reload_interval: RELOAD_INTERVAL,
        };
        let own = Self { folder, settings };
        own.renew(2030);
        own.write("ca.crt", &certificate(2040).cert.pem());
        own
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// Writes another certificate, that expires with the year.
    fn renew(&self, year: i32) {
        let renewed = certificate(year);
        self.write("tls.crt", &renewed.cert.pem());
        self.write("tls.key", &renewed.signing_key.serialize_pem());
    }
}

fn certificate(year: i32) -> CertifiedKey<KeyPair> {
    let signing_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["locks.shop.svc".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(year, 12, 31);
    CertifiedKey { cert: params.self_signed(&signing_key).unwrap(), signing_key }
}

/// The year of the served certificate's end.
fn year(certificates: &Certificates) -> u64 {
    1970 + certificates.not_after().borrow().unwrap().seconds() / 31_556_952
}

#[test]
fn a_renewed_certificate_is_used_and_what_was_there_before_is_forgotten() {
    let folder = Folder::new(false);
    let certificates = Certificates::open(&folder.settings).unwrap();
    assert_eq!(
        (year(&certificates), certificates.name().as_deref()),
        (2030, Some("locks.shop.svc"))
    );
    let first = certificates.config();
    certificates.look();
    assert!(Arc::ptr_eq(&first, &certificates.config()), "nothing has changed");
    folder.renew(2031);
    certificates.look();
    assert!(!Arc::ptr_eq(&first, &certificates.config()));
    assert_eq!(year(&certificates), 2031);
}

#[test]
fn the_authorities_of_clients_are_replaced_too() {
    let folder = Folder::new(true);
    let certificates = Certificates::open(&folder.settings).unwrap();
    let first = certificates.config();
    folder.write("ca.crt", &certificate(2041).cert.pem());
    certificates.look();
    assert!(!Arc::ptr_eq(&first, &certificates.config()));
}

/// An authority, and the list of what it revoked.
fn authority(revoked: &[u64]) -> (rcgen::CertifiedIssuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = rcgen::CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let list = list_by(&issuer, revoked);
    (issuer, list)
}

fn list_by(issuer: &rcgen::Issuer<'static, KeyPair>, revoked: &[u64]) -> String {
    let revoked = revoked.iter().map(|serial| rcgen::RevokedCertParams {
        serial_number: (*serial).into(),
        revocation_time: rcgen::date_time_ymd(2026, 1, 1),
        reason_code: None,
        invalidity_date: None,
    });
    let list = rcgen::CertificateRevocationListParams {
        this_update: rcgen::date_time_ymd(2026, 1, 1),
        // Long over: it counts on.
        next_update: rcgen::date_time_ymd(2026, 1, 2),
        crl_number: 1_u64.into(),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect(),
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    list.signed_by(issuer).unwrap().pem().unwrap()
}

#[test]
fn s20_a_list_of_what_was_revoked_is_used_when_it_changes() {
    let mut folder = Folder::new(true);
    folder.settings.crl = Some(folder.folder.path().join("ca.crl"));
    let (issuer, none) = authority(&[]);
    folder.write("ca.crt", &issuer.pem());
    folder.write("ca.crl", &none);
    let certificates = Certificates::open(&folder.settings).unwrap();
    let chain = |serial: u64| {
        let mut params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        params.serial_number = Some(serial.into());
        let issued = params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
        [issued.der().clone()]
    };
    let now = UnixMillis(1_800_000_000_000);
    let (one, two) = (chain(7), chain(8));
    let revoked = |chain: &[CertificateDer<'static>]| certificates.is_revoked(chain, now);
    assert_eq!((revoked(&one), revoked(&two), certificates.generation()), (false, false, 0));
    folder.write("ca.crl", &list_by(&issuer, &[7]));
    certificates.look();
    assert_eq!((revoked(&one), revoked(&two), certificates.generation()), (true, false, 1));
    for (list, said) in [("", "no certificate revocation list"), ("-----", "listen.tls.crl")] {
        folder.write("ca.crl", list);
        certificates.look();
        let problem = certificates.current().problem.clone().unwrap();
        assert!(problem.contains(said), "{problem}");
        assert!(revoked(&one), "the former list stays in use");
    }
}

#[test]
fn files_that_cannot_be_used_leave_the_former_ones_in_use_and_are_said_once() {
    let folder = Folder::new(true);
    let certificates = Certificates::open(&folder.settings).unwrap();
    let first = certificates.config();
    let problem = || certificates.current().problem.clone();
    for (name, text) in [
        ("tls.crt", "no certificate".to_owned()),
        ("tls.crt", String::new()),
        ("tls.key", KeyPair::generate().unwrap().serialize_pem()),
        ("ca.crt", "no certificate".to_owned()),
    ] {
        folder.renew(2032);
        folder.write("ca.crt", &certificate(2042).cert.pem());
        folder.write(name, &text);
        certificates.look();
        assert!(Arc::ptr_eq(&first, &certificates.config()), "{name}: {text}");
        assert_eq!(year(&certificates), 2030);
        let said = problem().unwrap();
        assert!(said.contains("listen.tls."), "{said}");
        certificates.look();
        assert_eq!(problem(), Some(said));
    }
    fs::remove_file(&folder.settings.key).unwrap();
    certificates.look();
    assert!(problem().unwrap().contains("listen.tls.key"), "{:?}", problem());
    folder.write("ca.crt", &certificate(2043).cert.pem());
    folder.renew(2033);
    certificates.look();
    assert_eq!((year(&certificates), problem()), (2033, None));
}

/// As Kubernetes does it: the files are symbolic links through a folder that is swapped.
#[test]
fn a_secret_that_kubernetes_swaps_is_noticed() {
    let folder = Folder::new(false);
    let path = |name: &str| folder.folder.path().join(name);
    for (version, year) in [("v1", 2034), ("v2", 2035)] {
        fs::create_dir(path(version)).unwrap();
        let issued = certificate(year);
        folder.write(&format!("{version}/tls.crt"), &issued.cert.pem());
        folder.write(&format!("{version}/tls.key"), &issued.signing_key.serialize_pem());
    }
    std::os::unix::fs::symlink("v1", path("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        fs::remove_file(path(name)).unwrap();
        std::os::unix::fs::symlink(format!("..data/{name}"), path(name)).unwrap();
    }
    let certificates = Certificates::open(&folder.settings).unwrap();
    assert_eq!(year(&certificates), 2034);
    std::os::unix::fs::symlink("v2", path("..data_tmp")).unwrap();
    fs::rename(path("..data_tmp"), path("..data")).unwrap();
    certificates.look();
    assert_eq!(year(&certificates), 2035);
}
