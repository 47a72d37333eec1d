//! A drawing of lines, rectangles and text, in SVG.

use std::fmt::Write as _;

/// A position or a size in pixels: horizontal, then vertical.
type Pixels = (u64, u64);

/// Fill of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Color {
    Plain,
    Memory,
    Dram,
    Remote,
    Store,
    Spilled,
}

impl Color {
    pub(super) const ALL: [Self; 6] =
        [Self::Plain, Self::Memory, Self::Dram, Self::Remote, Self::Store, Self::Spilled];

    /// The legend of a color: the use of memory or of a tier that it stands for.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Self::Plain => "holds and reads nothing that is counted",
            Self::Memory => "holds memory",
            Self::Dram => "reads from DRAM",
            Self::Remote => "reads from slower memory",
            Self::Store => "reads from the store or from files",
            Self::Spilled => "spills",
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Plain => "#ececec",
            Self::Memory => "#bfe3b4",
            Self::Dram => "#a9d3f5",
            Self::Remote => "#f3ef9c",
            Self::Store => "#f6d08b",
            Self::Spilled => "#f4a6a0",
        }
    }
}

/// Elements of a drawing, in the order in which they are painted.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    elements: String,
}

impl Canvas {
    /// Begins a group of elements with a tooltip.
    pub(super) fn begin_group(&mut self, title: &str) {
        self.push(format_args!("<g><title>{}</title>\n", escaped(title)));
    }

    pub(super) fn end_group(&mut self) {
        self.push(format_args!("</g>\n"));
    }

    pub(super) fn line(&mut self, (x1, y1): Pixels, (x2, y2): Pixels) {
        self.push(format_args!(
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"#777777\"/>\n"
        ));
    }

    pub(super) fn rectangle(&mut self, (x, y): Pixels, (width, height): Pixels, fill: Color) {
        self.push(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\" \
             fill=\"{}\" stroke=\"#777777\"/>\n",
            fill.code()
        ));
    }

    pub(super) fn text(&mut self, (x, y): Pixels, text: &str, is_bold: bool) {
        let weight = if is_bold { " font-weight=\"bold\"" } else { "" };
        self.push(format_args!("<text x=\"{x}\" y=\"{y}\"{weight}>{}</text>\n", escaped(text)));
    }

    /// The SVG text of the drawing, with its width and height in pixels.
    pub(super) fn written(&self, width: u64, height: u64) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>",
            self.elements
        )
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.elements.write_fmt(element);
    }
}

/// A text with XML's special characters escaped. Control characters other than line ends, most of
/// which XML does not allow, become spaces.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push('\n'),
            other if other.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}
