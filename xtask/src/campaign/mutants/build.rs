//! The mutants as one program.
//!
//! The program is built in a workspace below `target`. The crates there are links to this workspace's crates, except
//! the crate `device`, whose source is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use verbatim_lab::workspace::{cargo, root, target_directory};

use super::function;
use super::known::Known;
use super::rewrite::{self, Mutant};
use super::sites::{self, Site};

/// Files that define a device's defects and profile, but no behaviour.
const LEFT_OUT: [&str; 9] = [
    "defect.rs",
    "defects.rs",
    "rc/defect.rs",
    "link/defect.rs",
    "choices.rs",
    "profile.rs",
    "rc/profile.rs",
    "link/profile.rs",
    "lib.rs",
];
/// Greatest number of builds. Each build leaves out the mutants that the compiler rejected before.
const TRIES: usize = 30;

/// A source file of the device with its sites, the places that can change.
pub(super) struct File {
    name: String,
    source: String,
    sites: Vec<Site>,
    /// Number of the file's first mutant.
    first: usize,
}

/// The program, and the mutants in it.
pub(super) struct Built {
    pub(super) program: PathBuf,
    /// All mutants, indexed by their numbers.
    pub(super) mutants: Vec<Mutant>,
    /// Numbers of the mutants that the compiler rejects.
    pub(super) refused: BTreeSet<usize>,
    /// Number of mutants of each site. The key is the number of the site's first mutant.
    sites: BTreeMap<usize, usize>,
}

impl Built {
    /// Returns the numbers of a site's mutants, given the first. Leaves out mutants that the compiler rejects.
    pub(super) fn site_from(&self, first: usize) -> impl Iterator<Item = usize> {
        let count = self.sites.get(&first).copied().unwrap_or(0);
        (first..first + count).filter(|id| !self.refused.contains(id))
    }
}

/// Finds all mutants and their files, without a build.
pub(super) fn find() -> anyhow::Result<(Vec<Mutant>, Vec<File>)> {
    let device = root().join("crates/device/src");
    let mut names = Vec::new();
    sources(&device, &device, &mut names)?;
    let mut parsed = Vec::new();
    let mut known = Known::default();
    for name in names {
        let path = device.join(&name);
        let source = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let file = syn::parse_file(&source).with_context(|| format!("parsing {}", path.display()))?;
        known.learn(&source, &file);
        parsed.push((name, source, file));
    }
    let found = parsed.into_iter().map(|(name, source, file)| {
        let found = sites::find(&source, &file, &known);
        (name, source, found)
    });
    let found: Vec<_> = found.collect();
    let of_defects = sites::only_of_defects(&found.iter().map(|(.., found)| found).collect::<Vec<_>>());
    let names: Vec<&str> = of_defects.iter().map(String::as_str).collect();
    eprintln!("xtask: left out functions that only defects call: {}", names.join(", "));
    let mut mutants = Vec::new();
    let mut files = Vec::new();
    for (name, source, found) in found {
        let is_left_out = LEFT_OUT.contains(&name.as_str());
        let behaves = |site: &Site| !is_left_out && !of_defects.contains(sites::last(&site.function));
        let sites = rewrite::ordered(found.sites.into_iter().filter(behaves).collect());
        let first = mutants.len();
        mutants.extend(rewrite::mutants(&name, &source, &sites));
        files.push(File {
            name,
            source,
            sites,
            first,
        });
    }
    Ok((mutants, files))
}

