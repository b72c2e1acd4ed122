//! `cargo xtask deps --files`: the largest cycle among the files of each crate.
//!
//! A file depends on another file if it names an item of the other file's module. The name may be in a `use`, in
//! code, or in a macro's arguments. An item that a module re-exports counts as an item of that module, so `use
//! super::Item` leads to the parent's file. `mod a;` alone is no dependency. Items under `#[cfg(test)]` are left
//! out.
//!
//! The scanner reads tokens instead of text, so comments and strings do not count. The scanner knows no types, so it
//! misses dependencies through a method or a field.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use serde_json::Value;
use verbatim_lab::workspace;

/// Greatest number of files in a cycle. A crate that is not listed has no bound.
const BOUNDS: &[(&str, usize)] = &[("verbatim-catalog", 4)];

/// A crate's largest cycle of files, as paths from the package's directory. A crate without a cycle has one file here.
struct Cycle {
    package: String,
    files: Vec<String>,
}

/// Prints the largest cycle of each crate, the longest first.
///
/// # Errors
///
/// Returns an error if a source file cannot be read.
pub(crate) fn print() -> anyhow::Result<()> {
    for cycle in cycles()? {
        println!("{}: {}", cycle.package, cycle.files.len());
        for file in cycle.files {
            println!("  {file}");
        }
    }
    Ok(())
}

/// Checks the largest cycle of each crate against its bound.
///
/// # Errors
///
/// Returns an error that lists the crates whose cycle is too large, or that names a source file that cannot be read.
pub(crate) fn check() -> anyhow::Result<()> {
    let cycles = cycles()?;
    let mut breaches = Vec::new();
    for (package, bound) in BOUNDS {
        let cycle = cycles.iter().find(|cycle| cycle.package == *package);
        let cycle =
            cycle.with_context(|| format!("BOUNDS in xtask/src/files.rs names {package}, which is no crate"))?;
        breaches.extend(breach(cycle, *bound));
    }
    anyhow::ensure!(breaches.is_empty(), "{}", breaches.join("\n"));
    Ok(())
}

fn breach(cycle: &Cycle, bound: usize) -> Option<String> {
    (cycle.files.len() > bound).then(|| {
        format!(
            "{}: {} files depend on each other in a cycle, at most {bound} may. Move the items that they share into a \
             file that depends on none of them:\n  {}",
            cycle.package,
            cycle.files.len(),
            cycle.files.join("\n  "),
        )
    })
}

fn cycles() -> anyhow::Result<Vec<Cycle>> {
    let metadata = workspace::metadata(&workspace::root().join("Cargo.toml"))?;
    let members = metadata["workspace_members"].as_array().context("no members")?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let mut cycles = Vec::new();
    for package in packages.iter().filter(|package| members.contains(&package["id"])) {
        let manifest = Path::new(package["manifest_path"].as_str().context("no manifest")?);
        let directory = manifest.parent().context("a manifest without a directory")?;
        let mut largest = Vec::new();
        for root in roots(package) {
            let files = Tree::of(root)?.largest_cycle();
            if files.len() > largest.len() {
                largest = files;
            }
        }
        let shown = |file: &PathBuf| file.strip_prefix(directory).unwrap_or(file).display().to_string();
        cycles.push(Cycle {
            package: package["name"].as_str().context("a package without a name")?.to_owned(),
            files: largest.iter().map(shown).collect(),
        });
    }
    cycles.sort_by(|a, b| (b.files.len(), &a.package).cmp(&(a.files.len(), &b.package)));
    Ok(cycles)
}

/// Returns the root files of a package's library and programs.
fn roots(package: &Value) -> Vec<&Path> {
    let is_source = |target: &&Value| {
        let kinds = ["test", "bench", "example", "custom-build"].map(Value::from);
        !target["kind"]
            .as_array()
            .is_some_and(|all| kinds.iter().any(|kind| all.contains(kind)))
    };
    let targets = package["targets"].as_array().map_or(&[][..], Vec::as_slice);
    let sources = targets.iter().filter(is_source);
    sources
        .filter_map(|target| target["src_path"].as_str().map(Path::new))
        .collect()
}

/// The modules of one library or program. The first module is the root.
#[derive(Default)]
struct Tree {
    modules: Vec<Module>,
}

