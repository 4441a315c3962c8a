//! The section `access`: who may do what over TCP, as a list of rules.

use std::path::PathBuf;

use super::error::closest;
use super::listen::{Listen, check_file};
use super::operation::Admin;
use super::setting::{Key, Setting, settings};
use super::value::{Given, Value};
use super::values::Values;
use crate::access::{CertificateName, FunctionPattern, HostIds, Right, Rule, Who};
use crate::lock::HostId;
use crate::text::invisible_in;

settings! {
    ACCESS: Vec<Rule> = Key::new(
        "access",
        "[]",
        "Who may do what over TCP: a list of rules, each with a caller, locks and rights. What no rule allows is \
         refused. Without rules, every caller that `listen` accepts may do everything. See [Access \
         rules](#access-rules).",
    );
}

/// The fields of a rule.
const FIELDS: [&str; 7] =
    ["name", "certificate", "token_sha256", "token_file", "host_ids", "functions", "rights"];
/// Bytes that a name has at the most.
const MAX_NAME: usize = 128;

impl Value for Vec<Rule> {
    /// All mistakes of all rules at once.
    fn parse(_: &Setting, given: &Given) -> Result<Self, String> {
        let mut rules = Self::new();
        let mut problems = Vec::new();
        if given.is_empty_word() {
            return Err("must not be empty: write [] to have no rules".to_owned());
        }
        let items =
            given.items().map_err(|problem| format!("{problem}; write a rule as [[access]]"))?;
        for (number, item) in (1..).zip(&items) {
            match rule(item) {
                Ok(rule) => rules.push(rule),
                Err(found) => {
                    problems.extend(found.into_iter().map(|one| format!("rule {number}: {one}")));
                }
            }
        }
        if problems.is_empty() { Ok(rules) } else { Err(problems.join("; ")) }
    }

    fn to_toml(&self) -> toml::Value {
        toml::Value::Array(self.iter().map(shown).collect())
    }

    fn describe(_: &Setting) -> String {
        "list of rules".to_owned()
    }
}

fn rule(given: &Given) -> Result<Rule, Vec<String>> {
    let Given::Typed(toml::Value::Table(table)) = given else {
        return Err(vec![
            "must be a table, such as { certificate = \"cn:orders\", rights = [\"acquire\"] }"
                .to_owned(),
        ]);
    };
    let mut problems: Vec<String> = table
        .keys()
        .filter(|key| !FIELDS.contains(&key.as_str()))
        .map(|key| unknown(key))
        .collect();
    let who = take(&mut problems, "", who(table));
    let host_ids = take(&mut problems, "host_ids ", host_ids(table));
    let functions = take(&mut problems, "functions ", functions(table));
    let rights = take(&mut problems, "rights ", rights(table));
    let name = take(&mut problems, "name ", text(table, "name").map(Option::unwrap_or_default));
    if name.as_ref().is_some_and(|name| name.len() > MAX_NAME || invisible_in(name).is_some()) {
        problems.push(format!(
            "name must have at most {MAX_NAME} bytes and no control or invisible characters"
        ));
    }
    let rule = (|| {
        Some(Rule {
            name: name?,
            who: who?,
            host_ids: host_ids?,
            functions: functions?,
            rights: rights?,
        })
    })();
    rule.filter(|_| problems.is_empty()).ok_or(problems)
}

/// Keeps the value, or the field's problem.
fn take<T>(problems: &mut Vec<String>, field: &str, value: Result<T, String>) -> Option<T> {
    value.map_err(|problem| problems.push(format!("{field}{problem}"))).ok()
}

fn unknown(key: &str) -> String {
    let meant = closest(key, FIELDS.into_iter());
    let meant = meant.map(|word| format!("; did you mean {word}?")).unwrap_or_default();
    format!("there is no field {key}{meant}")
}

