//! Modules of a source file: the items that each defines, imports and names by a path.

use std::collections::{BTreeMap, BTreeSet};

use super::token::is_name;

/// Segments of a path. A path that begins with `::` has the first segment [`OUTSIDE`].
pub type Path = Vec<String>;

/// Name of an import by a glob.
pub const GLOB: &str = "*";
/// First segment of paths to other crates, which begin with `::`.
const OUTSIDE: &str = "::";

/// Keywords before the name of an item. Methods and the items of functions are deeper in braces
/// than the items of a module.
const ITEMS: &[&str] =
    &["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mut", "macro_rules"];

/// A module.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Index of the file.
    pub file: usize,
    /// Names of the items that are defined in the module.
    pub definitions: BTreeSet<String>,
    pub imports: Vec<Import>,
    /// Paths of more than one segment in signatures and expressions.
    pub paths: BTreeSet<Path>,
}

/// One name of a `use` declaration.
#[derive(Debug, PartialEq, Eq)]
pub struct Import {
    /// Name in the module, which `as` may have changed; [`GLOB`] for all names.
    pub name: String,
    pub path: Path,
    /// True if the declaration has a visibility: `pub use`, `pub(crate) use`.
    pub is_public: bool,
}

/// Reader of the tokens of one file.
struct Reader<'a> {
    tokens: &'a [&'a str],
    at: usize,
    /// Number of open braces.
    depth: usize,
    /// Paths of the open modules with the numbers of braces around their items.
    open: Vec<(String, usize)>,
    file: usize,
    modules: BTreeMap<String, Module>,
}

/// Returns the modules of a file by their paths: its own, which is `path`, and those in braces.
pub fn modules(file: usize, path: &str, tokens: &[&str]) -> BTreeMap<String, Module> {
    let open = vec![(path.to_owned(), 0)];
    let mut reader = Reader { tokens, at: 0, depth: 0, open, file, modules: BTreeMap::new() };
    reader.module();
    while reader.at < tokens.len() {
        reader.step();
    }
    reader.modules
}

