//! Findings, and how they are shown.

use serde::Serialize;

use crate::cli::exit::Exit;

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    check: &'static str,
    status: Status,
    detail: String,
    advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Good,
    Warning,
    Bad,
}

impl Finding {
    /// All is well.
    pub(super) fn good(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, status: Status::Good, detail: detail.into(), advice: None }
    }

    /// It works, and may not be what was meant.
    pub(super) fn warning(
        check: &'static str,
        detail: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let advice = Some(advice.into());
        Self { check, status: Status::Warning, detail: detail.into(), advice }
    }

    /// It does not work, and what to do.
    pub(super) fn bad(
        check: &'static str,
        detail: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let advice = Some(advice.into());
        Self { check, status: Status::Bad, detail: detail.into(), advice }
    }

    fn text(&self) -> String {
        let sign = match self.status {
            Status::Good => '✓',
            Status::Warning => '!',
            Status::Bad => '✗',
        };
        let line = format!("{sign} {}: {}", self.check, self.detail);
        match &self.advice {
            Some(advice) => format!("{line}\n    {advice}"),
            None => line,
        }
    }
}

/// All findings, in the order in which they were made.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    /// Until something was found that is not well.
    healthy: bool,
    checks: Vec<Finding>,
    #[serde(skip)]
    exit: Option<Exit>,
}

impl Default for Report {
    fn default() -> Self {
        Self { healthy: true, checks: Vec::new(), exit: None }
    }
}

impl Report {
    /// Adds what does not stand in the way.
    pub(super) fn add(&mut self, finding: Finding) {
        self.checks.push(finding);
    }

    /// Adds what stands in the way; the first one decides the exit code.
    pub(super) fn fail(&mut self, finding: Finding, exit: Exit) {
        self.checks.push(finding);
        self.healthy = false;
        self.exit.get_or_insert(exit);
    }

    /// Adds what another report has found.
    pub(super) fn append(&mut self, other: Self) {
        self.checks.extend(other.checks);
        self.healthy &= other.healthy;
        self.exit = self.exit.or(other.exit);
    }

    /// The exit code.
    pub(super) fn exit(&self) -> Exit {
        self.exit.unwrap_or(Exit::Success)
    }

    /// A line a finding, and below it what to do.
    pub(super) fn text(&self) -> String {
        let lines: Vec<String> = self.checks.iter().map(Finding::text).collect();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_decides_and_a_warning_does_not() {
        let mut report = Report::default();
        report.add(Finding::warning("host id", "default", "name it"));
        assert_eq!(report.exit(), Exit::Success);
        report.fail(Finding::bad("store", "is away", "start it"), Exit::Unavailable);
        report.fail(Finding::bad("list", "not allowed", "allow it"), Exit::Misconfigured);
        assert_eq!(report.exit(), Exit::Unavailable);
        assert_eq!(
            report.text(),
            "! host id: default\n    name it\n✗ store: is away\n    start it\n✗ list: not allowed\n    allow it"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["healthy"], false);
        assert_eq!(json["checks"][1]["status"], "bad");
    }
}
