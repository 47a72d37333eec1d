//! List of the known circles, which are tolerated but must not grow.

use std::collections::BTreeSet;

use super::{
    package::{Circle, Package},
    report::{arrows_of_circle, wrapped},
};

/// Path of the list from the root.
pub const PATH: &str = "xtask/src/graph/known.txt";

const HEADER: &str = "\
# Circles of files that are known, as `cargo x graph --known` prints them: the crate, and its files.
# Each may shrink or vanish, but not grow; a file that has left its circle is struck off here.
";
const FAMILIES: &str = "\n# Parents and their children alone.\n";

/// Instructions for a test that found more than the list has.
pub const ADVICE: &str = "\
Files of a circle can only be understood together. Move what two of them need into a file that uses
neither: `cargo x graph CRATE` prints the names that each takes from the others. If the circle is
natural, as that of a consumer and its ledger, or if a file has a new name, correct the list in
xtask/src/graph/known.txt; `cargo x graph --known` prints that of the tree as it is.";

/// A circle of the list.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    package: String,
    files: BTreeSet<String>,
}

/// Returns the text of a list with all circles of `packages`.
pub fn list(packages: &[Package]) -> String {
    let circles = |is_family: bool| {
        let of_package = move |package: &Package| -> String {
            let circles = package.circles().into_iter().filter(|it| it.is_family == is_family);
            circles.map(|circle| entry(package, &circle)).collect()
        };
        packages.iter().map(of_package).collect::<String>()
    };
    [HEADER, &circles(false), FAMILIES, &circles(true)].concat()
}

fn entry(package: &Package, circle: &Circle) -> String {
    let files = circle.files.iter().map(|file| package.files[*file].clone());
    wrapped(&format!("{}:", package.name), 4, files)
}

/// Reads a list: a crate with a colon begins a circle, and its files follow on the same line and on
/// indented ones. Comments begin with `#`.
pub fn parse(text: &str) -> Vec<Known> {
    let mut list: Vec<Known> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let files = match line.split_once(':') {
            Some((package, files)) => {
                list.push(Known { package: package.trim().to_owned(), files: BTreeSet::new() });
                files
            }
            None => line,
        };
        if let Some(circle) = list.last_mut() {
            circle.files.extend(files.split_whitespace().map(str::to_owned));
        }
    }
    list
}

/// Describes the circles of a crate that are not a subset of a circle in `list`.
pub fn growth(package: &Package, list: &[Known]) -> Vec<String> {
    let known: Vec<_> = list.iter().filter(|known| known.package == package.name).collect();
    package.circles().iter().filter_map(|circle| described(package, circle, &known)).collect()
}

fn described(package: &Package, circle: &Circle, known: &[&Known]) -> Option<String> {
    let is_known = |known: &Known, file: usize| known.files.contains(&package.files[file]);
    let unknown = |known: &Known| -> Vec<usize> {
        circle.files.iter().copied().filter(|file| !is_known(known, *file)).collect()
    };
    let of_nearest = known.iter().map(|known| unknown(known)).min_by_key(Vec::len);
    let new = of_nearest.unwrap_or_else(|| circle.files.clone());
    if new.is_empty() {
        return None;
    }
    let start = if new.len() == circle.files.len() { "a new circle of" } else { "a circle gains" };
    let names = new.iter().map(|file| package.files[*file].clone());
    let first = wrapped(&format!("{}: {start}", package.name), 4, names);
    Some(first + &arrows_of_circle(package, circle, &new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{graph::package::packages, tidy::tree::Tree};

    fn growths(list: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("crates/p/src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("crates/p/src/a.rs", "use crate::b::B;\npub struct A;\n"),
            ("crates/p/src/b.rs", "use crate::c::C;\npub struct B;\n"),
            ("crates/p/src/c.rs", "use crate::{a::A, b::B};\npub struct C;\n"),
        ]);
        growth(&packages(&tree)[0], &parse(list))
    }

    #[test]
    fn a_circle_may_shrink_but_not_grow() {
        assert_eq!(growths("p: a b c\n"), [""; 0]);
        assert_eq!(growths("# Why.\np: a b\n    c d\n"), [""; 0]);
        let gains = "p: a circle gains a\n    a -> b (B)\n    c -> a (A)\n";
        assert_eq!(growths("p: b c\n"), [gains]);
    }

    #[test]
    fn a_circle_of_another_crate_or_of_two_allows_nothing() {
        let new = growths("q: a b c\n");
        assert!(new.len() == 1 && new[0].starts_with("p: a new circle of a b c\n"), "{new:?}");
        assert!(growths("p: a b\np: c d\n")[0].starts_with("p: a circle gains c\n"));
    }

    #[test]
    fn the_list_is_read_as_it_is_written() {
        let tree = Tree::of(&[
            ("crates/p/src/lib.rs", "mod a;\nuse a::A;\npub struct P;\n"),
            ("crates/p/src/a.rs", "use super::P;\npub struct A;\n"),
        ]);
        let packages = packages(&tree);
        assert!(list(&packages).ends_with("alone.\np: lib a\n"));
        let files = ["a", "lib"].map(str::to_owned).into();
        assert_eq!(parse(&list(&packages)), [Known { package: "p".to_owned(), files }]);
    }
}
