//! Text output of the graph.

use std::{cmp::Reverse, collections::BTreeSet, iter};

use super::package::{Circle, Package};

/// Columns of a line of text.
const COLUMNS_MAX: usize = 100;

/// Returns `start` and the words, wrapped at 100 columns; all lines except the first are indented
/// by `indent` blanks.
pub fn wrapped(start: &str, indent: usize, words: impl Iterator<Item = String>) -> String {
    let mut text = start.to_owned();
    let mut columns = start.len();
    for word in words {
        if columns + 1 + word.len() > COLUMNS_MAX {
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            columns = indent;
        } else {
            text.push(' ');
            columns += 1;
        }
        text.push_str(&word);
        columns += word.len();
    }
    text.push('\n');
    text
}

/// Returns the words of all texts, with a comma after each text except the last.
pub fn listed(texts: impl Iterator<Item = String>) -> impl Iterator<Item = String> {
    let mut texts = texts.peekable();
    let with_comma = iter::from_fn(move || {
        let text = texts.next()?;
        Some(if texts.peek().is_some() { text + "," } else { text })
    });
    with_comma.flat_map(|text| text.split(' ').map(str::to_owned).collect::<Vec<_>>())
}

/// Returns the circles of some crates and then all arrows of each.
pub fn graph(packages: &[Package]) -> String {
    circles(packages) + &packages.iter().map(arrows).collect::<String>()
}

/// Returns the circles of some crates with the arrows inside, the largest first; those of parents
/// and their children come last.
fn circles(packages: &[Package]) -> String {
    let mut all = Vec::new();
    for package in packages {
        all.extend(package.circles().into_iter().map(|circle| (package, circle)));
    }
    all.sort_by_key(|(_, circle)| (circle.is_family, Reverse(circle.files.len())));
    all.iter().map(|(package, circle)| of_circle(package, circle) + "\n").collect()
}

fn of_circle(package: &Package, circle: &Circle) -> String {
    let kind = if circle.is_family { "parent and child" } else { "circle" };
    let start = format!("{}: {kind}, {} files:", package.name, circle.files.len());
    let files = circle.files.iter().map(|file| package.files[*file].clone());
    wrapped(&start, 4, listed(files)) + &arrows_of_circle(package, circle, &circle.files)
}

/// Returns the arrows inside of a circle that begin or end in one of `ends`, with the names that
/// each file takes.
pub fn arrows_of_circle(package: &Package, circle: &Circle, ends: &[usize]) -> String {
    let mut text = String::new();
    for from in &circle.files {
        let arrows = package.within(&circle.files).filter(|(start, end, _)| {
            start == from && (ends.contains(start) || ends.contains(end))
        });
        let mut words = arrows.map(|(_, to, names)| taken(&package.files[to], names)).peekable();
        if words.peek().is_some() {
            text += &wrapped(&format!("    {} ->", package.files[*from]), 8, listed(words));
        }
    }
    text
}

fn taken(file: &str, names: &BTreeSet<String>) -> String {
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    format!("{file} ({})", names.join(", "))
}

/// Returns the arrows of a crate, a line for each file.
fn arrows(package: &Package) -> String {
    let mut text = format!("{}: {} files\n", package.name, package.files.len());
    for (from, to) in package.files.iter().zip(&package.arrows).filter(|(_, to)| !to.is_empty()) {
        let files = to.keys().map(|to| package.files[*to].clone());
        text += &wrapped(&format!("    {from} ->"), 8, listed(files));
    }
    text + "\n"
}

/// Returns the sizes of the crates' graphs, a line for each.
pub fn summary(packages: &[Package]) -> String {
    let header = "crate      files  arrows  circles  largest  parent and child\n".to_owned();
    header + &packages.iter().map(sizes).collect::<String>()
}

fn sizes(package: &Package) -> String {
    let (families, circles): (Vec<_>, Vec<_>) =
        package.circles().into_iter().partition(|circle| circle.is_family);
    format!(
        "{:<9} {:>6} {:>7} {:>8} {:>8} {:>17}\n",
        package.name,
        package.files.len(),
        package.arrows.iter().map(|to| to.len()).sum::<usize>(),
        circles.len(),
        circles.first().map_or(0, |circle| circle.files.len()),
        families.len(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{graph::package::packages, tidy::tree::Tree};

    fn package() -> Package {
        let tree = Tree::of(&[
            ("crates/p/src/lib.rs", "mod a;\nmod b;\npub use a::A;\n"),
            ("crates/p/src/a.rs", "use crate::b::{B, C};\npub struct A;\n"),
            ("crates/p/src/b.rs", "use crate::A;\npub struct B;\npub struct C;\n"),
        ]);
        packages(&tree).remove(0)
    }

    #[test]
    fn circles_are_printed_with_the_names_that_are_taken() {
        let text = "p: circle, 2 files: a, b\n    a -> b (B, C)\n    b -> a (A)\n\n";
        assert_eq!(circles(&[package()]), text);
    }

    #[test]
    fn arrows_and_sizes_are_printed_by_the_line() {
        let text = "p: 3 files\n    lib -> a\n    a -> b\n    b -> a\n\n";
        assert_eq!(arrows(&package()), text);
        let sizes = summary(&[package()]);
        let sizes: Vec<_> = sizes.lines().nth(1).expect("a crate").split_whitespace().collect();
        assert_eq!(sizes, ["p", "3", "3", "1", "2", "0"]);
    }

    #[test]
    fn long_lines_are_broken() {
        let words = iter::repeat_n("x".repeat(30), 4);
        let text = wrapped("a:", 4, listed(words));
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| line.len() <= COLUMNS_MAX), "{text}");
        assert!(text.ends_with("x\n") && text.contains("x,\n    x"), "{text}");
    }
}