#[derive(Default)]
struct Module {
    parent: Option<usize>,
    file: PathBuf,
    /// Directory of the files of the module's children.
    directory: PathBuf,
    children: BTreeMap<String, usize>,
    /// Paths in the module, each as its segments.
    paths: Vec<Vec<String>>,
    /// Paths that a `use` imports. The key is the imported name.
    aliases: BTreeMap<String, Vec<String>>,
}

impl Tree {
    fn of(root: &Path) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        tree.read(None, root.to_owned(), root.with_file_name(""))?;
        Ok(tree)
    }

    fn read(&mut self, parent: Option<usize>, file: PathBuf, directory: PathBuf) -> anyhow::Result<usize> {
        let source = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let tokens: TokenStream = source
            .parse()
            .map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
        let here = self.add(parent, file, directory);
        self.scan(tokens, here)?;
        Ok(here)
    }

    fn add(&mut self, parent: Option<usize>, file: PathBuf, directory: PathBuf) -> usize {
        self.modules.push(Module {
            parent,
            file,
            directory,
            ..Module::default()
        });
        self.modules.len() - 1
    }

    /// Adds the modules and paths of these tokens, which are in module `here`.
    fn scan(&mut self, tokens: TokenStream, here: usize) -> anyhow::Result<()> {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = &tokens[..];
        loop {
            rest = match rest {
                [] => return Ok(()),
                [TokenTree::Punct(hash), TokenTree::Group(attribute), after @ ..]
                    if hash.as_char() == '#' && is_test(&attribute.stream()) =>
                {
                    let end = after.iter().position(ends_item).map_or(after.len(), |last| last + 1);
                    &after[end..]
                }
                [TokenTree::Ident(word), TokenTree::Ident(name), after @ ..] if word == "mod" => {
                    let name = name.to_string();
                    let directory = self.modules[here].directory.join(&name);
                    let child = match after.first() {
                        Some(TokenTree::Group(body)) => {
                            let file = self.modules[here].file.clone();
                            let child = self.add(Some(here), file, directory);
                            self.scan(body.stream(), child)?;
                            child
                        }
                        _ => self.read(Some(here), file_of(&directory)?, directory)?,
                    };
                    self.modules[here].children.insert(name, child);
                    after.get(1..).unwrap_or_default()
                }
                [TokenTree::Ident(word), after @ ..] if word == "use" => {
                    let end = after.iter().position(ends_use).unwrap_or(after.len());
                    self.scan_use(&after[..end], here, &[]);
                    &after[end..]
                }
                // A visibility: `pub(in crate::a)`.
                [TokenTree::Ident(word), TokenTree::Group(group), after @ ..]
                    if word == "pub" && starts_with(&group.stream(), "in") =>
                {
                    after
                }
                // `::`: the rest of a path that begins with a type, or the start of a global path.
                _ if separator(rest) => segments(&rest[2..]).1,
                [TokenTree::Ident(_), ..] => {
                    let (path, after) = segments(rest);
                    if path.len() > 1 {
                        self.modules[here].paths.push(path);
                    }
                    after
                }
                [TokenTree::Group(group), after @ ..] => {
                    self.scan(group.stream(), here)?;
                    after
                }
                [_, after @ ..] => after,
            }
        }
    }

    /// Adds the paths of a `use`, or of braces in a `use`. The paths continue `prefix`.
    fn scan_use(&mut self, tree: &[TokenTree], here: usize, prefix: &[String]) {
        for branch in tree.split(|token| is_punct(token, ',')) {
            let (path, rest) = segments(branch);
            // After a trailing comma the path is empty. `::a` leads out of the crate.
            let is_empty_or_global = path.is_empty() && rest.first().is_none_or(|token| is_punct(token, ':'));
            let mut path = [prefix, &path].concat();
            if let Some(TokenTree::Group(group)) = rest.first() {
                self.scan_use(&group.stream().into_iter().collect::<Vec<_>>(), here, &path);
                continue;
            }
            if is_empty_or_global {
                continue;
            }
            if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            let renamed = match rest {
                [TokenTree::Ident(_as), name] => Some(name.to_string()),
                [] => path.last().cloned(),
                _ => None,
            };
            let module = &mut self.modules[here];
            module.aliases.extend(renamed.map(|name| (name, path.clone())));
            module.paths.push(path);
        }
    }

    /// Returns the innermost module to which a path in module `here` leads, or `None` if it leads out of the crate.
    fn resolve(&self, here: usize, path: &[String], depth: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let module = &self.modules[here];
        let mut at = match first.as_str() {
            "crate" => 0,
            "self" => here,
            "super" => module.parent?,
            name => match module.children.get(name) {
                Some(child) => *child,
                None => self.resolve(here, module.aliases.get(name)?, depth.checked_sub(1)?)?,
            },
        };
        for segment in rest {
            let next = match segment.as_str() {
                "super" => self.modules[at].parent,
                name => self.modules[at].children.get(name).copied(),
            };
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        Some(at)
    }

    /// Returns the largest set of files that all reach each other, sorted.
    fn largest_cycle(&self) -> Vec<PathBuf> {
        let mut edges: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
        for (here, module) in self.modules.iter().enumerate() {
            let to = module.paths.iter().filter_map(|path| self.resolve(here, path, 8));
            let files = to.map(|to| self.modules[to].file.as_path());
            edges.entry(&module.file).or_default().extend(files);
        }
        let reached: BTreeMap<&Path, BTreeSet<&Path>> =
            edges.keys().map(|start| (*start, reached(&edges, start))).collect();
        let mut largest = Vec::new();
        for (start, ends) in &reached {
            let back: Vec<&Path> = ends
                .iter()
                .copied()
                .filter(|end| reached[end].contains(start))
                .collect();
            if back.len() > largest.len() {
                largest = back;
            }
        }
        largest.into_iter().map(Path::to_owned).collect()
    }
}

