//! EXPLAIN (FORMAT SVG): a drawing with one box for each operator, its inputs below it.
//!
//! A box is wider the more time its operator takes; without times, the more rows it returns. Its
//! color shows memory and tiers: the slowest place that the operator used.

mod canvas;

use canvas::{Canvas, Color};

use super::operator::{Measured, Millis, Operator, Summary};
use super::options::Options;
use super::text::{details, known};

// Distances in pixels. A box is in a cell, `GAP` above the boxes of the next level.
/// Width of a column of the drawing, which has one operator without inputs.
const CELL_WIDTH: u64 = 380;
const BOX_WIDTH_MIN: u64 = 220;
const BOX_WIDTH_MAX: u64 = 360;
const LINE_HEIGHT: u64 = 16;
const GAP: u64 = 40;
const MARGIN: u64 = 20;
/// Width of a character of the font.
const CHARACTER_WIDTH: u64 = 7;
/// Maximum number of properties that a box shows; its title has all of them.
const DETAILS_MAX: usize = 5;

/// Draws a tree and its summary as SVG.
pub(super) fn drawn(root: &Operator, options: Options, summary: Summary) -> String {
    let mut places = Places { boxes: Vec::new(), columns: 0, heaviest: 1, options };
    let depth = places.add(root, 0);
    let heights = places.heights(depth + 1);
    let mut canvas = Canvas::default();
    for place in &places.boxes {
        places.draw(&mut canvas, place, &heights);
    }
    let bottom = MARGIN + heights.iter().map(|height| height + GAP).sum::<u64>();
    let below = legend(&mut canvas, bottom, options, summary);
    canvas.written(2 * MARGIN + places.columns.max(1) * CELL_WIDTH, below + MARGIN)
}

/// A box of the drawing.
struct Place<'a> {
    operator: &'a Operator,
    level: usize,
    /// Horizontal center, in pixels.
    center: u64,
    /// Lines of text.
    lines: Vec<String>,
    /// Index of the box that it is an input of; `None` for the root.
    above: Option<usize>,
}

/// Layout of the boxes of a drawing.
struct Places<'a> {
    boxes: Vec<Place<'a>>,
    /// Number of operators without inputs so far, each in a column of its own.
    columns: u64,
    /// Greatest [`weight`] of an operator, at least 1.
    heaviest: u64,
    options: Options,
}

impl<'a> Places<'a> {
    /// Adds a tree at a level, and returns its deepest level.
    fn add(&mut self, operator: &'a Operator, level: usize) -> usize {
        let number = self.boxes.len();
        let lines = lines(operator, self.options);
        self.heaviest = self.heaviest.max(weight(operator, self.options));
        self.boxes.push(Place { operator, level, center: 0, lines, above: None });
        let (mut deepest, mut centers) = (level, Vec::new());
        for input in &operator.inputs {
            let below = self.boxes.len();
            deepest = deepest.max(self.add(input, level + 1));
            self.boxes[below].above = Some(number);
            centers.push(self.boxes[below].center);
        }
        self.boxes[number].center = match (centers.first(), centers.last()) {
            (Some(first), Some(last)) => first.midpoint(*last),
            _ => {
                self.columns += 1;
                MARGIN + self.columns * CELL_WIDTH - CELL_WIDTH / 2
            }
        };
        deepest
    }

    /// The height of the highest box of each level, in pixels.
    fn heights(&self, levels: usize) -> Vec<u64> {
        let mut heights = vec![0; levels];
        for place in &self.boxes {
            heights[place.level] = heights[place.level].max(height(place));
        }
        heights
    }

    fn draw(&self, canvas: &mut Canvas, place: &Place<'_>, heights: &[u64]) {
        let top = top(place.level, heights);
        if let Some(above) = place.above.map(|number| &self.boxes[number]) {
            let bottom = self::top(above.level, heights) + height(above);
            canvas.line((place.center, top), (above.center, bottom));
        }
        let share = u128::from(weight(place.operator, self.options)) * 1000;
        let share = u64::try_from(share / u128::from(self.heaviest)).unwrap_or(1000);
        let width = BOX_WIDTH_MIN + (BOX_WIDTH_MAX - BOX_WIDTH_MIN) * share / 1000;
        let left = place.center - width / 2;
        canvas.begin_group(&all(place.operator, self.options));
        canvas.rectangle((left, top), (width, height(place)), color(place.operator));
        let characters = usize::try_from(width / CHARACTER_WIDTH).unwrap_or(0).saturating_sub(2);
        for (number, line) in (1..).zip(&place.lines) {
            let at = (left + CHARACTER_WIDTH, top + number * LINE_HEIGHT);
            canvas.text(at, &cut(line, characters), number == 1);
        }
        canvas.end_group();
    }
}

fn top(level: usize, heights: &[u64]) -> u64 {
    MARGIN + heights.iter().take(level).map(|height| height + GAP).sum::<u64>()
}

