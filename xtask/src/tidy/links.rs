//! Check that links and paths in documents exist.

use std::collections::BTreeSet;

use super::{
    finding::Finding,
    tree::{File, Tree},
};

/// Prefixes of the paths in backticks that are checked.
const PATHS: &[&str] = &["crates/", "docs/", "xtask/", ".ci/"];

/// Checks every link to a file or heading, and every path in backticks.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.files
        .iter()
        .filter(|file| file.extension() == "md")
        .flat_map(|it| file(tree, it))
        .collect()
}

fn file(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in prose(&file.text) {
        let broken = links(line).filter(|link| !leads_somewhere(tree, file, link));
        let missing = paths(line).filter(|path| !tree.paths.contains(path.trim_end_matches('/')));
        for target in broken.chain(missing) {
            let message = format!("`{target}` does not exist");
            findings.push(Finding::new(&file.path, index + 1, message));
        }
    }
    findings
}

/// Returns the lines outside of code blocks, with their indexes.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// Returns the targets of `[text](target)`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Returns the paths in backticks.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|code| {
        let plain = !code.contains(['*', '<', ' ', '{']);
        plain && PATHS.iter().any(|start| code.starts_with(start))
    })
}

fn leads_somewhere(tree: &Tree, file: &File, link: &str) -> bool {
    if link.starts_with("http://") || link.starts_with("https://") {
        return true;
    }
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let path = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
    if heading.is_empty() {
        return tree.paths.contains(&path);
    }
    let target = tree.files.iter().find(|other| other.path == path);
    target.is_some_and(|target| headings(&target.text).contains(heading))
}

/// Resolves a path relative to the directory of `from` to one from the root.
fn resolve(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the anchors of a document's headings.
fn headings(text: &str) -> BTreeSet<String> {
    let titles = prose(text).filter(|(_, line)| line.starts_with('#'));
    titles.map(|(_, line)| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("docs/a.md", text),
            ("README.md", "# Why extents, and not files?\n"),
            ("crates/sys/src/lib.rs", ""),
        ]);
        check(&tree).into_iter().map(|it| it.message).collect()
    }

    #[test]
    fn links_are_followed() {
        assert_eq!(targets("[a](../README.md) [b](a.md) [c](https://example.org/x)\n"), [""; 0]);
        assert_eq!(targets("[a](../NONE.md)\n"), ["`../NONE.md` does not exist"]);
        assert_eq!(targets("[a](../README.md#why-extents-and-not-files)\n"), [""; 0]);
        assert_eq!(targets("[a](../README.md#why)\n").len(), 1);
    }

    #[test]
    fn paths_in_backticks_exist() {
        assert_eq!(targets("`crates/sys/src/lib.rs`, `cargo x ci`, `crates/*/src`\n"), [""; 0]);
        assert_eq!(targets("`crates/sys/src/none.rs`\n").len(), 1);
        assert_eq!(targets("```\n`crates/none`\n```\n"), [""; 0]);
    }
}
