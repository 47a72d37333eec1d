//! Files of a crate, the arrows between them, and the circles that the arrows form.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    iter,
};

use super::{
    component::components,
    module::{GLOB, Module, modules},
    resolution::{Modules, ROOT, Target, parent},
    token::tokens,
};
use crate::tidy::tree::{File, Tree};

/// A crate.
pub struct Package {
    /// Name of its directory.
    pub name: String,
    /// Paths below `src/` without `.rs`.
    pub files: Vec<String>,
    /// Files that each file names, with the names that it takes from them.
    pub arrows: Vec<BTreeMap<usize, BTreeSet<String>>>,
    /// For each file, the file of its parent module.
    parents: Vec<Option<usize>>,
}

/// Files that depend on each other in a cycle.
#[derive(Debug, PartialEq, Eq)]
pub struct Circle {
    pub files: Vec<usize>,
    /// True if every arrow between the files leads from a parent module to its child or back.
    pub is_family: bool,
}

/// Returns the crates of the workspace with their files, except for those of tests.
pub fn packages(tree: &Tree) -> Vec<Package> {
    let mut sources: BTreeMap<&str, Vec<(&str, &File)>> = BTreeMap::new();
    for (file, _) in tree.rust().filter(|(_, rust)| !rust.lines.iter().all(|line| line.test)) {
        if let Some((name, path)) = source(&file.path) {
            sources.entry(name).or_default().push((path, file));
        }
    }
    sources.into_iter().map(|(name, sources)| Package::new(name, &sources)).collect()
}

/// Returns the crate of a source and its path below `src/`, without `.rs`.
fn source(path: &str) -> Option<(&str, &str)> {
    let (directory, file) = path.strip_suffix(".rs")?.split_once("/src/")?;
    let name = directory.strip_prefix("crates/").unwrap_or(directory);
    // The programs of clients are outside of the workspace.
    (!name.contains('/')).then_some((name, file))
}

/// Returns the module path of a file. The `main` of a crate with a library is treated as a child
/// module of the library, which it uses.
fn module_path(file: &str, has_library: bool) -> String {
    match file {
        "lib" => ROOT.to_owned(),
        "main" if !has_library => ROOT.to_owned(),
        _ => format!("{ROOT}::{}", file.strip_suffix("/mod").unwrap_or(file).replace('/', "::")),
    }
}

impl Package {
    fn new(name: &str, sources: &[(&str, &File)]) -> Self {
        let has_library = sources.iter().any(|(path, _)| *path == "lib");
        let paths: Vec<_> =
            sources.iter().map(|(path, _)| module_path(path, has_library)).collect();
        let mut all = Modules::default();
        for (index, (path, (_, file))) in paths.iter().zip(sources).enumerate() {
            let tokens = file.rust.as_ref().map(tokens).unwrap_or_default();
            all.add(modules(index, path, &tokens));
        }
        let around = |path: &String| {
            let mut above = iter::successors(parent(path), |path| parent(path));
            above.find_map(|path| paths.iter().position(|other| other == path))
        };
        Self {
            name: name.to_owned(),
            files: sources.iter().map(|(path, _)| (*path).to_owned()).collect(),
            arrows: arrows(&all, sources.len()),
            parents: paths.iter().map(around).collect(),
        }
    }

    /// Returns the circles, the largest first.
    pub fn circles(&self) -> Vec<Circle> {
        let arrows: Vec<_> = self.arrows.iter().map(|to| to.keys().copied().collect()).collect();
        let circles = components(&arrows).into_iter().filter(|files| files.len() > 1);
        let mut circles: Vec<_> = circles.map(|files| self.circle(files)).collect();
        circles.sort_by_key(|circle| (Reverse(circle.files.len()), circle.files.clone()));
        circles
    }

    fn circle(&self, files: Vec<usize>) -> Circle {
        let of_family = |from: usize, to: usize| {
            self.parents[from] == Some(to) || self.parents[to] == Some(from)
        };
        let is_family = self.within(&files).all(|(from, to, _)| of_family(from, to));
        Circle { files, is_family }
    }

