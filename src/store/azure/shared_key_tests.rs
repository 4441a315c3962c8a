use super::*;

#[test]
fn what_is_signed_is_what_the_service_documents() {
    let url =
        Url::parse("http://127.0.0.1:10000/orders/leasehold/a%20b?comp=lease&timeout=5").unwrap();
    let mut headers = Headers::new();
    headers.insert("x-ms-version", "2025-11-05");
    headers.insert("x-ms-date", "Fri, 15 Jan 2027 08:00:00 GMT");
    headers.insert("x-ms-lease-action", "acquire");
    headers.insert("if-match", "\"0x1\"");
    let text = string_to_sign(Method::Put, &url, &headers, "orders", 0);
    let expected = "PUT\n\n\n\n\n\n\n\n\"0x1\"\n\n\n\n\
                    x-ms-date:Fri, 15 Jan 2027 08:00:00 GMT\nx-ms-lease-action:acquire\nx-ms-version:2025-11-05\n\
                    /orders/orders/leasehold/a%20b\ncomp:lease\ntimeout:5";
    assert_eq!(text, expected);
    let with_body = string_to_sign(Method::Put, &url, &headers, "orders", 7);
    assert!(with_body.starts_with("PUT\n\n\n7\n"), "{with_body}");
}

#[test]
fn names_of_headers_are_sorted_as_the_service_sorts_them() {
    let mut names = ["x-ms-meta-b", "x-ms-meta-a_b", "x-ms-meta-a1", "x-ms-meta-ab", "x-ms-date"];
    names.sort_by(|left, right| compare_names(left, right));
    assert_eq!(
        names,
        ["x-ms-date", "x-ms-meta-a_b", "x-ms-meta-a1", "x-ms-meta-ab", "x-ms-meta-b"]
    );
}

#[test]
fn s20_a_key_that_cannot_be_read_is_not_shown() {
    let error =
        SharedKey::new("orders", "my secret key", "the account key").unwrap_err().to_string();
    assert!(error.contains("the account key") && !error.contains("secret key"), "{error}");
    let key = SharedKey::new("orders", "aHVzaC1odXNo", "the account key").unwrap();
    assert!(!format!("{key:?}").contains("104"), "{key:?}");
}
