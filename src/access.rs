//! Who may do what: the rules of `access`, as values, and what they allow; and by what it shows that a caller
//! is behind a proxy, so that its address and the end of its connection are not its own.
//!
//! Rules: S20 (a token is known by its digest). May import: lock. To add a right: a variant of [`Right`] and
//! a row in its `ALL`; the calls that need it ask for it by way of `grpc/auth/permission.rs`, which finds
//! whose lock it is. A caller without rules has no limits here.

use std::fmt;
use std::path::PathBuf;

use crate::lock::HostId;

/// What a caller may do with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Acquire and hold it, and whatever a holder does: extend, report progress, release, resume.
    Acquire,
    /// See it: its record, its path, and its changes.
    Read,
    /// Compare a fencing token with its newest.
    Check,
    /// Break it (S17), where `admin.allow_break` allows that at all.
    Break,
    /// Pause, resume, reset and remove its schedule, and run it by hand (T18, T25), where
    /// `admin.allow_schedule_changes` allows that at all.
    Schedule,
}

impl Right {
    /// Each with its name in the configuration.
    pub const ALL: [(&'static str, Self); 5] = [
        ("acquire", Self::Acquire),
        ("read", Self::Read),
        ("check", Self::Check),
        ("break", Self::Break),
        ("schedule", Self::Schedule),
    ];

    /// The name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, right)| *right == self);
        found.map(|(name, _)| *name).unwrap_or_default()
    }
}

/// A rule: whom it is for, for which locks, and what it allows. What no rule allows is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What people call the caller, in refusals and in the log; empty for none.
    pub name: String,
    /// Whom it is for.
    pub who: Who,
    /// The host ids whose locks it is for.
    pub host_ids: HostIds,
    /// The functions that it is for; none stands for every function.
    pub functions: Vec<FunctionPattern>,
    /// What it allows.
    pub rights: Vec<Right>,
}

/// Whom a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Callers whose certificate has this name.
    Certificate(CertificateName),
    /// Callers that send a token with this SHA-256.
    TokenDigest([u8; 32]),
    /// Callers that send a token of this file, one a line.
    TokenFile(PathBuf),
}

/// A name in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// Whatever is in it.
    Any,
    /// The common name of its subject.
    Common(String),
    /// A DNS name among its alternative names, in lower case.
    Dns(String),
    /// A URI among its alternative names, such as a SPIFFE id.
    Uri(String),
}

impl CertificateName {
    /// Reads `cn:NAME`, `dns:NAME`, `uri:URI` or `*`.
    ///
    /// # Errors
    /// What it must be.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "must be \"cn:NAME\", \"dns:NAME\", \"uri:URI\", or \"*\" for every certificate that \
                                listen.tls.client_ca trusts";
        if text == "*" {
            return Ok(Self::Any);
        }
        match text.split_once(':') {
            Some((_, "")) | None => Err(EXPECTED),
            Some(("cn", name)) => Ok(Self::Common(name.to_owned())),
            Some(("dns", name)) => Ok(Self::Dns(name.to_ascii_lowercase())),
            Some(("uri", uri)) => Ok(Self::Uri(uri.to_owned())),
            Some(_) => Err(EXPECTED),
        }
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => formatter.write_str("*"),
            Self::Common(name) => write!(formatter, "cn:{name}"),
            Self::Dns(name) => write!(formatter, "dns:{name}"),
            Self::Uri(uri) => write!(formatter, "uri:{uri}"),
        }
    }
}

/// The host ids whose locks a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostIds {
    /// The sidecar's own: a request may name neither another host id nor another host type.
    Own,
    /// Any host id.
    Any,
    /// These host ids alone.
    Listed(Vec<HostId>),
}

impl HostIds {
    fn contain(&self, host: Host<'_>, own: &HostId) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Own, Host::Id(host_id)) => host_id == own,
            (Self::Own, Host::Beginning(text)) => own.as_str().starts_with(text),
            (Self::Listed(listed), Host::Id(host_id) | Host::OfAnotherType(host_id)) => {
                listed.contains(host_id)
            }
            (Self::Listed(listed), Host::Beginning(text)) => {
                listed.iter().any(|host_id| host_id.as_str().starts_with(text))
            }
            (Self::Own, Host::OfAnotherType(_)) | (Self::Own | Self::Listed(_), Host::Hidden) => {
                false
            }
        }
    }
}

/// A function, or with `*` at its end every function that begins so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionPattern(String);

