//! gRPC's status codes.

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// A gRPC status code. Decide by [`Reason`](crate::Reason) where there is one: it says more.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            pub(crate) const fn from_wire(code: tonic::Code) -> Self {
                match code {
                    $(tonic::Code::$variant => Self::$variant,)*
                }
            }

            /// The code as the gRPC specification writes it, such as `INVALID_ARGUMENT`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

codes! {
    /// No error. Never the code of one.
    Ok = "OK",
    /// The call was cancelled.
    Cancelled = "CANCELLED",
    /// The server or something on the way gave no code.
    Unknown = "UNKNOWN",
    /// The request has a value that is never valid.
    InvalidArgument = "INVALID_ARGUMENT",
    /// The call was not answered in time.
    DeadlineExceeded = "DEADLINE_EXCEEDED",
    /// What was asked for does not exist.
    NotFound = "NOT_FOUND",
    /// What was to be made exists already.
    AlreadyExists = "ALREADY_EXISTS",
    /// The caller has no permission.
    PermissionDenied = "PERMISSION_DENIED",
    /// A limit is reached.
    ResourceExhausted = "RESOURCE_EXHAUSTED",
    /// The state does not allow it.
    FailedPrecondition = "FAILED_PRECONDITION",
    /// Something else has overtaken the call.
    Aborted = "ABORTED",
    /// The request goes past a bound.
    OutOfRange = "OUT_OF_RANGE",
    /// The server does not have this call.
    Unimplemented = "UNIMPLEMENTED",
    /// The server is broken.
    Internal = "INTERNAL",
    /// The server or its store cannot be reached; trying again may help.
    Unavailable = "UNAVAILABLE",
    /// Data is damaged.
    DataLoss = "DATA_LOSS",
    /// The caller did not say who it is.
    Unauthenticated = "UNAUTHENTICATED",
}
