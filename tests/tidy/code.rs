//! Code: what functions take, and what types are called.

use std::collections::BTreeMap;

use crate::imports::{code_of, is_test, module_of};
use crate::{Source, assert_none, sources};

/// The code of a file without its tests and without comments, line by line as it was.
fn bare(source: &Source) -> String {
    let lines = code_of(source).lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// What stands before the bracket that closes what is open, and what comes after it.
fn closed(text: &str) -> Option<(&str, &str)> {
    let at = pieces(text, |c| ")]}>".contains(c)).next().map(str::len)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// The pieces between these characters, where they are in no bracket.
fn pieces(text: &str, is_end: impl Fn(char) -> bool) -> impl Iterator<Item = &str> {
    let (mut depth, mut before) = (0, ' ');
    text.split(move |c| {
        let is_arrow = c == '>' && before == '-';
        before = c;
        if depth == 0 && !is_arrow && is_end(c) {
            return true;
        }
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if !is_arrow => depth -= 1,
            _ => {}
        }
        false
    })
}

/// What a function takes, from what follows its name.
fn parameters(signature: &str) -> Option<&str> {
    let list = match signature.strip_prefix('<') {
        Some(generics) => closed(generics)?.1,
        None => signature,
    };
    closed(list.trim_start().strip_prefix('(')?).map(|(list, _)| list)
}

fn is_tuple(parameter: &str) -> bool {
    let parameter = parameter.replace("::", "");
    let mut parts = pieces(&parameter, |c| c == ':');
    let pattern = parts.next().unwrap_or_default().trim();
    let mut taken = parts.next().unwrap_or_default().trim_start();
    while let Some(behind) = taken.strip_prefix('&').map(str::trim_start) {
        let lifetime = behind.strip_prefix('\'').and_then(|rest| rest.split_once(' '));
        let behind = lifetime.map_or(behind, |(_, behind)| behind);
        taken = behind.strip_prefix("mut ").unwrap_or(behind).trim_start();
    }
    // What is in brackets only for the compiler has no comma.
    let inside = taken.strip_prefix('(').and_then(closed);
    let is_type = inside.is_some_and(|(inside, _)| pieces(inside, |c| c == ',').count() > 1);
    (pattern.starts_with('(') && pattern != "()") || is_type
}

/// A tuple is no way round the limit of five parameters, and hides what its parts are.
fn tuple_parameters(source: &Source) -> Vec<String> {
    let code = bare(source);
    let mut findings = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let (before, after) = (&code[..at], &code[at + "fn ".len()..]);
        if before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let (name, signature) = after.split_at(after.find(is_end).unwrap_or(after.len()));
        let taken = parameters(signature).unwrap_or_default();
        if !name.is_empty() && pieces(taken, |c| c == ',').any(is_tuple) {
            let line = before.lines().count();
            findings.push(format!("{}:{line}: {name} takes a tuple", source.path));
        }
    }
    findings
}

#[test]
fn no_function_takes_a_tuple() {
    let all = sources(&["src", "clients/rust/src"], ".rs");
    let findings: Vec<String> =
        all.iter().filter(|source| !is_test(&source.path)).flat_map(tuple_parameters).collect();
    assert_none(&findings);
}

/// Names that mean the same in each file of a module: what a command is given, and the metrics of a subject.
const SHARED: [(&str, &str); 2] = [("cli", "Args"), ("telemetry", "Families")];

/// The name of the type that a line defines for its whole file.
fn defined(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(public) => match public.strip_prefix('(') {
            Some(within) => within.split_once(") ")?.1,
            None => public.trim_start(),
        },
        None => line,
    };
    let (kind, rest) = line.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    ["struct", "enum", "trait", "type", "union"].contains(&kind).then_some(name)
}

fn named_twice(all: &[Source]) -> Vec<String> {
    let mut paths = BTreeMap::<_, Vec<&str>>::new();
    for source in all.iter().filter(|source| !is_test(&source.path)) {
        let Some(module) = module_of(&source.path) else { continue };
        for name in code_of(source).lines().filter_map(defined) {
            paths.entry((module, name)).or_default().push(&source.path);
        }
    }
    paths.retain(|key, paths| paths.len() > 1 && !SHARED.contains(key));
    let told = |((_, name), paths): (_, Vec<&str>)| format!("{name}: {}", paths.join(", "));
    paths.into_iter().map(told).collect()
}

#[test]
fn a_type_s_name_is_used_once_a_module() {
    assert_none(&named_twice(&sources(&["src"], ".rs")));
}

#[test]
fn these_checks_can_fail() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    for taken in [
        "&self, (a, b): (u8, u8)",
        "&self,\n    // Why (so,\n    pair: &'a mut (T, Vec<U>),\n",
        "Trial { a, b: (c, d) }: Trial, (one, two): Pair",
        "mut self: Box<Self>, at: super::At, pair: (u8, [u8; 2])",
    ] {
        let text =
            format!("impl A {{\n    pub async fn ask<'a, F: Fn(T) -> U, T, U>({taken}) {{}}");
        assert_eq!(tuple_parameters(&source("a.rs", &text)), ["a.rs:2: ask takes a tuple"]);
    }
    let right = "fn ask(error: &(dyn Error + 'static), all: &[(u8, u8)], f: fn((u8, u8))) {}\n\
                 fn pair(&self, (): (), f: impl Fn(u8, (u8, u8)) -> (u8, u8)) -> (u8, u8) { f(|(a, b)| a) }\n\
                 // fn old((a, b): (u8, u8))\n\
                 #[cfg(test)]\nmod tests { fn test((a, b): (u8, u8)) {} }";
    assert!(tuple_parameters(&source("a.rs", right)).is_empty());
    let one = source("src/hold/a.rs", "pub(super) struct Step<'a> {\n    type Item = u8;\n}\n");
    let other = source("src/hold/b.rs", "type Item = u8;\nenum Step { A }\nfn at() {}\n");
    let elsewhere = source("src/queue/a.rs", "pub struct Step;\n");
    let all = [one, other, elsewhere];
    assert_eq!(named_twice(&all), ["Step: src/hold/a.rs, src/hold/b.rs"]);
}