fn height(place: &Place<'_>) -> u64 {
    LINE_HEIGHT * terrace_sys::size::to_u64(place.lines.len()) + LINE_HEIGHT / 2
}

/// The quantity that a box's width shows: the operator's time in nanoseconds, or without times the
/// rows that it returns, or without measurements its estimated rows.
fn weight(operator: &Operator, options: Options) -> u64 {
    let measured = operator.measured.filter(|_| options.analyze);
    match (measured, options.timing) {
        (Some(Measured { nanos: Some(nanos), .. }), true) => nanos,
        (Some(Measured { rows: Some(rows), .. }), _) => rows,
        _ => operator.estimated_rows.unwrap_or(0),
    }
}

fn lines(operator: &Operator, options: Options) -> Vec<String> {
    let (title, known) = (operator.words.title(), known(operator, options));
    let facts = known.split(", ").filter(|fact| !fact.is_empty()).map(str::to_owned);
    let details = details(operator, options).into_iter().take(DETAILS_MAX);
    let details = details.map(|(label, text)| format!("{label}: {text}"));
    [title].into_iter().chain(facts).chain(details).collect()
}

/// The complete description and measurements of an operator, for the tooltip of its box.
fn all(operator: &Operator, options: Options) -> String {
    let details = details(operator, options).into_iter();
    let details = details.map(|(label, text)| format!("{label}: {text}"));
    let lines = [operator.words.title(), known(operator, options)].into_iter().chain(details);
    lines.collect::<Vec<_>>().join("\n")
}

fn color(operator: &Operator) -> Color {
    let measured = operator.measured.unwrap_or_default();
    let places = [
        (measured.spilled_bytes, Color::Spilled),
        (measured.store_bytes.max(measured.file_bytes), Color::Store),
        (measured.remote_bytes, Color::Remote),
        (measured.dram_bytes, Color::Dram),
        (measured.peak_bytes, Color::Memory),
    ];
    let used = places.into_iter().find(|(bytes, _)| *bytes > 0);
    used.map_or(Color::Plain, |(_, color)| color)
}

/// Draws the summary and the meanings of the colors from `top` on, and returns the vertical
/// position below them, in pixels.
fn legend(canvas: &mut Canvas, top: u64, options: Options, summary: Summary) -> u64 {
    let mut line = top + LINE_HEIGHT;
    if options.summary {
        let execution = summary.execution_nanos.map(|it| format!(", execution {}", Millis(it)));
        let planning = Millis(summary.planning_nanos);
        let times = format!("planning {planning}{}", execution.unwrap_or_default());
        canvas.text((MARGIN, line), &times, false);
        line += LINE_HEIGHT;
    }
    if options.analyze && options.buffers {
        for color in Color::ALL {
            canvas.rectangle((MARGIN, line - LINE_HEIGHT / 2 - 2), (10, 10), color);
            canvas.text((MARGIN + LINE_HEIGHT, line), color.meaning(), false);
            line += LINE_HEIGHT;
        }
    }
    line
}

/// The first `characters` characters of a line; a line that is cut ends in dots.
fn cut(line: &str, characters: usize) -> String {
    match line.chars().count() <= characters {
        true => line.to_owned(),
        false => line.chars().take(characters.saturating_sub(3)).chain("...".chars()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::operator::Words;
    use super::super::options::Format;
    use super::*;

    const OPTIONS: Options = Options {
        format: Format::Svg,
        analyze: true,
        verbose: false,
        costs: true,
        buffers: true,
        timing: true,
        summary: true,
    };

    fn operator(name: &str, nanos: u64, inputs: Vec<Operator>) -> Operator {
        let measured = Some(Measured { nanos: Some(nanos), rows: Some(1), ..Measured::default() });
        let words = Words::new(name, "").with("On", "a < b & \"c\"");
        Operator { words, estimated_rows: None, measured, inputs }
    }

    #[test]
    fn every_operator_has_a_box_whose_text_is_escaped() {
        let join = operator("JOIN", 10, vec![operator("L", 5, vec![]), operator("R", 0, vec![])]);
        let drawing = drawn(&join, OPTIONS, Summary::default());
        assert!(drawing.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{drawing}");
        assert_eq!(drawing.matches("<title>").count(), 3);
        assert_eq!(drawing.matches("<line").count(), 2);
        assert!(drawing.contains("a &lt; b &amp; &quot;c&quot;"), "{drawing}");
        assert!(!drawing.contains("a < b"), "{drawing}");
    }

    #[test]
    fn slow_operators_are_wide() {
        let tree = operator("SLOW", 10, vec![operator("FAST", 0, vec![])]);
        let drawing = drawn(&tree, OPTIONS, Summary::default());
        for width in [BOX_WIDTH_MIN, BOX_WIDTH_MAX] {
            assert!(drawing.contains(&format!("width=\"{width}\"")), "{drawing}");
        }
    }
}
