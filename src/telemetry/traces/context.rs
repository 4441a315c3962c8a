//! W3C Trace Context: the trace that a caller is in, from the headers that it sent.

use crate::coordinator::{TraceContext, TraceId};

/// The flag by which a caller says that it records the trace.
const SAMPLED: u8 = 1;
/// Members that `tracestate` has at the most.
const MAX_STATE_MEMBERS: usize = 32;
/// Bytes of `tracestate` that are passed on at the most.
const MAX_STATE_BYTES: usize = 512;

/// The caller's place in its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) id: TraceId,
    pub(super) sampled: bool,
    /// What its tracing systems pass on.
    pub(super) state: String,
}

/// Reads the headers; nothing where they are not as the standard says, as if there were none.
pub(super) fn read(context: &TraceContext) -> Option<Parent> {
    let mut parts = context.parent.trim().split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let [version] = bytes::<1>(version)?;
    // A later version may have more parts; ours has four.
    if version == 0xff || (version == 0 && parts.next().is_some()) {
        return None;
    }
    let id = TraceId { trace: bytes(trace)?, span: bytes(span)? };
    let [flags] = bytes::<1>(flags)?;
    if id.trace == [0; 16] || id.span == [0; 8] {
        return None;
    }
    Some(Parent { id, sampled: flags & SAMPLED != 0, state: state(&context.state) })
}

/// `tracestate` as it came, or nothing if it is too long or has characters that it may not have.
fn state(text: &str) -> String {
    let printable = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    let members = text.split(',').count();
    let fits = text.len() <= MAX_STATE_BYTES && members <= MAX_STATE_MEMBERS;
    if printable && fits { text.trim().to_owned() } else { String::new() }
}

/// Lower-case hexadecimal digits, as many as there have to be.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let nibble = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(nibble(*high)? << 4 | nibble(*low)?),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(pair).collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn parent(text: &str) -> Option<Parent> {
        read(&TraceContext { parent: text.to_owned(), state: "a=1,b=2".to_owned() })
    }

    #[test]
    fn the_standards_own_example_is_read() {
        let found = parent(&format!("00-{TRACE}-00f067aa0ba902b7-01")).unwrap();
        assert_eq!(found.id.span, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert_eq!(found.id.trace.first(), Some(&0x4b));
        assert!(found.sampled);
        assert_eq!(found.state, "a=1,b=2");
        assert!(!parent(&format!("00-{TRACE}-00f067aa0ba902b7-00")).unwrap().sampled);
        let later = parent(&format!("01-{TRACE}-00f067aa0ba902b7-01-more"));
        assert!(later.is_some(), "a later version may have more");
    }

    #[test]
    fn what_is_no_context_is_none() {
        for wrong in [
            String::new(),
            "00".to_owned(),
            format!("ff-{TRACE}-00f067aa0ba902b7-01"),
            format!("00-{TRACE}-00f067aa0ba902b7-01-more"),
            format!("00-{TRACE}-00f067aa0ba902b7"),
            format!("00-{TRACE}-00f067aa0ba902-01"),
            format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase()),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("0-{TRACE}-00f067aa0ba902b7-01"),
        ] {
            assert_eq!(parent(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_state_that_is_too_long_is_left_out_and_not_cut() {
        for wrong in ["k=v,".repeat(200), "k=v,".repeat(40), "a=\u{7f}".to_owned()] {
            assert_eq!(state(&wrong), "", "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_a_caller_sends_is_too_much(parent in ".*", state in ".*") {
            let _ = read(&TraceContext { parent, state });
        }
    }
}
