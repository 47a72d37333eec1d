//! Errors of remote files.

use object_store::Error as StoreError;

/// An error of reading or writing a remote file, or of a secret.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    /// The address cannot be read: its protocol or form is not supported.
    #[error("'{address}' cannot be read: {reason}")]
    Address {
        /// The address as it was written.
        address: String,
        /// The fault, and the forms that are right.
        reason: String,
    },
    /// The server has no such file.
    #[error("{address} does not exist")]
    Missing {
        /// The address.
        address: String,
    },
    /// The address cannot be written to.
    #[error("'{address}' cannot be written: {reason}")]
    Target {
        /// The address as it was written.
        address: String,
        /// The fault, and the forms that are right.
        reason: String,
    },
    /// The server failed to store the file.
    #[error("cannot write {address}: {source}")]
    Write {
        /// The address.
        address: String,
        /// The client's error.
        #[source]
        source: StoreError,
    },
    /// The server denies access to the file.
    #[error(
        "{address} is refused: {reason}; CREATE SECRET name (TYPE s3, KEY_ID '...', SECRET '...') \
         sets the keys"
    )]
    Denied {
        /// The address.
        address: String,
        /// The server's answer.
        reason: String,
    },
    /// The file was replaced after the statement had read its version.
    #[error("{address} was changed while it was read; run the statement again")]
    Changed {
        /// The address.
        address: String,
    },
    /// The server does not answer, or answers with another error.
    #[error("cannot read {address}: {source}")]
    Store {
        /// The address.
        address: String,
        /// The client's error.
        #[source]
        source: StoreError,
    },
    /// A secret has a wrong option or only one of its keys, or its name is taken.
    #[error("secret {name}: {reason}")]
    Secret {
        /// The secret's name.
        name: String,
        /// The fault, and the options that are right.
        reason: String,
    },
    /// The threads that send requests cannot be started, or ended before the result.
    #[error("the threads of remote files do not run: {0}")]
    Runtime(String),
}

impl CloudError {
    /// The error of a client about a file.
    pub(crate) fn of(address: &str, source: StoreError) -> Self {
        let address = address.to_owned();
        match source {
            StoreError::NotFound { .. } => Self::Missing { address },
            StoreError::Precondition { .. } | StoreError::NotModified { .. } => {
                Self::Changed { address }
            }
            StoreError::PermissionDenied { source, .. }
            | StoreError::Unauthenticated { source, .. } => {
                Self::Denied { address, reason: innermost(source.as_ref()) }
            }
            source => Self::Store { address, source },
        }
    }

    /// The error of a client about a file of this bucket that is written.
    pub(crate) fn of_write(address: &str, bucket: &str, source: StoreError) -> Self {
        match Self::of(address, source) {
            Self::Missing { address } => {
                Self::Target { address, reason: format!("there is no bucket {bucket}") }
            }
            Self::Store { address, source } => Self::Write { address, source },
            error => error,
        }
    }
}

/// The message of the first cause, without those that wrap it.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