impl FunctionPattern {
    /// Reads a function's name, or what it begins with and `*`.
    ///
    /// # Errors
    /// What it must be.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() || text.strip_suffix('*').unwrap_or(text).contains('*') {
            return Err("must be a function's name, or a prefix followed by one *");
        }
        Ok(Self(text.to_owned()))
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn matches(&self, function: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => function.starts_with(beginning),
            None => function == self.0,
        }
    }
}

/// Which locks a call is about.
#[derive(Clone, Copy, Debug)]
pub struct Locks<'a> {
    /// The host that the locks belong to.
    pub host: Host<'a>,
    /// The functions whose locks they are.
    pub function: Functions<'a>,
}

/// Which host a call is about.
#[derive(Clone, Copy, Debug)]
pub enum Host<'a> {
    /// The one with this host id.
    Id(&'a HostId),
    /// The one with this host id, and with a host type that the request names and that is not the sidecar's.
    /// Names in the layout `hashed` are made of it, so it is another deployment's lock.
    OfAnotherType(&'a HostId),
    /// One that its lock path does not show: only who may do it with every host id may do it.
    Hidden,
    /// Those whose host id begins with this, of a listing.
    Beginning(&'a str),
}

impl Host<'_> {
    /// The host id, or what is known of it; empty for nothing.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Id(host_id) | Self::OfAnotherType(host_id) => host_id.as_str(),
            Self::Beginning(text) => text,
            Self::Hidden => "",
        }
    }
}

/// Which functions a call is about.
#[derive(Clone, Copy, Debug)]
pub enum Functions<'a> {
    /// The function of this name.
    One(&'a str),
    /// One that its lock path does not show: only who may do it with every function may do it.
    Hidden,
    /// Those that the caller may see, of a listing.
    Some,
}

/// What stands against a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No rule is for the caller.
    NoRule,
    /// No rule gives the caller the right.
    Right,
    /// The rules that do are for other host ids.
    HostId,
    /// The rules that do are for other functions.
    Function,
}

impl Refusal {
    /// The setting that would allow the call.
    #[must_use]
    pub const fn setting(self) -> &'static str {
        match self {
            Self::NoRule => "access",
            Self::Right => "access.rights",
            Self::HostId => "access.host_ids",
            Self::Function => "access.functions",
        }
    }
}

/// Whether one of the caller's `rules` allows this. `own` is the sidecar's host id.
///
/// # Errors
/// The first thing that no rule allows.
pub fn check<'a>(
    rules: impl Iterator<Item = &'a Rule> + Clone,
    right: Right,
    locks: Locks<'_>,
    own: &HostId,
) -> Result<(), Refusal> {
    if rules.clone().next().is_none() {
        return Err(Refusal::NoRule);
    }
    let with_right = rules.filter(|rule| rule.rights.contains(&right));
    if with_right.clone().next().is_none() {
        return Err(Refusal::Right);
    }
    let mut of_host = with_right.filter(|rule| rule.host_ids.contain(locks.host, own)).peekable();
    if of_host.peek().is_none() {
        return Err(Refusal::HostId);
    }
    let covers = |rule: &Rule| match locks.function {
        _ if rule.functions.is_empty() => true,
        Functions::One(function) => rule.functions.iter().any(|one| one.matches(function)),
        Functions::Hidden => false,
        Functions::Some => true,
    };
    if of_host.any(covers) { Ok(()) } else { Err(Refusal::Function) }
}

/// Whether one of the caller's `rules` gives a right for some lock: for calls with a lease id or a resume
/// token, which only the holder of the lock was told.
///
/// # Errors
/// What stands against it.
pub fn check_somewhere<'a>(
    mut rules: impl Iterator<Item = &'a Rule> + Clone,
    right: Right,
) -> Result<(), Refusal> {
    if rules.clone().next().is_none() {
        return Err(Refusal::NoRule);
    }
    if rules.any(|rule| rule.rights.contains(&right)) { Ok(()) } else { Err(Refusal::Right) }
}

/// Headers that only a proxy adds. `x-request-id` and trace headers are none of them: clients' own tracing
/// sends those.
const PROXY_HEADERS: [&str; 4] = [
    // RFC 7239.
    "forwarded",
    // RFC 9110: every HTTP proxy should add it.
    "via",
    // nginx and what descends from it.
    "x-real-ip",
    // Envoy, when it passes on calls from outside of its mesh.
    "x-original-forwarded-for",
];

/// The beginnings of headers that only a proxy adds.
const PROXY_PREFIXES: [&str; 3] = [
    // Nearly all: Envoy (Istio) adds x-forwarded-proto always, others x-forwarded-for.
    "x-forwarded-",
    // Envoy: x-envoy-expected-rq-timeout-ms, x-envoy-peer-metadata, and their like.
    "x-envoy-",
    // Linkerd: l5d-client-id, l5d-dst-canonical, and their like.
    "l5d-",
];

