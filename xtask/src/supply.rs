//! `cargo xtask supply`: checks the programs' dependencies against `deny.toml`, without a network, and writes an SBOM.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use verbatim_lab::workspace::{cargo, root, target_directory};

/// The parts of `deny.toml` that this task checks. cargo-deny checks the rest.
#[derive(Debug, Deserialize)]
struct Deny {
    #[serde(default)]
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Default, Deserialize)]
struct Graph {
    /// Features that are off by default. The check includes their crates.
    features: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
    #[serde(default)]
    clarify: Vec<Clarified>,
}

/// The licence of a crate whose manifest names none.
#[derive(Debug, Deserialize)]
struct Clarified {
    #[serde(rename = "crate")]
    name: String,
    expression: String,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Named>,
    skip: Vec<Named>,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

/// A third-party crate.
#[derive(Clone, Debug, Deserialize)]
struct Crate {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

/// Checks licences, bans, duplicates and sources of the third-party crates.
///
/// With `sbom` also writes `verbatim.cdx.json` beside the packages, and returns its path.
///
/// # Errors
///
/// Returns an error that lists everything that `deny.toml` does not allow, or an error when cargo fails.
pub(crate) fn check(sbom: bool) -> anyhow::Result<Option<PathBuf>> {
    let deny = fs::read_to_string(root().join("deny.toml")).context("reading deny.toml")?;
    let deny: Deny = toml::from_str(&deny).context("reading deny.toml")?;
    let crates = crates(&deny.graph.features)?;
    let wrong = breaches(&deny, &crates);
    if !wrong.is_empty() {
        bail!("deny.toml does not allow:\n  {}", wrong.join("\n  "));
    }
    eprintln!("xtask: {} third-party crates, all allowed by deny.toml", crates.len());
    if !sbom {
        return Ok(None);
    }
    let lock = fs::read_to_string(root().join("Cargo.lock")).context("reading Cargo.lock")?;
    let place = target_directory()?.join("debian");
    fs::create_dir_all(&place).with_context(|| format!("making {}", place.display()))?;
    let path = place.join("verbatim.cdx.json");
    let text = serde_json::to_string_pretty(&document(&self::crates(&[])?, &checksums(&lock)?))?;
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(Some(path))
}

/// Returns the third-party crates of the workspace with these features, as locked.
fn crates(features: &[String]) -> anyhow::Result<Vec<Crate>> {
    let output = cargo()
        .args(["metadata", "--locked", "--format-version", "1", "--features"])
        .arg(features.join(","))
        .output()
        .context("starting cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("what cargo metadata printed")?;
    let all: Vec<Crate> =
        serde_json::from_value(metadata["packages"].clone()).context("the packages of cargo metadata")?;
    Ok(all.into_iter().filter(|of| of.source.is_some()).collect())
}

fn breaches(deny: &Deny, crates: &[Crate]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for of in crates {
        let who = format!("{} {}", of.name, of.version);
        let clarified = deny.licenses.clarify.iter().find(|clarified| clarified.name == of.name);
        let clarified = clarified.map(|clarified| clarified.expression.as_str());
        let license = of.license.as_deref().or(clarified).unwrap_or_default();
        if !allowed(license, &deny.licenses.allow) {
            wrong.push(format!("{who}: its licence is {license:?}"));
        }
        if deny.bans.deny.iter().any(|banned| banned.name == of.name) {
            wrong.push(format!("{who}: it is banned"));
        }
        let source = of.source.as_deref().unwrap_or_default();
        let registry = source.strip_prefix("registry+").unwrap_or(source);
        if !deny.sources.allow_registry.iter().any(|known| known == registry) {
            wrong.push(format!("{who}: it comes from {source}"));
        }
        versions.entry(&of.name).or_default().push(&of.version);
    }
    for (name, versions) in &versions {
        let is_known = deny.bans.skip.iter().any(|skip| skip.name == *name);
        match (versions.len(), is_known) {
            (2.., false) => wrong.push(format!("{name}: there are versions {}", versions.join(", "))),
            (1, true) => wrong.push(format!("{name}: one version is left; take it off `skip`")),
            _ => {}
        }
    }
    wrong
}

/// Returns whether an SPDX expression has an alternative that is allowed. `/` stands for OR in old manifests.
fn allowed(expression: &str, allow: &BTreeSet<String>) -> bool {
    let text = expression.replace('/', " OR ");
    // Split at the operator of lowest precedence first.
    for (operator, all) in [(" OR ", false), (" AND ", true)] {
        let parts = split(&text, operator);
        if parts.len() > 1 {
            let mut of = parts.into_iter().map(|part| allowed(part, allow));
            return if all { of.all(|one| one) } else { of.any(|one| one) };
        }
    }
    let text = text.trim();
    match text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        Some(inner) => allowed(inner, allow),
        None => allow.contains(text),
    }
}

/// Splits at an operator outside parentheses.
fn split<'t>(text: &'t str, operator: &str) -> Vec<&'t str> {
    let (mut depth, mut from, mut parts) = (0_i32, 0, Vec::new());
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && at >= from && text[at..].starts_with(operator) => {
                parts.push(&text[from..at]);
                from = at + operator.len();
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// Returns the checksums in the lock file, by name and version.
fn checksums(lock: &str) -> anyhow::Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = toml::from_str(lock).context("Cargo.lock")?;
    let packages = lock
        .get("package")
        .and_then(toml::Value::as_array)
        .context("Cargo.lock has no packages")?;
    let text = |of: &toml::Value, key: &str| of.get(key).and_then(toml::Value::as_str).map(str::to_owned);
    let found = packages
        .iter()
        .filter_map(|of| Some(((text(of, "name")?, text(of, "version")?), text(of, "checksum")?)));
    Ok(found.collect())
}

/// Builds the SBOM in CycloneDX 1.5, without date and serial number, so that equal lock files have equal SBOMs.
fn document(crates: &[Crate], checksums: &BTreeMap<(String, String), String>) -> Value {
    let component = |of: &Crate| {
        let checksum = checksums.get(&(of.name.clone(), of.version.clone()));
        json!({
            "type": "library",
            "name": of.name,
            "version": of.version,
            "purl": format!("pkg:cargo/{}@{}", of.name, of.version),
            "licenses": [{ "expression": of.license.as_deref().unwrap_or("NOASSERTION").replace('/', " OR ") }],
            "hashes": checksum.map(|hash| json!([{ "alg": "SHA-256", "content": hash }])).unwrap_or(json!([])),
        })
    };
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "verbatim", "version": env!("CARGO_PKG_VERSION") } },
        "components": crates.iter().map(component).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow() -> BTreeSet<String> {
        ["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"]
            .map(Into::into)
            .into()
    }

    #[test]
    fn one_alternative_must_be_allowed() {
        for good in [
            "MIT",
            "GPL-3.0 OR MIT",
            "GPL-3.0/MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(allowed(good, &allow()), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR Apache-2.0) AND GPL-3.0",
            "MITX",
        ] {
            assert!(!allowed(bad, &allow()), "{bad}");
        }
    }

    #[test]
    fn breaches_name_the_crate() {
        let deny: Deny = toml::from_str(
            "[licenses]\nallow = [\"MIT\"]\nclarify = [{ crate = \"file\", expression = \"MIT\" }]\n[bans]\ndeny = [{ name = \"bad\" }]\nskip = [{ name = \"gone\" }]\n\
             [sources]\nallow-registry = [\"https://index\"]\n",
        )
        .unwrap();
        let of = |name: &str, version: &str, license: &str, source: &str| Crate {
            name: name.into(),
            version: version.into(),
            license: Some(license.into()),
            source: Some(source.into()),
        };
        let index = "registry+https://index";
        let crates = [
            of("bad", "1", "MIT", index),
            of("twice", "1", "MIT", index),
            of("twice", "2", "MIT", index),
            of("gone", "1", "MIT", index),
            of("gpl", "1", "GPL-3.0", index),
            of("git", "1", "MIT", "git+https://x"),
            Crate {
                license: None,
                ..of("file", "1", "", index)
            },
        ];
        let wrong = breaches(&deny, &crates).join("\n");
        for words in [
            "bad 1: it is banned",
            "twice: there are versions 1, 2",
            "gone: one version",
            "gpl 1",
            "git 1: it comes",
        ] {
            assert!(wrong.contains(words), "{words}: {wrong}");
        }
        assert!(!wrong.contains("file 1"), "clarified: {wrong}");
        assert_eq!(breaches(&deny, &crates[3..4]).len(), 1);
    }

    #[test]
    fn sbom_has_the_locked_checksums() {
        let sums = checksums("[[package]]\nname = \"a\"\nversion = \"1\"\nchecksum = \"ff\"\n").unwrap();
        let of = Crate {
            name: "a".into(),
            version: "1".into(),
            license: Some("MIT/Apache-2.0".into()),
            source: None,
        };
        let component = &document(&[of], &sums)["components"][0];
        assert_eq!(component["hashes"][0]["content"], "ff");
        assert_eq!(component["licenses"][0]["expression"], "MIT OR Apache-2.0");
    }
}
