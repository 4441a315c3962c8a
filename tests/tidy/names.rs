//! Names of the clients: those that docs/clients.md has are there, and differ by idiom only.

use crate::{Source, assert_none, root, sources};

const PAGE: &str = "docs/clients.md";

/// The languages as the table's head names them.
const LANGUAGES: [&str; 5] = ["Go", "Java", "Python", "Rust", "TypeScript"];

/// What a client consists of, without its tests. Java's users have the messages that its build makes.
fn code(language: &str) -> Vec<Source> {
    let (folder, ending) = match language {
        "Go" => ("clients/go", ".go"),
        "Java" => ("clients/java/src/main", ".java"),
        "Python" => ("clients/python/src/leasehold", ".py"),
        "Rust" => ("clients/rust/src", ".rs"),
        "TypeScript" => ("clients/typescript/src", ".ts"),
        _ => panic!("where the client of {language} is has to be said here"),
    };
    let mut code = sources(&[folder], ending);
    code.retain(|source| !source.path.contains("_test") && !source.path.contains("_pb2"));
    if language == "Java" {
        code.extend(sources(&["proto"], ".proto"));
    }
    code
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

/// Whether a line begins one of these, by this name.
fn begins(line: &str, kinds: &[&str], name: &str) -> bool {
    kinds.iter().any(|kind| {
        let rest = line.strip_prefix(kind).and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

/// Whether a line makes a type of this name public.
fn publishes(language: &str, path: &str, line: &str, name: &str) -> bool {
    match language {
        "Go" => begins(line, &["type "], name),
        "Java" => {
            let kinds = ["class", "interface", "record", "enum"];
            let is_a = |kind| {
                let declared = line.split_once(&format!(" {kind} ")).map(|(_, rest)| rest);
                declared.is_some_and(|rest| begins(rest, &[""], name))
            };
            begins(line, &["message ", "enum "], name)
                || (line.starts_with("public ") && kinds.into_iter().any(is_a))
        }
        "Python" if path.contains("/testing/") => begins(line, &["class "], name),
        "Python" => path.ends_with("/__init__.py") && line.trim() == format!("\"{name}\","),
        "Rust" if path.contains("/testing/") => begins(line, &["pub struct "], name),
        "Rust" => path.ends_with("/lib.rs") && has_word(line, name),
        "TypeScript" if path.contains("/testing/") => begins(line, &["export class "], name),
        "TypeScript" => path.ends_with("/index.ts") && has_word(line, name),
        _ => panic!("what is public in {language} has to be said here"),
    }
}

/// Whether a line declares a member of this name: a method, a field, a variant.
fn has_member(language: &str, line: &str, name: &str) -> bool {
    let text = line.trim_start();
    let kinds: &[&str] = match language {
        "Go" => return line.contains(&format!(") {name}(")) || begins(line, &["\t"], name),
        "Java" => return !text.starts_with('*') && line.contains(&format!(" {name}(")),
        "Python" => &["def ", "async def ", ""],
        "Rust" => &["pub ", "pub fn ", "pub const fn ", "pub async fn ", ""],
        "TypeScript" => &["", "get ", "readonly ", "async ", "async *"],
        _ => panic!("how members are declared in {language} has to be said here"),
    };
    let is_declared = |line: &str| {
        ["(", "<", ":", "?:", "*<", " {", ","]
            .iter()
            .any(|end| line.contains(&format!("{name}{end}")))
    };
    begins(text, kinds, name) && is_declared(line)
}

/// What is wrong with a name of the table: the type is not public, or has no such member.
fn unknown(language: &str, code: &[Source], name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split(['.', ':']).filter(|part| !part.is_empty()).collect();
    let (kind, member) = (parts.first()?, parts.get(1));
    let any = |found: &dyn Fn(&str, &str) -> bool| {
        code.iter().any(|source| source.text.lines().any(|line| found(&source.path, line)))
    };
    let is_public = any(&|path, line| publishes(language, path, line, kind));
    let is_there = member.is_none_or(|member| any(&|_, line| has_member(language, line, member)));
    (!is_public || !is_there).then(|| format!("{PAGE}: {language} has no public `{name}`"))
}

/// A name's words, without what a language adds to them.
fn plain(name: &str) -> String {
    let name = name.rsplit(['.', ':']).next().unwrap_or(name);
    let stem =
        name.strip_prefix("Async").or_else(|| name.strip_prefix("Leasehold")).unwrap_or(name);
    let stem = ["Error", "Exception", "Ms", "Async"]
        .iter()
        .fold(stem, |stem, end| stem.trim_end_matches(end));
    let stem = stem.strip_prefix("is_").unwrap_or(stem);
    let question = stem.strip_prefix("is").filter(|rest| rest.starts_with(char::is_uppercase));
    question.unwrap_or(stem).replace('_', "").to_lowercase()
}

/// The names of a table's cell.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// A row of the page's tables.
struct Row {
    /// The API's names; `None` in the table of names that are a language's own.
    api: Option<String>,
    /// The cells of the languages, in their order.
    cells: Vec<String>,
}

/// The rows of the page's tables.
fn rows(page: &str) -> Vec<Row> {
    let mut head: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    for line in page.lines() {
        let Some(row) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else {
            head.clear();
            continue;
        };
        let cells: Vec<String> = row.split('|').map(|cell| cell.trim().to_owned()).collect();
        if head.is_empty() {
            head = cells;
            continue;
        }
        let of = |title: &str| cells.get(head.iter().position(|head| head == title)?).cloned();
        let found: Vec<String> = LANGUAGES.into_iter().filter_map(of).collect();
        if found.len() == LANGUAGES.len() && !row.starts_with("---") {
            rows.push(Row { api: of("API"), cells: found });
        }
    }
    rows
}

/// The names of a row that are not the same words as the first.
fn unlike(row: &Row) -> Vec<String> {
    let mut all = row.cells.iter().flat_map(|cell| names(cell));
    let Some(first) = all.next() else { return Vec::new() };
    all.filter(|name| plain(name) != plain(first))
        .map(|name| format!("{PAGE}: `{name}` is `{first}` elsewhere"))
        .collect()
}

/// The API's names of a row that proto/ does not have.
fn not_in_api(row: &Row, proto: &str) -> Vec<String> {
    let api = row.api.as_deref().unwrap_or_default();
    let missing =
        names(api).into_iter().filter(|name| !name.split('.').all(|it| has_word(proto, it)));
    missing.map(|name| format!("{PAGE}: `{name}` is not in proto/")).collect()
}

fn page() -> Vec<Row> {
    rows(&std::fs::read_to_string(root().join(PAGE)).unwrap())
}

#[test]
fn names_of_the_clients_are_alike() {
    let rows = page();
    assert!(rows.len() > 50, "the table has {} rows", rows.len());
    let same = rows.iter().filter(|row| row.api.is_some());
    assert_none(&same.flat_map(unlike).collect::<Vec<_>>());
}

#[test]
fn names_of_the_clients_are_public() {
    let rows = page();
    let mut findings = Vec::new();
    for (at, language) in LANGUAGES.into_iter().enumerate() {
        let code = code(language);
        let named = rows.iter().filter_map(|row| row.cells.get(at)).flat_map(|cell| names(cell));
        findings.extend(named.filter_map(|name| unknown(language, &code, name)));
    }
    assert_none(&findings);
}

#[test]
fn names_of_the_api_are_there() {
    let proto: String = sources(&["proto"], ".proto").into_iter().map(|one| one.text).collect();
    assert_none(&page().iter().flat_map(|row| not_in_api(row, &proto)).collect::<Vec<_>>());
}

#[test]
fn these_checks_can_fail() {
    let page = "| what | API | Go | Java | Python | Rust | TypeScript |\n\
                | --- | --- | --- | --- | --- | --- | --- |\n\
                | lost | `Lost` | `LostError` | `LostException` | `AsyncLost`, `Lost` | `Error::Lost` | `Gone` |\n";
    let rows = rows(page);
    let [row] = rows.as_slice() else { panic!("one row") };
    assert!(not_in_api(row, "message Lost {").is_empty());
    assert_eq!(not_in_api(row, "message Losing {").len(), 1);
    assert_eq!(unlike(row), ["docs/clients.md: `Gone` is `LostError` elsewhere"]);
    assert_eq!(plain("Hold.is_valid"), plain("Hold.Valid"));
    assert_eq!(plain("Hold.remainingMs"), plain("Hold::remaining"));

    let code =
        |path: &str, text: &str| vec![Source { path: path.to_owned(), text: text.to_owned() }];
    let go = code("clients/go/hold.go", "type Hold struct {\n}\n\nfunc (h *Hold) Valid() bool {\n");
    assert!(unknown("Go", &go, "Hold.Valid").is_none());
    assert!(unknown("Go", &go, "Hold.Lost").is_some() && unknown("Go", &go, "Hol").is_some());
    let java = code("Hold.java", "public interface Hold {\n  boolean isValid();\n  // lost()\n}\n");
    assert!(unknown("Java", &java, "Hold.isValid").is_none());
    assert!(unknown("Java", &java, "Hold.valid").is_some());
    let rust =
        code("src/lib.rs", "pub use hold::Hold;\n    pub fn lost(&self) {\n    Lost(Loss),\n");
    assert!(unknown("Rust", &rust, "Hold::lost").is_none());
    assert!(unknown("Rust", &rust, "Hold::Lost").is_none());
    assert!(unknown("Rust", &rust, "Hold::losing").is_some());
    let python = code("leasehold/__init__.py", "    \"Hold\",\n    def is_valid(self) -> bool:\n");
    assert!(unknown("Python", &python, "Hold.is_valid").is_none());
    assert!(unknown("Python", &python, "Held").is_some());
    let script =
        code("src/index.ts", "export { Hold } from \"./hold.js\";\n  async save<T>(v: T) {\n");
    assert!(unknown("TypeScript", &script, "Hold.save").is_none());
    assert!(unknown("TypeScript", &script, "Hold.saved").is_some());
}