/// Returns the files that `start` depends on, directly or indirectly, and `start` itself.
fn reached<'a>(edges: &BTreeMap<&'a Path, BTreeSet<&'a Path>>, start: &'a Path) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut next = vec![start];
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(&edges[file]);
        }
    }
    reached
}

/// Returns the file of the module whose children are in this directory.
fn file_of(directory: &Path) -> anyhow::Result<PathBuf> {
    let files = [directory.with_extension("rs"), directory.join("mod.rs")];
    match files.iter().find(|file| file.is_file()) {
        Some(file) => Ok(file.clone()),
        None => bail!("neither {} nor {} exists", files[0].display(), files[1].display()),
    }
}

/// Returns the segments of the path at the start of these tokens, and the tokens after the path.
fn segments(mut tokens: &[TokenTree]) -> (Vec<String>, &[TokenTree]) {
    let mut path = Vec::new();
    while let [TokenTree::Ident(segment), after @ ..] = tokens {
        path.push(segment.to_string());
        tokens = after;
        match after {
            [_, _, TokenTree::Ident(_) | TokenTree::Group(_), ..] if separator(after) => tokens = &after[2..],
            _ => break,
        }
    }
    (path, tokens)
}

/// Returns whether these tokens begin with `::`.
fn separator(tokens: &[TokenTree]) -> bool {
    match tokens {
        [TokenTree::Punct(first), second, ..] => {
            first.as_char() == ':' && first.spacing() == Spacing::Joint && is_punct(second, ':')
        }
        _ => false,
    }
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

fn ends_use(token: &TokenTree) -> bool {
    is_punct(token, ';') || is_punct(token, '<')
}

fn ends_item(token: &TokenTree) -> bool {
    is_punct(token, ';') || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

fn starts_with(tokens: &TokenStream, word: &str) -> bool {
    matches!(tokens.clone().into_iter().next(), Some(TokenTree::Ident(first)) if first == word)
}

/// Returns whether an attribute is `cfg(test)` or `cfg(all(test, ..))`.
fn is_test(attribute: &TokenStream) -> bool {
    let text = attribute.to_string().replace(' ', "");
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the largest cycle of a crate with these files, as names separated by blanks.
    fn largest(files: &[(&str, &str)]) -> String {
        let directory = tempfile::tempdir().unwrap();
        for (name, source) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, source).unwrap();
        }
        let cycle = Tree::of(&directory.path().join("lib.rs")).unwrap().largest_cycle();
        let names = cycle
            .iter()
            .map(|file| file.strip_prefix(directory.path()).unwrap().display().to_string());
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn items_of_the_parent_make_a_cycle() {
        let parent = "mod a; mod b; pub(crate) struct Shared; const ALL: [u8; 2] = [a::ONE, b::ONE];";
        let child = "use super::Shared; pub(crate) const ONE: u8 = 1;";
        let files = [
            ("lib.rs", "mod m;"),
            ("m/mod.rs", parent),
            ("m/a.rs", child),
            ("m/b.rs", child),
        ];
        assert_eq!(largest(&files), "m/a.rs m/b.rs m/mod.rs");
    }

    #[test]
    fn a_leaf_breaks_the_cycle() {
        let parent = "mod a; mod leaf; const ALL: [u8; 1] = [a::ONE];";
        let child = "use super::leaf::Shared; pub(crate) const ONE: u8 = 1;";
        let files = [
            ("lib.rs", "mod m;"),
            ("m/mod.rs", parent),
            ("m/a.rs", child),
            ("m/leaf.rs", "struct Shared;"),
        ];
        assert_eq!(largest(&files), "lib.rs");
    }

    #[test]
    fn a_re_export_counts_as_the_parent() {
        let parent = "mod a; mod leaf; pub(crate) use leaf::Shared; fn f() { a::f(); }";
        let files = [("lib.rs", parent), ("a.rs", "use super::Shared;"), ("leaf.rs", "")];
        assert_eq!(largest(&files), "a.rs lib.rs");
    }

    #[test]
    fn declarations_are_no_dependencies() {
        let files = [
            ("lib.rs", "mod a; pub mod b;"),
            ("a.rs", "use crate::f;"),
            ("b.rs", "pub(in crate::a) fn f() {}"),
        ];
        assert_eq!(largest(&files), "a.rs");
    }

    #[test]
    fn comments_and_strings_are_no_dependencies() {
        let a = "//! See [`crate::b`].\n// crate::b::f\n/* super::b::f */ const A: &str = \"crate::b::f\";";
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", "use crate::a::A;")];
        assert_eq!(largest(&files), "a.rs");
    }

    #[test]
    fn tests_are_left_out() {
        let a = "#[cfg(test)] mod tests; #[cfg(test)] use crate::b::f; #[cfg(test)] mod more { use crate::b::f; }";
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", "use crate::a;")];
        assert_eq!(largest(&files), "a.rs");
    }

    #[test]
    fn follows_trees_of_use() {
        for from in [
            "use crate::{c, b::{self, f}};",
            "use crate::{c::*, b as other};",
            "pub use super::b::*;",
            "use crate as root; fn f() { root::b::f() }",
        ] {
            let files = [
                ("lib.rs", "mod a; mod b; mod c;"),
                ("a.rs", from),
                ("b.rs", "use crate::a::f;"),
                ("c.rs", ""),
            ];
            assert_eq!(largest(&files), "a.rs b.rs", "{from}");
        }
    }

    #[test]
    fn paths_in_code_and_macros_count() {
        for from in [
            "fn f() -> crate::b::B { todo!() }",
            "fn f() { assert!([super::b::f(1)].len() > 1) }",
            "macro_rules! m { () => { $crate::b::f() }; }",
            "mod inner { use super::super::b; }",
            "mod inner { fn f(x: u8) { self::deep::f(x) } mod deep { use crate::b::f; } }",
        ] {
            let files = [
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", from),
                ("b.rs", "use crate::a::f;"),
            ];
            assert_eq!(largest(&files), "a.rs b.rs", "{from}");
        }
    }

    #[test]
    fn paths_of_other_crates_do_not_count() {
        for from in [
            "use ::b::f;",
            "fn f(x: ::b::B) {}",
            "use other::b::f;",
            "fn f() { <X as Y>::b::f() }",
        ] {
            let files = [
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", from),
                ("b.rs", "use crate::a::f;"),
            ];
            assert_eq!(largest(&files), "a.rs", "{from}");
        }
    }

    #[test]
    fn a_cycle_over_its_bound_is_a_breach() {
        let cycle = |size: usize| Cycle {
            package: "verbatim-catalog".to_owned(),
            files: (0..size).map(|file| format!("src/{file}.rs")).collect(),
        };
        assert!(breach(&cycle(4), 4).is_none());
        let found = breach(&cycle(5), 4).unwrap();
        assert!(
            found.starts_with("verbatim-catalog: 5 files depend on each other"),
            "{found}"
        );
        assert!(found.ends_with("src/4.rs"), "{found}");
    }

    #[test]
    fn this_workspace_keeps_the_bounds() {
        check().unwrap();
    }
}