fn text(table: &toml::Table, field: &str) -> Result<Option<String>, String> {
    match table.get(field) {
        None => Ok(None),
        Some(toml::Value::String(text)) if text.trim().is_empty() => {
            Err("must not be empty".to_owned())
        }
        Some(toml::Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err("must be a string".to_owned()),
    }
}

fn texts(table: &toml::Table, field: &str) -> Result<Option<Vec<String>>, String> {
    let Some(value) = table.get(field) else { return Ok(None) };
    let texts = value.as_array().and_then(|items| {
        items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    });
    texts.map(Some).ok_or_else(|| "must be a list of strings".to_owned())
}

fn who(table: &toml::Table) -> Result<Who, String> {
    let field = |name: &str| text(table, name).map_err(|problem| format!("{name} {problem}"));
    let (certificate, digest, file) =
        (field("certificate")?, field("token_sha256")?, field("token_file")?);
    match (certificate, digest, file) {
        (Some(name), None, None) => {
            let name = CertificateName::parse(&name);
            name.map(Who::Certificate).map_err(|problem| format!("certificate {problem}"))
        }
        (None, Some(digest), None) => read_digest(&digest).map(Who::TokenDigest).ok_or_else(|| {
            "token_sha256 must be the SHA-256 of a token, 64 hexadecimal digits: printf %s \"$TOKEN\" | sha256sum".to_owned()
        }),
        (None, None, Some(path)) if path.starts_with('~') => {
            Err("token_file must not begin with ~, which only shells understand".to_owned())
        }
        (None, None, Some(path)) => Ok(Who::TokenFile(PathBuf::from(path))),
        (None, None, None) => Err(
            "names no caller: give one of certificate, token_file and token_sha256".to_owned(),
        ),
        (..) => Err(
            "names a caller in several ways: give one of certificate, token_file and token_sha256, and write a rule \
             for each"
                .to_owned(),
        ),
    }
}

fn read_digest(text: &str) -> Option<[u8; 32]> {
    let is_hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (high, low) = text.split_at_checked(32).filter(|_| is_hexadecimal && text.len() == 64)?;
    let half = |text| Some(u128::from_str_radix(text, 16).ok()?.to_be_bytes());
    [half(high)?, half(low)?].concat().try_into().ok()
}

fn host_ids(table: &toml::Table) -> Result<HostIds, String> {
    let Some(listed) = texts(table, "host_ids")? else { return Ok(HostIds::Own) };
    if listed == ["*"] {
        return Ok(HostIds::Any);
    }
    if listed.is_empty() {
        return Err(
            "must not be empty; without it, the rule is for the sidecar's own host id".to_owned()
        );
    }
    let parsed: Result<Vec<HostId>, _> = listed.iter().map(|text| HostId::parse(text)).collect();
    parsed.map(HostIds::Listed).map_err(|error| format!("{error}; or [\"*\"] for every host id"))
}

fn functions(table: &toml::Table) -> Result<Vec<FunctionPattern>, String> {
    let Some(listed) = texts(table, "functions")? else { return Ok(Vec::new()) };
    if listed.is_empty() {
        return Err("must not be empty; without it, the rule is for every function".to_owned());
    }
    let parse = |text: &String| {
        FunctionPattern::parse(text).map_err(|problem| format!("{text:?}: {problem}"))
    };
    listed.iter().map(parse).collect()
}

fn rights(table: &toml::Table) -> Result<Vec<Right>, String> {
    let names = || Right::ALL.iter().map(|(name, _)| *name);
    let expected = names().collect::<Vec<_>>().join(", ");
    let listed = texts(table, "rights")?.unwrap_or_default();
    if listed.is_empty() {
        return Err(format!("must name at least one of {expected}"));
    }
    let parse = |text: &String| {
        let found = Right::ALL.iter().find(|(name, _)| name == text);
        found.map(|(_, right)| *right).ok_or_else(|| {
            let meant = closest(text, names());
            let meant = meant.map(|word| format!("; did you mean {word:?}?")).unwrap_or_default();
            format!("{text:?}: must be one of {expected}{meant}")
        })
    };
    listed.iter().map(parse).collect()
}

/// A rule as the file has it.
fn shown(rule: &Rule) -> toml::Value {
    let list = |items: Vec<&str>| {
        toml::Value::Array(items.into_iter().map(|item| item.to_owned().into()).collect())
    };
    let mut table = toml::Table::new();
    if !rule.name.is_empty() {
        table.insert("name".to_owned(), rule.name.clone().into());
    }
    let (field, who) = match &rule.who {
        Who::Certificate(name) => ("certificate", name.to_string()),
        Who::TokenFile(path) => ("token_file", path.display().to_string()),
        Who::TokenDigest(digest) => {
            ("token_sha256", digest.iter().map(|byte| format!("{byte:02x}")).collect())
        }
    };
    table.insert(field.to_owned(), who.into());
    match &rule.host_ids {
        HostIds::Own => {}
        HostIds::Any => {
            table.insert("host_ids".to_owned(), list(vec!["*"]));
        }
        HostIds::Listed(listed) => {
            let listed = listed.iter().map(HostId::as_str).collect();
            table.insert("host_ids".to_owned(), list(listed));
        }
    }
    if !rule.functions.is_empty() {
        let functions = rule.functions.iter().map(FunctionPattern::as_str).collect();
        table.insert("functions".to_owned(), list(functions));
    }
    let rights = rule.rights.iter().map(|right| right.as_str()).collect();
    table.insert("rights".to_owned(), list(rights));
    toml::Value::Table(table)
}

pub(super) fn read(values: &mut Values<'_>) -> Option<Vec<Rule>> {
    let rules = values.get(&ACCESS)?;
    for rule in &rules {
        if let Who::TokenFile(path) = &rule.who {
            check_file(values, &ACCESS.setting, path);
        }
    }
    Some(rules)
}

/// Rules that nothing can come of are mistakes: somebody relies on them.
pub(super) fn check(
    values: &mut Values<'_>,
    rules: Option<&[Rule]>,
    listen: Option<&Listen>,
    admin: Option<&Admin>,
) {
    let (Some(rules), Some(listen)) = (rules.filter(|rules| !rules.is_empty()), listen) else {
        return;
    };
    if listen.tcp.is_none() {
        let problem = "access is for callers over TCP, and listen.tcp is off: set an address, or remove access; who \
                       may use the Unix socket is set by listen.unix_allowed_uids";
        values.conflict(ACCESS.setting.key, problem.to_owned());
    }
    let shows_certificates = listen.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    for (number, rule) in (1..).zip(rules) {
        if matches!(rule.who, Who::Certificate(_)) && !shows_certificates && listen.tcp.is_some() {
            let problem = format!(
                "access, rule {number}: names a certificate, but clients present none unless listen.tls.client_ca is \
                 set: set it, or name the caller by a token"
            );
            values.conflict(ACCESS.setting.key, problem);
        }
        let Some(admin) = admin else { continue };
        for (right, setting, allowed) in [
            (Right::Break, "admin.allow_break", admin.allow_break),
            (Right::Schedule, "admin.allow_schedule_changes", admin.allow_schedule_changes),
        ] {
            if rule.rights.contains(&right) && !allowed {
                let right = right.as_str();
                let problem = format!(
                    "access, rule {number}: gives the right {right}, and {setting} is false: set it to true, or remove \
                     the right"
                );
                values.conflict(ACCESS.setting.key, problem);
            }
        }
    }
}
