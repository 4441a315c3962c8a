use super::*;

#[test]
fn s20_a_certificate_that_cannot_be_read_is_named_and_not_shown() {
    let table = [
        ("", "CERTIFICATE"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "PRIVATE KEY"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n\
             -----BEGIN ENCRYPTED PRIVATE KEY-----\naHVzaA==\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "encrypted",
        ),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n\
             -----BEGIN PRIVATE KEY-----\naHVzaA==\n-----END PRIVATE KEY-----\n",
            "RSA",
        ),
    ];
    for (pem, named) in table {
        let error = Certificate::parse(pem).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
        assert!(!error.contains("aHVzaA"), "{error}");
    }
}
