//! What the end of a command means for its run (T11).

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use leasehold_client::{BootInstant, Completion, Run, RunOutcome};

use crate::cli::exit::Exit;
use crate::cli::output;
use crate::cli::run::job::{Done, Ended, exit_of, outcome_of};

/// What is recorded, and the exit code.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) completion: Completion,
    pub(super) exit: Exit,
}

/// What is to be told of `run`, whose command ended so; `ending` is the signal that told this process to end,
/// if one did.
pub(super) fn verdict(
    done: &Done,
    run: &Run,
    ending: Option<i32>,
    final_exit_code: Option<u8>,
) -> Verdict {
    match done.ended {
        Ended::Command(status) => {
            let said = said(status, ending, final_exit_code);
            let exit = exit_of(status);
            if done.unreadable {
                let completion = Completion::failed("its checkpoint cannot be read");
                return Verdict { completion, exit: Exit::NotSaved };
            }
            let completion = match &done.checkpoint {
                Some(value) => match said.clone().with_checkpoint(value) {
                    Ok(completion) => completion,
                    Err(error) => {
                        output::note(&format!("the checkpoint was not saved: {error}"));
                        said
                    }
                },
                None => said,
            };
            Verdict { completion, exit }
        }
        // What was stopped has not done its work, whatever its exit code says.
        Ended::Stopped(_) => {
            let is_over = run.deadline().is_some_and(|deadline| deadline <= BootInstant::now());
            let completion = if is_over {
                Completion::failed_final("stopped at its deadline")
            } else {
                Completion::returned()
            };
            Verdict { completion, exit: Exit::Lost }
        }
    }
}

fn said(status: ExitStatus, ending: Option<i32>, final_exit_code: Option<u8>) -> Completion {
    let detail = || match status.signal() {
        Some(number) => format!("ended by signal {number}"),
        None => format!("exit code {}", exit_of(status).code()),
    };
    match outcome_of(status, ending, final_exit_code) {
        RunOutcome::Succeeded => Completion::succeeded(),
        RunOutcome::FailedFinal => Completion::failed_final(detail()),
        RunOutcome::Returned => Completion::returned(),
        // A command's end says nothing else; a later version may know more.
        RunOutcome::Failed
        | RunOutcome::TimedOut
        | RunOutcome::Abandoned
        | RunOutcome::Skipped
        | _ => Completion::failed(detail()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: i32 = 15;

    fn outcome(wait_status: i32, ending: Option<i32>) -> RunOutcome {
        said(ExitStatus::from_raw(wait_status), ending, Some(9)).outcome()
    }

    #[test]
    fn t11_the_exit_code_is_the_outcome() {
        let exit = |code: i32| code << 8;
        assert_eq!(outcome(exit(0), None), RunOutcome::Succeeded);
        assert_eq!(outcome(exit(75), None), RunOutcome::Returned);
        assert_eq!(outcome(exit(9), None), RunOutcome::FailedFinal);
        for other in [1, 74, 76, 126, 127, 143] {
            assert_eq!(outcome(exit(other), None), RunOutcome::Failed, "{other}");
        }
        assert_eq!(outcome(TERM, None), RunOutcome::Failed, "killed by somebody else");
    }

    #[test]
    fn t20_what_was_told_to_end_is_done_elsewhere() {
        assert_eq!(outcome(TERM, Some(TERM)), RunOutcome::Returned);
        assert_eq!(outcome((128 + TERM) << 8, Some(TERM)), RunOutcome::Returned);
        assert_eq!(outcome(0, Some(TERM)), RunOutcome::Succeeded);
        assert_eq!(outcome(1 << 8, Some(TERM)), RunOutcome::Failed);
    }
}