/// Builds all mutants as one program.
pub(super) fn build((mutants, files): (Vec<Mutant>, Vec<File>)) -> anyhow::Result<Built> {
    let workspace = target_directory()?.join("mutants/workspace");
    lay_out(&workspace)?;
    // Leave out the mutants that the compiler rejected in earlier campaigns.
    let known = workspace.with_file_name("refused.json");
    let mut refused = known_refused(&known, &mutants);
    for _ in 0..TRIES {
        let written = write(&workspace, &files, mutants.len(), &refused)?;
        match compile(&workspace, &files, &written)? {
            Compiled::Program(program) => {
                let names: Vec<&String> = refused.iter().map(|id: &usize| &mutants[*id].name).collect();
                fs::write(&known, serde_json::to_vec(&names)?)?;
                let mut of = BTreeMap::new();
                for file in &files {
                    let mut first = file.first;
                    for site in &file.sites {
                        of.insert(first, rewrite::count(site));
                        first += rewrite::count(site);
                    }
                }
                return Ok(Built {
                    program,
                    sites: of,
                    mutants,
                    refused,
                });
            }
            Compiled::Refused(more) => {
                let before = refused.len();
                refused.extend(&more);
                if refused.len() == before {
                    // A missing `return` causes a compiler error further below. Reject all mutants of the function that
                    // remove a `return`.
                    let functions: BTreeSet<_> = more.iter().map(|id| function(&mutants[*id].name)).collect();
                    let leaves = |mutant: &Mutant| {
                        functions.contains(&function(&mutant.name)) && mutant.name.contains(": without return")
                    };
                    refused.extend((0..mutants.len()).filter(|id| leaves(&mutants[*id])));
                }
                eprintln!("xtask: {} mutants do not build", refused.len());
            }
        }
    }
    bail!(
        "the mutants do not build, {TRIES} times; the last workspace is {}",
        workspace.display()
    )
}

/// Returns the mutants that the compiler rejected in the last campaign. The file lists their names. Returns an empty
/// set if there is no file.
fn known_refused(path: &Path, mutants: &[Mutant]) -> BTreeSet<usize> {
    let text = fs::read(path).unwrap_or_default();
    let known: BTreeSet<String> = serde_json::from_slice(&text).unwrap_or_default();
    let is_known = |id: &usize| known.contains(&mutants[*id].name);
    (0..mutants.len()).filter(is_known).collect()
}

