//! Resolution of paths to the files of a crate.

use std::collections::BTreeMap;

use super::module::{GLOB, Import, Module};

/// Path of the root module.
pub const ROOT: &str = "crate";
/// Maximum number of imports that are followed one after the other, since imports may form a cycle.
const STEPS_MAX: u32 = 8;

/// Modules of a crate by their paths, which begin with [`ROOT`].
#[derive(Debug, Default)]
pub struct Modules {
    by_path: BTreeMap<String, Module>,
}

/// Target of a path.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    /// Index of the file that defines it.
    pub file: usize,
    pub name: String,
    pub is_module: bool,
}

/// Returns the path of the module around a module.
pub fn parent(module: &str) -> Option<&str> {
    module.rsplit_once("::").map(|(parent, _)| parent)
}

impl Modules {
    /// Adds modules. Two modules with one path, under different `cfg` conditions, are merged.
    pub fn add(&mut self, modules: BTreeMap<String, Module>) {
        for (path, module) in modules {
            match self.by_path.get_mut(&path) {
                Some(other) => {
                    other.definitions.extend(module.definitions);
                    other.imports.extend(module.imports);
                    other.paths.extend(module.paths);
                }
                None => drop(self.by_path.insert(path, module)),
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Module)> {
        self.by_path.iter().map(|(path, module)| (path.as_str(), module))
    }

    /// Resolves a path in the module `from` to the file that defines its target; `None` if that is
    /// outside of the crate.
    ///
    /// An item whose definition is not found, for example one that a macro defines, belongs to the
    /// last module of its path.
    pub fn resolve(&self, from: &str, path: &[String]) -> Option<Target> {
        (1..=path.len()).rev().find_map(|length| {
            let target = self.find(from, &path[..length], STEPS_MAX)?;
            Some(match path.get(length) {
                Some(name) => Target { name: name.clone(), is_module: false, ..target },
                None => target,
            })
        })
    }

    /// Finds the module or the definition that a path names.
    fn find(&self, from: &str, path: &[String], steps: u32) -> Option<Target> {
        let mut module = from.to_owned();
        for (index, name) in path.iter().enumerate() {
            let child = format!("{module}::{name}");
            let is_last = index + 1 == path.len();
            module = match name.as_str() {
                "crate" => ROOT.to_owned(),
                "self" => module,
                "super" => parent(&module)?.to_owned(),
                _ if !is_last && self.by_path.contains_key(&child) => child,
                _ => {
                    // A function may have the name of a module beside it.
                    let item = self.item(&module, name, &path[index + 1..], steps);
                    return if is_last { item.or_else(|| self.module(&child)) } else { item };
                }
            };
        }
        self.module(&module)
    }

    fn module(&self, path: &str) -> Option<Target> {
        let module = self.by_path.get(path)?;
        let name = path.rsplit("::").next().unwrap_or(path).to_owned();
        Some(Target { file: module.file, name, is_module: true })
    }

    /// Finds the item `name` of a module, or `rest` in what the module imports by that name.
    fn item(&self, path: &str, name: &str, rest: &[String], steps: u32) -> Option<Target> {
        let steps = steps.checked_sub(1)?;
        let module = self.by_path.get(path)?;
        let own = Target { file: module.file, name: name.to_owned(), is_module: false };
        if module.definitions.contains(name) {
            return Some(own);
        }
        let named = module.imports.iter().filter(|import| import.name == name);
        let named = named.map(|import| [&import.path[..], rest].concat());
        // A glob import of an enum imports only its variants, which are no targets.
        let is_module = |import: &&Import| {
            self.find(path, &import.path, steps).is_some_and(|target| target.is_module)
        };
        let globs = module.imports.iter().filter(|import| import.name == GLOB).filter(is_module);
        let globs = globs.map(|import| [&import.path[..], &[name.to_owned()], rest].concat());
        let found = named.chain(globs).find_map(|next| self.find(path, &next, steps));
        // An import from another crate is an item of this module for those that name it here.
        found.or_else(|| module.imports.iter().any(|import| import.name == name).then_some(own))
    }
}
