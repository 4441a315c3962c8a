//! The time that a caller gives its call (`grpc-timeout`): a call that is not answered by then is not worth
//! answering.

use std::convert::Infallible;
use std::time::Duration;

use hyper::{HeaderMap, Response};
use tonic::Status;
use tonic::body::Body;

/// How long the caller waits for the beginning of an answer; none for as long as it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::grpc) struct Deadline(Option<Duration>);

/// What the headers of a call say. What cannot be read is no deadline: the caller has its own clock.
pub(in crate::grpc) fn within(headers: &HeaderMap) -> Deadline {
    let given = headers.get("grpc-timeout").and_then(|value| value.to_str().ok());
    Deadline(given.and_then(read))
}

/// At most 8 digits and a unit.
fn read(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

impl Deadline {
    /// The answer, or the news that it comes too late; what was to answer is dropped then.
    pub(in crate::grpc) async fn bound(
        self,
        answer: impl Future<Output = Result<Response<Body>, Infallible>>,
    ) -> Result<Response<Body>, Infallible> {
        let Some(span) = self.0 else { return answer.await };
        match tokio::time::timeout(span, answer).await {
            Ok(answer) => answer,
            Err(_elapsed) => {
                Ok(Status::deadline_exceeded("the call's own time is over").into_http())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_read_as_grpc_writes_it() {
        assert_eq!(read("1H"), Some(Duration::from_secs(3_600)));
        assert_eq!(read("2M"), Some(Duration::from_secs(120)));
        assert_eq!(read("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(read("150m"), Some(Duration::from_millis(150)));
        assert_eq!(read("7u"), Some(Duration::from_micros(7)));
        assert_eq!(read("7n"), Some(Duration::from_nanos(7)));
        for wrong in ["", "S", "7", "999999999S", "-1S", "+1S", "1 S", "1s", "\u{e9}"] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_too_late_is_told_so() {
        let deadline = Deadline(Some(Duration::from_secs(1)));
        let late = deadline.bound(std::future::pending()).await.unwrap();
        assert_eq!(late.headers()["grpc-status"], "4");
    }
}