impl Reader<'_> {
    /// Returns the module at the cursor.
    fn module(&mut self) -> &mut Module {
        let path = self.open.last().map(|(path, _)| path.clone()).unwrap_or_default();
        let file = self.file;
        self.modules.entry(path).or_insert_with(|| Module { file, ..Module::default() })
    }

    /// Returns the token `offset` after the cursor, or an empty one after the end.
    fn peek(&self, offset: usize) -> &str {
        self.tokens.get(self.at + offset).copied().unwrap_or_default()
    }

    fn next(&mut self) -> String {
        let token = self.peek(0).to_owned();
        self.at += 1;
        token
    }

    fn step(&mut self) {
        match self.peek(0) {
            "{" => self.open_brace(),
            "}" => self.close_brace(),
            "pub" => self.visibility(),
            "use" if self.peek(1) != "<" => self.import(false),
            "mod" if self.peek(2) == "{" => self.enter(),
            item if ITEMS.contains(&item) => self.definition(),
            name if is_name(name) => self.path(),
            _ => self.at += 1,
        }
    }

    fn open_brace(&mut self) {
        self.depth += 1;
        self.at += 1;
    }

    fn close_brace(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.at += 1;
        if self.open.last().is_some_and(|(_, depth)| *depth > self.depth) {
            self.open.pop();
        }
    }

    /// Skips `pub`, `pub(crate)` and `pub(in path)`, and reads the import that may follow.
    fn visibility(&mut self) {
        self.at += 1;
        if self.peek(0) == "(" {
            while !matches!(self.peek(0), ")" | "") {
                self.at += 1;
            }
            self.at += 1;
        }
        if self.peek(0) == "use" {
            self.import(true);
        }
    }

    /// Enters a module in braces.
    fn enter(&mut self) {
        let parent = self.open.last().map(|(path, _)| path.as_str()).unwrap_or_default();
        let path = format!("{parent}::{}", self.peek(1));
        self.at += 3;
        self.depth += 1;
        self.open.push((path, self.depth));
        self.module();
    }

    fn definition(&mut self) {
        self.at += 1;
        if self.peek(0) == "!" {
            self.at += 1;
        }
        let is_item = self.open.last().is_some_and(|(_, depth)| *depth == self.depth);
        if is_item && is_name(self.peek(0)) && !ITEMS.contains(&self.peek(0)) {
            let name = self.next();
            self.module().definitions.insert(name);
        }
    }

    /// Reads a path in a signature or an expression.
    ///
    /// A name after `::` continues a path that is not of names alone, as `<T>::new` and `::std`. A
    /// name after `$` is a parameter of a macro, except for `$crate`.
    fn path(&mut self) {
        let before = self.at.checked_sub(1).map_or("", |at| self.tokens[at]);
        let is_known = match before {
            "::" => false,
            "$" => self.peek(0) == "crate",
            _ => true,
        };
        let mut path = vec![self.next()];
        while self.peek(0) == "::" && is_name(self.peek(1)) {
            self.at += 1;
            path.push(self.next());
        }
        if is_known && path.len() > 1 {
            self.module().paths.insert(path);
        }
    }

    fn import(&mut self, is_public: bool) {
        self.at += 1;
        let mut imports = Vec::new();
        if self.peek(0) == "::" {
            self.at += 1;
            self.branch(&[OUTSIDE.to_owned()], &mut imports);
        } else {
            self.branch(&[], &mut imports);
        }
        let imports = imports.into_iter().map(|(name, path)| Import { name, path, is_public });
        self.module().imports.extend(imports);
    }

    /// Reads a branch of an import: segments that end with a name, a glob or more branches.
    fn branch(&mut self, before: &[String], imports: &mut Vec<(String, Path)>) {
        let mut path = before.to_vec();
        loop {
            match self.next().as_str() {
                "{" => return self.branches(&path, imports),
                GLOB => return imports.push((GLOB.to_owned(), path)),
                "self" if !path.is_empty() => {}
                segment => path.push(segment.to_owned()),
            }
            if self.peek(0) != "::" {
                break;
            }
            self.at += 1;
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.peek(0) == "as" {
            self.at += 1;
            name = self.next();
        }
        imports.push((name, path));
    }

    /// Reads the branches up to the closing brace.
    fn branches(&mut self, before: &[String], imports: &mut Vec<(String, Path)>) {
        while !matches!(self.peek(0), "}" | "") {
            self.branch(before, imports);
            if self.peek(0) == "," {
                self.at += 1;
            }
        }
        self.at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{graph::token::tokens, tidy::rust::Rust};

    fn read(text: &str) -> BTreeMap<String, Module> {
        modules(0, "crate::m", &tokens(&Rust::parse(text)))
    }

    fn imports(text: &str) -> Vec<String> {
        let modules = read(text);
        let imports = modules["crate::m"].imports.iter();
        imports.map(|it| format!("{} = {}", it.name, it.path.join("::"))).collect()
    }

    fn paths(text: &str) -> Vec<String> {
        read(text)["crate::m"].paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn imports_have_braces_globs_and_other_names() {
        let nested = "use crate::{a::{self, B as C}, d::*,\n e};\nfn f() {}";
        let expected = ["a = crate::a", "C = crate::a::B", "* = crate::d", "e = crate::e"];
        assert_eq!(imports(nested), expected);
        assert_eq!(imports("use super::super::a;"), ["a = super::super::a"]);
        assert_eq!(imports("use self::a::B;"), ["B = self::a::B"]);
        assert_eq!(imports("use ::a::{B, c::D};"), ["B = ::::a::B", "D = ::::a::c::D"]);
        assert_eq!(imports("fn f() { use a::b; }"), ["b = a::b"]);
        assert_eq!(imports("fn f() -> impl T + use<'_> {}"), [""; 0]);
    }

    #[test]
    fn imports_with_a_visibility_are_public() {
        let text = "pub use a::A;\npub(crate) use b::B;\npub(in crate::m) use c::C;\nuse d::D;";
        let modules = read(text);
        let public: Vec<_> = modules["crate::m"].imports.iter().map(|it| it.is_public).collect();
        assert_eq!(public, [true, true, true, false]);
    }

    #[test]
    fn paths_are_in_signatures_and_expressions() {
        let text =
            "fn f(x: super::T) -> Vec<crate::a::B> {\n x.collect::<Vec<_>>(); c::d(..E::F) }";
        assert_eq!(paths(text), ["E::F", "c::d", "crate::a::B", "super::T"]);
        assert_eq!(paths("fn f() { <T as a::B>::c::d(); ::std::mem::drop(1); }"), ["a::B"]);
    }

    #[test]
    fn a_visibility_is_no_path() {
        let text = "pub(in crate::a) fn f() {}\npub(in super::super) const A: u8 = 1;";
        assert_eq!(paths(text), [""; 0]);
        let definitions = &read(text)["crate::m"].definitions;
        assert_eq!(definitions.iter().collect::<Vec<_>>(), ["A", "f"]);
    }

    #[test]
    fn macros_name_the_crate_and_their_parameters() {
        let text =
            "macro_rules! m {\n ($t:ident) => { $crate::a::f($t::new(), crate::b::g()) };\n}";
        assert_eq!(paths(text), ["crate::a::f", "crate::b::g"]);
        assert!(read(text)["crate::m"].definitions.contains("m"));
    }

    #[test]
    fn definitions_are_those_of_the_module() {
        let text = "pub const fn a() { fn inner() {} }\nimpl B { fn method() {} }\n\
                    static mut C: u8 = 1;\nunsafe trait D {}\nfn last() {}";
        let modules = read(text);
        let definitions: Vec<_> = modules["crate::m"].definitions.iter().collect();
        assert_eq!(definitions, ["C", "D", "a", "last"]);
    }

    #[test]
    fn a_module_in_braces_is_one_of_its_own() {
        let text = "mod a {\n use super::X;\n fn f() { b::g() }\n}\nuse c::Y;\nmod d;\n";
        let modules = read(text);
        assert_eq!(modules.keys().collect::<Vec<_>>(), ["crate::m", "crate::m::a"]);
        assert_eq!(modules["crate::m"].imports[0].name, "Y");
        assert_eq!(modules["crate::m::a"].imports[0].name, "X");
        assert_eq!(modules["crate::m::a"].paths.len(), 1);
    }

    #[test]
    fn tests_are_left_out() {
        let text =
            "#[cfg(test)]\nmod tests {\n use super::*;\n}\n#[cfg(test)]\nuse a::B;\nuse c::D;";
        assert_eq!(imports(text), ["D = c::D"]);
        assert_eq!(read(text).len(), 1);
    }
}
