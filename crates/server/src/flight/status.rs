//! Errors as gRPC statuses.

use tonic::{Code, Status};

use crate::failure::Failure;

/// Maximum length of a message in bytes: gRPC sends it in a header, whose size clients limit.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// Returns an error in the form that clients receive: the code follows from the class of the
/// SQLSTATE, which the message contains as well.
pub(super) fn status_of(failure: &Failure) -> Status {
    let state = failure.state().0;
    let text = failure.whole_text();
    let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    let code = if failure.is_late() { Code::DeadlineExceeded } else { code_of(state) };
    Status::new(code, format!("{text} (SQLSTATE {state})"))
}

fn code_of(state: &str) -> Code {
    match state {
        // Missing tables, schemas, statements, savepoints and the like.
        "26000" | "34000" | "3B001" | "3D000" | "3F000" | "42704" | "42P01" => Code::NotFound,
        "42710" | "42P03" | "42P05" | "42P06" | "42P07" => Code::AlreadyExists,
        "42501" => Code::PermissionDenied,
        "40001" | "40P01" | "25P02" | "55P03" => Code::Aborted,
        "57014" => Code::Cancelled,
        "57P01" | "08006" => Code::Unavailable,
        "XX001" => Code::DataLoss,
        "0A000" => Code::Unimplemented,
        _ => match &state[..2] {
            "08" | "0L" | "22" | "42" => Code::InvalidArgument,
            "23" | "25" | "2B" | "55" => Code::FailedPrecondition,
            "28" => Code::Unauthenticated,
            "53" | "54" => Code::ResourceExhausted,
            _ => Code::Internal,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::SqlState;

    #[test]
    fn codes_are_those_of_the_class() {
        let cases = [
            (SqlState::NO_TABLE, Code::NotFound),
            (SqlState::DUPLICATE_TABLE, Code::AlreadyExists),
            (SqlState::DENIED, Code::PermissionDenied),
            (SqlState::WRONG_PASSWORD, Code::Unauthenticated),
            (SqlState::CONFLICT, Code::Aborted),
            (SqlState::LOCK_TIMEOUT, Code::Aborted),
            (SqlState::TOO_MANY, Code::ResourceExhausted),
            (SqlState::CANCELLED, Code::Cancelled),
            (SqlState::UNSUPPORTED, Code::Unimplemented),
            (SqlState::ZERO_DIVISION, Code::InvalidArgument),
            (SqlState::NO_TRANSACTION, Code::FailedPrecondition),
            (SqlState::INTERNAL, Code::Internal),
        ];
        for (state, code) in cases {
            let status = status_of(&Failure::new(state, "it"));
            assert_eq!(status.code(), code, "{state:?}");
            assert_eq!(status.message(), format!("it (SQLSTATE {})", state.0));
        }
        let late = status_of(&Failure::late(std::time::Duration::from_secs(1)));
        assert_eq!(late.code(), Code::DeadlineExceeded);
    }

    #[test]
    fn long_messages_are_cut() {
        let status = status_of(&Failure::new(SqlState::INTERNAL, "\u{e4}".repeat(10_000)));
        assert!(status.message().len() < 5_000);
    }
}
