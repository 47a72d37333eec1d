//! Lines of a source file.

/// A line, split into code and comments.
#[derive(Debug, Default)]
pub struct Line {
    /// Code of the line; comments and the contents of string literals are blanked.
    pub code: String,
    /// Text of the comments.
    pub comment: String,
    /// True if the line belongs to test code.
    pub test: bool,
}
