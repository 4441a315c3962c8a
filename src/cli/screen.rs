//! A terminal's whole screen, drawn anew at each change and left as it was before.

use std::io::{self, IsTerminal as _, Write as _};

use crate::text::printable_lines;

/// What a terminal takes for the other screen, without a cursor and with lines that end at its edge, however
/// wide their letters are; and for the one before.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// For a terminal that does not say how large it is.
const USUAL: (usize, usize) = (24, 80);

/// The screen, until it is dropped.
#[derive(Debug)]
pub(super) struct Screen;

impl Screen {
    /// Takes the screen; none if standard output is no terminal.
    ///
    /// # Errors
    /// When the terminal cannot be written to.
    pub(super) fn take() -> io::Result<Option<Self>> {
        let mut stdout = io::stdout().lock();
        if !stdout.is_terminal() {
            return Ok(None);
        }
        stdout.write_all(ENTER.as_bytes())?;
        stdout.flush()?;
        Ok(Some(Self))
    }

    /// Shows as much of the text as there is place for; its last line says how much is not shown.
    ///
    /// # Errors
    /// When the terminal cannot be written to.
    pub(super) fn draw(&mut self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        let (rows, columns) = rustix::termios::tcgetwinsize(&stdout)
            .map(|size| (usize::from(size.ws_row), usize::from(size.ws_col)))
            .ok()
            .filter(|(rows, columns)| *rows > 0 && *columns > 0)
            .unwrap_or(USUAL);
        // Line by line over what was there: it would flicker if it was cleared before.
        let lines: Vec<String> = cut(&printable_lines(text), rows, columns)
            .iter()
            .map(|line| format!("{line}\x1b[K"))
            .collect();
        write!(stdout, "\x1b[H{}\x1b[J", lines.join("\r\n"))?;
        stdout.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone has no screen to give back.
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(LEAVE.as_bytes()).and_then(|()| stdout.flush());
    }
}

fn cut(text: &str, rows: usize, columns: usize) -> Vec<String> {
    let all = text.lines().count();
    let narrow = |line: &str| line.chars().take(columns).collect::<String>();
    let mut lines: Vec<String> = text.lines().take(rows).map(narrow).collect();
    if all > rows {
        let left = all - rows + 1;
        lines.pop();
        lines.push(narrow(&format!(
            "… {left} more: narrow it down with --state, --label or --prefix"
        )));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_place_is_counted() {
        assert_eq!(cut("one\ntwo\nthree", 3, 80), ["one", "two", "three"]);
        assert_eq!(cut("one\ntwo\nthree\nfour", 3, 8), ["one", "two", "… 2 more"]);
        assert_eq!(cut("längere Zeile", 1, 4), ["läng"]);
    }
}