fn sources(base: &Path, directory: &Path, names: &mut Vec<String>) -> anyhow::Result<()> {
    let entries = fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            sources(base, &path, names)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            names.push(path.strip_prefix(base)?.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

/// Creates the workspace, without the device's source.
fn lay_out(workspace: &Path) -> anyhow::Result<()> {
    let crates = workspace.join("crates");
    fs::create_dir_all(crates.join("device/src")).with_context(|| format!("making {}", crates.display()))?;
    fs::create_dir_all(workspace.join("tests"))?;
    for entry in fs::read_dir(root().join("crates"))? {
        let name = entry?.file_name();
        if name != "device" {
            link(&root().join("crates").join(&name), &crates.join(&name))?;
        }
    }
    link(&root().join("proto"), &workspace.join("proto"))?;
    for package in ["tests/archives", "tests/mutants"] {
        link(&root().join(package), &workspace.join(package))?;
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let mut manifest: toml::Table = manifest.parse().context("parsing Cargo.toml")?;
    let members = manifest.get_mut("workspace").and_then(toml::Value::as_table_mut);
    let members = members.context("Cargo.toml has no workspace")?;
    members.insert("members".into(), vec!["tests/mutants"].into());
    members.remove("default-members");
    members.remove("exclude");
    write_if_new(&workspace.join("Cargo.toml"), &toml::to_string(&manifest)?)?;
    if !workspace.join("Cargo.lock").exists() {
        fs::copy(root().join("Cargo.lock"), workspace.join("Cargo.lock"))?;
    }
    let device = fs::read_to_string(root().join("crates/device/Cargo.toml"))?;
    // The lints do not apply to the changed code.
    let device = device.replace("[lints]\nworkspace = true\n", "");
    write_if_new(&crates.join("device/Cargo.toml"), &device)
}

fn link(to: &Path, at: &Path) -> anyhow::Result<()> {
    if fs::read_link(at).is_ok_and(|there| there == to) {
        return Ok(());
    }
    std::os::unix::fs::symlink(to, at).with_context(|| format!("linking {}", at.display()))
}

/// Writes a file if its text has changed: cargo compares modification times.
fn write_if_new(path: &Path, text: &str) -> anyhow::Result<()> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

fn write(
    workspace: &Path,
    files: &[File],
    mutants: usize,
    refused: &BTreeSet<usize>,
) -> anyhow::Result<Vec<rewrite::Rewritten>> {
    let to = workspace.join("crates/device/src");
    let mut all = Vec::new();
    for file in files {
        let mut written = rewrite::rewrite(&file.source, &file.sites, file.first, &|id| refused.contains(&id));
        if file.name == "lib.rs" {
            written.text = format!("#![allow(warnings)]\n{}\npub mod mutant;\n", written.text);
        }
        write_if_new(&to.join(&file.name), &written.text)?;
        all.push(written);
    }
    let choice = include_str!("choice.rs.in").replace("MUTANTS", &(mutants + 1).to_string());
    write_if_new(&to.join("mutant.rs"), &choice)?;
    Ok(all)
}

enum Compiled {
    Program(PathBuf),
    Refused(BTreeSet<usize>),
}

fn compile(workspace: &Path, files: &[File], written: &[rewrite::Rewritten]) -> anyhow::Result<Compiled> {
    eprintln!("xtask: building the mutants");
    let output = cargo()
        .current_dir(workspace)
        .args([
            "build",
            "--quiet",
            "--profile",
            "dev-fast",
            "-p",
            "verbatim-mutants",
            "--message-format",
            "json",
        ])
        .args(["--offline", "--target-dir"])
        .arg(target_directory()?)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cargo could not be started")?;
    let messages = output.stdout.split(|byte| *byte == b'\n');
    let messages: Vec<serde_json::Value> = messages.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    if output.status.success() {
        let program = messages.iter().rev().find_map(|message| message["executable"].as_str());
        return Ok(Compiled::Program(program.context("cargo built no program")?.into()));
    }
    let mut refused = BTreeSet::new();
    for message in messages.iter().filter(|message| message["message"]["level"] == "error") {
        let spans = message["message"]["spans"].as_array().into_iter().flatten();
        let before = refused.len();
        for span in spans {
            let name = span["file_name"].as_str().unwrap_or_default();
            let (Some(begin), Some(end)) = (span["byte_start"].as_u64(), span["byte_end"].as_u64()) else {
                continue;
            };
            let place = files
                .iter()
                .position(|file| Path::new(name).ends_with(Path::new("device/src").join(&file.name)));
            let Some(place) = place else { continue };
            refused.extend(culprits(
                &written[place],
                begin as usize..end as usize,
                span["is_primary"] == true,
            ));
            if refused.len() > before {
                break;
            }
        }
    }
    if refused.is_empty() {
        let rendered = messages
            .iter()
            .filter_map(|message| message["message"]["rendered"].as_str());
        bail!(
            "the workspace of the mutants does not build:\n{}",
            rendered.take(20).collect::<String>()
        );
    }
    Ok(Compiled::Refused(refused))
}

/// Returns the mutants that may cause a compiler error at a place.
///
/// The first choice is the mutant whose text contains the place. The second choice is all mutants of the innermost site
/// around the place. The last choice is all mutants of the sites within the place.
fn culprits(written: &rewrite::Rewritten, place: std::ops::Range<usize>, primary: bool) -> Vec<usize> {
    let holds = |range: &std::ops::Range<usize>| range.start <= place.start && place.end <= range.end;
    if let Some((id, _)) = written.places.iter().find(|(_, range)| holds(range)) {
        return vec![*id];
    }
    let around = written.wholes.iter().filter(|(.., range)| primary && holds(range));
    let innermost = around
        .filter(|(_, count, _)| *count > 0)
        .min_by_key(|(.., range)| range.len());
    if let Some((first, count, _)) = innermost {
        return (*first..first + count).collect();
    }
    let inside = written
        .wholes
        .iter()
        .filter(|(.., range)| primary && place.start <= range.start && range.end <= place.end);
    inside.flat_map(|(first, count, _)| *first..first + count).collect()
}