    /// Returns the arrows between some files, with the names that are taken.
    pub fn within(
        &self,
        files: &[usize],
    ) -> impl Iterator<Item = (usize, usize, &BTreeSet<String>)> {
        let to = |from: usize| self.arrows[from].iter().map(move |(to, names)| (from, *to, names));
        files.iter().flat_map(move |from| to(*from)).filter(|(_, to, _)| files.contains(to))
    }
}

/// Returns the files that each of `count` files names, with the names that it takes from them.
fn arrows(all: &Modules, count: usize) -> Vec<BTreeMap<usize, BTreeSet<String>>> {
    let mut arrows = vec![BTreeMap::<usize, BTreeSet<String>>::new(); count];
    for (path, module) in all.iter() {
        for target in targets(all, path, module).filter(|target| target.file != module.file) {
            arrows[module.file].entry(target.file).or_default().insert(target.name);
        }
    }
    arrows
}

/// Returns the targets of the imports and paths of a module.
fn targets(all: &Modules, path: &str, module: &Module) -> impl Iterator<Item = Target> {
    let imports = module.imports.iter().filter_map(move |import| {
        let target = all.resolve(path, &import.path)?;
        let is_glob = import.name == GLOB;
        // A private import of a module does not use its items; the paths that begin with it do.
        let takes = !target.is_module || import.is_public || is_glob;
        let name = if is_glob { GLOB.to_owned() } else { target.name.clone() };
        takes.then_some(Target { name, ..target })
    });
    let paths = module.paths.iter().filter_map(move |it| all.resolve(path, it));
    imports.chain(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the arrows of a crate as `a -> b: Names`.
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let package = package(files);
        let all: Vec<_> = (0..package.files.len()).collect();
        let line = |(from, to, names): (usize, usize, &BTreeSet<String>)| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            format!("{} -> {}: {}", package.files[from], package.files[to], names.join(" "))
        };
        package.within(&all).map(line).collect()
    }

    fn package(files: &[(&str, &str)]) -> Package {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (format!("crates/p/src/{path}.rs"), *text)).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        packages(&Tree::of(&files)).remove(0)
    }

    #[test]
    fn imports_and_paths_lead_to_the_file_of_the_longest_module() {
        let text = "use crate::{b::{self, B}, b::c::{C as D, E}};\nuse std::io;\n\
                    fn f() { b::c::f(); io::stdin(); crate::d::G::new(); super::d::h() }";
        let found = arrows(&[
            ("a", text),
            ("b", "pub struct B;\nmod c;\n"),
            ("b/c", "pub struct C;\npub fn f() {}\n"),
            ("d/mod", "pub struct G;\n"),
            ("lib", "mod a;\nmod b;\nmod d;\n"),
        ]);
        let expected = ["a -> b: B", "a -> b/c: C E f", "a -> d/mod: G h"];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_item_of_the_parent_is_an_arrow_to_it() {
        let found = arrows(&[
            ("a", "mod b;\nmod c;\npub struct A;\npub use b::B;\n"),
            ("a/b", "use super::A;\npub struct B;\n"),
            ("a/c", "mod d;\n"),
            ("a/c/d", "fn f(a: super::super::A) {}\n"),
            ("lib", "mod a;\n"),
        ]);
        assert_eq!(found, ["a -> a/b: B", "a/b -> a: A", "a/c/d -> a: A"]);
    }

    #[test]
    fn a_child_that_uses_a_sibling_through_its_parent_has_an_arrow_to_the_sibling() {
        for visibility in ["pub", "pub(crate)", "pub(in crate::a)", ""] {
            let parent = format!("mod b;\nmod c;\n{visibility} use self::b::B as Other;\n");
            let child = "use super::Other;\nfn f() { super::Other::new() }\n";
            let files = [("a", &*parent), ("a/b", "pub struct B;\n"), ("a/c", child)];
            assert_eq!(arrows(&files), ["a -> a/b: B", "a/c -> a/b: B"]);
        }
    }

    #[test]
    fn exports_are_followed_over_several_modules_and_globs() {
        let found = arrows(&[
            ("a", "mod b;\npub use b::C;\n"),
            ("a/b", "mod c;\npub use c::*;\n"),
            ("a/b/c", "pub struct C;\n"),
            ("d", "use crate::a::C;\nuse crate::a::missing;\n"),
            ("lib", "mod a;\nmod d;\n"),
        ]);
        let expected = ["a -> a/b/c: C", "a/b -> a/b/c: *", "d -> a: missing", "d -> a/b/c: C"];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_item_of_another_crate_belongs_to_the_module_that_imports_it() {
        let found = arrows(&[
            ("lib", "mod a;\nmod b;\npub use a::Bytes;\nuse std::io;\n"),
            ("a", "pub use bytes::Bytes;\n"),
            ("b", "use crate::{Bytes, io};\nuse io::Read;\n"),
        ]);
        assert_eq!(found, ["lib -> a: Bytes", "b -> lib: io", "b -> a: Bytes"]);
    }

    #[test]
    fn a_function_with_the_name_of_its_module_is_found() {
        let found = arrows(&[
            ("a", "use crate::b;\nfn f() { b() }\n"),
            ("b/b", "pub fn b() {}\n"),
            ("b/mod", "mod b;\npub use b::b;\n"),
            ("c", "use crate::b::b;\nfn f() { b() }\n"),
            ("lib", "mod a;\nmod b;\nmod c;\n"),
        ]);
        assert_eq!(found, ["b/mod -> b/b: b", "c -> b/b: b"]);
    }

    #[test]
    fn a_module_in_braces_belongs_to_its_file() {
        let found = arrows(&[
            ("a", "struct A;\nmod inner {\n use super::A;\n use super::super::b::B;\n}\n"),
            ("b", "pub struct B;\nuse crate::a::inner::C;\n"),
        ]);
        assert_eq!(found, ["a -> b: B", "b -> a: C"]);
    }

    #[test]
    fn other_crates_and_names_alone_are_no_arrows() {
        let text = "use ::b::X;\nuse std::{b::Y, mem};\nuse serde::b;\n\
                    enum Kind { B }\nuse Kind::*;\nfn f() { mem::b(); Kind::B; T::b() }\n";
        assert_eq!(arrows(&[("a", text), ("b", ""), ("lib", "mod a;\nmod b;\n")]), [""; 0]);
    }

    #[test]
    fn macros_name_files_by_their_crate() {
        let text = "macro_rules! m {\n () => { $crate::b::f() };\n}\npub(crate) use m;\n";
        let found = arrows(&[("a", text), ("b", "use crate::a::m;\npub fn f() { m!() }\n")]);
        assert_eq!(found, ["a -> b: f", "b -> a: m"]);
    }

    #[test]
    fn tests_have_no_part() {
        let tests = "#[cfg(test)]\nmod tests {\n use crate::b::B;\n}\n";
        let files = [("a", tests), ("b", "#[cfg(test)]\nmod c;\n"), ("b/c", "use crate::a::A;\n")];
        assert_eq!(arrows(&files), [""; 0]);
        assert_eq!(package(&files).files, ["a", "b"]);
    }

    #[test]
    fn a_program_beside_a_library_is_not_the_root() {
        let found = arrows(&[("lib", "pub struct A;\n"), ("main", "use crate::x::A;\n")]);
        assert_eq!(found, ["main -> lib: x"]);
        assert_eq!(arrows(&[("a", "use super::A;\n"), ("main", "mod a;\n")]), ["a -> main: A"]);
    }

    #[test]
    fn a_circle_of_parent_and_child_has_no_other_arrows() {
        let parent = ("a", "mod b;\nmod c;\nuse b::B;\nuse c::C;\nstruct A;\n");
        let second = ("a/c", "use super::A;\npub struct C;\n");
        let first = ("a/b", "use super::A;\npub struct B;\n");
        let expected = Circle { files: vec![0, 1, 2], is_family: true };
        assert_eq!(package(&[parent, first, second]).circles(), [expected]);
        let first = ("a/b", "use super::{A, C};\npub struct B;\n");
        let expected = Circle { files: vec![0, 1, 2], is_family: false };
        assert_eq!(package(&[parent, first, second]).circles(), [expected]);
    }
}