/// Whether only a proxy adds a header of this name, in lower case.
#[must_use]
pub fn is_header_of_a_proxy(name: &str) -> bool {
    PROXY_HEADERS.contains(&name) || PROXY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(host_ids: HostIds, functions: &[&str], rights: &[Right]) -> Rule {
        let functions = functions.iter().map(|one| FunctionPattern::parse(one).unwrap());
        Rule {
            name: String::new(),
            who: Who::Certificate(CertificateName::Any),
            host_ids,
            functions: functions.collect(),
            rights: rights.to_vec(),
        }
    }

    #[test]
    fn what_no_rule_allows_is_refused_with_what_stands_against_it() {
        let (own, other) = (HostId::parse("own").unwrap(), HostId::parse("other").unwrap());
        let listed = HostIds::Listed(vec![other.clone()]);
        let rules = [
            rule(HostIds::Own, &["orders.*", "nightly"], &[Right::Acquire, Right::Read]),
            rule(listed, &[], &[Right::Read]),
        ];
        let ask = |right, host_id, function| {
            check(rules.iter(), right, Locks { host: Host::Id(host_id), function }, &own)
        };
        let of = Functions::One;
        let table = [
            (Right::Acquire, &own, of("nightly"), Ok(())),
            (Right::Acquire, &own, of("orders.close"), Ok(())),
            (Right::Acquire, &own, of("nightly2"), Err(Refusal::Function)),
            (Right::Acquire, &own, of("orders"), Err(Refusal::Function)),
            (Right::Acquire, &own, Functions::Hidden, Err(Refusal::Function)),
            (Right::Acquire, &other, of("nightly"), Err(Refusal::HostId)),
            (Right::Read, &other, Functions::Hidden, Ok(())),
            (Right::Read, &own, Functions::Some, Ok(())),
            (Right::Break, &own, of("nightly"), Err(Refusal::Right)),
        ];
        for (right, host_id, function, expected) in table {
            assert_eq!(ask(right, host_id, function), expected, "{right:?} {host_id} {function:?}");
        }
        let locks = Locks { host: Host::Id(&own), function: of("nightly") };
        assert_eq!(check([].iter(), Right::Read, locks, &own), Err(Refusal::NoRule));
        assert_eq!(check_somewhere(rules.iter(), Right::Acquire), Ok(()));
        assert_eq!(check_somewhere(rules.iter(), Right::Break), Err(Refusal::Right));
        assert_eq!(check_somewhere([].iter(), Right::Break), Err(Refusal::NoRule));
    }

    #[test]
    fn a_rule_covers_the_hosts_that_it_names() {
        let ids = ["own", "other", "third"].map(|text| HostId::parse(text).unwrap());
        let [own, other, third] = &ids;
        let (of_own, any) = (HostIds::Own, HostIds::Any);
        let listed = HostIds::Listed(vec![own.clone(), other.clone()]);
        for (host, by_own, by_listed) in [
            (Host::Id(own), true, true),
            (Host::Id(other), false, true),
            (Host::Id(third), false, false),
            (Host::OfAnotherType(own), false, true),
            (Host::OfAnotherType(third), false, false),
            (Host::Hidden, false, false),
            (Host::Beginning(""), true, true),
            (Host::Beginning("ow"), true, true),
            (Host::Beginning("ot"), false, true),
            (Host::Beginning("owner"), false, false),
        ] {
            let covered = [&of_own, &listed, &any].map(|host_ids| host_ids.contain(host, own));
            assert_eq!(covered, [by_own, by_listed, true], "{host:?}");
        }
    }

    #[test]
    fn names_and_patterns_are_read_or_refused() {
        for good in ["*", "cn:orders", "dns:orders.shop.svc", "uri:spiffe://c/ns/shop/sa/orders"] {
            assert_eq!(CertificateName::parse(good).unwrap().to_string(), good);
        }
        for bad in ["", "orders", "cn:", "san:orders"] {
            assert!(CertificateName::parse(bad).is_err(), "{bad}");
        }
        let dns = CertificateName::parse("dns:Orders.Shop").unwrap();
        assert_eq!(dns, CertificateName::Dns("orders.shop".to_owned()));
        for bad in ["", "a*b", "**", "*a"] {
            assert!(FunctionPattern::parse(bad).is_err(), "{bad}");
        }
        assert!(FunctionPattern::parse("*").unwrap().matches(""));
    }
}
