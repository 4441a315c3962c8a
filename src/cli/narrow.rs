//! Tables within the width of a terminal: what lock paths have in common is said once, and the widest cells
//! are cut.

use std::io::IsTerminal as _;

/// The width of what is no terminal, and of a terminal that does not say it.
const USUAL_WIDTH: usize = 100;
/// What is left of a cell that is cut, at the least.
const NARROWEST: usize = 12;
const GAP: usize = 2;

/// What stands below a table in which anything was cut.
pub(super) const CUT: &str = "… -o wide shows what is cut";

/// How wide the text on standard output may be.
pub(super) fn width() -> usize {
    let stdout = std::io::stdout();
    let columns =
        || rustix::termios::tcgetwinsize(&stdout).ok().map(|size| usize::from(size.ws_col));
    let columns = if stdout.is_terminal() { columns() } else { None };
    columns.filter(|columns| *columns > 0).unwrap_or(USUAL_WIDTH)
}

/// The parts of a lock's own name at the most, which is shown whole: function, scope and mode.
const PARTS: usize = 3;

/// What the paths of these locks, each with its host id if that is known, begin with, up to a slash, and
/// never further than a host id.
pub(super) fn common(locks: &[(&str, &str)]) -> String {
    let Some((first, host_id)) = locks.first() else { return String::new() };
    let host = format!("/{host_id}/");
    let longest = match first.find(&host) {
        Some(at) if !host_id.is_empty() => at + host.len(),
        Some(_) | None => {
            first.rmatch_indices('/').nth(PARTS - 1).map_or(0, |(slash, _)| slash + 1)
        }
    };
    let mut under = first.get(..longest).unwrap_or_default();
    while !under.is_empty() && !locks.iter().all(|(path, _)| path.starts_with(under)) {
        let parent = under.trim_end_matches('/').rfind('/').map_or(0, |slash| slash + 1);
        under = under.get(..parent).unwrap_or_default();
    }
    under.to_owned()
}

/// Cuts the widest column until the table has this width, or nothing can be cut any more: those of `first`,
/// and only then the others. Whether anything was cut.
pub(super) fn fit(
    headings: &[&str],
    rows: &mut [Vec<String>],
    width: usize,
    first: &[&str],
) -> bool {
    let count = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = headings.iter().map(|heading| count(heading)).collect();
    for row in rows.iter() {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = (*widest).max(count(cell));
        }
    }
    let whole = widths.clone();
    // comfy-table puts a column of space on either side of a cell, and the outermost is trimmed.
    let gaps = GAP * headings.len().saturating_sub(1);
    for last_resort in [false, true] {
        while widths.iter().sum::<usize>() + gaps > width {
            let columns = widths.iter_mut().zip(headings);
            let columns = columns.filter(|(_, heading)| last_resort || first.contains(heading));
            let widest = columns.map(|(widest, _)| widest).max();
            let Some(widest) = widest.filter(|widest| **widest > NARROWEST) else { break };
            *widest -= 1;
        }
    }
    for row in rows.iter_mut() {
        for (cell, most) in row.iter_mut().zip(&widths) {
            *cell = cut(cell, *most);
        }
    }
    whole != widths
}

/// Takes out of the middle what is too long: both ends tell names apart.
fn cut(text: &str, most: usize) -> String {
    let all: Vec<char> = text.chars().collect();
    if all.len() <= most {
        return text.to_owned();
    }
    let kept = most.saturating_sub(1);
    let (before, after) = (kept.div_ceil(2), kept / 2);
    let end = all.len().saturating_sub(after);
    let head: String = all.iter().take(before).collect();
    let tail: String = all.iter().skip(end).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_paths_have_in_common_ends_at_a_host_id() {
        let one = [("c/p/h/a/x/FUNCTION", "h"), ("c/p/h/a/y/FUNCTION", "h")];
        assert_eq!(common(&one), "c/p/h/");
        assert_eq!(common(&one[..1]), "c/p/h/");
        assert_eq!(common(&[("c/p/h/a/~/FUNCTION", "h"), ("c/p/i/b/~/FUNCTION", "i")]), "c/p/");
        assert_eq!(common(&[("c/foreign", "")]), "");
        assert_eq!(common(&[("c/p/h/a/x/FUNCTION", ""), ("c/p/h/a/y/FUNCTION", "")]), "c/p/h/");
    }

    #[test]
    fn a_cut_keeps_both_ends() {
        assert_eq!(cut("abcdefghij", 5), "ab…ij");
        assert_eq!(cut("abc", 5), "abc");
    }
}
